"""What docs/studies shows: every verdict tells what was run, and tables of studies are those of the verdicts."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import pytest

from tools import study_changes
from tools.study_changes import FORMER, ROOT, digest, pages, put, verdicts

PUBLISHED = sorted((ROOT / "docs" / "studies").glob("*/verdict.md"))


def test_examples() -> None:
    assert doctest.testmod(study_changes).failed == 0


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_are_those_of_the_verdicts(path: Path) -> None:
    assert path.read_text() == pages()[path], "run python -m tools.study_changes"


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_a_verdict_that_is_new_begins_with_what_was_run_and_has_all_its_files(path: Path) -> None:
    text = path.read_text()
    linked = re.findall(r"\((figures/[^)]*|tables/[^)]*)\)", text)
    assert linked
    assert all((path.parent / each).is_file() for each in linked)
    former = json.loads(FORMER.read_text()).get(path.parent.name)
    if former and former["digest"] == digest(text):
        assert verdicts(text) == former["verdicts"]
    else:
        assert text.index("**What was run.**") < text.index("\n## ")


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table"):
        put("nothing", "| a |\n|---|")
