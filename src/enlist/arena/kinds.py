"""Kinds of data and batteries in the arena, to judge selectors that use updates, labels or energy."""

from __future__ import annotations

import numpy as np

from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.records import Selection

NUMBERS = 8
"""How many numbers an update has in the arena."""
JOULES = 100.0
"""What taking part in a round costs a client with a battery."""


class Kinds:
    """Clients hold one of a few kinds of data, some of them rare: those of one kind have similar labels and updates.

    The model's loss on a kind falls when clients of that kind take part, with diminishing returns, and creeps back up
    when they do not. So a few clients of every kind teach more than many of one.

    of        which kind each client holds, (n,)
    centres   the update that each kind asks for, (kinds, 8)
    length    relative length of each client's updates, (n,)
    level     the model's loss on each kind, at most 1

    >>> kinds = Kinds(3, np.full(6, 100.0), seed=1)
    >>> kinds.of, kinds.loss
    (array([2, 0, 1, 0, 2, 0]), 1.0)
    >>> kinds.learn(np.array([0, 1, 3]))
    >>> round(kinds.loss, 3)
    0.61
    """

    def __init__(self, kinds: int, sizes: FloatArray, seed: int) -> None:
        rng, clients = np.random.default_rng((seed, 2)), len(sizes)
        shares = 1.0 / np.arange(1, kinds + 1)
        self.of: IntArray = rng.choice(kinds, clients, p=shares / shares.sum())
        self.of[rng.permutation(clients)[:kinds]] = np.arange(kinds)[:clients]  # no kind is missing
        self.centres: FloatArray = rng.standard_normal((kinds, NUMBERS)) / np.sqrt(NUMBERS)
        self.length: FloatArray = rng.lognormal(0.0, 0.5, clients)
        self.level: FloatArray = np.ones(kinds)
        self.share: FloatArray = np.bincount(self.of, weights=sizes, minlength=kinds) / sizes.sum()
        self.seed = seed

    @property
    def loss(self) -> float:
        """The model's loss, over all samples."""
        return float(self.share @ self.level)

    def learn(self, taking_part: IntArray) -> None:
        """Train the model on these clients."""
        replies = np.bincount(self.of[taking_part], minlength=len(self.level))
        self.level += 0.05 * (1.0 - self.level) - 0.5 * self.level * (1.0 - np.exp(-2.0 * replies))

    def label_counts(self, num_examples: FloatArray) -> FloatArray:
        """Nine in ten samples of a client are of its own class, the others of any class, (n, kinds)."""
        count = len(self.level)
        own = np.eye(count)[self.of]
        return np.asarray(np.rint(num_examples[:, None] * (0.9 * own + 0.1 / count)))

    def updates(self, round: int) -> FloatArray:
        """The update that each client would send in this round, (n, 8)."""
        noise = np.random.default_rng((self.seed, 4, round)).standard_normal((len(self.of), NUMBERS))
        towards = self.level[self.of][:, None] * self.centres[self.of] + 0.1 * noise
        return np.asarray(self.length[:, None] * towards)

    def error(self, round: int, picked: Selection, taking_part: IntArray, sizes: FloatArray) -> float:
        """Squared distance between the aggregate and that of all clients, relative to the mean squared update."""
        updates = self.updates(round)
        whole = sizes @ updates / sizes.sum()
        index = np.searchsorted(picked.clients, taking_part)
        if picked.weights is None:
            weights = sizes[taking_part] / max(float(sizes[taking_part].sum()), 1e-12)
        else:
            weights = picked.weights[index]
        gap = weights @ updates[taking_part] - whole
        return float(gap @ gap / (updates**2).sum(axis=1).mean())


class Batteries:
    """Batteries that drain when clients take part and charge slowly; a client whose battery dies is lost in that round.

    >>> batteries = Batteries(lasts=5.0, clients=4, seed=1)
    >>> batteries.left.round(), batteries.empty
    (array([368., 101., 657., 476.]), array([False, False, False, False]))
    >>> batteries.spend(np.array([1]))
    >>> batteries.empty
    array([False,  True, False, False])
    """

    def __init__(self, lasts: float, clients: int, seed: int) -> None:
        rng = np.random.default_rng((seed, 5))
        self.full: FloatArray = JOULES * lasts * rng.lognormal(0.0, 0.5, clients)
        self.left: FloatArray = self.full * rng.uniform(0.2, 1.0, clients)
        self.charging: FloatArray = JOULES * rng.uniform(0.02, 0.2, clients)

    @property
    def empty(self) -> BoolArray:
        """Who could not finish a round."""
        return np.asarray(self.left < JOULES)

    def spend(self, clients: IntArray) -> None:
        """A round in which these clients were asked; all clients charge meanwhile."""
        self.left[clients] = np.maximum(self.left[clients] - JOULES, 0.0)
        self.left = np.minimum(self.left + self.charging, self.full)
