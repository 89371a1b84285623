"""One experiment of the study: a personalised model is trained, and what happened round by round is kept."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.studies.study import Settings

if TYPE_CHECKING:
    from enlist.personal import Workers

Row = Mapping[str, Any]


def session(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Train for one target; `settings` are a personalisation's configuration without its seed.

    Arrays, one row per round: validation, test and local (the target's own model) scores; `adopted`, the code of the
    combination whose model was kept; `messages`, cumulated; and, with a column for each of `codes`, increases (NaN
    where a combination was not played) and estimates.

    >>> data = {"name": "telecom", "rows": 2000, "train_share": 0.04}
    >>> found = session({"workers": {"dataset": data}, "rounds": {"rounds": 3}, "rule": "ucb"}, 1, Path())
    >>> found["codes"], found["test"].shape, found["estimates"].shape, bool(found["peak"] == found["test"].max())
    (['1100', '0110', '0101'], (3,), (3, 3), True)
    """
    from enlist.personal import Personalisation, parse
    from enlist.training.workers import one_thread

    config = parse({**settings, "seed": seed, "after": {"baselines": False}}, "settings")
    data_seed = seed if config.data_seed is None else config.data_seed
    own = {name: settings[name] for name in ("workers", "poison") if name in settings}
    run = Personalisation(config, workers=_workers(json.dumps(own, sort_keys=True), data_seed))
    steps = []
    with one_thread():
        while not run.finished:
            steps.append(run.step())
    return {**columns([each.row for each in steps], [each.arms for each in steps]), "code": run.result()["code"]}


def messages(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """How many messages a round takes for each way of playing, with as many workers as `settings` list.

    >>> messages({"workers": [6]}, 0, Path())["rows"][0]["messages"]
    6
    """
    from enlist.personal.communication import cost_table

    return {"rows": [row for workers in settings["workers"] for row in cost_table(workers)]}


def columns(rounds: Sequence[Row], arms: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Rows of rounds.csv and arms.csv as columns, with the scores that the study compares.

    peak     highest test score, as the thesis's box plots have it, reached after `peak_round` rounds
    kept     test score of the model that was best in validation: what one would really use
    mean     mean test score over all rounds, which forgives no detour

    >>> row = {"validation": 0.6, "test": 0.5, "local": 0.55, "code": "0110", "cumulative_communication": 6}
    >>> arm = {"code": "0110", "increase": 0.05, "estimate": 0.05}
    >>> found = columns([row, {**row, "test": 0.7}], [[arm], [arm]])
    >>> found["peak"], found["peak_round"], found["kept"], found["adopted"].tolist()
    (0.7, 2, 0.5, ['0110', '0110'])
    """
    curves = {name: np.array([row[name] for row in rounds], dtype=float) for name in ("validation", "test", "local")}
    test, validation = curves["test"], curves["validation"]
    codes = list(dict.fromkeys(row["code"] for rows in arms for row in rows))
    return {
        **curves,
        "adopted": np.array([row["code"] for row in rounds]),
        "messages": np.array([row["cumulative_communication"] for row in rounds]),
        "codes": codes,
        "increases": _by_code(arms, codes, "increase"),
        "estimates": _by_code(arms, codes, "estimate"),
        "peak": float(test.max()),
        "peak_round": int(test.argmax()) + 1,
        "kept": float(test[validation.argmax()]),
        "mean": float(test.mean()),
    }


def _by_code(arms: Sequence[Sequence[Row]], codes: Sequence[str], name: str) -> AnyArray:
    found = np.full((len(arms), len(codes)), np.nan)
    for place, rows in enumerate(arms):
        for row in rows:
            if row[name] is not None:
                found[place, codes.index(row["code"])] = row[name]
    return found


@functools.lru_cache(maxsize=4)
def _workers(own: str, seed: int) -> Workers:
    """Workers with their data, kept for the next sessions that use the same."""
    from enlist.personal import parse

    return parse({**json.loads(own), "seed": seed}, "settings").load_workers()
