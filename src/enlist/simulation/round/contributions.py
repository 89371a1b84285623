"""What the updates of a round do for the server's validation loss, for selectors that go by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from enlist.simulation.round.state import RunState
from enlist.streams import Streams
from enlist.training.flat import Vectors
from enlist.training.local import Report
from enlist.training.shapley import shapley
from enlist.training.workers import Trainer

TRIAL = -(1 << 62)
"""The version of a model that is only tried out."""
WORST = 1e6
"""The loss of a model that gives no finite one."""


class Contributions:
    """Shapley values of updates: what each brings the validation loss down by, whoever came before it.

    A set of updates is worth minus the loss of the present model moved by their weighted mean, which is what FedAvg
    would do with them; the server's own optimiser and aggregation rule are left out.

    >>> from enlist.simulation import Config, Simulation
    >>> with Simulation(Config(data={"clients": 8}, selector="greedyfed", rounds={"rounds": 1, "k": 3})) as simulation:
    ...     _ = simulation.step()
    >>> bool((simulation.selector.state.rounds > 0).sum() == 3)
    True
    """

    def __init__(self, trainer: Trainer, state: RunState, streams: Streams) -> None:
        self.trainer, self.state, self.streams = trainer, state, streams

    def of(self, received: Sequence[tuple[Report, float, Vectors]]) -> list[Report]:
        """Reports with what their updates are worth; those are (report, weight, update) each, and none is refused."""
        if not received:
            return []
        updates = [update for _, _, update in received]
        stacks = [torch.stack([getattr(update, part) for update in updates]) for part in ("parameters", "buffers")]
        weights = torch.tensor([weight for _, weight, _ in received], dtype=torch.float32)

        def worth(some: tuple[int, ...]) -> float:
            model = self.state.server.model.clone()
            if some and float(weights[list(some)].sum()) > 0:
                share = weights[list(some)] / weights[list(some)].sum()
                change, buffers = (share @ stack[list(some)] for stack in stacks)
                model.parameters += change
                if model.buffers.numel():
                    model.buffers.copy_(buffers)
            loss, _ = self.trainer.evaluate(self.state.models.put(TRIAL, model), "validation")
            return -min(loss, WORST) if math.isfinite(loss) else -WORST

        values = shapley(len(received), worth, self.streams.generator("shapley", self.state.round))
        return [
            report._replace(contribution=float(value)) for (report, _, _), value in zip(received, values, strict=True)
        ]
