"""How far selection can get in FedSUV's task, by its deadline: is the paper's 3.54 in reach anywhere?

    python -m benchmarks.fedsuv_reach --output runs/reach --jobs 2

trains the task of small steps of the study `fedsuv` (3,500 clients; 26 are asked, the first 20 used) for 150 rounds,
with deadlines from 10 to 250 seconds, and prints how many times fewer rounds than random selection each method needs to
nine tenths of random's final accuracy. Beside FedSUV as printed stand two that no selector can be: random selection in
a federation without a deadline, where everybody is in time, and an oracle that is told how long every client takes.
A single evaluation, of every fifth round, has to reach it: the mean of five, by which the study judges, is never there
before round 25, so that no more than random's rounds over 25 can be seen; the last column says how much that is. The
folder keeps what was run, and the same command goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist.engine import local
from enlist.studies.fedsuv.experiments import config, trained
from enlist.studies.fedsuv.settings import FEDSUV, LATE_0, MAIN, METHODS, RANDOM, SCALES
from enlist.studies.measures import ROUNDS_TO_TARGET, Measure, final_accuracy, to_target
from enlist.studies.results import Results, kept
from enlist.studies.rules import Arm, Contrast
from enlist.studies.running import performed
from enlist.studies.study import Experiment

DEADLINES = (10.0, 40.0, 100.0, 250.0)
FIRST = 1300
"""First seed: the deadlines were chosen on 100."""
ROUNDS = 150
FASTEST = 25
"""First round after which five evaluations of every fifth round are there."""
REACHED = Measure(
    "rounds until nine tenths of random's final accuracy", to_target(0.9, 1, "rounds"), ratio=True, less=True
)
ORACLE = "oracle"
SELECTORS = {each: METHODS[each].text for each in (RANDOM, FEDSUV, LATE_0)} | {
    ORACLE: "enlist.simulation.oracle:Oracle"
}
LABELS = {each: METHODS[each].label for each in (FEDSUV, LATE_0)} | {ORACLE: "oracle of durations"}
NO_DEADLINE = f"none/{RANDOM}"
"""Key of random selection where everybody is in time."""


def experiments(
    deadlines: Sequence[float], seeds: Sequence[int], methods: Iterable[str] = tuple(SELECTORS)
) -> list[Experiment]:
    """Every method with every deadline, and random selection without; a seed is a population that all of them share.

    >>> [each.key for each in experiments([40.0], [1])]
    ['none/fedavg', '40/fedavg', '40/fedsuv', '40/late-0', '40/oracle']
    """
    made = config(SCALES["laptop"], MAIN)

    def settings(seconds: float, method: str) -> dict[str, Any]:
        rounds = {**made["rounds"], "rounds": ROUNDS, "deadline": {"kind": "fixed", "seconds": seconds}}
        return {"selector": SELECTORS[method], "config": {**made, "rounds": rounds}}

    keys = {f"{seconds:g}/{method}": (seconds, method) for seconds in deadlines for method in methods}
    return [
        Experiment(key, seed, settings(*chosen), trained)
        for seed in seeds
        for key, chosen in {NO_DEADLINE: (1e6, RANDOM), **keys}.items()
    ]


def row(results: Results, deadline: str) -> list[str]:
    """One deadline: random's share in time, rounds and accuracy, and how many times faster the others are."""
    base = Arm(f"{deadline}/{RANDOM}", "random")
    outputs = list(results.outputs(base.keys).values())
    in_time = float(np.mean([np.mean(one["able"]) for one in outputs]))
    needed, judged = (
        float(np.mean([each.of(one, one).number for one in outputs])) for each in (REACHED, ROUNDS_TO_TARGET)
    )
    ends = float(np.mean([final_accuracy(one) for one in outputs]))
    used = float(np.mean([one["completed"].mean() for one in outputs]))
    cells = [f"{deadline} s", f"{in_time:.0%}", f"{used:.1f}", f"{ends:.2f}", f"{needed:.0f}"]
    for key in (*(f"{deadline}/{method}" for method in LABELS), NO_DEADLINE):
        if key not in results:
            cells.append("–")
            continue
        arm = Arm(key, key)
        rule = Contrast("greater", REACHED, arm, [base], 0.0)
        cells.append(rule.compare(results, arm, base).shown(2).removesuffix(" times"))
    return [*cells, f"{judged / FASTEST:.1f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: see above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fedsuv_reach", description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--deadlines", type=float, nargs="+", default=list(DEADLINES))
    parser.add_argument("--methods", nargs="+", choices=list(SELECTORS), default=list(SELECTORS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=FIRST)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    wanted = experiments(given.deadlines, seeds, dict.fromkeys([RANDOM, *given.methods]))
    missing = [each for each in wanted if kept(given.output, each) is None]
    for each, reason in performed(missing, given.output, local(given.jobs), "enlist.simulation.comparison"):
        print(f"{each.key}, seed {each.seed}: {reason or 'done'}", flush=True)
    found = {(each.key, each.seed): output for each in wanted if (output := kept(given.output, each)) is not None}
    results = Results.of([(each.key, each.settings, each.seed) for each in wanted], found)
    first = ["deadline", "in time", "updates a round", "random ends at", "rounds to its target"]
    header = [*first, *LABELS.values(), "random, all in time", "most that the study could detect"]
    for cells in (header, ["---"] * len(header), *(row(results, f"{deadline:g}") for deadline in given.deadlines)):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
