"""Models that clients still train from, each in a slot of the trainer's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enlist.training.flat import Vectors

if TYPE_CHECKING:
    from enlist.training.workers import Trainer


class Models:
    """Versions of the global model: the current one, and those of rounds with late clients.

    A version is the round that produced it; 0 is the first model. A slot is free again when nobody needs its model.

    >>> models = Models()
    >>> models.slot(1), models.slot(2), models.keep({2}), models.slot(3)
    (0, 1, None, 0)
    """

    def __init__(self, trainer: Trainer | None = None) -> None:
        self.trainer = trainer
        self.slots: dict[int, int] = {}

    def slot(self, version: int) -> int:
        """The slot of a version; assigns one if it has none yet."""
        if version not in self.slots:
            used = set(self.slots.values())
            self.slots[version] = next(slot for slot in range(len(used) + 1) if slot not in used)
        return self.slots[version]

    def put(self, version: int, model: Vectors) -> int:
        """Keep a copy of a model as this version; returns its slot."""
        assert self.trainer is not None
        slot = self.slot(version)
        self.trainer.put(slot, model)
        return slot

    def lend(self, client: int, model: Vectors) -> int:
        """Keep a copy of a client's own model until `keep` is called; returns its slot."""
        return self.put(-1 - client, model)

    def __getitem__(self, version: int) -> Vectors:
        """The model of a version, in the trainer's memory."""
        assert self.trainer is not None
        return self.trainer.models[self.slots[version]]

    def keep(self, versions: set[int]) -> None:
        """Drop all other versions."""
        self.slots = {version: slot for version, slot in self.slots.items() if version in versions}

    def clear(self) -> None:
        """Drop all versions."""
        self.slots = {}
