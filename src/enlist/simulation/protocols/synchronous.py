"""The synchronous protocol: select k clients (or some more), continue with the first k replies, average."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from enlist._internal.typing import IntArray
from enlist.bandits import staleness
from enlist.simulation.protocols.protocol import Arrivals, Memory, Merge, Protocol, Quota, RoundContext


class Synchronous(Protocol):
    """FedAvg's round with a deadline and over-commitment, where late updates may still be averaged (REFL).

    >>> import numpy as np
    >>> from enlist.simulation.sections import RoundsSection
    >>> context = RoundContext(round=1, now=0.0, members=20, length=math.nan, expected=np.ones(20))
    >>> Synchronous(RoundsSection(k=10, over_commit=1.3)).wanted(context)
    Quota(asked=13, replies=10)
    """

    def wanted(self, context: RoundContext) -> Quota:
        """k replies; fewer if late ones are about to arrive and the target adapts (REFL)."""
        replies = self.settings.k
        if self.settings.adaptive_target:
            due = 0
            for entry in context.under_way:  # whether or not they reply: the server cannot know
                left = entry.asked_at + context.expected[entry.client] - context.now
                due += int(left <= context.length)
            replies = staleness.adaptive_target(self.settings.k, due)
        return Quota(self.settings.asked_for(replies), replies)

    def enough(self, context: RoundContext, wanted: Quota, arrivals: Sequence[int], late: Sequence[int]) -> bool:
        """Whether all wanted replies are in; late ones do not count."""
        return len(arrivals) >= wanted.replies

    def base(self, memory: Memory, client: int, asked_in: int) -> int:
        """The model that the previous round produced."""
        return asked_in - 1

    def taken(self, context: RoundContext, arrivals: IntArray, accept: Callable[[IntArray, int], IntArray]) -> IntArray:
        """All clients that replied."""
        return arrivals

    def merge(self, context: RoundContext, received: Arrivals) -> Merge:
        """The average of all updates, late ones at a discount."""
        discounts = self._discounts(received)
        weights = {
            client: received.given[client] if received.given else _shown(received.weight(report.num_examples, 1.0))
            for client, report in received.reports.items()
            if not report.error
        }
        late_weights = {
            entry.client: _shown(received.weight(entry.report.num_examples, discount))
            if entry.weight is None
            else discount * entry.weight
            for entry, discount in zip(received.usable, discounts, strict=True)
        }
        return Merge(context.memory, weights, discounts, late_weights)

    def needed(self, memory: Memory, under_way: Collection[int]) -> set[int]:
        """Models that clients still train from."""
        return {asked_in - 1 for asked_in in under_way}

    def _discounts(self, received: Arrivals) -> list[float]:
        late = received.usable
        if not late:
            return []
        rounds = [entry.lateness for entry in late]
        if self.settings.staleness == "refl":
            found = staleness.refl_weights(rounds, received.deviation(late))
        else:
            found = getattr(staleness, self.settings.staleness)(rounds)
        return [float(discount) for discount in found]


def _shown(weight: float | None) -> float:
    """NaN where updates are not weighed (medians)."""
    return math.nan if weight is None else weight
