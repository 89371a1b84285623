"""What local noise costs on the ladder:  python -m benchmarks.local_noise [--output docs/privacy.md] [--rungs ...]

Runs selectors on a few rungs with seeds for development, as they are and with noise of each strength on what clients
report, and writes the table into the page. Random looks at nothing that clients report, so that it is the same run with
and without noise, and what speed-ups are relative to.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.pages import between
from enlist._internal.statistics import Summary, geometric_mean
from enlist.ladder import Leaderboard, ladder, rungs
from enlist.ladder.rung import Rung
from enlist.runs.scores import BASELINE

CLIP = 5.0


def noisy(rung: Rung, sigma: float) -> Rung:
    """A rung whose clients put noise on what they report.

    >>> [silos] = rungs("silos")
    >>> noisy(silos, 0.5).name, noisy(silos, 0.5).config.local_noise.sigma
    ('silos-0.5', 0.5)
    """
    if not sigma:
        return rung
    changed = rung.config.replace(f"local_noise={{ clip = {CLIP}, sigma = {sigma} }}")
    return dataclasses.replace(rung, name=f"{rung.name}-{sigma:g}", config=changed)


def table(board: Leaderboard, names: Sequence[str], methods: Sequence[str], sigmas: Sequence[float]) -> list[str]:
    """One line per selector and strength: the speed-up on each rung, the mean of all and, paired by seed, what share
    of the speed without noise is left, both with intervals over seeds."""
    found = {(row["rung"], row["selector"]): row for row in board.rows}
    seconds = {(row["rung"], row["selector"], row["seed"]): row["seconds"] for row in board.results}
    seeds = sorted({seed for _, _, seed in seconds})
    lines = [
        f"| selector | sigma | {' | '.join(names)} | mean speed-up | speed left | final accuracy |",
        f"|---|---|{'---|' * len(names)}---|---|---|",
    ]
    for method in methods:
        for sigma in sigmas:
            places = [name if not sigma else f"{name}-{sigma:g}" for name in names]
            own = [found[place, method] for place in places]
            cells = [shown(Summary(row["speed_up"], row["speed_up_low"], row["speed_up_high"])) for row in own]
            mean = math.exp(float(np.mean([math.log(row["speed_up"]) for row in own])))
            pairs = list(zip(names, places, strict=True))
            kept = [
                [seconds[quiet, method, seed] / seconds[place, method, seed] for quiet, place in pairs]
                for seed in seeds
            ]
            left = shown(geometric_mean([geometric_mean(ratios).mean for ratios in kept])) if sigma else "1"
            final = float(np.mean([row["final"] for row in own]))
            lines.append(f"| {method} | {sigma:g} | {' | '.join(cells)} | {mean:.2f} | {left} | {final:.1%} |")
    return lines


def shown(summary: Summary) -> str:
    """A mean with its interval.

    >>> shown(Summary(1.234, 1.0, 1.5))
    '1.23 [1.00, 1.50]'
    """
    return f"{summary.mean:.2f} [{summary.low:.2f}, {summary.high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rungs", default="label-skew,slow-holds-most,silos")
    parser.add_argument("--selectors", default="tempo,oort")
    parser.add_argument("--sigmas", default="0.1,0.5,5", help="strengths beside 0")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keeps the runs, so that an interrupted command goes on")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, help="the page that has the table")
    options = parser.parse_args()
    chosen, methods = rungs(options.rungs), options.selectors.split(",")
    sigmas = [0.0, *(float(each) for each in options.sigmas.split(","))]
    climbed = [noisy(rung, sigma) for rung in chosen for sigma in sigmas]
    board = ladder(
        [BASELINE, *methods], climbed, seeds=options.seeds, folder=options.folder, jobs=options.jobs, known=False
    )
    lines = table(board, [rung.name for rung in chosen], methods, sigmas)
    print("\n".join(lines))
    if options.output:
        between(options.output, "local-noise", lines)


if __name__ == "__main__":
    main()
