"""docs/personalisation-keys.md: up to date and complete."""

from __future__ import annotations

from pathlib import Path

from enlist.personal.config import PersonalConfig
from enlist.personal.schema import markdown
from enlist.simulation.schema import undescribed

PAGE = Path(__file__).parents[2] / "docs" / "personalisation-keys.md"


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m enlist.personal.schema > docs/personalisation-keys.md"


def test_every_key_is_described() -> None:
    assert undescribed(PersonalConfig.model_json_schema()) == []


def test_every_section_and_every_alternative_is_there() -> None:
    page = markdown()
    for key in PersonalConfig.model_fields:
        assert f"`{key}`" in page or f"`[{key}]`" in page or f"`[[{key}]]`" in page, key
    for word in ("ucb", "bayesian-extreme-explore", "quantile", "patience", "similarity", "label-flip", "sign-flip"):
        assert f'`"{word}"`' in page, word
