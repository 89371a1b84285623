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
    """One line per selector and strength: speed-up and final accuracy on each rung, and the mean of all."""
    found = {(row["rung"], row["selector"]): row for row in board.rows}
    lines = [
        f"| selector | sigma | {' | '.join(names)} | mean speed-up | final accuracy |",
        f"|---|---|{'---|' * len(names)}---|---|",
    ]
    for method in methods:
        for sigma in sigmas:
            own = [found[name if not sigma else f"{name}-{sigma:g}", method] for name in names]
            cells = [f"{row['speed_up']:.2f}" for row in own]
            mean = math.exp(float(np.mean([math.log(row["speed_up"]) for row in own])))
            final = float(np.mean([row["final"] for row in own]))
            lines.append(f"| {method} | {sigma:g} | {' | '.join(cells)} | {mean:.2f} | {final:.1%} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rungs", default="silos")
    parser.add_argument("--selectors", default="tempo,oort")
    parser.add_argument("--sigmas", default="0.1,0.5", help="strengths beside 0")
    parser.add_argument("--seeds", type=int, default=2)
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
