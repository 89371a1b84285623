"""Studies: the same results for any number of processes; interrupted, killed, continued, extended, failing."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enlist import studies
from enlist.errors import EnlistError, InputError
from enlist.studies.running import Reproduction
from tests.studies.study_helpers import TRACED, at, runs

SMOKE = TRACED.scale("smoke")
MAIN = {"high/0": 1, "high/1": 1, "high/2": 1, "low/0": 1, "low/1": 1, "low/2": 1}


def reproduce(root: Path, scale=SMOKE, jobs: int = 1, resume: bool = False, tick=None) -> Reproduction:
    with Reproduction.open(TRACED, scale, root, resume=resume) as work:
        work.run(jobs, tick)
    return work


def kinds(work: Reproduction) -> dict[str, str]:
    return {judged.claim.key: judged.verdict.kind for judged in work.judged}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_experiment_is_run_once_and_claims_are_judged(tmp_path: Path, jobs: int) -> None:
    seen = []
    work = reproduce(tmp_path / "study", jobs=jobs, tick=lambda each, state: seen.append((each.key, each.seed, state)))
    assert runs(tmp_path / "study") == MAIN
    assert kinds(work) == {"lead": "reproduced", "sure": "reproduced"}
    assert work.results()["high"].column("value").tolist() == [2.0, 3.0, 4.0]
    assert sorted(seen) == [(key, seed, "finished") for key in ("high", "low") for seed in range(3)]
    processes = {pid for key in ("low", "high") for pid in work.results()[key].each("process")}
    assert (processes == {os.getpid()}) is (jobs == 1)


def test_a_finished_study_is_only_read(tmp_path: Path) -> None:
    reproduce(tmp_path / "study")
    seen = []
    work = reproduce(tmp_path / "study", resume=True, tick=lambda each, state: seen.append(state))
    assert runs(tmp_path / "study") == MAIN
    assert set(seen) == {"kept"}
    assert kinds(work) == {"lead": "reproduced", "sure": "reproduced"}
    assert work.missing() == []
    assert work.estimate(2) == 0.0


def test_seeds_may_be_added_and_nothing_else_changed(tmp_path: Path) -> None:
    root = tmp_path / "study"
    reproduce(root)
    work = reproduce(root, TRACED.scale("smoke", seeds=4), resume=True)
    assert runs(root) == {**MAIN, "high/3": 1, "low/3": 1}
    assert len(work.results()["low"].seeds) == 4
    with pytest.raises(InputError, match=r"already holds a run; continue it with --resume"):
        reproduce(root)
    with pytest.raises(InputError, match=r"another version of Enlist had it \(lead = 2.0, now 3.0\); run it in a new"):
        reproduce(root, at(TRACED, lead=3.0), resume=True)
    with pytest.raises(InputError, match=r"scale = 'smoke', but 'laptop' was asked for"):
        reproduce(root, TRACED.scale("laptop"), resume=True)


def test_extras_may_be_added(tmp_path: Path) -> None:
    root = tmp_path / "study"
    reproduce(root)
    work = reproduce(root, TRACED.scale("smoke", extras=["more"]), resume=True)
    assert runs(root) == {**MAIN, **{f"more/{seed}": 1 for seed in range(3)}}
    assert work.results()["more"].column("value").tolist() == [9.0, 10.0, 11.0]
    assert "more" not in reproduce(root, resume=True).results()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    with (
        Reproduction.open(TRACED, SMOKE, tmp_path / "study"),
        pytest.raises(InputError, match="being written by another process"),
    ):
        Reproduction.open(TRACED, SMOKE, tmp_path / "study", resume=True)


def test_an_unclear_claim_gets_its_further_experiment_and_a_clear_one_does_not(tmp_path: Path) -> None:
    work = reproduce(tmp_path / "study", at(TRACED, lead=0.0))
    assert runs(tmp_path / "study") == {**MAIN, "further/0": 1, "further/1": 1}
    lead, sure = work.judged
    assert lead.verdict.kind == "not reproduced"
    assert lead.reading == "further mean 7.5"
    assert sure.reading == ""
    again = reproduce(tmp_path / "study", at(TRACED, lead=0.0), resume=True)
    assert runs(tmp_path / "study")["further/0"] == 1
    assert again.judged[0].reading == lead.reading


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_experiment_that_fails_is_reported_and_tried_again_later(tmp_path: Path, jobs: int) -> None:
    root = tmp_path / "study"
    scale = at(TRACED, fails=1)
    work = reproduce(root, scale, jobs)
    assert set(work.failed) == {("low", 1), ("high", 1)}
    assert work.failed["low", 1] == "ValueError: no luck (see experiments/low/1/error.txt)"
    assert "no luck" in (root / "experiments" / "low" / "1" / "error.txt").read_text()
    assert work.results()["low"].seeds == (0, 2)
    assert kinds(work)["lead"] == "reproduced"
    assert len(reproduce(root, scale, resume=True).failed) == 2
    assert runs(root)["low/1"] == 2
    assert runs(root)["low/0"] == 1


def test_a_process_that_dies_leaves_the_others_results(tmp_path: Path) -> None:
    root = tmp_path / "study"
    with pytest.raises(EnlistError, match="continue with --resume"):
        reproduce(root, at(TRACED, dies=2), jobs=2)
    finished = list((root / "experiments").rglob("state.json"))
    assert 1 <= len(finished) <= 4


def test_an_exception_in_the_middle_stops_the_pool_at_once(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def tick(each, state):
        raise StopError

    with pytest.raises(StopError):
        reproduce(tmp_path / "study", at(TRACED, sleep=0.8), jobs=2, tick=tick)
    assert sum(runs(tmp_path / "study").values()) < 6


SCRIPT = """
import sys
sys.path.insert(0, {top!r})
from tests.studies.study_helpers import TRACED, at
from enlist.studies.running import Reproduction
if __name__ == "__main__":
    with Reproduction.open(TRACED, at(TRACED, sleep=0.3), {root!r}) as work:
        work.run(2)
"""


def test_a_killed_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    root = tmp_path / "study"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(top=str(Path(__file__).parents[2]), root=str(root)))
    process = subprocess.Popen([sys.executable, str(script)])
    patience = time.monotonic() + 60
    while not list(root.rglob("state.json")):
        assert process.poll() is None
        assert time.monotonic() < patience
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # its workers notice and end by themselves
    with Reproduction.open(TRACED, at(TRACED, sleep=0.3), root, resume=True) as work:
        done = {f"{key}/{seed}" for key, seed in work.outputs}
        before = runs(root)
        assert 1 <= len(done) < 6
        work.run(1)
    after = runs(root)
    assert set(after) == set(MAIN)
    assert all(after[name] == 1 for name in done)
    assert sum(after.values()) - sum(before.values()) == 6 - len(done)
    assert kinds(work) == {"lead": "reproduced", "sure": "reproduced"}


def test_time_is_noted_after_every_experiment(tmp_path: Path) -> None:
    noted: list[float] = []
    with Reproduction.open(TRACED, SMOKE, tmp_path / "study") as work:
        work.run(1, lambda experiment, state: noted.append(work.wall()))
    assert len(noted) == len(work.experiments) > 1
    assert all(before < after for before, after in itertools.pairwise([0.0, *noted, work.wall()]))


def test_the_estimate_learns_from_what_was_run(tmp_path: Path) -> None:
    with Reproduction.open(TRACED, SMOKE, tmp_path / "study") as work:
        assert work.estimate(1) == 3.0
        assert work.estimate(2) == 1.5
        assert work.estimate(100) == 0.5
        work.run()
    with Reproduction.open(TRACED, TRACED.scale("smoke", seeds=5), tmp_path / "study", resume=True) as work:
        assert len(work.missing()) == 4
        assert 0 < work.estimate(1) < 1.0
    assert work.wall() > 0
    config = json.loads((tmp_path / "study" / "config.json").read_text())
    assert config == {"study": "traced", "scale": "smoke", "lead": 2.0}


def test_a_folder_of_an_older_version_is_refused_with_advice_that_can_be_followed(tmp_path: Path) -> None:
    # shares were a setting of the study in 0.1; no option of `enlist reproduce` would bring them back
    folder = tmp_path / "study"
    shutil.copytree(Path(__file__).parents[1] / "saved" / "0.1" / "study", folder)
    mabfl = studies.get("mabfl")
    with pytest.raises(InputError) as refused:
        Reproduction.open(mabfl, mabfl.scale("smoke"), folder, resume=True)
    assert "holds study 'mabfl' as another version of Enlist had it" in str(refused.value)
    assert str(refused.value).endswith(
        "run it in a new folder, or go on with the version that began it (environment.json names it)."
    )
    assert "resume it with its own configuration" not in str(refused.value)
