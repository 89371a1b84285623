"""What a run tells about each of its clients: how often it was selected, how that ended, and what it is worth."""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import AnyArray, FloatArray
from enlist.runs.scores import times_selected
from enlist.runs.tables import RunTables, Table

REWARD = "mean"
"""The term in which selectors that learn rewards keep their expectation of a client."""


def by_client(run: RunTables) -> Table:
    """One row per client: client, user, asked, completed, late, loss, accuracy, latency, reward.

    `late` counts requests that the server did not wait for, whether or not the update arrived later. Loss, accuracy and
    latency are means over its updates. The reward is what the selector expected of the client when it last chose it for
    its reward (Darts, the thesis rules, and others that learn rewards). Columns without any known value are left out.

    >>> from enlist.runs.example import example_run
    >>> table = by_client(example_run("oort"))
    >>> list(table), table["selected"][:4]
    (['client', 'selected', 'completed', 'late', 'latency'], array([8, 0, 5, 2]))
    """
    told, who = run.participations, run.who
    found: Table = {"client": run.clients["client"].astype(np.int64)}
    if run.names is not None:
        found["user"] = run.names
    found["selected"] = times_selected(run)
    for outcome in ("completed", "late"):
        found[outcome] = np.bincount(who[told["outcome"] == outcome], minlength=run.count)
    updated = np.isin(told["outcome"], ("completed", "arrived"))
    means = {name: _mean(told[name][updated], who[updated], run.count) for name in MEANS if name in told}
    if run.reasons and REWARD in run.reasons:
        means["reward"] = _last(run)
    return {**found, **{name: values for name, values in means.items() if np.isfinite(values).any()}}


MEANS = ("loss", "accuracy", "latency")


def _mean(values: AnyArray, who: AnyArray, count: int) -> FloatArray:
    known = np.isfinite(values)
    total = np.bincount(who[known], weights=values[known], minlength=count)
    number = np.bincount(who[known], minlength=count)
    mean: FloatArray = np.divide(total, number, out=np.full(count, np.nan), where=number > 0)
    return mean


def _last(run: RunTables) -> FloatArray:
    """(clients,) the last known reward of each client."""
    kept = run.reasons
    known = np.isfinite(kept[REWARD])
    order = np.argsort(run.clients["client"])
    place = np.searchsorted(run.clients["client"][order], kept["client"][known])
    found = np.full(run.count, np.nan)
    found[order[place.clip(max=run.count - 1)]] = kept[REWARD][known]  # with several rounds, the last one stays
    return found
