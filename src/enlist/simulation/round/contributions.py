"""How much the updates of a round lower the server's validation loss, for selectors that use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from enlist.simulation.round.state import RunState
from enlist.streams import Streams
from enlist.training.flat import Vectors
from enlist.training.local import Report
from enlist.training.mixtures import Mixtures
from enlist.training.shapley import shapley
from enlist.training.workers import Trainer, one_thread

TRIAL = -(1 << 62)
"""The version of a model that is only tried out."""
WORST = 1e6
"""The loss of a model whose loss is not finite."""


class Contributions:
    """Shapley values of updates: how much each lowers the validation loss, averaged over all orders of arrival.

    A set of updates is worth minus the loss of the current model moved by their weighted mean, which is what FedAvg
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
        """Reports with the worth of the updates; `received` are (report, weight, update) each, and none is refused."""
        if not received:
            return []
        weights = torch.tensor([weight for _, weight, _ in received], dtype=torch.float32)
        updates = [update for _, _, update in received]
        parameters = torch.stack([update.parameters for update in updates])
        loss = self._fast(parameters) or self._any(parameters, updates)

        def worth(some: tuple[int, ...]) -> float:
            shares = torch.zeros(len(weights))
            shares[list(some)] = weights[list(some)]
            found = loss(shares / shares.sum() if float(shares.sum()) > 0 else torch.zeros(len(weights)))
            return -min(found, WORST) if math.isfinite(found) else -WORST

        with one_thread():  # so that results do not depend on the number of workers
            values = shapley(len(received), worth, self.streams.generator("shapley", self.state.round))
        return [
            report._replace(contribution=float(value)) for (report, _, _), value in zip(received, values, strict=True)
        ]

    def _fast(self, parameters: Tensor) -> Callable[[Tensor], float] | None:
        """The loss of a mixture of updates, if the model is a small dense one; else None."""
        job, chain = self.trainer.job, self.trainer.chain
        data = job.data["validation"]
        if chain is None or not Mixtures.fits(chain, len(parameters), len(data)):
            return None
        with one_thread():
            return Mixtures(chain, self.state.server.model.parameters, parameters, data, job.classes).loss

    def _any(self, parameters: Tensor, updates: Sequence[Vectors]) -> Callable[[Tensor], float]:
        """The loss of a mixture of updates, for any model."""
        buffers = torch.stack([update.buffers for update in updates])

        def loss(shares: Tensor) -> float:
            model = self.state.server.model.clone()
            some = shares.nonzero().flatten()
            if len(some):
                model.parameters += shares[some] @ parameters[some]
                if model.buffers.numel():
                    model.buffers.copy_(shares[some] @ buffers[some])
            return self.trainer.evaluate(self.state.models.put(TRIAL, model), "validation")[0]

        return loss
