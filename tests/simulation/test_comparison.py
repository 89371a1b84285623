"""Comparisons: the same files for any number of jobs, interrupted, continued, extended; runs that fail or die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enlist.errors import EnlistError, InputError
from enlist.simulation.comparison import Comparison, remember
from enlist.simulation.jobs import run_in
from tests.simulation.simulation_helpers import config, contents

SETTINGS = config(
    devices={"kind": "phones"},
    rounds={"rounds": 3, "k": 3, "over_commit": 1.5},
    training={"steps": 2},
    data={"clients": 8},
)


class Ticks:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, dict[str, Any]]] = []

    def __call__(self, selector: str, seed: int, state: dict[str, Any]) -> None:
        self.seen.append((selector, seed, state))

    def with_status(self, status: str) -> list[tuple[str, int]]:
        return [(selector, seed) for selector, seed, state in self.seen if state["status"] == status]


def everything(root: Path) -> dict[str, dict[str, bytes]]:
    runs = sorted(path.parent for path in root.glob("runs/*/*/config.json"))
    return {str(path.relative_to(root)): contents(path) for path in runs}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reference") / "comparison"
    ended = Comparison(SETTINGS, ("random", "oort:paper"), seeds=2).run(root)
    assert ended.failed == {}
    return root


def test_the_number_of_jobs_changes_no_byte(reference: Path, tmp_path: Path) -> None:
    ticks = Ticks()
    ended = Comparison(SETTINGS, ("random", "oort:paper"), seeds=2).run(tmp_path / "two", jobs=2, tick=ticks)
    assert sorted(ended.finished) == [("oort:paper", 0), ("oort:paper", 1), ("random", 0), ("random", 1)]
    assert all(result["status"] == "finished" and result["rounds"] == 3 for result in ended.finished.values())
    found = everything(tmp_path / "two")
    assert sorted(found) == ["runs/oort-paper/0", "runs/oort-paper/1", "runs/random/0", "runs/random/1"]
    assert found == everything(reference)
    assert sorted(ticks.with_status("finished")) == sorted(ended.finished)
    assert set(ticks.with_status("running")) == set(ended.finished)


def test_a_run_of_a_comparison_is_the_run_alone(reference: Path, tmp_path: Path) -> None:
    run_in(tmp_path / "alone", SETTINGS.with_method("oort:paper", 1))
    assert contents(tmp_path / "alone") == contents(reference / "runs" / "oort-paper" / "1")
    known = json.loads((reference / "comparison.json").read_text())
    assert (known["selectors"], known["seeds"], known["first_seed"]) == (["random", "oort:paper"], 2, 0)


@pytest.mark.parametrize("moment", ["finished", "running"])
def test_an_interrupted_comparison_goes_on_with_what_is_missing(reference: Path, tmp_path: Path, moment: str) -> None:
    comparison, root = Comparison(SETTINGS, ("random", "oort:paper"), seeds=2), tmp_path / "c"

    def interrupt(selector: str, seed: int, state: dict[str, Any]) -> None:
        if (selector, seed, state["status"]) == ("oort:paper", 0, moment):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        comparison.run(root, tick=interrupt)
    done = {path: path.stat().st_mtime_ns for path in root.glob("runs/random/0/**/*") if path.is_file()}
    assert root / "runs/random/0/result.json" in done
    ticks = Ticks()
    ended = comparison.run(root, tick=ticks)
    assert len(ended.finished) == 4
    assert ("random", 0) not in ticks.with_status("running")
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert everything(root) == everything(reference)


def test_nothing_runs_when_nothing_is_missing(reference: Path) -> None:
    ticks = Ticks()
    ended = Comparison(SETTINGS, ("random", "oort:paper"), seeds=2).run(reference, jobs=2, tick=ticks)
    assert len(ended.finished) == 4
    assert ticks.with_status("running") == []


@pytest.mark.parametrize("times", [1, 9], ids=["once", "always"])
def test_a_run_whose_process_dies_goes_on_in_another_or_is_reported(
    tmp_path: Path, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "flag"
    settings = SETTINGS.model_dump(mode="json")
    options = {"flag": str(flag), "always": times > 1}
    settings["model"] = {"name": "python", "factory": "tests.simulation.simulation_helpers:Deadly", "options": options}
    comparison = Comparison(type(SETTINGS)(**settings), ("random", "oort"), seeds=1)
    flag.write_text("random")
    ticks = Ticks()
    ended = comparison.run(tmp_path / "c", jobs=2, tick=ticks)
    again = "(exit code 3); another one takes its place and continues its run"
    if times == 1:
        assert (sorted(ended.finished), ended.failed) == (sorted(comparison.runs()), {})
        assert caplog.text.count(again) == 1
    else:
        assert sorted(ended.failed) == sorted(comparison.runs())
        assert all("died (exit code 3); if memory is short" in reason for reason in ended.failed.values())
        assert caplog.text.count(again) == 4
        assert sorted(ticks.with_status("failed")) == sorted(comparison.runs())
        flag.unlink()
        assert not comparison.run(tmp_path / "c").failed
    comparison.run(tmp_path / "undisturbed")
    assert everything(tmp_path / "c") == everything(tmp_path / "undisturbed")


def test_a_run_that_fails_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    settings = config(data={"clients": 6, "validation": 0}, rounds={"rounds": 2, "k": 2})
    ended = Comparison(settings, ("random", "darts-ucb", "oort"), seeds=1).run(tmp_path / "c")
    assert sorted(ended.finished) == [("oort", 0), ("random", 0)]
    assert "data.validation is 0" in ended.failed["darts-ucb", 0]


def test_selectors_and_seeds_may_be_added(reference: Path, tmp_path: Path) -> None:
    root = tmp_path / "c"
    Comparison(SETTINGS, ("random",), seeds=1).run(root)
    Comparison(SETTINGS, ("random",), seeds=2).run(root)
    ended = Comparison(SETTINGS, ("oort:paper",), seeds=2).run(root)
    assert sorted(ended.finished) == [("oort:paper", 0), ("oort:paper", 1)]
    assert everything(root) == everything(reference)
    known = json.loads((root / "comparison.json").read_text())
    assert (sorted(known["selectors"]), known["seeds"]) == (["oort:paper", "random"], 2)


def test_fewer_seeds_later_do_not_hide_the_seeds_there_are(tmp_path: Path) -> None:
    Comparison(SETTINGS, ("random",), seeds=2).run(tmp_path / "c")
    Comparison(SETTINGS, ("oort",), seeds=1).run(tmp_path / "c")
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["seeds"] == 2


def test_another_configuration_is_refused(reference: Path) -> None:
    values = SETTINGS.model_dump(mode="json")
    values["rounds"]["k"] = 2
    with pytest.raises(InputError, match=r"holds a comparison with rounds\.k = 3, and 2 was asked for"):
        Comparison(type(SETTINGS)(**values), ("random",), seeds=1).run(reference)


def test_other_settings_of_a_selector_are_another_configuration(tmp_path: Path) -> None:
    """What finished with other settings must not be taken for a result of these."""
    values = SETTINGS.model_dump(mode="json")
    first, second = (
        type(SETTINGS)(**{**values, "selector": {"name": "oort", "settings": {"penalty": penalty}}})
        for penalty in (1.0, 3.0)
    )
    plain = Comparison(SETTINGS, ("random", "oort:paper"), seeds=1)
    for number, (one, other) in enumerate(
        [
            (Comparison(first, ("oort",), seeds=1), Comparison(second, ("oort",), seeds=1)),
            (plain, Comparison(second, ("random", "oort:paper"), seeds=2)),
            (Comparison(second, ("random", "oort:paper"), seeds=1), plain),
        ]
    ):
        root = tmp_path / str(number)
        remember(one, root)
        before = (root / "comparison.json").read_text()
        with pytest.raises(InputError, match=r"holds a comparison with method 'oort.*': settings\.penalty = "):
            remember(other, root)
        assert (root / "comparison.json").read_text() == before
    remember(Comparison(second, ("bsfl",), seeds=3), tmp_path / "0")  # oort's settings do not matter to others


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    comparison = Comparison(SETTINGS, ("random",), seeds=1)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no comparison; name a new folder"):
        comparison.run(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        comparison.run(tmp_path / "thesis.txt")
    with pytest.raises(InputError, match="cannot be written"):
        comparison.run(tmp_path / "thesis.txt" / "below")


@pytest.mark.parametrize("text", ["", '{"selectors": ["random"],', "[]", "{}"])
def test_a_damaged_comparison_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(EnlistError, match="comparison"):
        Comparison(SETTINGS, ("random",), seeds=1).run(tmp_path)


def test_a_damaged_result_is_reported_or_made_again(tmp_path: Path) -> None:
    comparison = Comparison(SETTINGS, ("random",), seeds=1)
    comparison.run(tmp_path / "c")
    (tmp_path / "c" / "runs" / "random" / "0" / "result.json").write_text("{")
    try:
        ended = comparison.run(tmp_path / "c")
    except EnlistError:
        return
    assert ended.finished["random", 0]["rounds"] == 3


@pytest.mark.parametrize(
    ("selectors", "seeds", "jobs", "message"),
    [
        ((), 1, 1, "no methods were given; name at least one"),
        (("random", "orot"), 1, 1, "Did you mean 'oort'"),
        (("oort:papper",), 1, 1, "preset called 'papper'"),
        (("random",), 0, 1, "seeds is 0"),
        (("random",), 1, 0, "jobs is 0"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(
    tmp_path: Path, selectors: tuple[str, ...], seeds: int, jobs: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Comparison(SETTINGS, selectors, seeds).run(tmp_path / "c", jobs=jobs)
    assert not (tmp_path / "c").exists()


def test_populations_that_cannot_be_built_are_an_error_not_a_hang(tmp_path: Path) -> None:
    settings = config(data={"clients": 5000})
    ended = Comparison(settings, ("random", "oort"), seeds=2).run(tmp_path / "c")
    assert not ended.finished
    assert set(ended.failed) == {(name, seed) for name in ("random", "oort") for seed in (0, 1)}
    assert all("client" in reason for reason in ended.failed.values())
