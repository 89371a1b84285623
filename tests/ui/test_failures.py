"""Runs of a comparison that fail are shown as failed, with the reason; a second try that works is shown as finished."""

from __future__ import annotations

import json
import os

import pytest

from enlist.errors import EnlistError
from enlist.runs.failures import FAILURE, FAILURES, failure_of, failures_of, note_failures
from enlist.selectors import Random
from enlist.simulation import Comparison, Config, simulate
from enlist.ui.catalogue import Catalogue
from tests.ui.ui_helpers import Server, comparison, unfinished

CONFIG = Config(data={"clients": 8}, rounds={"rounds": 4, "k": 3}, model="logistic")
TROUBLE: list[str] = []


class Breaking(Random):
    """Fails in its third round, as long as there is something in `TROUBLE`."""

    def choose(self, request):
        if TROUBLE and request.round == 3:
            raise ZeroDivisionError("no <b>luck</b>")
        return super().choose(request)


class Hopeless(Random):
    """Fails before its first round."""

    def choose(self, request):
        raise ValueError("nobody can be chosen")


@pytest.fixture
def folder(tmp_path):
    TROUBLE[:] = ["a bug that is mended later"]
    plan = Comparison(CONFIG, {"random": "random", "breaking": Breaking, "hopeless": Hopeless}, seeds=1)
    ended = plan.run(tmp_path / "lab" / "compared")
    assert set(ended.failed) == {("breaking", 0), ("hopeless", 0)}
    return tmp_path / "lab" / "compared"


def test_failed_runs_are_written_down(folder):
    assert failure_of(folder / "runs" / "breaking" / "0") == "ZeroDivisionError: no <b>luck</b>"
    assert not (folder / "runs" / "hopeless" / "0").exists()  # nothing had begun
    assert set(failures_of(folder)) == {"runs/breaking/0", "runs/hopeless/0"}


def test_they_are_shown_as_failed(folder):
    with Server(folder.parent) as client:
        rows = {row["id"]: row for row in client.get("/data/runs").json()["rows"]}
        failed = rows["lab/compared/runs/breaking/0"]
        assert (failed["state"], failed["rounds"]) == ("failed", 2)
        assert "no <b>luck</b>" in failed["why"]
        assert rows["lab/compared"]["state"] == "failed"
        assert rows["lab/compared"]["why"].startswith("2 runs failed: ")
        found = client.get("/data/compare?of=lab/compared").json()
        assert found["state"]["state"] == "failed"
        figures = {each["name"]: each["value"] for each in found["figures"]}
        assert (figures["runs"], figures["failed"]) == ("1 of 3 finished", "2")
        listed = json.dumps(found["parts"][-1])
        assert "failed: ValueError: nobody can be chosen" in listed
        assert "no <b>luck</b>" in listed
        assert client.get("/data/run/lab/compared/runs/breaking/0").json()["state"]["state"] == "failed"
        metrics = client.get("/metrics").text
        assert 'enlist_runs{state="failed"} 1' in metrics


def test_who_goes_on_removes_the_note(folder):
    TROUBLE.clear()
    plan = Comparison(CONFIG, {"random": "random", "breaking": Breaking, "hopeless": Hopeless}, seeds=1)
    plan.run(folder)
    assert not (folder / "runs" / "breaking" / "0" / FAILURE).exists()
    assert set(failures_of(folder)) == {"runs/hopeless/0"}
    catalogue = Catalogue([folder.parent])
    catalogue.refresh()
    assert catalogue.summaries["lab/compared/runs/breaking/0"].status.state == "finished"
    whole = simulate(CONFIG.with_method(Breaking, 0), folder=folder.parent / "whole")
    again = (folder / "runs" / "breaking" / "0" / "rounds.csv").read_bytes()
    assert again == (folder.parent / "whole" / "rounds.csv").read_bytes()
    assert whole.label


def test_an_interrupted_or_refused_run_has_not_failed(tmp_path):
    class Stopped(Random):
        def choose(self, request):
            if request.round == 3:
                raise KeyboardInterrupt
            return super().choose(request)

    with pytest.raises(KeyboardInterrupt):
        simulate(CONFIG.with_method(Stopped, 0), folder=tmp_path / "run")
    assert not (tmp_path / "run" / FAILURE).exists()
    with pytest.raises(EnlistError):
        simulate(CONFIG, folder=tmp_path / "run")
    assert not (tmp_path / "run" / FAILURE).exists()


def test_a_run_that_its_comparison_gave_up_has_failed(tmp_path):
    place = comparison(tmp_path / "lab", seeds=1)
    unfinished(place / "runs" / "oort" / "1", rounds=3)
    note_failures(place, {"runs/oort/1": "a process of the comparison was killed"})
    catalogue = Catalogue([place])
    catalogue.refresh()
    old = catalogue.summaries["lab/runs/oort/1"].item.folder
    for path in old.iterdir():
        os.utime(path, (1, 1))
    catalogue._scanned = -1e9
    catalogue.refresh()
    status = catalogue.summaries["lab/runs/oort/1"].status
    assert (status.state, status.why) == ("failed", "a process of the comparison was killed")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"runs/../../etc": 5}', '{"why": {}}'])
def test_notes_that_were_edited_do_no_harm(tmp_path, text):
    place = comparison(tmp_path / "lab", seeds=1)
    (place / FAILURES).write_text(text)
    (place / "runs" / "oort" / "0" / FAILURE).write_text(text)
    with Server(place) as client:
        assert client.get("/data/runs").status_code == 200
        assert client.get("/data/compare?of=lab").status_code == 200
