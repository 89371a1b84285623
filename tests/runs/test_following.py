"""A table that grows is read as it grows, and is at every moment what reading it whole would give."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist._internal import files
from enlist.errors import EnlistError, InputError
from enlist.runs.example import example_run, write_run
from enlist.runs.following import LONGEST, TableFollower
from enlist.runs.tables import read_run, read_table

TEXT = 'round,accuracy,reason\n1,,\n2,0.5,"said ""no""\nand left"\n3,0.75,plain\n4,nan,5\n'


def same(left: dict, right: dict) -> None:
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


@given(cuts=st.lists(st.integers(22, len(TEXT)), max_size=6))
def test_wherever_writing_pauses_the_table_is_the_one_that_reading_it_whole_gives(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("table") / "some.csv"
    table = TableFollower(path, text=("reason",))
    for end in [*sorted(cuts), len(TEXT)]:
        path.write_text(TEXT[:end])
        found = table.read()
    same(found, read_table(path, text=("reason",)))
    assert found["reason"][1] == 'said "no"\nand left'


def test_only_new_bytes_are_parsed(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("round,accuracy\n" + "".join(f"{n},0.5\n" for n in range(10_000)))
    table = TableFollower(path)
    table.read()
    with path.open("a") as file:
        file.write("10000,0.25\n")
    assert table.read()["accuracy"][-1] == 0.25
    assert table.fresh == len("10000,0.25\n")
    table.read()
    assert table.fresh == 0


def test_a_column_that_turns_out_to_be_text_is_read_again_as_text(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("round,name\n1,7\n")
    table = TableFollower(path)
    assert table.read()["name"].tolist() == [7.0]
    with path.open("a") as file:
        file.write("2,seven\n")
    assert table.read()["name"].tolist() == ["7", "seven"]


@pytest.mark.parametrize("again", ["a,b\n1,2\n", "a,b\n1,9\n3,4\n5,6\n", "x\n1\n"])
def test_a_table_that_was_cut_or_written_anew_is_read_anew(tmp_path, again):
    path = tmp_path / "some.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    table = TableFollower(path)
    table.read()
    with path.open("r+") as file:  # the same file, as a run that is continued cuts it
        file.truncate(0)
        file.write(again)
    same(table.read(), read_table(path))


def test_columns_that_nobody_wants_are_not_kept(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("a,b\n1,2\n")
    assert list(TableFollower(path, columns=["b"]).read()) == ["b"]


@pytest.mark.parametrize("wrong", ["", "a,a\n1,2\n", "a,b\n1\n"])
def test_damage_is_named_and_does_not_last(tmp_path, wrong):
    path = tmp_path / "some.csv"
    path.write_text(wrong)
    table = TableFollower(path)
    with pytest.raises(InputError, match=r"some\.csv"):
        table.read()
    path.write_text("a,b\n1,2\n")
    assert table.read()["b"].tolist() == [2.0]


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text("a\n1\n")
    (tmp_path / "some.csv").symlink_to(tmp_path / "secret")
    with pytest.raises(EnlistError, match="symbolic link"):
        TableFollower(tmp_path / "some.csv").read()


def test_one_long_cell_does_not_make_every_row_long(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("name\n" + "x" * 100_000 + "\n" + "y\n" * 1_000)
    table = TableFollower(path)
    assert len(table.read()["name"][0]) == LONGEST
    assert table.size < 4 * LONGEST * 1_100


def test_a_table_that_is_too_large_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "some.csv"
    path.write_text("a\n1\n")
    monkeypatch.setattr("enlist.runs.following.LARGEST", 3)
    with pytest.raises(InputError, match="4 bytes; at most 3"):
        TableFollower(path).read()


def test_a_run_read_through_it_is_the_run(tmp_path):
    folder = write_run(example_run("oort", seed=2), tmp_path / "run")
    tables: dict[Path, TableFollower] = {}

    def read(path, columns, text):
        return tables.setdefault(path, TableFollower(path, columns, text)).read()

    left, right = read_run(folder, read=read), read_run(folder)
    for name in ("rounds", "participations", "clients"):
        same(getattr(left, name), getattr(right, name))
    assert {path.name for path in tables} == {"rounds.csv", "participations.csv", "clients.csv"}


def test_asking_whether_a_lock_is_held_does_not_stop_who_wants_it(tmp_path):
    lock = tmp_path / "lock"
    lock.touch()
    done = threading.Event()

    def ask():
        while not done.is_set():
            files.is_claimed(lock)
            time.sleep(0.001)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(200):
            with lock.open("a") as file:
                assert files.claim(file)
    finally:
        done.set()
        asking.join()
