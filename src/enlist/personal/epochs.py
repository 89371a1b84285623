"""Epochs per round: a fixed number, until the local loss stops falling, or fewer as the gains of rounds shrink."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from enlist._internal.options import Options
from enlist.training.local import MOST_EPOCHS


class Pacer:
    """Sets the epochs of the next round, and observes what the last one gained.

    >>> pacer = ShrinkingEpochs(epochs=6, least=2, window=1).start()
    >>> for gain in (0.10, 0.05, -0.01):
    ...     pacer.observe(gain)
    ...     pacer.most
    6
    3
    2
    """

    def __init__(self, options: EpochOptions) -> None:
        self.options = options
        self.gains: list[float] = []

    @property
    def most(self) -> int:
        """Maximum epochs of the next round."""
        return self.options.planned(self.gains)

    @property
    def tolerance(self) -> float | None:
        """A worker stops when its local loss falls by less than this share in an epoch; None: never."""
        return self.options.tolerance if isinstance(self.options, StableEpochs) else None

    def observe(self, gain: float) -> None:
        """Record how much the target's validation score improved in a round."""
        self.gains.append(gain)

    def state(self) -> dict[str, Any]:
        """What `restore` needs to continue, ready for JSON."""
        return {"gains": self.gains}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        self.gains = list(saved["gains"])


class EpochOptions(Options):
    """Base class of all ways to set epochs; `start` makes their pacer.

    >>> FixedEpochs(epochs=4).start().most
    4
    """

    epochs: int = pydantic.Field(6, ge=1, le=MOST_EPOCHS, description="Epochs per round.")

    def start(self) -> Pacer:
        """A new pacer."""
        return Pacer(self)

    def planned(self, gains: list[float]) -> int:
        """Maximum epochs of the next round, given the gain of each earlier round."""
        return self.epochs


class FixedEpochs(EpochOptions):
    """The same number of epochs in every round, as in the thesis: 6, as 4 distinguished combinations less well.

    >>> FixedEpochs().epochs
    6
    """

    kind: Literal["fixed"] = "fixed"


class StableEpochs(EpochOptions):
    """Each worker trains until its loss falls by less than a share `tolerance` in an epoch; momentum restarts with each
    epoch.

    >>> StableEpochs().start().tolerance
    0.01
    """

    kind: Literal["stable"] = "stable"
    epochs: int = pydantic.Field(12, ge=1, le=MOST_EPOCHS, description="Maximum epochs per round.")
    tolerance: float = pydantic.Field(
        0.01, gt=0, lt=1, description="A worker stops when its local loss falls by less than this share in an epoch."
    )


class ShrinkingEpochs(EpochOptions):
    """Fewer epochs as gains shrink: epochs x (mean gain of the last rounds) / (the largest such mean so far).

    >>> ShrinkingEpochs(window=2).planned([0.1, 0.1, 0.0])
    3
    """

    kind: Literal["shrinking"] = "shrinking"
    least: int = pydantic.Field(1, ge=1, description="Minimum epochs per round.")
    window: int = pydantic.Field(3, ge=1, description="Rounds over which the gain is averaged.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> ShrinkingEpochs:
        if self.least > self.epochs:
            raise ValueError(f"least = {self.least} is above epochs = {self.epochs}; give least <= epochs.")
        return self

    def planned(self, gains: list[float]) -> int:
        """Epochs of the next round."""
        if len(gains) < self.window:
            return self.epochs
        means = [
            max(sum(gains[last - self.window : last]) / self.window, 0.0) for last in range(self.window, len(gains) + 1)
        ]
        share = means[-1] / max(means) if max(means) > 0 else 0.0
        return max(self.least, round(self.epochs * share))


AnyEpochs = Annotated[FixedEpochs | StableEpochs | ShrinkingEpochs, pydantic.Field(discriminator="kind")]
"""Type of a field that holds any of them."""
