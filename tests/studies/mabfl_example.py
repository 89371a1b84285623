"""Made-up results of the MAB-FL study: nothing is trained."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from enlist.streams import Streams
from enlist.studies.mabfl.experiments import columns, counts, experiments
from enlist.studies.mabfl.settings import PAIRS, SCALES
from enlist.studies.results import Output, Results

LEVELS = {"0110": 0.72, "1100": 0.68, "0101": 0.62, "0100": 0.69, "1111": 0.64}


@functools.cache
def example_results(rounds: int = 8, seeds: int = 3) -> Results:
    """Results of every key, as if the best pair were 0110."""
    wanted = experiments(SCALES["smoke"].chosen(seeds=seeds))
    outputs = {(each.key, each.seed): output(number, each.key, rounds) for number, each in enumerate(wanted)}
    return Results.of([(each.key, each.settings, each.seed) for each in wanted], outputs)


def output(number: int, key: str, rounds: int) -> Output:
    """One session, or the counts."""
    if key == "counts":
        return Output(counts({"workers": [4, 6]}, 0, None), {}, 0.1)
    rng = Streams(7).generator("example", number)
    held = [code for code in LEVELS if code in key]
    codes = held or list(PAIRS)
    rise = 1.0 - np.exp(-(np.arange(rounds) + 1.0) / 2.0)
    rows: list[dict[str, Any]] = []
    arms: list[list[dict[str, Any]]] = []
    for at in range(rounds):
        code = held[0] if held else str(rng.choice(["0110", "0110", "0110", "1100", "0101"]))
        score = 0.5 + (LEVELS[code] - 0.5) * rise[at] + rng.normal(0, 0.01)
        local = 0.5 + 0.17 * rise[at] + rng.normal(0, 0.01)
        rows.append(
            {"validation": score, "test": score + rng.normal(0, 0.003), "local": local, "code": code}
            | {"cumulative_communication": (8 if "delayed" in key else 6) * (at + 1)}
        )
        arms.append([{"code": each, "estimate": LEVELS[each] - 0.67 + rng.normal(0, 0.01)} for each in codes])
    found = {**columns(rows, arms), "code": "0110" if not held else held[0]}
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return Output({name: value for name, value in found.items() if name not in arrays}, arrays, 0.1)
