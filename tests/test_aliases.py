"""Former names and spellings work, with a notice; folders of earlier versions are read and continued without one."""

from __future__ import annotations

import csv
import importlib
import json
import logging
import pkgutil
import re
import shutil
from pathlib import Path

import pytest

import enlist
from enlist._internal import aliases
from enlist.arena.play import Rules
from enlist.errors import InputError
from enlist.runs import read_run
from enlist.runs.columns import TABLES
from enlist.runs.following import TableFollower
from enlist.simulation import Config, load, simulate

SMALL = {"data": {"clients": 12}, "rounds": {"rounds": 4, "k": 3, "over_commit": 1.7, "deadline": 30.0}}


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    aliases.log.cache_clear()
    caplog.set_level(logging.WARNING, "enlist")
    return caplog


def config(late: str, **rounds: object) -> Config:
    return Config.parse({**SMALL, "rounds": {**SMALL["rounds"], "late": late, **rounds}}, "mine.toml")


def formerly(folder: Path) -> None:
    """Make a folder look as if an earlier version had written it."""
    for name, columns in aliases.FORMER_COLUMNS.items():
        if (folder / name).exists():
            text = (folder / name).read_text()
            header, rest = text.split("\n", 1)
            back = {now: former for former, now in columns.items()}
            (folder / name).write_text(",".join(back.get(cell, cell) for cell in header.split(",")) + "\n" + rest)
    saved = json.loads((folder / "config.json").read_text())
    saved["rounds"]["late"] = {"merge": "use"}.get(saved["rounds"]["late"], saved["rounds"]["late"])
    (folder / "config.json").write_text(json.dumps(saved, indent=1) + "\n")


def test_the_former_word_is_the_same_run_with_one_notice(said: pytest.LogCaptureFixture) -> None:
    assert config("use") == config("merge") == config("use")
    assert [record.getMessage() for record in said.records] == [
        'rounds.late = "use" is deprecated and will be removed in Enlist 0.4; use rounds.late = "merge" instead.'
    ]
    assert config("use").model_dump(mode="json")["rounds"]["late"] == "merge"


def test_books_take_both_words() -> None:
    selector = enlist.create("random", enlist.Clients(count=3))
    with pytest.warns(DeprecationWarning, match=r'late="await" is deprecated.*0\.4; use late="learn"'):
        assert enlist.Books(selector, late="await").late == "learn"
    assert enlist.Books(selector, late="learn").late == "learn"
    with pytest.raises(InputError, match=r"late is 'keep'. Allowed: drop, learn, merge"):
        enlist.Books(selector, late="keep")


def test_the_arena_has_nothing_to_merge() -> None:
    with pytest.warns(DeprecationWarning, match="late=") as warned:
        assert Rules(k=3, late="await") == Rules(k=3, late="learn")
    assert [one.filename for one in warned] == [__file__], "the warning is at the line of the caller"
    with pytest.raises(InputError, match=r"late is 'merge'. Allowed: drop, learn."):
        Rules(k=3, late="merge")


def test_a_wrong_word_names_those_that_are_allowed() -> None:
    with pytest.raises(InputError, match=r"rounds.late = 'us', but input should be 'drop', 'learn' or 'merge'"):
        config("us")


def test_a_folder_of_before_is_read_in_the_words_of_today(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    run = simulate(config("merge"), folder=tmp_path / "run")
    now = read_run(tmp_path / "run")
    formerly(tmp_path / "run")
    assert "asked" in (tmp_path / "run" / "rounds.csv").read_text().split("\n")[0].split(",")
    before = read_run(tmp_path / "run")
    assert before.config == now.config
    for name in ("rounds", "participations", "clients"):
        mine, theirs = getattr(before, name), getattr(now, name)
        assert list(mine) == list(theirs)
    assert list(TableFollower(tmp_path / "run" / "rounds.csv").read()) == list(now.rounds)
    assert load(tmp_path / "run" / "config.json") == run.config
    assert not said.records, "nobody can do anything about it"


@pytest.mark.parametrize("rounds", [4, 6])
def test_a_folder_of_before_goes_on_under_its_own_header(
    rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is one that a run of before would have: of the same rows under the former header."""
    whole = simulate(config("merge", rounds=rounds), folder=tmp_path / "whole")
    header = {"selected": "asked", "num_examples": "samples"}
    names = {name: tuple(header.get(one, one) for one in every) for name, every in TABLES.items()}
    monkeypatch.setattr("enlist.simulation.config.TABLES", names)
    simulate(config("merge", rounds=3), folder=tmp_path / "former")
    monkeypatch.undo()
    assert "asked" in (tmp_path / "former" / "rounds.csv").read_text()

    again = simulate(config("use", rounds=rounds), folder=tmp_path / "former", resume=True)
    assert again.rounds.equals(whole.rounds)
    assert again.participations.equals(whole.participations)
    with (tmp_path / "former" / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == rounds
    assert [int(row["asked"]) for row in rows] == whole.rounds["selected"].tolist()


def test_late_updates_that_teach_leave_the_model_alone(tmp_path: Path) -> None:
    drop, learn, merge = (simulate(config(late, rounds=6, staleness="equal")) for late in ("drop", "learn", "merge"))
    arrived = {name: run.participations.query("outcome == 'arrived'") for name, run in (("l", learn), ("m", merge))}
    assert len(arrived["l"])
    assert (arrived["l"]["weight"] == 0).all()
    assert (arrived["m"]["weight"] > 0).all()
    assert not len(drop.participations.query("outcome == 'arrived'"))
    assert learn.rounds["arrived"].sum() > 0
    assert not learn.rounds["accuracy"].equals(merge.rounds["accuracy"])


def test_safa_does_not_only_learn() -> None:
    with pytest.raises(InputError, match="SAFA keeps late updates in its cache or ignores them"):
        config("learn", protocol="safa", over_commit=1.0)


def test_a_copy_of_a_former_folder_resumes_only_as_the_same_run(tmp_path: Path) -> None:
    simulate(config("merge", rounds=3), folder=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    with pytest.raises(InputError, match=r"rounds.late = 'merge', but 'drop' was asked for"):
        simulate(config("drop", rounds=3), folder=tmp_path / "other", resume=True)


@pytest.mark.parametrize(
    ("module", "former", "now"),
    [
        ("enlist", "Told", "Observation"),
        ("enlist.contract", "Told", "Observation"),
        ("enlist.devices", "Percentile", "PercentileOptions"),
        ("enlist.personal", "Config", "PersonalConfig"),
        ("enlist.engine", "Context", "TaskContext"),
        ("enlist.arena", "Reward", "BSFLReward"),
    ],
)
def test_former_names_of_classes_still_work(module: str, former: str, now: str) -> None:
    found = importlib.import_module(module)
    said = f"{module}.{former} is deprecated and will be removed in Enlist 0.4; use {module}.{now} instead."
    with pytest.warns(DeprecationWarning, match=re.escape(said)) as warned:
        assert getattr(found, former) is getattr(found, now)
    assert [one.filename for one in warned] == [__file__]
    assert former not in found.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        found.Nobody  # noqa: B018


@pytest.mark.parametrize(("former", "now"), aliases.GONE.items())
def test_what_has_moved_is_where_the_map_says(former: str, now: str) -> None:
    assert pkgutil.resolve_name(now) is not None
    with pytest.raises((ImportError, AttributeError)):
        pkgutil.resolve_name(former)


def test_what_is_deprecated_is_in_the_changelog_and_goes_when_it_should() -> None:
    """Once the version in which these names go is reached, this test asks for their removal."""
    root = Path(__file__).parents[1]
    assert tuple(map(int, enlist.__version__.split(".")[:2])) < tuple(map(int, aliases.GOES_IN.split(".")))
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog.partition("### Deprecated")[2].partition("###")[0]
    assert f"will be removed in {aliases.GOES_IN}" in " ".join(section.split())
    words = {name for names in aliases.FORMER_NAMES.values() for name in names}
    words |= {*aliases.FORMER_LATE, *aliases.FORMER_KEYS}
    assert [word for word in sorted(words) if not re.search(rf"\b{word}\b", section)] == []
    assert aliases.GOES_IN in (root / "docs" / "configuration.md").read_text(encoding="utf-8").partition("## Former")[2]
