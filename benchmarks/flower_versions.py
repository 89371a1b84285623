"""The Flower adapter under the oldest and the newest flwr that it allows:  python -m benchmarks.flower_versions

The newest is the one that pip can install beside what else is required; the table names it. Each version gets a virtual
environment of its own, in front of the packages of this one, so that PyTorch and the like need not be installed again.
In it run the tests of the adapter, but for those that start a SuperLink by its command line, or look at its options,
which differ between versions; and a simulation of Flower's own with real nodes, selection and a folder, four rounds and
then four steps in buffered mode. Versions in between, and the simulation alone, which is quicker:

    python -m benchmarks.flower_versions --simulations "==1.27.*" "==1.33.*"

A version that wants something which cannot be had yet is tried with what the newest of the others depends on:

    python -m benchmarks.flower_versions --alone "==1.42.*"
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.simulations import Part

ROOT = Path(__file__).parents[1]
NODES, ROUNDS, K = 6, 4, 3
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray makes its workers as nice as 15: beside other work they would starve
}


def allowed() -> tuple[str, str]:
    """The oldest version that the extra `flower` allows, and the whole range."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]["flower"]
    span = next(entry.removeprefix("flwr") for entry in extras if entry.startswith("flwr"))
    oldest = re.search(r">=([\d.]+)", span)
    assert oldest is not None
    return f"=={oldest[1]}.*", span


def environment(place: Path, wanted: str, alone: str | None = None) -> Path:
    """A virtual environment with a version of flwr in front of the packages of this one; returns its interpreter.

    `alone` is a version that then takes the place of `wanted`, while all that this depends on stays.
    """
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"flwr[simulation]{wanted}"]
    subprocess.run([*install, f"numpy=={np.__version__}"], check=True)
    if alone is not None:
        subprocess.run([*install[:-1], "--no-deps", f"flwr{alone}"], check=True)
    behind = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    (Path(behind) / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def table(wanted: Sequence[str] = (), simulations_only: bool = False, alone: str | None = None) -> Part:
    """Each version: whether the tests of the adapter pass, and a simulation does what it should."""
    lines, holds = ["", "| flwr | tests of the adapter | simulation |", "|---|---|---|"], True
    for span in [allowed()[1]] if alone else wanted or allowed():
        with tempfile.TemporaryDirectory() as place:
            python = environment(Path(place) / "venv", span, alone)
            version = _run(place, python, "-c", "import flwr; print(flwr.__version__)")
            tests = None if simulations_only else _run(
                place, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not verify",
                "tests/flower", "--ignore", "tests/flower/deployment", "--ignore", "tests/flower/test_containers.py",
            )  # fmt: skip
            played = _run(place, python, "-m", "benchmarks.flower_versions", "--simulate", place)
        told = "not run" if tests is None else _verdict(tests, tests.stdout.strip().splitlines()[-1:])
        lines.append(
            f"| {version.stdout.strip()} | {told} | {_verdict(played, played.stderr.strip().splitlines()[-1:])} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
        holds &= all(done is None or done.returncode == 0 for done in (tests, played))
    return lines, holds


def _verdict(done: subprocess.CompletedProcess[str], why: Sequence[str]) -> str:
    """A cell of the table; what it has no room for is printed."""
    if done.returncode == 0:
        return "pass"
    print(done.stdout[-8000:], done.stderr[-8000:], sep="\n", file=sys.stderr)
    return f"FAIL: {' '.join(why)}"


def _run(place: str, python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    set_here = {**os.environ, **QUIET, "PYTHONPATH": paths, "FLWR_HOME": place}
    return subprocess.run([python, *arguments], check=False, capture_output=True, text=True, cwd=ROOT, env=set_here)


def simulate(folder: Path) -> None:
    """Four rounds of Flower's simulation in this process, with Oort, deadline and a folder, and four buffered steps.

    Raises if something is odd.
    """
    from flwr.app import ArrayRecord, Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAdam, FedAvg
    from flwr.simulation import run_simulation

    from enlist.flower import client, replay, with_selector
    from enlist.runs import read_run

    server, nodes = ServerApp(), ClientApp()

    @nodes.train()
    def train(message: Message, context: Context) -> Message:
        model = {name: array.numpy() + 1.0 for name, array in message.content["arrays"].items()}
        return client.reply(message, model, num_examples=10, context=context, losses=[0.5, 1.5], seconds=0.1)

    @nodes.query("enlist")
    def who(message: Message, context: Context) -> Message:
        return client.introduction(message, context)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = with_selector(
            FedAdam(fraction_evaluate=0.0), "oort", k=K, deadline=120.0, min_nodes=NODES, identify="always",
            folder=folder / "run",
        )  # fmt: skip
        strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(3)]), num_rounds=ROUNDS)
        buffered = with_selector(
            FedAvg(fraction_evaluate=0.0), "tempo", k=2, mode="buffered", concurrency=4, deadline=120.0,
            folder=folder / "buffered",
        )  # fmt: skip
        buffered.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(3)]), num_rounds=ROUNDS)

    own = {"num_cpus": 1, "address": "local"}  # else it would join a cluster that somebody else runs on this machine
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": own}
    run_simulation(server, nodes, num_supernodes=NODES, backend_config=backend)
    found = read_run(folder / "run")
    assert found.rounds["completed"].tolist() == [K] * ROUNDS, found.rounds["completed"]
    assert sorted(map(int, found.clients["id"])) == list(range(NODES)), found.clients["id"]
    assert len(replay(folder / "run")) == ROUNDS
    steps = read_run(folder / "buffered").rounds
    assert steps["completed"].tolist() == [2] * ROUNDS, steps["completed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spans", nargs="*", help='versions such as "==1.27.*"; the oldest and the newest if not given')
    parser.add_argument("--simulations", action="store_true", help="leave out the tests")
    parser.add_argument("--alone", metavar="SPAN", help="a version, with the dependencies of the newest of the others")
    parser.add_argument("--simulate", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.simulate is not None:
        simulate(given.simulate)
        return
    lines, holds = table(given.spans, given.simulations, given.alone)
    print("\n".join(lines))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
