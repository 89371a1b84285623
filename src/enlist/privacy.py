"""Who can see what: the privacy class of every column that selectors use.

outcome      the server always sees it: who was asked, who replied, and when
aggregate    a property of the sum of updates or of the global model: it survives secure aggregation
individual   a value of a single client, which secure aggregation hides
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Privacy(enum.IntEnum):
    """What must be seen, from least to most.

    >>> Privacy.OUTCOME < Privacy.INDIVIDUAL, str(Privacy.AGGREGATE)
    (True, 'aggregate')
    """

    OUTCOME = 0
    AGGREGATE = 1
    INDIVIDUAL = 2

    def __str__(self) -> str:
        return self.name.lower()


COLUMNS = {
    "latency": Privacy.OUTCOME,
    "upload_latency": Privacy.OUTCOME,
    "num_examples": Privacy.INDIVIDUAL,
    "loss": Privacy.INDIVIDUAL,
    "loss_rms": Privacy.INDIVIDUAL,
    "accuracy": Privacy.INDIVIDUAL,
    "accuracy_gain": Privacy.INDIVIDUAL,
    "update": Privacy.INDIVIDUAL,
    "update_norm": Privacy.INDIVIDUAL,
    "contribution": Privacy.INDIVIDUAL,
    "energy": Privacy.INDIVIDUAL,
    "round.accuracy": Privacy.AGGREGATE,
    "round.loss": Privacy.AGGREGATE,
    "round.duration": Privacy.OUTCOME,
    "clients.expected_latency": Privacy.OUTCOME,
    "clients.expected_upload": Privacy.OUTCOME,
}
"""Classes by column. Whoever talks to a client sees its times; other columns of `Clients`, and everything in `context`,
are what a client says about itself."""


def privacy_of(column: str) -> Privacy:
    """The class of a column, as `Selector.needs` names it.

    >>> str(privacy_of("latency")), str(privacy_of("round.accuracy")), str(privacy_of("clients.label_counts"))
    ('outcome', 'aggregate', 'individual')
    """
    return COLUMNS.get(column, Privacy.INDIVIDUAL)


def needed_for(columns: Iterable[str]) -> Privacy:
    """The most that must be seen for these columns.

    >>> str(needed_for([])), str(needed_for(["latency", "round.loss"])), str(needed_for(["latency", "loss"]))
    ('outcome', 'aggregate', 'individual')
    """
    return max(map(privacy_of, columns), default=Privacy.OUTCOME)
