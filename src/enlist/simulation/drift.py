"""Drift: clients whose speed or data change during a run.

Who changes is drawn from a random stream of its own, the same for every selector. A client's speed and data are a pure
function of seed, round and virtual time, so there is nothing to save: runs can be killed, resumed, and trained by any
number of workers. Nobody is told; what is known of clients up front stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import pydantic

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError
from enlist.simulation.groups import GroupOptions, members
from enlist.streams import Streams


class DriftOptions(GroupOptions):
    """Which clients change, how, and from when on.

    >>> sorted(DriftOptions.model_fields)
    ['clients', 'from_round', 'from_time', 'group', 'kind', 'share']
    """

    kind: str
    from_time: float = pydantic.Field(
        0.0, ge=0, description="Virtual seconds before which it does not apply, whatever the round."
    )

    def holds(self, round: int, now: float) -> bool:
        """Whether it applies to clients selected in this round, at this time."""
        return round >= self.from_round and now >= self.from_time


class SpeedDrift(DriftOptions):
    """Clients become faster or slower, in computing and in transfers.

    >>> SpeedDrift(share=0.3, factor=0.1).factor
    0.1
    """

    kind: Literal["speed"] = "speed"
    factor: float = pydantic.Field(
        0.2, ge=1e-6, le=1e6, description="Speed is multiplied by this: 0.2 is five times as slow."
    )


class DataDrift(DriftOptions):
    """Clients hold each other's samples: each those of the next one, in a random circle of the clients of the table.

    Their numbers of samples, classes and wrong labels move with the samples.

    >>> DataDrift(share=0.5, from_round=40).kind
    'data'
    """

    kind: Literal["data"] = "data"


AnyDrift = Annotated[SpeedDrift | DataDrift, pydantic.Field(discriminator="kind")]
"""Type of a field that holds any table of drift."""


class Drift:
    """Which clients of a population change, how, and when. False if none does.

    >>> drift = Drift([SpeedDrift(clients=[2], factor=0.5, from_round=3)], 4, Streams(1))
    >>> drift.slowness(np.arange(4), round=3, now=0.0)
    array([1., 1., 2., 1.])
    >>> drift.slowness(np.arange(4), round=2, now=0.0)
    array([1., 1., 1., 1.])
    """

    def __init__(self, tables: Sequence[DriftOptions], count: int, streams: Streams) -> None:
        self.tables, self.count = tuple(tables), count
        self.members = members(self.tables, count, streams.generator("drift"), "drift")
        self.circles: list[IntArray] = []
        for number, (table, clients) in enumerate(zip(self.tables, self.members, strict=True), start=1):
            if isinstance(table, DataDrift) and len(clients) < 2:
                raise InputError(
                    f"table {number} of [[drift]] lets {len(clients)} client swap samples; name two or more."
                )
            self.circles.append(streams.generator("drift data", number).permutation(clients))
        self._known: dict[tuple[bool, ...], tuple[FloatArray, IntArray]] = {}

    def __bool__(self) -> bool:
        return bool(self.tables)

    def slowness(self, clients: IntArray, round: int, now: float) -> FloatArray:
        """Factor by which these clients are slower than at first, if selected in this round, at this time."""
        return self._state(round, now)[0][clients]

    def shards(self, clients: IntArray, round: int, now: float) -> IntArray:
        """Whose samples these clients hold: as positions, their own if nothing has changed."""
        return self._state(round, now)[1][clients] if self else clients

    def kinds(self) -> AnyArray:
        """How each client changes, (N,); empty for clients that do not."""
        named = [""] * self.count
        for table, clients in zip(self.tables, self.members, strict=True):
            for client in clients.tolist():
                named[client] = f"{named[client]} {table.kind}".strip()
        return np.array(named)

    def _state(self, round: int, now: float) -> tuple[FloatArray, IntArray]:
        """The slowness of every client, and whose samples each one holds."""
        holding = tuple(table.holds(round, now) for table in self.tables)
        if holding not in self._known:
            slow, held = np.ones(self.count), np.arange(self.count)
            for number, (table, clients) in enumerate(zip(self.tables, self.members, strict=True)):
                if holding[number] and isinstance(table, SpeedDrift):
                    slow[clients] /= table.factor
                elif holding[number]:
                    held[self.circles[number]] = held[np.roll(self.circles[number], -1)]
            self._known[holding] = slow, held
        return self._known[holding]
