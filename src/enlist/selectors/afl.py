"""AFL, active federated learning: clients with a lot of data and high loss, by weighted draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray
from enlist.bandits import top_k, uniform, weighted_by_logarithm
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class AFLSettings:
    """Settings of `afl`.

    Parameters
    ----------
    alpha1 : float, default 0.75
        Share of the available clients, those with the lowest value, that is not drawn by weight.
    alpha2 : float, default 0.01
        Steepness of the weights.
    alpha3 : float, default 0.1
        Share of k that is drawn uniformly from the rest.

    >>> AFLSettings().alpha1
    0.75
    """

    alpha1: float = 0.75
    alpha2: float = 0.01
    alpha3: float = 0.1

    def __post_init__(self) -> None:
        checks.finite("alpha1", self.alpha1, 0.0, 1.0)
        checks.finite("alpha2", self.alpha2, 0.0)
        checks.finite("alpha3", self.alpha3, 0.0, 1.0)


@dataclasses.dataclass
class AFLState(State):
    """Value of each client at its last participation (NaN: never), and the round of that.

    >>> AFLState.create(2).value
    array([nan, nan])
    """

    value: FloatArray = column(np.nan)
    valued: AnyArray = column(0, np.int32)


class AFL(Selector[AFLSettings, AFLState]):
    """(1-a3) k clients drawn with weights  exp(a2 v_i)  among the most valuable 1-a1, and a3 k uniformly from the rest.

    v_i = sqrt(n_i) * mean loss at its last participation, n_i its samples (1 if clients.num_examples is not given).
    Clients never heard from have the lowest value.

    Reference: Goetz et al., Active Federated Learning, 2019.
    Needs loss. O(n) per round; 12 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("afl", enlist.Clients(num_examples=[100, 400, 100, 100]), seed=1)
    >>> picked = selector.ask(k=4)
    >>> selector.tell(picked, enlist.Feedback(loss=[1.0, 2.0, 3.0, float("nan")]))
    >>> selector.state.value
    array([10., 40., 30., nan])

    Differs from the paper: a1 is the share that is dropped (one public version keeps it instead). Where a3 k is not
    whole it is rounded up or down at random, so that its mean is a3 k. Slots that cannot be filled by weight, because
    too few clients have a value, are filled uniformly.
    """

    name = "afl"
    reference = "Goetz et al. 2019"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"loss"})
    Settings = AFLSettings
    with_ = WithSettings(AFLSettings)
    State = AFLState

    def choose(self, request: Request) -> Choice:
        value, count = request.of(self.state.value), len(request.available)
        weights = self._weights(value, count - math.floor(self.settings.alpha1 * count + 1e-9))
        spare = self.settings.alpha3 * request.k + 1e-9
        explorers = math.floor(spare) + int(self.rng.uniform() < spare % 1.0)
        drawn = weighted_by_logarithm(weights, max(request.k - explorers, 0), self.rng)
        others = np.delete(np.arange(count), drawn)
        rest = others[uniform(len(others), request.k - len(drawn), self.rng)]
        return request.pick(np.concatenate([drawn, rest]), value=value, weight=np.exp(weights))

    def _weights(self, value: FloatArray, keep: int) -> FloatArray:
        """Logarithms alpha2 (v - max v) for the `keep` largest values, -inf for the others."""
        valued = np.flatnonzero(~np.isnan(value))
        kept = valued[top_k(value[valued], keep, self.rng)]
        weights = np.full(len(value), -np.inf)
        if len(kept):
            weights[kept] = self.settings.alpha2 * (value[kept] - value[kept].max())
        return weights

    def learn(self, told: Observation) -> FloatArray | None:
        loss = told.column("loss")
        # A reply from an older round than the one already used says nothing new.
        newest = told.selection.round >= self.state.valued[told.clients]
        known = told.completed & ~np.isnan(loss) & newest
        clients = told.clients[known]
        samples = 1.0 if self.clients.num_examples is None else self.clients.num_examples[clients]
        self.state.value[clients] = np.sqrt(samples) * loss[known]
        self.state.valued[clients] = told.selection.round
        return None

    def amend(self, told: Observation) -> None:
        self.learn(told)

    def summary(self) -> dict[str, FloatArray]:
        return {"value": self.state.value}
