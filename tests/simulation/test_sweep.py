"""Sweeps: points, the folder, results; interrupted and continued, in any number of processes, they end the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enlist
from enlist.errors import EnlistError, InputError, StateFileError, UnknownNameError
from enlist.simulation import Config, Sweep, compare, sweep
from enlist.simulation.header import remember_sweep
from enlist.simulation.points import MOST_POINTS, Point, parted, points_of, read_points
from tests.simulation.simulation_helpers import config, contents

SETTINGS = config(data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5}}, rounds={"rounds": 2, "k": 3})
LATE = config(
    data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    devices={"kind": "phones"},
    failures={"crash": 0.2},
    rounds={"rounds": 3, "k": 3, "over_commit": 1.5, "late": "merge", "deadline": {"kind": "percentile"}},
    training={"steps": 2},
)


@pytest.fixture(scope="module")
def result() -> Any:
    return sweep(SETTINGS, {"rounds.k": [2, 4], "data.partition.alpha": [0.1, 1]}, "random, oort", seeds=2)


# Points


def test_a_grid_is_the_product_of_its_values_the_last_key_first() -> None:
    points = points_of(SETTINGS, {"rounds.k": np.array([2, 4]), "data.partition.alpha": (0.1, 1)})
    assert [point.name for point in points][:3] == ["k = 2, alpha = 0.1", "k = 2, alpha = 1", "k = 4, alpha = 0.1"]
    assert [(point.config.rounds.k, point.config.data.partition.alpha) for point in points][1:3] == [(2, 1.0), (4, 0.1)]
    assert points[0].slug == "rounds.k=2+data.partition.alpha=0.1"


def test_points_of_a_list_keep_what_they_do_not_name() -> None:
    points = points_of(SETTINGS, [{"rounds.k": 2}, {"data.partition.alpha": 1, "rounds.rounds": 4}])
    assert points[0].values == {"rounds.k": 2, "data.partition.alpha": 0.5, "rounds.rounds": 2}
    assert points[1].values == {"rounds.k": 3, "data.partition.alpha": 1.0, "rounds.rounds": 4}


def test_a_whole_section_a_kind_and_an_object_can_be_swept() -> None:
    class Net:
        """A model of the user's."""

    for key, values, names in (
        ("data.partition", ["iid", "dirichlet"], ["partition = iid", "partition = dirichlet"]),
        ("devices.kind", ["phones", "equal"], ["kind = phones", "kind = equal"]),
        ("model.hidden", [[32, 16], [64]], ["hidden = [32, 16]", "hidden = [64]"]),
    ):
        assert [point.name for point in points_of(SETTINGS, {key: values})] == names
    (own, _) = points_of(SETTINGS, {"model": [Net, "logistic"]})
    assert own.config.model.name == "python"
    assert own.name.endswith("Net")


def test_folders_of_points_are_plain_names_that_differ() -> None:
    values = [[32, 16], [3216], "../../x", "a" * 300, "a" * 301, "."]
    slugs = [Point({"model.hidden": value}, SETTINGS).slug for value in values]
    assert len(set(slugs)) == len(values)
    assert all(len(slug) < 140 and "/" not in slug and not slug.startswith(".") for slug in slugs)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"rounds.k": [5, 0]}, r"point k = 0: rounds.k = 0, but input should be greater"),
        ({"rounds.kk": [5]}, r"point kk = 5: 'rounds.kk' is not a known key. Did you mean 'k'"),
        ([{"rounds.k": 2, "data.partition.alpha": -1}], r"point k = 2, alpha = -1: data.partition.alpha = -1, but"),
        ({"rounds.k": 5}, r"rounds.k is 5 in a sweep; give a list of values"),
        ({"data.partition": "iid"}, r"data.partition is 'iid' in a sweep; give a list"),
        ({"rounds.k": []}, "rounds.k has no values"),
        ({}, "no key is swept"),
        ([], "no key is swept"),
        (["rounds.k=5"], "a point is 'rounds.k=5'; it must be a dict"),
        ({"rounds.k": [5, 5.0]}, "the point k = 5 is given twice"),
        ([{"rounds.k": 3}, {"rounds.rounds": 2}], "the point k = 3, rounds = 2 is given twice"),
        ({"seed": [1, 2]}, "seed cannot be swept"),
        ({"selector.settings.penalty": [1, 2]}, r"cannot be swept: the methods name the selectors.*oort\+penalty=1"),
        ({1: [2]}, "a key of a sweep is 1"),
        ({"rounds.k": range(1, MOST_POINTS + 2)}, "at most 10,000"),
    ],
)
def test_points_that_cannot_be_are_refused_before_anything_runs(tmp_path: Path, points: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep(SETTINGS, points, "random", seeds=1, folder=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_method_that_does_not_fit_a_point_is_refused_with_the_point() -> None:
    settings = SETTINGS.replace(selector="safa")
    with pytest.raises(InputError, match=r"point protocol = safa: method 'random': rounds.protocol is 'safa'"):
        sweep(settings, {"rounds.protocol": ["synchronous", "safa"]}, "safa, random", seeds=1)


def test_points_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text('\ufeffrounds.k, model.hidden\n5,"[32, 16]"\n\n10,\n')
    assert read_points(file) == [{"rounds.k": 5, "model.hidden": [32, 16]}, {"rounds.k": 10}]
    assert [point.name for point in points_of(SETTINGS, file)] == ["k = 5, hidden = [32, 16]", "k = 10, hidden = [6]"]
    for text, message in (
        ("", "it has no points"),
        ("rounds.k\n", "it has no points"),
        ("rounds.k,rounds.k\n1,2\n", "must name each key once"),
        ("rounds.k\n1,2\n", "line 2 has 2 cells and the first one 1"),
        ("rounds.k\n\x00\n", "not a CSV file|rounds.k"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            points_of(SETTINGS, file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        points_of(SETTINGS, str(tmp_path / "nowhere.csv"))


def test_values_on_the_command_line_are_split_outside_of_brackets() -> None:
    fixed, swept = parted(
        ["model.hidden=[32,16],[64]", "rounds.rounds=20", "model.hidden=[8, 4]", "data.partition=iid,shards"]
    )
    assert fixed == ["rounds.rounds=20", "model.hidden=[8, 4]"]
    assert swept == {"model.hidden": [[32, 16], [64]], "data.partition": ["iid", "shards"]}


def test_replace_begins_a_table_anew_where_its_kind_changes() -> None:
    assert Config().replace("devices.kind=equal").devices.kind == "equal"
    assert Config().replace({"data.partition.alpha": 2, "data.partition.kind": "dirichlet"}).data.partition.alpha == 2
    with pytest.raises(InputError, match="alpha"):
        Config().replace({"data.partition.alpha": 2, "data.partition.kind": "iid"})


# Results


def test_the_table_has_a_column_for_every_key_and_a_row_for_every_method(result: Any) -> None:
    table = result.table
    assert list(table.columns[:4]) == ["rounds.k", "data.partition.alpha", "method", "seeds"]
    assert table["rounds.k"].tolist() == [2] * 4 + [4] * 4
    assert table["method"].tolist() == ["oort", "random"] * 4
    assert {"final", "final_low", "speed_up", "speed_up_high", "time_to"} <= set(table.columns)
    assert len(result.runs) == 16
    assert result.points[1] == {"rounds.k": 2, "data.partition.alpha": 1.0}


def test_a_point_is_the_comparison_alone(result: Any) -> None:
    alone = compare(SETTINGS.replace({"rounds.k": 4, "data.partition.alpha": 0.1}), "random, oort", seeds=2)
    assert result.at(k=4, alpha=0.1).table.equals(alone.table)
    assert result.at({"rounds.k": 4, "data.partition.alpha": 0.1}).table.equals(alone.table)
    own = result.table[(result.table["rounds.k"] == 4) & (result.table["data.partition.alpha"] == 0.1)]
    assert own["final"].tolist() == alone.table["final"].tolist()
    assert own["target"].tolist() == alone.table["target"].tolist()


def test_points_that_are_not_there_are_named(result: Any) -> None:
    with pytest.raises(InputError, match=r"2 points have k = 4; name one of: k = 4, alpha = 0.1; k = 4, alpha = 1\."):
        result.at(k=4)
    with pytest.raises(InputError, match=r"no point of the sweep has k = 9; name one of: k = 2, alpha = 0.1;"):
        result.at(k=9)
    with pytest.raises(UnknownNameError, match=r"the sweep has no key called 'kk'. Did you mean 'k'"):
        result.at(kk=4)


def test_it_is_shown_in_a_notebook(result: Any) -> None:
    lines = repr(result).splitlines()
    assert lines[0].split()[:3] == ["k", "alpha", "selector"]
    assert len(lines) == 9
    assert result._repr_html_().startswith("<table><tr><th>k</th><th>alpha</th>")
    assert result.plot().to_dict()["facet"]["sort"][0] == "k = 2, alpha = 0.1"
    assert result.plot("rounds").to_dict()["columns"] == 2


def test_a_run_that_fails_is_named_with_its_point() -> None:
    settings = config(data={"clients": 6}, rounds={"rounds": 1, "k": 2})
    result = sweep(settings, {"data.validation": [0, 0.1]}, "random, darts-ucb", seeds=1, baseline="darts-ucb")
    assert list(result.failed) == [("validation = 0", "darts-ucb", 0)]
    assert [(row["data.validation"], row["selector"]) for row in result.rows] == [
        (0.0, "random"),
        (0.1, "darts-ucb"),
        (0.1, "random"),
    ]
    assert [(row["baseline"], "speed_up" in row) for row in result.rows[::2]] == [(None, False), ("darts-ucb", True)]
    with pytest.raises(EnlistError, match=r"every run failed: .*data.validation is 0"):
        sweep(settings, {"data.validation": [0]}, "darts-ucb", seeds=1)


# Folders


def test_points_and_seeds_may_be_added_and_nothing_runs_twice(tmp_path: Path) -> None:
    root, seen = tmp_path / "s", []

    def tick(point: str, label: str, seed: int, state: dict[str, Any]) -> None:
        if state["status"] == "running":
            seen.append((point, label, seed))

    sweep(SETTINGS, {"rounds.k": [2]}, "random", seeds=1, folder=root, tick=tick)
    sweep(SETTINGS, {"rounds.k": [2, 4]}, "random", seeds=2, folder=root, tick=tick)
    assert sorted(set(seen)) == [
        ("k = 2", "random", 0),
        ("k = 2", "random", 1),
        ("k = 4", "random", 0),
        ("k = 4", "random", 1),
    ]
    assert len(seen) == len(set(seen))
    known = json.loads((root / "sweep.json").read_text())
    assert known["points"] == [{"rounds.k": 2}, {"rounds.k": 4}]
    frame = enlist.frame(root)
    assert frame["rounds.k"].tolist() == [2, 2, 4, 4]
    compare(SETTINGS.replace("rounds.k=2"), "random", seeds=2, folder=root / "points" / "rounds.k=2")


@pytest.mark.parametrize(
    ("settings", "points", "message"),
    [
        (
            SETTINGS.replace("data.clients=9"),
            {"rounds.k": [2]},
            "holds a sweep with data.clients = 8, and 9 was asked for",
        ),
        (SETTINGS, {"rounds.rounds": [2]}, "holds a sweep over rounds.k, and one over rounds.rounds was asked for"),
    ],
)
def test_another_sweep_is_refused_with_the_key(tmp_path: Path, settings: Config, points: Any, message: str) -> None:
    remember_sweep(Sweep(SETTINGS, {"rounds.k": [2]}, "random", 1), tmp_path / "s")
    before = (tmp_path / "s" / "sweep.json").read_bytes()
    with pytest.raises(InputError, match=message):
        sweep(settings, points, "random", seeds=1, folder=tmp_path / "s")
    assert (tmp_path / "s" / "sweep.json").read_bytes() == before
    remember_sweep(Sweep(SETTINGS.replace("rounds.k=9"), {"rounds.k": [5]}, "oort", 2), tmp_path / "s")


def test_other_settings_of_a_method_are_refused(tmp_path: Path) -> None:
    for number, method in enumerate(("oort+penalty=1", "oort+penalty=2")):
        plan = Sweep(SETTINGS, {"rounds.k": [2]}, {"mine": method}, 1)
        if number:
            with pytest.raises(InputError, match=r"method 'mine': settings.penalty = 1, and 2 was asked for"):
                remember_sweep(plan, tmp_path / "s")
        else:
            remember_sweep(plan, tmp_path / "s")


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    plan = Sweep(SETTINGS, {"rounds.k": [2]}, "random", 1)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no sweep"):
        remember_sweep(plan, tmp_path)
    (tmp_path / "thesis.txt").unlink()
    for text in ("", "[]", "{}", '{"keys": "rounds.k", "points": [], "config": {}}'):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(StateFileError, match=r"sweep.json is damaged"):
            remember_sweep(plan, tmp_path)
    remember_sweep(plan, tmp_path / "good")
    known = json.loads((tmp_path / "good" / "sweep.json").read_text())
    (tmp_path / "good" / "sweep.json").write_text(json.dumps({**known, "points": []}))
    with pytest.raises(StateFileError, match=r"sweep.json was changed since it was written"):
        remember_sweep(plan, tmp_path / "good")
    remember_sweep(plan, tmp_path / "good", accept_changes=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "points").symlink_to(tmp_path)
    with pytest.raises(StateFileError, match="symbolic link"):
        plan.places(tmp_path / "linked")


# All of it together


def test_an_interrupted_sweep_of_ones_own_class_ends_like_any_other(tmp_path: Path) -> None:
    class Newest(enlist.selectors.Random):  # type: ignore[misc, name-defined]
        """Random under another name, from inside a function."""

        name = "newest"

    methods = {"random": "random", "mine": Newest}
    points = {"rounds.k": [2, 4]}
    whole = sweep(LATE, points, methods, seeds=2, folder=tmp_path / "whole")

    def interrupt(point: str, label: str, seed: int, state: dict[str, Any]) -> None:
        if (point, state["status"]) == ("k = 2", "finished") and seed == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(LATE, points, methods, seeds=2, folder=tmp_path / "broken", tick=interrupt)
    assert not (tmp_path / "broken" / "sweep.csv").exists()
    again = sweep(LATE, points, methods, seeds=2, folder=tmp_path / "broken", jobs=2)
    assert again.failed == {}
    assert again.table.equals(whole.table)
    assert (tmp_path / "broken" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()
    for run in tmp_path.glob("whole/points/*/runs/*/*"):
        assert contents(run) == contents(tmp_path / "broken" / run.relative_to(tmp_path / "whole"))
    assert {"completed", "late", "arrived", "failed"} <= set(
        enlist.frame(tmp_path / "whole", "participations")["outcome"]
    )
    in_memory = sweep(LATE, points, methods, seeds=2)
    assert in_memory.table.equals(whole.table)
    assert in_memory.frame().equals(whole.frame())
