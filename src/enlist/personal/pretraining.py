"""Pre-training: workers train the initial model before the first round, which starts from the result.

The thesis trains all models once before its first round, so that they differ when they are first aggregated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from enlist.errors import InputError
from enlist.personal.arms import Arms
from enlist.personal.federation import Federation, WorkerUpdate, rows
from enlist.personal.proposals import clusters
from enlist.personal.sections import ArmsSection
from enlist.training.flat import Vectors

Start = Literal["own", "average", "target"]


class Pretraining:
    """Some workers train the initial model for some epochs. A pure function of the federation: it is not saved.

    >>> from enlist.personal.config import PersonalConfig
    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}})
    >>> federation = Federation(config.load_workers(), config.model, config.training, config.seed)
    >>> before = Pretraining(federation, [1, 2], epochs=2, target=1)
    >>> sorted(before.starts("own")[1]), before.messages("own"), before.messages("average")
    ([1, 2], 2, 4)
    """

    def __init__(self, federation: Federation, members: Sequence[int], epochs: int, target: int) -> None:
        self.federation, self.target = federation, target
        self.trained: dict[int, WorkerUpdate] = federation.train(members, federation.initial, epochs, round=0)

    def starts(self, start: Start) -> tuple[Vectors, dict[int, Vectors] | None]:
        """The model that the first round's updates are relative to, and the model each worker starts from.

        own        each worker's own
        average    the mean of all models sent, weighted by samples
        target     the target's
        """
        initial = self.federation.initial
        if start == "own":
            own = {worker: self.federation.aggregate(initial, [one], [1.0]) for worker, one in self.trained.items()}
            return initial, own
        sent = self._sent()
        chosen = list(sent) if start == "average" else [worker for worker in sent if worker == self.target]
        sizes = self.federation.workers.sizes[chosen].tolist()
        return self.federation.aggregate(initial, [sent[worker] for worker in chosen], sizes), None

    def proposed(self, section: ArmsSection) -> Arms:
        """Arms by clustering the updates that were sent."""
        sent, names = self._sent(), self.federation.workers.names
        if self.target not in sent:
            error = self.trained[self.target].error
            raise InputError(f"pre-training of the target failed: {error}; arms cannot be proposed.")
        known = list(sent)
        chosen = clusters(rows(list(sent.values())), known.index(self.target), section.size, section.subsets)
        combinations: list[list[int]] = [[known[place] for place in some] for some in chosen]
        return Arms.listed(names, self.target, [[], *combinations] if section.alone else combinations)

    def messages(self, start: Start, clustered: bool = False) -> int:
        """The messages: a model to each worker, and one back if the server uses it."""
        return len(self.trained) * (2 if start == "average" or clustered else 1)

    def _sent(self) -> dict[int, WorkerUpdate]:
        """Updates as they arrive at the server, of the workers that replied."""
        sent = self.federation.sent(self.trained)
        return {worker: answer for worker, answer in sent.items() if answer.update is not None}
