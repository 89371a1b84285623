"""Poisonous workers: they spoil their own samples or their updates, and a rule must learn to leave them out."""

from __future__ import annotations

from typing import Annotated

import pydantic

from enlist.training import attacks
from enlist.training.attacks import Attack


class PoisonOptions(Attack):
    """What some workers do wrong: to their training samples (`spoil`), or to the updates they send (`distort`).

    >>> sorted(PoisonOptions.model_fields)
    ['kind', 'workers']
    """

    workers: tuple[str, ...] = pydantic.Field(min_length=1, description="Names of the workers that do it.")

    @pydantic.field_validator("workers", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        if not isinstance(given, list | tuple):
            return given
        return [str(name) if isinstance(name, int) else name for name in given]


class LabelFlipPoison(attacks.LabelFlipAttack, PoisonOptions):
    """Wrong labels: with two classes the other one, with more any other; in a regression, noise on the targets.

    >>> LabelFlipPoison(workers=["3"], share=0.5).wrong
    0.5
    """

    share: float = pydantic.Field(1.0, gt=0, le=1, description="Share of their labels that is wrong.")

    @property
    def wrong(self) -> float:
        """The share."""
        return self.share


class NoiseFeaturesPoison(attacks.NoiseFeaturesAttack, PoisonOptions):
    """Gaussian noise on every input, with `scale` times the deviation of that input in the worker's own samples.

    >>> NoiseFeaturesPoison(workers=["3"], scale=2.0).kind
    'noise-features'
    """


class SignFlipPoison(attacks.SignFlipAttack, PoisonOptions):
    """Updates with reversed sign: the worker pushes the model away from what it learned.

    >>> SignFlipPoison(workers=[3]).workers
    ('3',)
    """


class ScaledPoison(attacks.ScaledAttack, PoisonOptions):
    """Scaled-up updates: the worker wants more weight than it is given.

    >>> ScaledPoison(workers=["3"]).factor
    10.0
    """


AnyPoison = Annotated[
    LabelFlipPoison | NoiseFeaturesPoison | SignFlipPoison | ScaledPoison, pydantic.Field(discriminator="kind")
]
"""Type of a field that holds any poison's options."""
