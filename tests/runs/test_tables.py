"""Reading what a run has left."""

from __future__ import annotations

import csv
import inspect
import json
import math
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.errors import InputError
from enlist.runs.columns import NEEDED, SCORED, SCORED_FEDERATION, TABLES, Participation, RoundRow
from enlist.runs.example import example_run, write_run
from enlist.runs.tables import find_runs, read_run, read_table


@pytest.fixture
def run(tmp_path):
    return write_run(example_run("oort", seed=3), tmp_path / "run")


@pytest.fixture
def comparison(tmp_path):
    folder = tmp_path / "comparison"
    for selector in ("random", "oort"):
        for seed in (0, 1, 10):
            write_run(example_run(selector, seed), folder / "runs" / selector / str(seed))
    (folder / "comparison.json").write_text("{}")
    return folder


# One table


def test_cells_become_numbers_strings_and_nan(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b,c,d\n1,,late,\n-2.5e3,inf,,\nnan,7,completed,\n")
    table = read_table(path)
    assert list(table) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(table["a"], [1.0, -2500.0, np.nan])
    np.testing.assert_array_equal(table["b"], [np.nan, np.inf, 7.0])
    assert table["c"].tolist() == ["late", "", "completed"]
    assert np.isnan(table["d"]).all()


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b,c\n1,x,3\n4,y,6\n")
    assert {name: column.tolist() for name, column in read_table(path, ["c", "b", "z"]).items()} == {
        "b": ["x", "y"],
        "c": [3.0, 6.0],
    }


def test_a_column_that_turns_into_text_late_is_text_from_the_start(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b\n" + "".join(f"{number},1\n" for number in range(2500)) + "end,2\n")
    table = read_table(path)
    assert table["a"][:2].tolist() == ["0", "1"]
    assert table["a"][-1] == "end"
    assert len(table["a"]) == len(table["b"]) == 2501


def test_a_header_alone_gives_empty_columns(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b\n")
    assert {name: len(column) for name, column in read_table(path).items()} == {"a": 0, "b": 0}


@pytest.mark.parametrize("torn", ["3", "3,", "3,0.1234", "3,0.1,9"])
def test_a_torn_last_line_is_ignored(tmp_path, torn):
    path = tmp_path / "some.csv"
    path.write_text("round,accuracy\n1,0.5\n2,0.75\n" + torn)
    assert read_table(path)["accuracy"].tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("a,b", "is empty"),
        ("a,a\n1,2\n", "names a column twice"),
        ("a,b\n1,2\n3\n4,5\n", "line 3 has 1 cells under 2 columns"),
        ("a,b\n" + "1,2\n" * 2345 + "1,2,3\n", "line 2347 has 3 cells under 2 columns"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, text, problem):
    path = tmp_path / "some.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_table(path)


def test_a_table_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "some.csv"
    path.write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(InputError, match="damaged"):
        read_table(path)
    with pytest.raises(InputError, match="is missing"):
        read_table(tmp_path / "none.csv")


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(allow_nan=False)),
            st.text("abc ,\"'é", min_size=0, max_size=6).map(lambda text: "t" + text),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_what_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("tables") / "some.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["number", "text"])
        writer.writerows([["" if number is None else repr(number), text] for number, text in rows])
    table = read_table(path)
    np.testing.assert_array_equal(table["number"], [math.nan if number is None else number for number, _ in rows])
    assert table["text"].tolist() == [text for _, text in rows]


# A run


def test_a_run_comes_back_as_it_was(run):
    made, found = example_run("oort", seed=3), read_run(run)
    assert (found.selector, found.seed, found.count, found.name) == ("oort", 3, 12, "oort, seed 3")
    assert found.result == pytest.approx({**made.result})
    assert found.classes == [f"class_{label}" for label in range(10)]
    for name in ("rounds", "participations", "clients"):
        for column, values in getattr(made, name).items():
            if values.dtype.kind == "U":
                assert getattr(found, name)[column].tolist() == values.tolist()
            else:
                np.testing.assert_allclose(getattr(found, name)[column], values, rtol=1e-10)


def test_a_killed_run_is_read_up_to_its_last_whole_round(run):
    (run / "result.json").unlink()
    lines = (run / "rounds.csv").read_text().splitlines(keepends=True)
    (run / "rounds.csv").write_text("".join(lines[:-2]) + lines[-2][:9])
    (run / "participations.csv").write_text((run / "participations.csv").read_text()[:-4])
    found = read_run(run)
    assert found.result is None
    assert len(found.rounds["round"]) == 6
    assert found.participations["round"].max() == 6


def test_columns_of_participations_can_be_left_out(run):
    assert list(read_run(run, SCORED).participations) == list(SCORED)
    assert "latency" in read_run(run, ["latency"]).participations


def test_who_finds_rows_of_clients_in_any_order(run):
    lines = (run / "clients.csv").read_text().splitlines(keepends=True)
    (run / "clients.csv").write_text(lines[0] + "".join(reversed(lines[1:])))
    found = read_run(run)
    np.testing.assert_array_equal(found.clients["client"][found.who], found.participations["client"])


def test_a_stranger_among_participations_is_damage(run):
    with open(run / "participations.csv", "a") as file:
        file.write("8,8,99,completed,1.0\n")
    with pytest.raises(InputError, match=r"names client 99, clients.csv does not"):
        read_run(run).who  # noqa: B018


@pytest.mark.parametrize("name", ["rounds.csv", "participations.csv", "clients.csv", "config.json"])
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        read_run(run)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("accuracy", "precision", "has no column 'accuracy'"),
        ("\n3,", "\nx\x00y,", "in column 'round' is not a number"),
        ("\n3,", "\n2,", "round 2 follows round 2"),
    ],
)
def test_damage_in_rounds_is_told(run, old, new, problem):
    path = run / "rounds.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=problem):
        read_run(run)


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_damaged_configuration_is_told(run, content):
    (run / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"config\.json is damaged"):
        read_run(run)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"selector": "oort", "seed": 4}, "oort, seed 4"),
        ({"selector": {"name": "oort", "preset": "paper"}, "seed": 4}, "oort:paper, seed 4"),
        ({"selector": {"name": "oort", "preset": None}, "seed": 4}, "oort, seed 4"),
        ({}, "run, seed 0"),
    ],
)
def test_a_run_is_named_by_its_configuration(run, config, name):
    (run / "config.json").write_text(json.dumps(config))
    assert read_run(run).name == name


def test_in_a_comparison_the_place_names_runs(comparison):
    assert read_run(comparison / "runs" / "oort" / "10").name == "oort, seed 10"
    shutil.copytree(comparison / "runs" / "oort", comparison / "runs" / "oort-eager")
    assert read_run(comparison / "runs" / "oort-eager" / "1").name == "oort-eager, seed 1"
    config = comparison / "runs" / "oort-eager" / "1" / "config.json"
    config.write_text(json.dumps({"selector": {"name": "oort", "preset": "eager"}, "seed": 1}))
    assert read_run(config.parent).name == "oort:eager, seed 1"


# Finding runs


def test_runs_are_found_below_any_folder_once_each(comparison):
    wanted = ["oort/0", "oort/1", "oort/10", "random/0", "random/1", "random/10"]
    for places in ([comparison], [comparison.parent], [comparison, comparison / "runs" / "oort"]):
        found = find_runs(places)
        assert [str(path.relative_to(comparison / "runs")) for path in found] == wanted
    only = comparison / "runs" / "oort" / "1"
    assert find_runs([str(only)]) == [only]


def test_nothing_to_find_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, problem in (("empty", "holds no runs"), ("file", "is a file"), ("none", "does not exist")):
        with pytest.raises(InputError, match=problem):
            find_runs([tmp_path / name])


def test_columns_that_readers_need_are_columns_that_writers_have():
    assert set(NEEDED["rounds.csv"]) <= set(TABLES["rounds.csv"])
    assert set(SCORED) | set(SCORED_FEDERATION) <= set(TABLES["participations.csv"])


@pytest.mark.parametrize(("row", "table"), [(RoundRow, "rounds.csv"), (Participation, "participations.csv")])
def test_every_column_has_a_type_and_a_meaning(row, table):
    source = inspect.getsource(row)
    for name in TABLES[table]:
        assert re.search(rf'^    {name}: .+\n    """.+"""$', source, flags=re.M), name
