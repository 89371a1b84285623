"""Arguments and values that had another spelling before: taken with a warning, and the federation is the same."""

from __future__ import annotations

import csv
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from enlist._internal import aliases
from enlist.errors import InputError
from enlist.flower import RoundResult, replay
from enlist.flower.fake import FakeGrid, FakeReply
from enlist.runs import read_run
from tests.flower.flower_helpers import behaving, node_of, reply, run, selecting

FORMER: dict[str, Any] = {"overcommit": 1.5, "late": "feedback"}
PRESENT: dict[str, Any] = {"over_commit": 1.5, "late": "learn"}


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    aliases.log.cache_clear()
    caplog.set_level(logging.WARNING, "enlist")
    return caplog


def federation() -> FakeGrid:
    return FakeGrid(range(11, 21), behaving(lambda message: FakeReply(node_of(message) / 4, reply(message, value=0.5))))


def formerly(folder: Path) -> None:
    """Make a folder look as if an earlier version had written it."""
    for name, columns in aliases.FORMER_COLUMNS.items():
        if (folder / name).exists():
            first, rest = (folder / name).read_text().split("\n", 1)
            former = {now: before for before, now in columns.items()}
            (folder / name).write_text(",".join(former.get(word, word) for word in first.split(",")) + "\n" + rest)
    config = json.loads((folder / "config.json").read_text())
    config["overcommit"], config["late"] = config.pop("over_commit"), "feedback"
    (folder / "config.json").write_text(json.dumps(config))


def test_the_former_words_are_the_same_federation_with_a_warning_each(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated") as warned:
        run(federation(), 4, "cs-ucb", folder=tmp_path / "former", **FORMER)
    run(federation(), 4, "cs-ucb", folder=tmp_path / "present", **PRESENT)
    for table in ("rounds.csv", "participations.csv", "config.json"):
        assert (tmp_path / "former" / table).read_bytes() == (tmp_path / "present" / table).read_bytes()
    assert [str(one.message) for one in warned] == [
        "overcommit= is deprecated and will be removed in Enlist 0.4; use over_commit= instead.",
        'late="feedback" is deprecated and will be removed in Enlist 0.4; use late="learn" instead.',
    ]


def test_both_spellings_at_once_are_refused() -> None:
    with pytest.raises(InputError, match=r"over_commit is 1\.5 and overcommit, its former spelling, 1\.3"):
        selecting(federation(), over_commit=1.5, overcommit=1.3)


def test_a_former_value_is_checked_like_a_present_one() -> None:
    with pytest.warns(DeprecationWarning, match="overcommit"), pytest.raises(InputError, match=r"over_commit is 0\.5"):
        selecting(federation(), overcommit=0.5)


def test_a_hook_of_before_finds_its_count() -> None:
    found: list[tuple[int, int]] = []

    def hook(told: RoundResult) -> None:
        with pytest.warns(DeprecationWarning, match=r"counts\['asked'\]"):
            found.append((told.counts["asked"], told.counts["selected"]))
        with pytest.raises(KeyError):
            told.counts["aksed"]

    run(federation(), 2, on_round=hook, over_commit=2.0)
    assert found == [(6, 6), (6, 6)]


def test_a_folder_of_before_goes_on_and_ends_the_same(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    whole, former = federation(), federation()
    run(whole, 6, "cs-ucb", folder=tmp_path / "whole", **PRESENT)
    run(former, 3, "cs-ucb", folder=tmp_path / "former", **PRESENT)
    formerly(tmp_path / "former")
    grid = FakeGrid(range(11, 21), former.behaviour, former.clock)
    run(grid, 6, "cs-ucb", folder=tmp_path / "former", accept_changes=True, **PRESENT)
    rows = [
        list(csv.DictReader((tmp_path / name / "rounds.csv").read_text().splitlines())) for name in ("former", "whole")
    ]
    assert list(rows[0][0])[list(rows[1][0]).index("selected")] == "asked"  # it keeps the header it began with
    assert [row["asked"] for row in rows[0]] == [row["selected"] for row in rows[1]]
    assert read_run(tmp_path / "former").rounds["selected"].tolist() == [5] * 6
    assert len(replay(tmp_path / "former")) == 6
    assert not any("deprecated" in message for message in said.messages)
