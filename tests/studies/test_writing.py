"""What a study leaves: files that can be read again, and copies for documentation."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import pytest

from enlist.errors import InputError
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, JudgedClaim, Verdict
from enlist.studies.example import COINS
from enlist.studies.rules import Untestable
from enlist.studies.running import Reproduction
from enlist.studies.study import Figure, Table, rules_digest
from enlist.studies.verdicts import table_cells, tally, verdict_rows, verdict_text
from enlist.studies.writing import csv_text, publish, write
from tests.studies.study_helpers import TRACED, at

COMMAND = "enlist reproduce coins --scale smoke --seeds 3"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "coins"
    with Reproduction.open(COINS, COINS.scale("smoke"), folder) as work:
        work.run()
        assert write(work, COMMAND, jobs=1) == folder / "report.html"
    return folder


def test_every_kind_of_file_is_there(root: Path) -> None:
    assert (root / "figures" / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (root / "figures" / "heads.svg").read_text()
    page = (root / "report.html").read_text()
    assert "vegaEmbed" in page
    assert "The bent coin shows more heads" in page
    assert not re.findall(r'(?:src|href)="https?://', page)
    with open(root / "tables" / "heads.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["coin"] for row in rows] == ["fair", "bent"]
    assert float(rows[1]["heads"]) > 0


def test_settings_hold_all_that_is_needed_to_do_it_again(root: Path) -> None:
    facts = json.loads((root / "settings.json").read_text())
    assert facts["command"] == COMMAND
    assert facts["experiments"]["fair"] == {"settings": {"p": 0.5, "tosses": 20}, "seeds": [0, 1, 2]}
    assert facts["packages"]["enlist"]
    assert facts["wall_seconds"] >= 0
    assert facts["settings"] == {"tosses": 20}
    assert facts["failed"] == {}
    if facts["further"]:
        assert facts["further"]["bent-longer"]["settings"]["tosses"] == 200


def test_the_verdict_names_claim_numbers_rule_and_reason(root: Path) -> None:
    text = (root / "verdict.md").read_text()
    for part in ("60 % against 50 %", "mean at least 1", "rule, written before the run", COMMAND, "scale smoke"):
        assert part in text
    assert text.count("| The bent coin shows more heads |") == 1
    assert "![Heads over tosses](figures/heads.png)" in text


def test_rules_are_noted_before_the_first_experiment_and_a_change_is_told(tmp_path: Path) -> None:
    root = tmp_path / "study"
    with Reproduction.open(TRACED, TRACED.scale("smoke"), root) as work:
        assert json.loads((root / "rules.json").read_text()) == TRACED.rules()
        work.run()
        write(work, "enlist reproduce traced", jobs=1)
    facts = json.loads((root / "settings.json").read_text())["rules"]
    assert facts == {"digest": rules_digest(TRACED.rules()), "at_start": rules_digest(TRACED.rules()), "changed": []}
    assert f"before the first experiment: `{facts['digest']}`.\n" in (root / "verdict.md").read_text()
    [first, *others] = TRACED.claims
    other = dataclasses.replace(TRACED, claims=[dataclasses.replace(first, rule=Untestable("changed")), *others])
    with Reproduction.open(other, other.scale("smoke"), root, resume=True) as work:
        work.run()
        write(work, "enlist reproduce traced", jobs=1)
    later = json.loads((root / "settings.json").read_text())["rules"]
    assert (later["at_start"], later["changed"]) == (facts["digest"], [first.key])
    assert later["digest"] != facts["digest"]
    text = (root / "verdict.md").read_text()
    assert "; 1 rule changed since, where the claim says so." in text
    assert text.count("- rule, changed after the run began: none\n") == 1
    # Of a folder from before rules were noted nothing is said.
    (root / "rules.json").unlink()
    with Reproduction.open(TRACED, TRACED.scale("smoke"), root, resume=True) as work:
        assert work.rules_at_start() is None


def test_figures_that_are_no_highlights_stand_in_the_appendix(root: Path) -> None:
    facts = json.loads((root / "settings.json").read_text())
    shown, other = (
        Figure(name, name.title(), None, "A caption.", highlight=name == "main") for name in ("main", "more")
    )
    text = verdict_text(COINS, facts, [], [other, shown], [])
    body, appendix = text.split("## Appendix: more figures\n\n")
    assert "![Main](figures/main.png)" in body
    assert appendix == "![More](figures/more.png)\n\nMore. A caption.\n"


def test_a_published_study_has_the_small_files_and_no_experiments(root: Path, tmp_path: Path) -> None:
    written = publish(root, tmp_path / "docs")
    names = {path.relative_to(tmp_path / "docs").as_posix() for path in written}
    assert names == {"coins/verdict.md", "coins/settings.json", "coins/figures/heads.png", "coins/tables/heads.csv"}
    (tmp_path / "docs" / "coins" / "figures" / "old.png").write_bytes(b"")
    (tmp_path / "docs" / "coins" / "notes.md").write_text("mine")
    publish(root, tmp_path / "docs")
    assert not (tmp_path / "docs" / "coins" / "figures" / "old.png").exists()
    assert (tmp_path / "docs" / "coins" / "notes.md").exists()


def test_extras_have_a_folder_of_their_own(tmp_path: Path) -> None:
    with Reproduction.open(TRACED, TRACED.scale("smoke", extras=["more"]), tmp_path / "study") as work:
        work.run()
        write(work, "enlist reproduce traced --with more", jobs=1)
    assert publish(tmp_path / "study", tmp_path / "docs")[0] == tmp_path / "docs" / "traced-more" / "verdict.md"


def test_an_unfinished_study_is_not_published(tmp_path: Path) -> None:
    with Reproduction.open(TRACED, TRACED.scale("smoke"), tmp_path / "study"):
        pass
    with pytest.raises(InputError, match="holds no finished study"):
        publish(tmp_path / "study", tmp_path / "docs")


def test_a_further_experiment_is_printed_with_its_claim(tmp_path: Path) -> None:
    with Reproduction.open(TRACED, at(TRACED, lead=0.0), tmp_path / "study") as work:
        work.run()
        write(work, "enlist reproduce traced", jobs=1)
    text = (tmp_path / "study" / "verdict.md").read_text()
    assert 'one further experiment, on the suspicion "luck": further mean 7.5' in text
    assert text.count("one further experiment") == 1
    page = (tmp_path / "study" / "report.html").read_text()
    assert "further mean 7.5" in page


def test_tables_as_text_and_csv() -> None:
    table = Table("t", "T", [{"a|b": float("nan"), "n": 3, "x": 0.123456, "ok": True, "none": None}])
    assert table_cells(table)[1] == ["–", "3", "0.1235", "yes", "–"]
    assert csv_text(table) == "a|b,n,x,ok,none\nnan,3,0.123456,True,\n"
    assert table_cells(Table("t", "T", [])) == [[]]


def test_a_bar_in_a_cell_does_not_break_the_table() -> None:
    claim = COINS.claims[0]
    judged = [JudgedClaim(claim, Verdict(kind, "a|b", "why")) for kind in (REPRODUCED, PARTLY, NOT)]
    facts = {"scale": "laptop", "seeds": 3, "first_seed": 0, "command": "c", "wall_seconds": 3.0, "jobs": 1}
    text = verdict_text(COINS, facts | {"experiments": {}}, judged, [], []).partition("## ")[2]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert tally(judged) == "3 claims: 1 reproduced, 1 partly, 1 not reproduced"
    assert len(verdict_rows(judged)) == 4
