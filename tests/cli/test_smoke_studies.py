"""Every study, at its smallest scale and as a person types it, from experiments to the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from enlist import studies

SCRIPT = Path(sys.executable).parent / "enlist"
FIGURES = {"darts": 12, "bsfl": 13, "fedsuv": 10, "mabfl": 20, "power-of-choice": 2, "fedcor": 2, "asynchrony": 1}
"""How many figures each has at least."""


def test_every_study_is_covered() -> None:
    assert set(FIGURES) == set(studies.names())


@pytest.mark.verify  # test_reproduce.py has one of them every time
@pytest.mark.parametrize("name", FIGURES)
def test_the_smoke_scale_runs_from_experiments_to_the_page(name: str, tmp_path: Path) -> None:
    surroundings = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    command = [str(SCRIPT), "reproduce", name, "--scale", "smoke", "--output", "out"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=surroundings, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    facts = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert facts["failed"] == {}
    text = (tmp_path / "out" / "verdict.md").read_text()
    for claim in studies.get(name).claims:
        assert f"### {claim.title}: " in text
    assert text.count(": no verdict\n") == len(studies.get(name).claims), "nothing is judged at this scale"
    assert "The further experiment is missing" not in text
    pictures = list((tmp_path / "out" / "figures").glob("*.png"))
    assert len(pictures) >= FIGURES[name]
    assert all(path.stat().st_size > 5_000 and path.with_suffix(".svg").exists() for path in pictures)
    assert "vegaEmbed" in (tmp_path / "out" / "report.html").read_text()
