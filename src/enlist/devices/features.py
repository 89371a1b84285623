"""Features: what a selector may see of a device before trying it, and how devices and data go together.

Two knobs set how much the table tells, one for speed and one for utility, so that an experiment can state how good
its features were.
"""

from __future__ import annotations

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import FloatArray, IntArray
from enlist.devices.draws import blended, normal_scores
from enlist.errors import InputError
from enlist.streams import Streams

FEATURES = ("cpu flops", "cpu cores", "memory", "gpu flops", "gpu count", "data size", "bandwidth")
"""Columns of a feature table."""
SPEED_FEATURES = ("cpu flops", "cpu cores", "gpu flops")
"""Columns that hint at speed."""
UTILITY_FEATURES = ("memory", "gpu count")
"""Columns that hint at utility."""


class FeatureKnobs(Options):
    """How much the feature table tells: 0 nothing, 1 the exact order of the clients.

    >>> FeatureKnobs(speed=1.0).utility
    0.5
    """

    speed: float = pydantic.Field(
        0.8, ge=0, le=1, description="Correlation of cpu flops, cpu cores and gpu flops with speed, each on its own."
    )
    utility: float = pydantic.Field(
        0.5, ge=0, le=1, description="Correlation of memory and gpu count with utility, each on its own."
    )


def feature_table(
    speed: FloatArray,
    utility: FloatArray,
    sizes: FloatArray,
    bandwidth: FloatArray,
    knobs: FeatureKnobs,
    streams: Streams,
) -> tuple[FloatArray, tuple[str, ...]]:
    """The feature table (N, 7) of clients with this true speed, utility, data size and bandwidth, and its columns.

    A hinting column is exp(r·z + √(1 − r²)·noise): z is the normal score of the true value's rank, r the knob, and
    every column has its own noise. Such a column is a number in units of a typical device (also the counts), and its
    rank correlation with the truth is (6/π)·asin(r/2). Data size and bandwidth are the true values; an infinite
    bandwidth (devices without transfers) becomes the largest finite one, or 0 if there is none.

    >>> speed, sizes = np.array([3.0, 1.0, 2.0]), np.array([10.0, 20.0, 30.0])
    >>> knobs = FeatureKnobs(speed=1.0, utility=0.0)
    >>> table, names = feature_table(speed, np.ones(3), sizes, np.array([5.0, 6.0, 7.0]), knobs, Streams(1))
    >>> names[0], table[:, 0].round(2), table[:, 5]
    ('cpu flops', array([2.63, 0.38, 1.  ]), array([10., 20., 30.]))
    """
    columns = {"speed": speed, "utility": utility, "sizes": sizes, "bandwidth": bandwidth}
    for name, values in columns.items():
        if values.shape != speed.shape or values.ndim != 1 or not len(values) or np.isnan(values).any():
            raise InputError(
                f"{name} has shape {values.shape} with {int(np.isnan(values).sum())} NaN; "
                f"give one number for each of {speed.shape} clients."
            )
    known = bandwidth[np.isfinite(bandwidth)]
    table = {"data size": sizes, "bandwidth": np.minimum(bandwidth, known.max() if len(known) else 0.0)}
    for truth, knob, names in ((speed, knobs.speed, SPEED_FEATURES), (utility, knobs.utility, UTILITY_FEATURES)):
        scores = normal_scores(truth)
        for name in names:
            noise = streams.generator("features", FEATURES.index(name)).standard_normal(len(scores))
            table[name] = np.exp(blended(scores, noise, knob))
    return np.column_stack([table[name] for name in FEATURES]), FEATURES


def matched_order(speed: FloatArray, sizes: FloatArray, correlation: float, streams: Streams) -> IntArray:
    """Which device each client gets, so that speed and data size have about this rank correlation.

    `Devices.matched` takes the result. At 1 the fastest device goes to the largest client, at -1 to the smallest, at 0
    devices are dealt out at random. Between, clients are ranked by a normal score that has the Pearson correlation
    2·sin(π·correlation/6) with their size, which gives the requested rank correlation.

    >>> speed, sizes = np.array([1.0, 2.0, 3.0]), np.array([20.0, 30.0, 10.0])
    >>> order = matched_order(speed, sizes, 1.0, Streams(1))
    >>> order, speed[order]
    (array([1, 2, 0]), array([2., 3., 1.]))
    """
    if speed.shape != sizes.shape or speed.ndim != 1 or not len(speed):
        raise InputError(f"speed has shape {speed.shape} and sizes {sizes.shape}; give one number per client in both.")
    if not -1.0 <= correlation <= 1.0:
        raise InputError(f"correlation is {correlation}; it must lie in [-1, 1].")
    rng = streams.generator("matching")
    noise, ties = rng.standard_normal(len(speed)), rng.uniform(size=(2, len(speed)))
    pearson = float(np.clip(2.0 * np.sin(np.pi * correlation / 6.0), -1.0, 1.0))
    # At the ends rounding must not leave any noise: the order is exact there.
    pearson = float(np.sign(correlation)) if abs(correlation) == 1.0 else pearson
    wish = blended(normal_scores(sizes), noise, pearson)
    order = np.empty(len(speed), dtype=np.int64)
    order[np.lexsort((ties[0], wish))] = np.lexsort((ties[1], speed))
    return order
