"""Clients that join or leave during a run: the section `membership` of a configuration."""

from __future__ import annotations

import pydantic

from enlist._internal.options import Options


class Joining(Options):
    """Clients that join later: the last ones of the population.

    >>> Joining(round=5, clients=2).clients
    2
    """

    round: int = pydantic.Field(..., ge=2, description="The first round in which they take part.")
    clients: int = pydantic.Field(..., ge=1, description="How many.")


class Leaving(Options):
    """Clients that leave for good.

    >>> Leaving(round=9, clients=(3,)).round
    9
    """

    round: int = pydantic.Field(..., ge=2, description="The first round in which they are gone.")
    clients: tuple[int, ...] = pydantic.Field(..., min_length=1, description="Their positions.")


class Membership(Options):
    """Which clients join and leave.

    >>> Membership(joins=[Joining(round=5, clients=2)]).joining
    2
    """

    joins: tuple[Joining, ...] = pydantic.Field((), description="Clients that join during the run.")
    leaves: tuple[Leaving, ...] = pydantic.Field((), description="Clients that leave during the run.")

    @property
    def joining(self) -> int:
        """Total number of clients that join."""
        return sum(join.clients for join in self.joins)
