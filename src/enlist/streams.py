"""Counter-based random streams: one per (purpose, position), the same for every caller, in any order.

A stream does not depend on earlier draws, so runs with other selectors, other numbers of workers, or resumed after a
kill see the same random events.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from enlist._internal import checks
from enlist.errors import InputError


class Streams:
    """Generators for one seed, by purpose and up to three whole numbers (round, client, ...).

    >>> streams = Streams(7)
    >>> a = streams.generator("noise", 3).normal(size=4)
    >>> b = streams.generator("noise", 3).normal(size=4)
    >>> (a == b).all(), (a == streams.generator("noise", 4).normal(size=4)).any()
    (np.True_, np.False_)
    >>> (streams.rewound("noise", 3).normal(size=4) == a).all()
    np.True_
    """

    def __init__(self, seed: int) -> None:
        self.seed = checks.whole("seed", seed, minimum=0)
        if self.seed >= 2**64:
            raise InputError(f"seed is {self.seed}; give one below 2**64.")
        self._kept: dict[str, tuple[np.random.Generator, Any]] = {}

    def generator(self, purpose: str, *position: int) -> np.random.Generator:
        """The generator for this purpose and position, at its start."""
        counter = np.array([0, *position, *(0 for _ in range(3 - len(position)))], dtype=np.uint64)
        key = np.array([self.seed, _key(purpose)], dtype=np.uint64)  # a list would pass through floats
        return np.random.Generator(np.random.Philox(key=key, counter=counter))

    def rewound(self, purpose: str, *position: int) -> np.random.Generator:
        """The same stream as `generator`, but from one generator per purpose, which the next call rewinds.

        Several times faster, for callers that draw at once and do not keep the generator.
        """
        if purpose not in self._kept:
            made = self.generator(purpose)
            self._kept[purpose] = made, made.bit_generator.state
        generator, beginning = self._kept[purpose]
        beginning["state"]["counter"][1:] = (*position, *(0 for _ in range(3 - len(position))))
        generator.bit_generator.state = beginning
        return generator

    def number(self, purpose: str, *position: int) -> int:
        """A 63-bit number, to seed a generator of another library."""
        return int(self.generator(purpose, *position).integers(2**63))


@functools.cache
def _key(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
