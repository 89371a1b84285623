"""What the best selector would have done: the genie, and the regret against it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from enlist._internal import checks
from enlist._internal.settings import NoSettings
from enlist._internal.typing import FloatArray, IntArray
from enlist.arena.worlds import Truth, World
from enlist.bandits import argmax_min_plus_sum, best_subset, capped_shares, hypervolume, proportional_shares
from enlist.contract import Choice, Request, Selector
from enlist.selectors import AnyMethod, create, method
from enlist.state import NoState

REGRETS = ("pseudo", "printed", "expected", "hypervolume", "front")
"""What `Regret.of` gives for a round."""


@dataclasses.dataclass(frozen=True)
class BSFLReward:
    """BSFL's reward: min of speeds + (alpha/k) sum of g, g by how far each client lags behind its share (Eqs. 3-5).

    normalised   lag relative to its target, clipped to [-1, 1], as the selector's default; False as printed
    by_size      targets in proportion to num_examples (non-iid) instead of k/n
    capped       those targets capped at 1 by water-filling, as the selector's default; False as printed (Eq. 4)

    >>> reward = BSFLReward()
    >>> reward.generalisation(np.array([0, 2]), rounds=2, k=1, sizes=np.array([1.0, 1.0]))
    array([ 1., -1.])
    """

    alpha: float = 1.0
    beta: float = 1.0
    normalised: bool = True
    by_size: bool = False
    capped: bool = True

    def __post_init__(self) -> None:
        checks.finite("alpha", self.alpha, 0.0)
        checks.finite("beta", self.beta, 0.0)

    def generalisation(self, selected: IntArray, rounds: int, k: int, sizes: FloatArray) -> FloatArray:
        """g of every client, given how often each was selected before round `rounds`."""
        target = np.full(len(sizes), min(k / len(sizes), 1.0))
        if self.by_size:
            target = (capped_shares if self.capped else proportional_shares)(sizes, float(k))
        lag = target - selected / rounds
        if self.normalised:
            lag = np.clip(lag / np.maximum(target, 1e-12), -1.0, 1.0)
        return np.asarray(np.abs(lag) ** self.beta * np.sign(lag))

    def value(self, speed: FloatArray, lag: FloatArray, chosen: IntArray, k: int) -> float:
        """The reward of a set; an empty one is worth nothing."""
        if not len(chosen):
            return 0.0
        return float(speed[chosen].min() + self.alpha / k * lag[chosen].sum())

    def best(
        self,
        speed: FloatArray,
        lag: FloatArray,
        available: IntArray,
        k: int,
        rng: np.random.Generator,
        size: int | None = None,
    ) -> IntArray:
        """The set of `size` (k, if there are as many) available clients with the largest reward."""
        keys, values = speed[available], self.alpha / k * lag[available]
        return np.asarray(available[argmax_min_plus_sum(keys, values, k if size is None else size, rng)])


class Genie(Selector[NoSettings, NoState]):
    """Knows the true means and maximises the reward on its own history: the rollout genie. It exists only in the arena.

    >>> from enlist.arena import Scenario, World
    >>> world = World(Scenario(), clients=6, rounds=5, seed=1)
    >>> len(Genie.of(world, BSFLReward(), seed=1).ask(k=2))
    2
    """

    name = "genie"
    world: World
    reward: BSFLReward

    @classmethod
    def of(cls, world: World, reward: BSFLReward, seed: int) -> Genie:
        """A genie for this world."""
        genie = cls(world.clients(), seed=seed)
        genie.world, genie.reward = world, reward
        return genie

    def choose(self, request: Request) -> Choice:
        truth = self.world.truth(self.round)
        lag = self.reward.generalisation(self.counts.selected, self.round, request.k, self.world.num_examples)
        best = self.reward.best(truth.speed, lag, request.available, request.k, self.rng)
        return Choice(best, {"speed": truth.speed[best], "generalisation": lag[best]})


@dataclasses.dataclass
class Regret:
    """What a policy lost in each round against a genie with the same history.

    pseudo        F(best set) - F(chosen set), F with true mean speeds and the policy's own history: never negative
    printed       F(best set) - realised reward, as Eq. 7 prints it; grows linearly even for the genie, because the
                  mean of a minimum lies below the minimum of means
    expected      F(chosen set): summed and compared with the rollout genie's own sum
    hypervolume   area covered by the best k clients minus that covered by the chosen ones (FedSUV)
    front         the same against the whole Pareto front, which k clients may be too few to cover

    >>> from enlist.arena import Scenario, World
    >>> regret = Regret(World(Scenario(), clients=6, rounds=5, seed=1), BSFLReward(), k=2)
    >>> sorted(regret.of(1, np.arange(6), np.array([0, 1]), np.zeros(6, int), np.full(2, 0.5)))
    ['expected', 'front', 'hypervolume', 'printed', 'pseudo']
    """

    world: World
    reward: BSFLReward
    k: int
    whole_area: float | None = None
    whole_front: float | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng((self.world.seed, 4))

    def of(
        self, round: int, available: IntArray, chosen: IntArray, selected: IntArray, latency: FloatArray
    ) -> dict[str, float]:
        """The losses of one round; `selected` counts the rounds before it, `latency` belongs to `chosen`."""
        if not len(available):
            return dict.fromkeys(REGRETS, 0.0)
        truth = self.world.truth(round)
        lag = self.reward.generalisation(selected, round, self.k, self.world.num_examples)
        optimum = self._optimum(truth, lag, available, fewer=len(chosen) < min(self.k, len(available)))
        expected = self.reward.value(truth.speed, lag, chosen, self.k)
        realised = 0.0
        if len(chosen):
            speed = self.world.shortest / np.minimum(latency, self.world.deadline)
            realised = float(speed.min() + self.reward.alpha / self.k * lag[chosen].sum())
        area = hypervolume(truth.validity[chosen], truth.utility[chosen])
        return {
            "pseudo": optimum - expected,
            "printed": optimum - realised,
            "expected": expected,
            "hypervolume": self._best_area(truth, available) - area,
            "front": self._front_area(truth, available) - area,
        }

    def _optimum(self, truth: Truth, lag: FloatArray, available: IntArray, fewer: bool) -> float:
        """The largest reward of k clients; of at most k, against a policy that chose fewer."""
        sizes = range(self.k + 1) if fewer else (self.k,)
        sets = (self.reward.best(truth.speed, lag, available, self.k, self.rng, size) for size in sizes)
        return max(self.reward.value(truth.speed, lag, chosen, self.k) for chosen in sets)

    def _front_area(self, truth: Truth, available: IntArray) -> float:
        if len(available) < self.world.count:
            return hypervolume(truth.validity[available], truth.utility[available])
        if self.whole_front is None:
            self.whole_front = hypervolume(truth.validity, truth.utility)
        return self.whole_front

    def _best_area(self, truth: Truth, available: IntArray) -> float:
        if len(available) < self.world.count:
            return best_subset(truth.validity[available], truth.utility[available], self.k)[1]
        # Reshuffling speeds and utilities does not change the best area over all clients.
        if self.whole_area is None:
            self.whole_area = best_subset(truth.validity, truth.utility, self.k)[1]
        return self.whole_area


def make(given: AnyMethod, world: World, reward: BSFLReward, seed: int, **settings: Any) -> Selector[Any, Any]:
    """A selector from any form of a method, or the genie.

    >>> from enlist.arena import Scenario, World
    >>> make("bsfl:paper", World(Scenario(), clients=6, rounds=5, seed=1), BSFLReward(), seed=1).settings.bonus_scale
    1.0
    """
    chosen = method(given)
    if chosen.name == Genie.name:
        return Genie.of(world, reward, seed)
    return create(chosen, world.clients(), seed=seed, **settings)
