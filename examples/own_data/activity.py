"""Your own data and your own model: what people do, from a sensor that they wear. See activity.toml."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from enlist.data import Dataset, Samples
from enlist.streams import Streams

ACTIVITIES = ("rest", "walk", "run", "cycle")
SWING = np.array([0.1, 1.0, 2.0, 0.8])  # how far the sensor moves
TEMPO = np.array([0.5, 2.0, 3.0, 1.3])  # and how often, in a window of 32 readings


def load(streams: Streams, people: int = 60, windows: int = 40) -> Dataset:
    """Windows of 32 readings on three axes; every person has a favourite activity and a way of moving.

    Replace the body by whatever reads your data: what counts is the Dataset that comes back.
    """
    rng = streams.generator("activity")  # draws that belong to the seed of the run: never numpy.random
    train = recorded(np.arange(people), windows, rng)
    test = recorded(np.arange(people, people + 20), windows, rng)  # people whom no client has seen
    return Dataset("activity", train=train, test=test, classes=len(ACTIVITIES), class_names=ACTIVITIES)


def recorded(people: np.ndarray, windows: int, rng: np.random.Generator) -> Samples:
    """`windows` windows of each of these people."""
    taste = rng.dirichlet(np.full(len(ACTIVITIES), 0.7), size=len(people))
    way = rng.normal(1.0, 0.15, size=(len(people), 3))  # how strongly each axis shows somebody's movements
    who = np.repeat(np.arange(len(people)), windows)
    doing = np.array([rng.choice(len(ACTIVITIES), p=taste[person]) for person in who])
    time = np.linspace(0.0, 2.0 * np.pi, 32)
    phase = rng.uniform(0.0, 2.0 * np.pi, size=(len(who), 1, 1))
    wave = SWING[doing][:, None, None] * np.sin(TEMPO[doing][:, None, None] * time + phase)
    readings = way[who][:, :, None] * wave + rng.normal(0.0, 0.8, size=(len(who), 3, 32))
    return Samples(x=readings, y=doing, users=people[who])


class Waves(nn.Module):
    """(n, 3, readings) windows to (n, classes) logits: a convolution over time, its mean, and a linear layer."""

    def __init__(self, channels: int = 16, classes: int = len(ACTIVITIES)) -> None:
        super().__init__()
        self.filters = nn.Conv1d(3, channels, kernel_size=7, padding=3)
        self.answer = nn.Linear(channels, classes)

    def forward(self, windows: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.answer(self.filters(windows).relu().mean(dim=2))
        return logits
