"""What lies below the folders is found, and each run says how it stands, whatever state its folder is in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enlist.errors import InputError
from enlist.runs.example import example_run, write_run
from enlist.runs.scores import run_summary
from enlist.runs.tables import read_run
from enlist.ui.cache import TableCache, version
from enlist.ui.index import Index, Item, check_roots
from enlist.ui.status import summarise
from tests.ui.ui_helpers import comparison, everything, federation, unfinished


def item_of(folder: Path, kind: str = "run") -> Item:
    return Item(folder.name, kind, folder.resolve(), folder.parent.resolve())


def test_every_kind_is_found_with_what_it_belongs_to(tmp_path):
    everything(tmp_path / "all")
    found = Index.of([tmp_path / "all"])
    kinds = {id: item.kind for id, item in found.items.items()}
    assert kinds == {
        "all/clinic": "federation",
        "all/compared": "comparison",
        "all/compared/runs/oort/0": "run",
        "all/compared/runs/oort/1": "run",
        "all/compared/runs/random/0": "run",
        "all/compared/runs/random/1": "run",
        "all/personal/2/0": "personal",
        "all/single": "run",
        "all/study": "study",
    }
    runs = found.runs_of(found.items["all/compared"])
    assert [run.parent for run in runs] == ["all/compared"] * 4


def test_sweeps_and_ladders_hold_comparisons(tmp_path):
    for kind in ("sweep", "ladder"):
        for point in ("one", "two"):
            comparison(tmp_path / kind / point, seeds=1)
        (tmp_path / kind / f"{kind}.json").write_text("{}")
    found = Index.of([tmp_path / "sweep", tmp_path / "ladder"])
    for kind in ("sweep", "ladder"):
        assert found.items[kind].kind == kind
        assert [item.kind for item in found.inside(found.items[kind])] == ["comparison"] * 2
        assert len(found.runs_of(found.items[kind])) == 4


def test_links_lead_nowhere(tmp_path):
    write_run(example_run(), tmp_path / "secret" / "run")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "link").symlink_to(tmp_path / "secret")
    assert Index.of([tmp_path / "given"]).items == {}


def test_a_folder_that_becomes_a_link_later_is_refused(tmp_path):
    write_run(example_run(), tmp_path / "secret")
    write_run(example_run(), tmp_path / "given" / "run")
    item = Index.of([tmp_path / "given"]).items["given/run"]
    shutil.rmtree(tmp_path / "given" / "run")
    (tmp_path / "given" / "run").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of the given folder"):
        TableCache().run(item)
    assert TableCache().summary(item).status.state == "damaged"


def test_a_link_that_the_user_typed_is_followed(tmp_path):
    write_run(example_run(), tmp_path / "real" / "run")
    (tmp_path / "typed").symlink_to(tmp_path / "real")
    item = Index.of([tmp_path / "typed"]).items["real/run"]
    assert TableCache().summary(item).status.state == "finished"


def test_folders_of_one_name_are_told_apart_and_one_folder_is_shown_once(tmp_path):
    for place in ("a", "b"):
        write_run(example_run(), tmp_path / place / "runs" / "one")
    found = Index.of([tmp_path / "a" / "runs", tmp_path / "b" / "runs", tmp_path / "a"])
    assert set(found.items) == {"runs/one", "runs-2/one"}


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; name folders"):
        check_roots([tmp_path / "file"])


def test_a_summary_has_the_numbers_of_the_run(tmp_path):
    folder = write_run(example_run("oort", 3, clients=40, rounds=30), tmp_path / "run")
    found, scores = summarise(item_of(folder)), run_summary(read_run(folder))
    assert (found.method, found.seed, found.status.rounds) == ("oort", 3, 30)
    assert (found.last, found.final) == (scores["last"], scores["final"])
    assert found.values["selector.name"] == "oort"
    assert len(found.spark) <= 40


def test_a_run_that_was_killed_has_stalled(tmp_path):
    folder = unfinished(tmp_path / "run", rounds=3, of=10)
    os.utime(folder / "rounds.csv", (time.time() - 500,) * 2)
    os.utime(folder / "config.json", (time.time() - 500,) * 2)
    found = summarise(item_of(folder)).status
    assert (found.state, found.rounds, found.of, found.progress) == ("stalled", 3, 10, 0.3)
    assert "--resume" in found.why
    assert 400 < time.time() - found.since < 600


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_a_run_whose_lock_is_held_is_running_and_says_how_long_still(tmp_path):
    folder = unfinished(tmp_path / "run", rounds=4, of=10)
    (folder / "wall.csv").write_text("round,seconds,selecting\n" + "".join(f"{n},2.0,\n" for n in range(1, 5)))
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        found = summarise(item_of(folder), now=time.time() + 20).status
        assert (found.state, found.left) == ("running", 12.0)
        late = summarise(item_of(folder), now=time.time() + 900).status
        assert (late.state, late.why) == ("stalled", "it is running, but no round has ended yet")
        holder.kill()


def test_a_federation_that_was_stopped_has_failed_and_says_why(tmp_path):
    folder = federation(tmp_path / "clinic")
    (folder / "result.json").unlink()
    with (folder / "starts.csv").open("a") as file:
        file.write("2026-11-17 03:10:00,9.0,4,stopped: the disk is full\n")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 500,) * 2)
    found = summarise(item_of(folder, "federation")).status
    assert (found.state, found.why) == ("failed", "the disk is full")


DAMAGE = {
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "half a configuration": lambda folder: (folder / "config.json").write_text('{"selector": '),
    "no table": lambda folder: (folder / "config.json").write_text("[]"),
    "empty rounds": lambda folder: (folder / "rounds.csv").write_text(""),
    "other columns": lambda folder: (folder / "rounds.csv").write_text("a,b\n1,2\n"),
    "text for a number": lambda folder: (folder / "rounds.csv").write_text(
        (folder / "rounds.csv").read_text().replace("0.", "nought.", 1)
    ),
    "a short row": lambda folder: (folder / "rounds.csv").write_text((folder / "rounds.csv").read_text() + "9,9\n"),
    "bytes": lambda folder: (folder / "rounds.csv").write_bytes(b"\xff\xfe\x00round\n1\n"),
    "a deep configuration": lambda folder: (folder / "config.json").write_text("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_shown_as_such_and_hides_nothing_else(tmp_path, damage):
    comparison(tmp_path / "all", seeds=1)
    DAMAGE[damage](tmp_path / "all" / "runs" / "oort" / "0")
    tables, found = TableCache(), Index.of([tmp_path / "all"])
    summaries = {id: tables.summary(item) for id, item in found.items.items() if item.kind == "run"}
    assert summaries["all/runs/oort/0"].status.state == "damaged"
    assert summaries["all/runs/oort/0"].status.why
    assert str(tmp_path) not in summaries["all/runs/oort/0"].status.why
    assert summaries["all/runs/random/0"].status.state == "finished"


def test_half_a_line_is_not_read_until_it_is_whole(tmp_path):
    folder = unfinished(tmp_path / "run", rounds=4, of=8)
    tables, item = TableCache(), item_of(folder)
    whole = (folder / "rounds.csv").read_text()
    (folder / "rounds.csv").write_text(whole[:-7])
    assert tables.summary(item).status.rounds == 3
    (folder / "rounds.csv").write_text(whole)
    assert tables.summary(item).status.rounds == 4
    assert len(tables.run(item).rounds["round"]) == 4


def test_versions_change_with_the_files(tmp_path):
    folder = unfinished(tmp_path / "run", rounds=4)
    before = version(item_of(folder))
    assert version(item_of(folder)) == before
    with (folder / "rounds.csv").open("a") as file:
        file.write("9")
    assert version(item_of(folder)) != before


def test_memory_is_bounded_however_many_runs_are_looked_at(tmp_path):
    comparison(tmp_path / "all", methods=[f"m{n}" for n in range(12)], seeds=2, clients=50, rounds=40)
    tables, found = TableCache(room=200_000), Index.of([tmp_path / "all"])
    for item in found.runs_of(found.items["all"]):
        tables.run(item, reasons=True)
        assert tables.size <= 200_000
    assert len(tables.run(item).rounds["round"]) == 40


def test_finished_runs_cost_an_overview_no_tables(tmp_path):
    comparison(tmp_path / "all")
    tables, found = TableCache(), Index.of([tmp_path / "all"])
    for item in found.runs_of(found.items["all"]):
        assert tables.summary(item).status.state == "finished"
    assert tables.size == 0


def test_no_file_stays_open(tmp_path):
    comparison(tmp_path / "all")
    tables, found = TableCache(), Index.of([tmp_path / "all"])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for item in found.runs_of(found.items["all"]):
            tables.summary(item)
            tables.run(item, reasons=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_that_a_folder_names_is_imported(tmp_path, monkeypatch):
    folder = write_run(example_run(), tmp_path / "run")
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = json.loads((folder / "config.json").read_text())
    config["selector"] = {"name": "trap:Selector", "settings": {"a": 1}}
    (folder / "config.json").write_text(json.dumps(config))
    assert summarise(item_of(folder)).status.state == "finished"
    assert "trap" not in sys.modules


def test_the_number_of_folders_is_bounded(tmp_path, monkeypatch):
    comparison(tmp_path / "all", seeds=3)
    monkeypatch.setattr("enlist.ui.index.MOST_ITEMS", 4)
    found = Index.of([tmp_path / "all"])
    assert len(found.items) == 4
    assert found.cut
