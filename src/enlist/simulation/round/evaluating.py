"""Evaluating the model of a run: when, on what, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from enlist.errors import InputError
from enlist.runs.columns import ENERGY, ROUNDS
from enlist.simulation.config import Config
from enlist.simulation.evaluation import Evaluator
from enlist.simulation.round.state import RunState
from enlist.simulation.setup import tells_accuracy
from enlist.training.workers import Trainer

Rows = Callable[[], Sequence[Mapping[str, str]]]
"""Reads rounds.csv."""


def finished(state: RunState, config: Config) -> bool:
    """Whether the last round, the end of the virtual time, or the target has been reached, or patience has run out.

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, evaluation={"target": 0.2, "stop_at_target": True})
    >>> with Simulation(config) as simulation:
    ...     simulation.state.reached_in = 3
    ...     finished(simulation.state, config), at_end(simulation.state, config)
    (True, False)
    """
    at_target = config.evaluation.stop_at_target and state.reached_in > 0
    return at_end(state, config) or at_target or state.watch.exhausted


def at_end(state: RunState, config: Config) -> bool:
    """Whether no round can follow, whatever the evaluations say.

    >>> from enlist.simulation import Config, Simulation
    >>> config = Config(data={"clients": 8}, rounds={"rounds": 1, "k": 2})
    >>> with Simulation(config) as simulation:
    ...     before = at_end(simulation.state, config)
    ...     _ = simulation.step()
    ...     before, at_end(simulation.state, config)
    (False, True)
    """
    rounds = config.rounds
    out_of_time = rounds.seconds is not None and state.now >= rounds.seconds
    return state.round >= rounds.rounds or out_of_time or state.abandoned


def evaluate(state: RunState, config: Config, trainer: Trainer, evaluator: Evaluator, last: bool) -> dict[str, float]:
    """Evaluate the current model if it is due, or if this round is the last; returns columns of rounds.csv.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8})) as simulation:
    ...     state, config, trainer = simulation.state, simulation.config, simulation.trainer
    ...     sorted(evaluate(state, config, trainer, simulation.evaluator, last=True))
    ['accuracy', 'loss']
    """
    slot, measured = state.models.slot(state.round), dict[str, float]()
    due = last or state.round % config.evaluation.every == 0
    if tells_accuracy(state.selector) or (due and state.watch.needs_validation):
        loss, accuracy = trainer.evaluate(slot, "validation")
        measured |= {"validation_loss": loss, "validation_accuracy": accuracy}
    if due:
        state.loss, state.accuracy = trainer.evaluate(slot, "test")
        measured |= {"loss": state.loss, "accuracy": state.accuracy}
        target = config.evaluation.target
        reached = target is not None and (
            state.accuracy >= target if trainer.job.classes else state.loss <= target
        )  # fmt: skip
        if reached and not state.reached_in:
            state.reached_in, state.reached_at = state.round, state.now
        further, state.client_accuracy = evaluator.measure(slot)
        measured |= further
        state.watch.note(measured, state.round, state.server.model)
    return measured


def take_back(state: RunState, config: Config, rows: Rows) -> list[str]:
    """Drop the evaluation of a round that is no longer the last; returns its columns of rounds.csv.

    An extended run then continues as if it had been longer from the start.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8}, rounds={"rounds": 5}, evaluation={"every": 2})) as simulation:
    ...     record = simulation.step()
    >>> take_back(simulation.state, simulation.config, lambda: [{"round": "1", "loss": "2.3"}])
    ['loss']
    """
    every = config.evaluation.every
    if state.round % every == 0:
        return []
    table = {int(row["round"]): row for row in rows()}
    further = config.tables()["rounds.csv"][len(ROUNDS) :]
    names = ("accuracy", "loss", *(name for name in further if name != ENERGY))
    found = [name for name in names if table.get(state.round, {}).get(name)]
    if found and config.evaluation.watching:
        raise InputError(
            f"round {state.round} was evaluated because it was the last, and evaluation.keep_best or patience used "
            f"that; only a run whose rounds are a multiple of evaluation.every = {every} can be extended."
        )
    if found:
        before = table.get(state.round - state.round % every, {})
        state.accuracy, state.loss = (float(before.get(name) or "nan") for name in ("accuracy", "loss"))
        if state.reached_in == state.round:
            state.reached_in, state.reached_at = 0, math.nan
    return found
