"""What docs/studies shows: every verdict tells what was run, and tables of studies are those of the verdicts."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import pytest

from tools import study_changes
from tools.study_changes import (
    BEFORE,
    FORMER,
    ROOT,
    digest,
    from_before,
    notices,
    pages,
    put,
    tally,
    verdicts,
    with_notices,
)

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
    if former and from_before(path.parent.name, text, {path.parent.name: former}):
        assert verdicts(text) == former["verdicts"]
    else:
        assert text.index("**What was run.**") < text.index("\n## ")


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_a_verdict_from_before_says_so_on_top(path: Path) -> None:
    text = path.read_text()
    former = json.loads(FORMER.read_text())
    assert (BEFORE in text.split("\n\n")[1]) == from_before(path.parent.name, text, former)


def test_only_studies_judged_by_the_present_rules_are_counted(tmp_path: Path) -> None:
    for name, verdict in (("old", "partly"), ("new", "reproduced")):
        (tmp_path / name).mkdir()
        run = "**What was run.**\n\n" if name == "new" else ""
        (tmp_path / name / "verdict.md").write_text(f"# T\n\n{run}### It is fast: {verdict}\n")
    former = {"old": {}, "new": {}}
    words = {"studies": {"old": {}, "new": {}, "missing": {}}}
    assert tally(tmp_path, former, words).startswith(
        "1 studies test 1 claims by stated rules, not counting 1 with older verdicts: 1 reproduced, 0 partly"
    )


def test_a_notice_is_of_just_one_text_and_goes_when_it_is_published_anew() -> None:
    text = "# T\n\nbody\n"
    words = {"notes": {"coins": {"digest": digest(text), "say": ["by a former rule"]}}}
    noted = with_notices(text, notices("coins", text, {}, words))
    assert noted == "# T\n\n> by a former rule\n\nbody\n"
    assert with_notices(noted, notices("coins", noted, {}, words)) == noted
    assert notices("coins", "# T\n\nother\n", {}, words) == []


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table"):
        put("nothing", "| a |\n|---|")
