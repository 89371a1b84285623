"""From the command to the first round:  python -m benchmarks.starting [--pairs 7] [CONFIG]

`enlist run CONFIG` with one round and `python -c "import torch"` take turns, in processes of their own, after one of
each that is not counted; what counts is the ratio. The first round begins when clients.csv has been written, which is
the last thing before it. The whole command is given besides, in seconds on the clock and of the processor, which a busy
machine stretches less; those of the workers, which import at the same time, are not in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

EXAMPLE = Path(__file__).parents[1] / "examples" / "quickstart.toml"
TORCH = "import torch"
ENLIST = "from enlist.cli import main; main()"


class Spent(NamedTuple):
    """Seconds on the clock and of the processor, and the time of day at which it began."""

    clock: float
    processor: float
    began: float


def measured(code: str, words: Sequence[str] = ()) -> Spent:
    """What a program takes."""
    before, today, began = os.times(), time.time(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *words], check=True)
    seconds, after = time.perf_counter() - began, os.times()
    return Spent(seconds, sum(after[2:4]) - sum(before[2:4]), today)


def pair(config: Path) -> dict[str, tuple[float, float]]:
    """What importing PyTorch takes, and what a run of one round takes: until it begins, and as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", str(config), "--set", "rounds.rounds=1", "--output", f"{folder}/run", "--quiet"]
        torch, run = measured(TORCH), measured(ENLIST, words)
        begins = Path(folder, "run", "clients.csv").stat().st_mtime - run.began
    return {
        "until the first round begins, clock": (torch.clock, begins),
        "whole command, clock": (torch.clock, run.clock),
        "whole command, processor": (torch.processor, run.processor),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args(words)
    pair(given.config)  # the files are then in memory, and compiled
    pairs = [pair(given.config) for _ in range(given.pairs)]
    for name in pairs[0]:
        torch, enlist = ([one[name][side] for one in pairs] for side in (0, 1))
        ratios = sorted(own / other for own, other in zip(enlist, torch, strict=True))
        print(
            f"{name}: import torch {median(torch):.2f} s (least {min(torch):.2f}), "
            f"enlist run {median(enlist):.2f} s (least {min(enlist):.2f}), "
            f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
