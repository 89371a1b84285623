"""A selector of a function body and one of a script's __main__, against two variants of Oort: with any number of jobs,
killed and continued, the same table to the last byte."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = '''
import sys

import enlist
from enlist.selectors import Oort
from enlist.simulation import Config, compare


class InMain(enlist.Selector):
    """Chooses the fastest, as far as it knows."""

    def choose(self, request: enlist.Request) -> enlist.Choice:
        return request.pick(range(len(request.available) - request.k, len(request.available)))


def methods():
    class InFunction(enlist.Selector):
        """Chooses by a number of its own."""

        def choose(self, request: enlist.Request) -> enlist.Choice:
            return request.pick(self.rng.permutation(len(request.available))[: request.k])

    return {"main": InMain, "function": InFunction, "mild": Oort.with_(penalty=1.0), "harsh": Oort.with_(penalty=4.0)}


def main(folder, jobs, table):
    config = Config(
        data={"clients": 8},
        rounds={"rounds": 3, "k": 3, "over_commit": 1.4, "deadline": 40.0, "late": "merge"},
        training={"steps": 2},
        evaluation={"every": 1},
    )
    result = compare(config, methods(), seeds=3, baseline="mild", folder=folder, jobs=int(jobs),
                     tick=lambda label, seed, state: print(label, seed, state["status"], flush=True))
    assert not result.failed, result.failed
    result.table.to_csv(table, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
'''
TABLES = ("rounds.csv", "participations.csv", "clients.csv", "result.json")


def started(place: Path, folder: str, jobs: int, table: str) -> subprocess.Popen[str]:
    command = [sys.executable, "script.py", folder, str(jobs), table]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)


def runs(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for name in TABLES for path in folder.glob(f"runs/*/*/{name}"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
@pytest.mark.verify
def test_killed_and_continued_it_gives_the_same_table(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with started(tmp_path, "killed", 2, "killed.csv") as killed:
        assert killed.stdout is not None
        ended = 0
        for line in killed.stdout:
            ended += line.split()[2] == "finished"
            if ended == 4:  # of twelve
                killed.kill()
    assert killed.returncode == -signal.SIGKILL
    script = runpy.run_path(str(tmp_path / "script.py"))
    script["main"](tmp_path / "undisturbed", 1, tmp_path / "undisturbed.csv")
    left = finished(tmp_path / "killed")
    assert 4 <= len(left) < 12
    with started(tmp_path, "killed", 1, "killed.csv") as continued:
        said = continued.communicate(timeout=300)[0]
    assert (continued.returncode, said.count("finished")) == (0, 12)
    assert not [label for label in left if f"{label} running" in said], "what was finished is not run again"
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "undisturbed.csv").read_bytes()
    found = runs(tmp_path / "killed")
    assert len(found) == 12 * len(TABLES)
    assert found == runs(tmp_path / "undisturbed")


def finished(folder: Path) -> list[str]:
    """Label and seed of runs that are finished, once the workers have seen that their master is gone."""
    before: dict[str, bytes] = {}
    while before != (now := runs(folder)):
        before = now
        time.sleep(0.3)
    return [" ".join(Path(name).parts[1:3]) for name in before if name.endswith("result.json")]
