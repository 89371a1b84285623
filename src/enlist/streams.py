"""Random streams that are found by counting: one per (purpose, position), the same whoever asks, and in any order.

A stream needs no memory of what was drawn before, so runs with other selectors, other numbers of workers, or resumed
after a kill meet the same luck.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from enlist import checks


class Streams:
    """Generators of one seed, by purpose and up to three whole numbers (round, client, ...).

    >>> streams = Streams(7)
    >>> a = streams.generator("noise", 3).normal(size=4)
    >>> b = streams.generator("noise", 3).normal(size=4)
    >>> (a == b).all(), (a == streams.generator("noise", 4).normal(size=4)).any()
    (np.True_, np.False_)
    """

    def __init__(self, seed: int) -> None:
        self.seed = checks.whole("seed", seed, minimum=0)

    def generator(self, purpose: str, *position: int) -> np.random.Generator:
        """The generator of this purpose and position, at its beginning."""
        counter = [0, *position, *(0 for _ in range(3 - len(position)))]
        return np.random.Generator(np.random.Philox(key=[self.seed, _key(purpose)], counter=counter))

    def number(self, purpose: str, *position: int) -> int:
        """A 63-bit number, to seed a generator of another library."""
        return int(self.generator(purpose, *position).integers(2**63))


@functools.cache
def _key(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
