"""Local noise: clients clip their losses and accuracies and add noise before the server sees them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import FloatArray, IntArray
from enlist.streams import Streams
from enlist.training.local import Report

LOSSES = ("loss", "loss_rms", "loss_after")
RANGES = {"accuracy": (0.0, 1.0), "accuracy_gain": (-1.0, 1.0)}
"""The range in which an accuracy lies anyway."""


class LocalNoise(Options):
    """Gaussian noise on what clients report, the Gaussian mechanism on each value.

    A loss is clipped to [0, clip], an accuracy lies in [0, 1] and a gain of accuracy in [-1, 1]. The noise has `sigma`
    times the width of that range as its standard deviation; the result is clipped to the range again, which costs no
    privacy. Each value of each report is then (epsilon, delta)-private for every epsilon below 1 with
    sigma >= sqrt(2 ln(1.25 / delta)) / epsilon (Dwork and Roth 2014, Theorem A.1); values and rounds add up.

    >>> quiet = LocalNoise(clip=2.0, sigma=0.0)
    >>> quiet.report(Report(loss=3.5, accuracy=0.5), Streams(1), 4, 7).loss
    2.0
    """

    model_config = pydantic.ConfigDict(allow_inf_nan=False)

    clip: float = pydantic.Field(5.0, gt=0, le=1e6, description="Losses above this are reported as this.")
    sigma: float = pydantic.Field(
        0.1, ge=0, le=1e3, description="Standard deviation of the noise, as a share of the range of a value."
    )

    def report(self, report: Report, streams: Streams, round: int, client: int) -> Report:
        """What a client selected in this round reports; sample counts and what the server measures stay as they are."""
        ranges = dict.fromkeys(LOSSES, (0.0, self.clip)) | RANGES
        noise = streams.rewound("local noise", round, client).standard_normal(len(ranges)).tolist()
        changed: dict[str, Any] = {
            name: self._noisy(getattr(report, name), drawn, low, high)
            for drawn, (name, (low, high)) in zip(noise, ranges.items(), strict=True)
        }
        return report._replace(**changed)

    def losses(self, losses: FloatArray, streams: Streams, round: int, clients: IntArray) -> FloatArray:
        """What clients report when asked for their loss before the selection."""
        drawn = [
            streams.rewound("local noise on asking", round, client).standard_normal() for client in clients.tolist()
        ]
        pairs = zip(losses.tolist(), drawn, strict=True)
        return np.array([self._noisy(loss, noise, 0.0, self.clip) for loss, noise in pairs], dtype=float)

    def _noisy(self, value: float, noise: float, low: float, high: float) -> float:
        if math.isnan(value):  # nothing was measured, so nothing is reported
            return value
        told = min(max(value, low), high) + self.sigma * (high - low) * noise
        return min(max(told, low), high)
