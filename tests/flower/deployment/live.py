"""A federation that grows while somebody looks: for tests of the live page, and to try it by hand.

    python tests/flower/deployment/live.py FOLDER                    # the example in Flower's simulation engine
    python tests/flower/deployment/live.py FOLDER --engine fake      # a fake grid in real time: no Ray, starts at once

In tests:

    from tests.flower.deployment.live import fake_federation, flower_simulation

    with fake_federation(tmp_path / "run", rounds=40, seconds=0.5) as folder:      # rounds.csv grows until it is left
        ...
    with flower_simulation(tmp_path / "lab", tmp_path / "run", rounds=30) as folder:
        ...

Both wait until the first round is written, and stop everything at the end, however they are left. A run that is cut
short stays in its folder, as one of a server that was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg

sys.path.insert(0, str(Path(__file__).parents[3]))  # it is also run as a program
from enlist.flower import RoundResult, client, with_selector
from enlist.flower.fake import FakeClock, FakeGrid, FakeReply, model_reply
from tests.flower.deployment.harness import EXAMPLE, DeploymentError, SuperLink

NODES = range(101, 131)
SIMULATED = "num-supernodes=10 client-resources-num-cpus=1 init-args-num-cpus=1"


def rounds_in(folder: Path) -> int:
    """Rounds that are written down so far."""
    try:
        return max((folder / "rounds.csv").read_text().count("\n") - 1, 0)
    except OSError:
        return 0


@contextlib.contextmanager
def flower_simulation(
    lab: Path, folder: Path, rounds: int = 20, selector: str = "tempo", limit: float = 300.0
) -> Iterator[Path]:
    """examples/flower-quickstart in Flower's own simulation engine (Ray), its records in `folder`."""
    with SuperLink(lab, "--insecure", "--simulation", connection="insecure = true") as link:
        config = {"selector": selector, "k": 3, "num_server_rounds": rounds, "folder": str(folder)}
        run = link.run(EXAMPLE, "--federation-config", SIMULATED, **config)

        def begun() -> bool:
            if link.started[run.name].poll() is not None and not rounds_in(folder):
                raise link.failed("the simulation ended before its first round")
            return rounds_in(folder) > 0

        link.until("the first round", begun, limit)
        yield folder


class WallClock(FakeClock):
    """The time of day for a fake grid, from 0."""

    def __init__(self) -> None:
        self.began, self.first = time.monotonic(), time.time()
        self.BEGINNING = self.first  # type: ignore[misc]  # what replies are stamped with

    @property
    def now(self) -> float:  # type: ignore[override]
        """Seconds since it was made."""
        return time.monotonic() - self.began

    def monotonic(self) -> float:
        """Seconds since it was made."""
        return self.now

    def time(self) -> float:
        """Seconds since 1970."""
        return self.first + self.now

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(max(seconds, 0.0))


class ClosedError(Exception):
    """Nobody looks any more."""


def answer(message: Message, seconds: float) -> FakeReply:
    """A node: the quickest takes `seconds`; one never replies, one is late, one fails, one is lost, one sends NaN."""
    node = message.metadata.dst_node_id
    name, place = f"clinic-{node}", node - NODES[0]
    if message.metadata.message_type == "query.enlist":
        return FakeReply(0.1 * seconds, client.introduction(message, client_id=name).content)
    if place == 3:
        return FakeReply(None)
    if place == 4:
        return FakeReply(0.5 * seconds, error=(2, "OutOfMemoryError: the batch does not fit"))
    if place == 5:
        return FakeReply(2.0 * seconds, error=(5, "Node Unavailable"))
    claims = {"client_id": name, "loss": 0.2 + 0.05 * place, "loss_rms": 0.25 + 0.05 * place, "seconds": 0.4 * seconds}
    content = model_reply(message, examples=20 + place, **claims)
    if place == 6:
        content["arrays"] = ArrayRecord([np.full(4, np.nan)])
    return FakeReply((1.0 + 0.05 * place) * seconds * (3.0 if place % 10 == 2 else 1.0), content)


def fake_run(folder: Path, rounds: int, seconds: float, ended: threading.Event, selector: str = "oort") -> None:
    """A federation of thirty nodes on a fake grid in real time; a round takes about `seconds`, at most three times."""
    clock = WallClock()
    grid = FakeGrid(list(NODES), lambda message: answer(message, seconds), clock)

    def look(result: RoundResult) -> None:
        if ended.is_set():
            raise ClosedError

    strategy = with_selector(
        FedAvg(fraction_evaluate=0.0),
        selector,
        k=5,
        over_commit=1.4,
        deadline=2.5 * seconds,
        late="merge",
        folder=folder,
        poll=0.1,
        on_round=look,
    )
    strategy.clock = clock
    with contextlib.suppress(ClosedError):
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord([np.zeros(4)]),
            num_rounds=rounds,
            evaluate_fn=lambda number, _: curve(number),
        )


def curve(number: int) -> MetricRecord:
    """A model that learns, after this many rounds."""
    accuracy = 0.9 - 0.8 * float(np.exp(-number / 15))
    return MetricRecord({"accuracy": accuracy, "loss": 2.5 - 2.0 * accuracy})


@contextlib.contextmanager
def fake_federation(
    folder: Path, rounds: int = 40, seconds: float = 0.5, selector: str = "oort", limit: float = 60.0
) -> Iterator[Path]:
    """`fake_run` in a thread, which is told to stop at the end."""
    ended, failures = threading.Event(), []

    def work() -> None:
        try:
            fake_run(folder, rounds, seconds, ended, selector)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="federation", daemon=True)
    thread.start()
    end = time.monotonic() + limit
    try:
        while not rounds_in(folder):
            if failures or not thread.is_alive() or time.monotonic() > end:
                raise DeploymentError(f"no round within {limit:g} s") from next(iter(failures), None)
            time.sleep(0.1)
        yield folder
    finally:
        ended.set()
        thread.join(timeout=limit)
    if failures:
        raise failures[0]


def main() -> None:
    """Let a federation run in a folder until all rounds are done, or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="run folder: tables grow there")
    parser.add_argument("--engine", choices=("flower", "fake"), default="flower")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="fake engine: about how long a round takes")
    parser.add_argument("--selector", default="tempo")
    given = parser.parse_args()
    place = given.folder.resolve()
    with contextlib.ExitStack() as stack:
        if given.engine == "fake":
            stack.enter_context(fake_federation(place, given.rounds, given.seconds, given.selector))
        else:
            lab = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))) / "lab"
            stack.enter_context(flower_simulation(lab, place, given.rounds, given.selector))
        with contextlib.suppress(KeyboardInterrupt):
            known = 0
            while known < given.rounds:
                if (now := rounds_in(place)) > known:
                    print(f"round {now} of {given.rounds} is in {place}", flush=True)
                known = now
                time.sleep(0.5)


if __name__ == "__main__":
    main()
