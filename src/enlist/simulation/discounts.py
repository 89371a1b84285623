"""Discounts of stale updates. The staleness is the number of server steps since the client was sent the model.

The three functions of Xie, Koyejo, Gupta: Asynchronous Federated Optimization, OPT 2020, of which FedBuff uses the
polynomial with a = 0.5. They are as in the authors' code (github.com/xcgoner/async_fl), which sets neither a nor b of
the hinge. The paper's values could not be verified either, so both have to be given.
"""

from __future__ import annotations

import abc
from typing import Annotated, Literal

import pydantic

from enlist._internal.options import Options


class DiscountOptions(Options, abc.ABC):
    """Options of a discount: `of` is the factor for a staleness, 1 for a fresh update and never above it.

    >>> sorted(DiscountOptions.model_fields)
    ['kind']
    """

    kind: str

    @abc.abstractmethod
    def of(self, staleness: int) -> float:
        """The factor for an update of this staleness."""


class ConstantDiscount(DiscountOptions):
    """Every update counts 1, however stale.

    >>> ConstantDiscount().of(7)
    1.0
    """

    kind: Literal["constant"] = "constant"

    def of(self, staleness: int) -> float:
        """1."""
        return 1.0


class Polynomial(DiscountOptions):
    """(1 + staleness)^-a; with a = 0.5 that is FedBuff's 1 / sqrt(1 + staleness).

    >>> Polynomial().of(3), Polynomial(a=1.0).of(3)
    (0.5, 0.25)
    """

    kind: Literal["polynomial"] = "polynomial"
    a: float = pydantic.Field(0.5, ge=0, le=100, description="Exponent.")

    def of(self, staleness: int) -> float:
        """(1 + staleness)^-a."""
        return float((1.0 + staleness) ** -self.a)


class Hinge(DiscountOptions):
    """1 up to a staleness of b, then 1 / (a (staleness - b) + 1).

    >>> Hinge(a=10.0, b=4).of(4), round(Hinge(a=10.0, b=4).of(6), 4)
    (1.0, 0.0476)
    """

    kind: Literal["hinge"] = "hinge"
    a: float = pydantic.Field(ge=0, le=1e6, description="Slope beyond b.")
    b: int = pydantic.Field(ge=0, description="Staleness up to which an update counts 1.")

    def of(self, staleness: int) -> float:
        """1, or 1 / (a (staleness - b) + 1)."""
        return 1.0 if staleness <= self.b else 1.0 / (self.a * (staleness - self.b) + 1.0)


AnyDiscount = Annotated[ConstantDiscount | Polynomial | Hinge, pydantic.Field(discriminator="kind")]
"""Type of a field that holds any discount."""
