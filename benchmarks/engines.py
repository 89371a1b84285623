"""What Ray costs:  python -m benchmarks.engines [--runs 50] [--blocks 4] [--output docs/scaling.md]

Many short runs, each in a folder of its own, on local processes and on a Ray cluster of this machine, with one and with
two at once; then one run with one and with two training workers. The engines take turns, block by block, so that a slow
minute of the machine hits both; what counts is the median of the ratios. Processor time is that of all processes that
an engine uses, those of Ray itself included; other programs hardly change it. Starting the cluster is told apart: it
happens once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("RAY_worker_niceness", "0")  # as local processes have none either

from benchmarks.pages import between
from enlist.engine import Engine, Pool
from enlist.engine.ray import RayEngine
from enlist.simulation import Config, Simulation
from enlist.simulation.jobs import Job, perform

TABLES = ("rounds.csv", "participations.csv", "clients.csv", "result.json")
SELECTORS = ("random", "oort")
ENGINES = ("local", "ray")
AT_ONCE = (1, 2)
ROUNDS = 20
"""Rounds of the run with training workers that are measured."""
LOOK = 0.2
"""Seconds between two looks at what processes have spent."""
Spent = tuple[float, float]
"""Seconds on the clock, and of all processors."""
Seconds = dict[tuple[str, int], list[Spent]]
"""What each block spent, by engine and number of processes."""


def jobs(runs: int, folder: Path) -> list[Job]:
    """Short runs of the bundled digits: two methods, as many seeds as it takes."""
    config = Config(
        data={"clients": 20},
        rounds={"rounds": 20, "k": 4, "over_commit": 1.4, "deadline": 40.0, "late": "merge"},
        training={"steps": 5},
        evaluation={"every": 5},
    )
    found = []
    for number in range(runs):
        seed, name = number // len(SELECTORS), SELECTORS[number % len(SELECTORS)]
        own = config.with_method(name).model_copy(update={"seed": seed})
        found.append(Job((name, seed), own, folder / name / str(seed)))
    return found


def processor() -> dict[int, float]:
    """Processor seconds so far of this process and of each one below it."""
    spent: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()  # the name before may hold anything
            spent[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:13]))
    below = {os.getpid()}
    while found := {pid for pid, (parent, _) in spent.items() if parent in below} - below:
        below |= found
    return {pid: spent[pid][1] / os.sysconf("SC_CLK_TCK") for pid in below}


@contextlib.contextmanager
def watched() -> Iterator[list[float]]:
    """What the work inside spends: seconds on the clock, and of all processors.

    Processes are looked at again and again, because what one has spent that ends meanwhile is nowhere else: Ray does
    not wait for its own.
    """
    spent: list[float] = []
    before, over = processor(), threading.Event()
    latest = dict(before)

    def look() -> None:
        while not over.wait(LOOK):
            latest.update(processor())

    thread, start = threading.Thread(target=look, daemon=True), time.perf_counter()
    thread.start()
    yield spent
    seconds = time.perf_counter() - start
    over.set()
    thread.join()
    latest.update(processor())
    spent += [seconds, sum(latest.values()) - sum(before.values())]


def timed(engine: Engine, runs: int) -> tuple[Spent, str]:
    """What a run spends, of many, and a digest of their tables."""
    with tempfile.TemporaryDirectory() as place:
        wanted = jobs(runs, Path(place))
        with watched() as spent:
            ended = perform(wanted, engine)
        if ended.failed:
            sys.exit(f"runs failed: {ended.failed}")
        digest = hashlib.sha256()
        for job in wanted:
            for name in TABLES:
                digest.update((Path(str(job.folder)) / name).read_bytes())
    return (spent[0] / runs, spent[1] / runs), digest.hexdigest()


@contextlib.contextmanager
def cluster() -> Iterator[float]:
    """A Ray cluster of this machine with two processors; gives the seconds that it took to start."""
    import ray

    start = time.perf_counter()
    ray.init("local", num_cpus=max(AT_ONCE), include_dashboard=False, log_to_driver=False)
    try:
        yield time.perf_counter() - start
    finally:
        ray.shutdown()


def trained(engine: Engine, workers: int) -> tuple[Spent, str]:
    """What a round of one run spends with so many training workers, and what the run ends with."""
    config = Config(
        selector="random",
        data={"clients": 100},
        model={"name": "mlp", "hidden": [64]},
        rounds={"rounds": ROUNDS + 2, "k": 20},
        training={"batch": 10, "steps": 20},
        evaluation={"every": ROUNDS + 2},
    )
    with Simulation(config, workers=workers, engine=engine) as simulation:
        for _ in range(2):  # processes begin
            simulation.step()
        with watched() as spent:
            result = simulation.run()
        return (spent[0] / ROUNDS, spent[1] / ROUNDS), repr((result["accuracy"], result["loss"]))


def measure(runs: int, blocks: int, say: Callable[[str], None]) -> list[str]:
    """The tables, and how long it took to begin."""
    many: Seconds = {}
    one: Seconds = {}
    with cluster() as started:
        timed(Pool(max(AT_ONCE)), max(AT_ONCE))  # processes that import PyTorch for the first time
        (first, _), _ = timed(RayEngine(jobs=max(AT_ONCE)), max(AT_ONCE))
        ends: dict[str, set[str]] = {"runs": set(), "run": set()}
        for block in range(blocks):
            for count in AT_ONCE:
                engines = dict(zip(ENGINES, (Pool(count), RayEngine(jobs=count)), strict=True))
                for name, each in list(engines.items())[:: 1 if block % 2 else -1]:
                    for kept, key, work in ((many, "runs", timed), (one, "run", trained)):
                        spent, end = work(each, runs if work is timed else count)
                        kept.setdefault((name, count), []).append(spent)
                        ends[key].add(end)
                        say(f"block {block + 1}, {name}, {count}, {work.__name__}: {spent[0]:.3f} s")
    if any(len(found) > 1 for found in ends.values()):
        sys.exit("results differ between engines")
    said = (
        f"{runs * blocks} runs of 20 rounds on each engine, in {blocks} blocks; brackets show the smallest and the "
        "largest ratio of a block."
    )
    begun = (
        f"Starting the cluster took {started:.1f} s, and the first two runs took {2 * first:.1f} s, imports included."
    )
    return [
        *table(many, "runs at once", "s a run", 1.0),
        "",
        f"{said} {begun} All tables were the same, byte for byte.",
        "",
        "One run, with its training workers on either engine (an MLP, 20 clients with 20 steps each per round, "
        f"{ROUNDS} rounds):",
        "",
        *table(one, "training workers", "ms a round", 1000.0),
    ]


def table(seconds: Seconds, what: str, unit: str, scale: float) -> list[str]:
    """What each engine takes, their ratios, and what more processes gain on each.

    >>> spent = {("local", 1): [(2.0, 2.0)], ("ray", 1): [(3.0, 2.2)], ("local", 2): [(1.0, 2.0)]}
    >>> table({**spent, ("ray", 2): [(2.0, 2.4)]}, "runs", "s", 1.0)[2:]
    ['| 1 | 2.00 | 3.00 | 1.50 [1.50, 1.50] | 1.10 [1.10, 1.10] | 1.00 | 1.00 |',
     '| 2 | 1.00 | 2.00 | 2.00 [2.00, 2.00] | 1.20 [1.20, 1.20] | 2.00 | 1.50 |']
    """
    lines = [
        f"| {what} | local, {unit} | Ray, {unit} | Ray / local | Ray / local, processor time | gain over one, local "
        "| gain over one, Ray |",
        "|---" * 7 + "|",
    ]
    for count in AT_ONCE:
        pairs = list(zip(seconds["ray", count], seconds["local", count], strict=True))
        cells = [_three(scale * statistics.median(clock for clock, _ in seconds[name, count])) for name in ENGINES]
        for kind in range(2):
            ratios = [theirs[kind] / ours[kind] for theirs, ours in pairs]
            cells.append(f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]")
        for name in ENGINES:
            both = zip(seconds[name, 1], seconds[name, count], strict=True)
            cells.append(f"{statistics.median(alone[0] / each[0] for alone, each in both):.2f}")
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return lines


def _three(value: float) -> str:
    """Three digits, zeros included."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50, help="runs of a block")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--output", type=Path, help="a page with the marks <!-- engines --> and <!-- /engines -->")
    options = parser.parse_args()
    lines = measure(options.runs, options.blocks, lambda text: print(text, file=sys.stderr, flush=True))
    print("\n".join(lines))
    if options.output:
        between(options.output, "engines", lines)


if __name__ == "__main__":
    main()
