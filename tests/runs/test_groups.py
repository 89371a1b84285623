"""Many runs as one table, and in groups by the keys in which they differ."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enlist
from enlist.errors import InputError, UnknownNameError
from enlist.runs.example import example_run, write_run
from enlist.runs.groups import Group, compared_rows, differing, group_rows, grouped, write_rows
from enlist.runs.printing import short_names
from enlist.runs.tables import RunTables


def run(selector: str = "random", seed: int = 0, **config: Any) -> RunTables:
    """A made-up run with these keys in its configuration."""
    made = example_run(selector, seed)
    return dataclasses.replace(made, config={"selector": {"name": selector}, "seed": seed, **config})


def test_method_and_seed_are_no_difference() -> None:
    assert differing([run(), run("oort", 1)]) == []
    assert [len(group.runs) for group in grouped([run(), run("oort", 1)])] == [2]


def test_keys_of_other_kinds_are_left_out_where_the_kind_says_enough() -> None:
    iid = {"data": {"partition": {"kind": "iid", "balanced": True}}}
    skewed = [{"data": {"partition": {"kind": "dirichlet", "alpha": alpha}}} for alpha in (0.1, 1.0)]
    assert differing([run(**iid), run(**skewed[0])]) == ["data.partition.kind"]
    assert differing([run(**iid), *(run(**each) for each in skewed)]) == ["data.partition.kind", "data.partition.alpha"]


def test_a_key_that_is_written_only_if_it_is_set_makes_a_difference() -> None:
    plain, hostile = run(rounds={"k": 3}), run(rounds={"k": 3}, hostile=[{"kind": "noise"}])
    assert differing([plain, hostile]) == ["hostile"]
    assert [group.values["hostile"] for group in grouped([plain, hostile])] == [[{"kind": "noise"}], None]
    assert differing([run(late=None), run()]) == []
    assert differing([run(poison=1), run(poison=True)]) == ["poison"]


def test_groups_are_in_the_order_of_numbers_not_of_text() -> None:
    runs = [run(rounds={"k": k}) for k in (20, 5, 10)]
    assert [group.values["rounds.k"] for group in grouped(runs)] == [5, 10, 20]


def test_short_names_are_as_long_as_it_takes() -> None:
    assert short_names(["a.lr", "b.c.lr", "b.d.lr", "k"]) == {
        "a.lr": "a.lr",
        "b.c.lr": "c.lr",
        "b.d.lr": "d.lr",
        "k": "k",
    }
    assert short_names(["lr", "training.lr"]) == {"lr": "lr", "training.lr": "training.lr"}


def test_the_speed_up_is_over_the_baseline_of_the_group() -> None:
    runs = [example_run(name, seed, k=k) for k in (3, 6) for name in ("oort", "random") for seed in range(3)]
    rows = group_rows(grouped(runs), 0.5)
    alone = [row for k in (3, 6) for row in group_rows([Group({}, [run for run in runs if run.config["k"] == k])], 0.5)]
    assert repr([{name: row[name] for name in row if name != "k"} for row in rows]) == repr(alone)
    with pytest.raises(UnknownNameError, match="no method called 'bsfl'"):
        group_rows(grouped(runs), baseline="bsfl")


def test_rows_without_a_target_and_their_file(tmp_path: Path) -> None:
    never = example_run()
    never = dataclasses.replace(
        never, rounds={**never.rounds, "accuracy": np.full(8, math.nan), "loss": np.full(8, math.nan)}
    )
    rows = compared_rows([Group({"model.hidden": [32, 16], "x": "a,b"}, [never])], None, None)
    assert rows[0]["model.hidden"] == "[32, 16]"
    write_rows(tmp_path / "some.csv", rows)
    head, line = (tmp_path / "some.csv").read_text().splitlines()
    assert head.startswith("method,seed,model.hidden,x,status")
    assert line.startswith('random,0,"[32, 16]","a,b",finished,accuracy,,,,')


# enlist.frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for k in (3, 5):
        for seed in range(2):
            write_run(example_run("oort", seed, k=k), tmp_path / "all" / f"k{k}" / str(seed))
    one = example_run("oort", 7, k=5)
    selector = {"name": "oort", "settings": {"penalty": 2.0}}
    write_run(dataclasses.replace(one, config={**one.config, "selector": selector}), tmp_path / "mine")
    return tmp_path


def test_one_row_per_run_and_a_column_for_every_key_that_differs(folder: Path) -> None:
    table = enlist.frame([folder / "all", str(folder / "mine")])
    names = "folder method seed k selector.settings.penalty status measure final"
    assert " ".join(table.columns[:8]) == names
    assert table["method"].tolist() == ["oort"] * 4 + ["oort+penalty=2.0"]
    assert table["k"].tolist() == [3, 3, 5, 5, 5]
    assert table["seed"].tolist() == [0, 1, 0, 1, 7]
    assert table["folder"].tolist()[-1] == str(folder / "mine")
    assert (table["selector.settings.penalty"].notna()).tolist() == [False] * 4 + [True]
    assert table["rounds"].dtype == "int64"
    assert table["late"].dtype == "float64"


def test_a_target_of_ones_own_and_other_libraries(folder: Path) -> None:
    table = enlist.frame(folder / "all", target=0.6)
    assert table["target"].tolist() == [0.6] * 4
    assert str(table["rounds_to_target"].dtype).lower() == "int64"
    arrays = enlist.frame(folder / "all", target=0.6, library="arrays")
    assert arrays["time_to_target"].tolist() == table["time_to_target"].tolist()
    with pytest.raises(InputError, match=r"perhaps 0\.6 was meant"):
        enlist.frame(folder, target=60)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrays"])
def test_tables_of_all_runs_one_below_the_other(folder: Path, library: str) -> None:
    if library != "arrays":
        pytest.importorskip(library)
    rounds = enlist.frame(folder / "all", "rounds", library=library)
    assert len(rounds["round"]) == 32
    assert list(rounds["k"])[::8] == [3, 3, 5, 5]
    assert list(rounds["seed"])[::8] == [0, 1, 0, 1]
    assert list(rounds["round"])[:9] == [1, 2, 3, 4, 5, 6, 7, 8, 1]
    told = enlist.frame(folder / "all", "participations", library=library)
    assert set(told["outcome"]) >= {"completed"}


def test_tables_with_other_columns_have_gaps(folder: Path) -> None:
    odd = example_run("fedcs", 9, k=3)
    clients = {name: column for name, column in odd.clients.items() if name != "uptime"}
    write_run(dataclasses.replace(odd, clients={**clients, "user": np.array(["u"] * 12)}), folder / "all" / "odd")
    table = enlist.frame(folder / "all", "clients")
    assert table["uptime"].isna().sum() == 12
    assert set(table["user"]) == {"", "u"}


def test_what_cannot_be_read_is_one_sentence(folder: Path) -> None:
    with pytest.raises(InputError, match=r"table is 'round'\. Did you mean 'rounds'"):
        enlist.frame(folder, "round")
    with pytest.raises(InputError, match="does not exist"):
        enlist.frame(folder / "nowhere")
    with pytest.raises(AttributeError, match="no attribute 'frames'"):
        enlist.frames  # noqa: B018
