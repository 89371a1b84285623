"""The loop of a run, a simulation or a personalisation: round after round, with callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from enlist.simulation.callbacks import Callback


class Stepwise(Protocol):
    """A run that proceeds round by round.

    >>> from enlist.simulation import Config, Simulation
    >>> Simulation(Config(data={"clients": 8})).finished
    False
    """

    stopping: bool

    @property
    def finished(self) -> bool:
        """Whether no round is left to do."""

    def step(self) -> Any:
        """Do one round; returns its record."""


RunT = TypeVar("RunT", bound=Stepwise)


def do_rounds(run: RunT, callbacks: Sequence[Callback[RunT, Any]]) -> None:
    """Do rounds to the end, or until `stopping` is set.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})) as simulation:
    ...     do_rounds(simulation, [])
    >>> simulation.round
    2
    """
    for callback in callbacks:
        callback.on_start(run)
    while not run.finished and not run.stopping:
        record = run.step()
        for callback in callbacks:
            callback.on_round(run, record)
