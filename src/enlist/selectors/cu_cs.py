"""CU-CS: the sum of the chance of finishing in time and the amount of data."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import Validity, credible, top_k
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State


@dataclasses.dataclass(frozen=True)
class CUCSSettings:
    """Settings of `cu-cs`.

    Parameters
    ----------
    delta : float, default 0.1
        Chance that an interval misses the truth.
    ridge : float, default 1.0
        Ridge of the validity model, in observations along each axis of the standardised features.
    size_weight : float, default 1.0
        Weight of the data volume.

    >>> CUCSSettings().size_weight
    1.0
    """

    delta: float = 0.1
    ridge: float = 1.0
    size_weight: float = 1.0

    def __post_init__(self) -> None:
        checks.finite("delta", self.delta, 1e-9, 1.0)
        checks.above_zero("ridge", self.ridge)
        checks.finite("size_weight", self.size_weight, 0.0)


@dataclasses.dataclass
class CUCSState(State):
    """The validity model.

    >>> import enlist
    >>> state = enlist.create("cu-cs", enlist.Clients(features=[[1.0], [2.0]], num_examples=[1, 2])).state
    >>> state.validity.model.theta
    array([0., 0.])
    """

    validity: Validity


class CUCS(Selector[CUCSSettings, CUCSState]):
    """The k clients with the largest  theta.x + a |x|_{H^-1} + w n_i / max n:  FedSUV's validity, added to data volume.

    Reference: Shi et al., Efficient Client Selection Based on Contextual Combinatorial Multi-Arm Bandits, IEEE TWC
    2023; the additive ablation of FedSUV, whose validity model it shares.
    Needs clients.features and clients.num_examples. O(n d^2) per round; 8 (d+1) bytes per client.

    >>> import enlist
    >>> clients = enlist.Clients(features=[[1.0], [2.0], [3.0]], num_examples=[10, 20, 30])
    >>> selector = enlist.create("cu-cs", clients, seed=1)
    >>> selector.ask(k=2).clients
    array([0, 2])

    Differs from the paper: the validity model is that of `fedsuv`, with standardised features (logarithms of magnitudes
    and counts) and an intercept; max n leaves out absurd numbers, and a client that declares one counts as the largest.
    """

    name = "cu-cs"
    reference = "Shi et al. 2023"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"clients.features", "clients.num_examples"})
    Settings = CUCSSettings
    with_ = WithSettings(CUCSSettings)
    State = CUCSState

    def initial_state(self) -> CUCSState:
        assert self.clients.features is not None
        validity = Validity.of(self.clients, self.settings.ridge)
        self.rows = validity.rows(self.clients.features)
        return CUCSState(validity=validity)

    def loaded(self) -> None:
        assert self.clients.features is not None
        self.rows = self.state.validity.rows(self.clients.features)

    def joined(self, before: int) -> None:
        assert self.clients.features is not None
        self.rows = np.concatenate([self.rows, self.state.validity.rows(self.clients.features[before:])])

    def compacted(self, kept: IntArray) -> None:
        self.rows = self.rows[kept]

    def choose(self, request: Request) -> Choice:
        assert self.clients.num_examples is not None
        mean, bonus = self.state.validity.interval(request.of(self.rows), self.settings.delta)
        largest = max(float(credible(self.clients.num_examples).max()), 1e-12)
        size = np.minimum(request.of(self.clients.num_examples) / largest, 1.0)
        score = mean + bonus + self.settings.size_weight * size
        return request.pick(top_k(score, request.k, self.rng), mean=mean, bonus=bonus, size=size)

    def learn(self, told: Observation) -> FloatArray | None:
        return self.state.validity.learn(self.rows[told.clients], told)

    def amend(self, told: Observation) -> None:
        self.state.validity.amend(self.rows[told.clients], told)
