"""Decision rules over arms: the thesis's bandits, for single arms and for k at a time.

A rule keeps one estimate per arm. `choose` picks arms, `update` records their rewards; the k-of-n selectors of the same
names wrap these rules, and so does personalised learning, where an arm is a combination of workers.
"""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from enlist import storage
from enlist._internal import checks
from enlist._internal.locks import Shared, exclusive
from enlist._internal.settings import NoSettings, build_settings, read_settings, written_settings
from enlist._internal.text import brief
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.bandits.estimates import BetaPosterior, Estimates
from enlist.bandits.sampling import rest, top_k, uniform, unseen_first
from enlist.errors import InputError, StateFileError
from enlist.state import State

SettingsT = TypeVar("SettingsT")
StateT = TypeVar("StateT", bound=State)


class Rule(Shared, Generic[SettingsT, StateT]):
    """A bandit over `arms` arms: `choose(mask) -> arms`, `update(arms, rewards)`; threads may share one.

    >>> rule = UCB(3, seed=1)
    >>> arm = rule.choose()
    >>> rule.update(arm, [0.2])
    >>> rule.choose(mask=[False, True, True], count=2)
    array([1, 2])
    """

    name: ClassVar[str] = ""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    Settings: type[SettingsT] = NoSettings  # type: ignore[assignment]
    State: type[StateT]

    def __init__(self, arms: int, *, seed: int = 0, rng: np.random.Generator | None = None, **settings: Any) -> None:
        self.arms = checks.whole("arms", arms, minimum=1)
        self.settings: SettingsT = build_settings(type(self), None, settings)
        self.rng = np.random.default_rng(checks.whole("seed", seed, minimum=0)) if rng is None else rng
        self.state: StateT = self.initial_state()

    def initial_state(self) -> StateT:
        """The state before the first reward."""
        return self.State.create(self.arms)

    @exclusive
    def choose(self, mask: ArrayLike | None = None, count: int = 1) -> IntArray:
        """Choose `count` distinct arms (all, if there are fewer) among those that `mask` allows."""
        allowed = checks.positions("mask", mask, self.arms)
        count = checks.whole("count", count, minimum=0)
        if count >= len(allowed):
            return allowed
        return allowed[self.pick(allowed, count)]

    def pick(self, allowed: IntArray, count: int) -> IntArray:
        """Indices into `allowed` of the `count` arms to play; there are more than `count` allowed."""
        raise NotImplementedError(f"{type(self).__name__} must define pick(allowed, count)")

    @exclusive
    def update(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Record the rewards of distinct arms, clipped to 1e15 in magnitude."""
        played = np.atleast_1d(checks.as_array("update", "arms", arms, None))
        if played.dtype == bool:
            raise InputError("arms is a mask; pass the positions of the arms, in the order of their rewards.")
        checks.positions("arms", played, self.arms)
        try:
            values = np.atleast_1d(np.asarray(rewards, dtype=float))
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"rewards {brief(rewards)} must be numbers.") from None
        if values.shape != played.shape or not np.isfinite(values).all():
            raise InputError(f"rewards {brief(rewards)} must be one finite number for each of {len(played)} arms.")
        values = checks.bounded(values)
        self.check_rewards(values)
        self.advance()
        self.learn(played.astype(np.int64), values)

    def check_rewards(self, rewards: FloatArray) -> None:
        """Refuse rewards that this rule cannot use."""

    def advance(self) -> None:
        """A new round begins: whatever fades with time fades. `update` calls this itself."""

    def revise(self, arms: IntArray, before: FloatArray, after: FloatArray, age: int = 0) -> None:
        """Replace rewards that were recorded `age` rounds ago."""
        raise NotImplementedError(f"{type(self).__name__} must define revise(arms, before, after, age)")

    def joined(self, before: int) -> None:
        """The arms from `before` on are new; `state` has grown already."""
        self.arms = len(self.values())

    def learn(self, arms: IntArray, rewards: FloatArray) -> None:
        """Record checked rewards."""
        raise NotImplementedError(f"{type(self).__name__} must define learn(arms, rewards)")

    def prior(self, arms: IntArray, values: FloatArray, weight: int) -> None:
        """Start from estimates made elsewhere, each worth as much as `weight` rewards; before the first reward."""
        raise NotImplementedError(f"{type(self).__name__} must define prior(arms, values, weight)")

    def values(self) -> FloatArray:
        """The present estimate of each arm."""
        raise NotImplementedError(f"{type(self).__name__} must define values()")

    def rewarded(self) -> BoolArray:
        """For which arms a reward, or a prior, is known."""
        raise NotImplementedError(f"{type(self).__name__} must define rewarded()")

    @exclusive
    def save(self, folder: str | PathLike[str]) -> None:
        """Write settings, state and generator as JSON and npz."""
        arrays: dict[str, AnyArray] = {}
        header = {
            "rule": self.name,
            "arms": self.arms,
            "settings": written_settings(self.settings, arrays),
            "generator": self.rng.bit_generator.state,
            "scalars": storage.split(self.state, "state/", arrays),
        }
        storage.write(folder, "rule", header, arrays)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read what `save` wrote and continue bit-exactly."""
        header, arrays = storage.read(folder, "rule")
        if header.get("rule") != cls.name:
            raise StateFileError(f"{folder} holds rule '{header.get('rule')}', not '{cls.name}'.")
        with storage.whole(folder):
            rule = cls(header["arms"], **read_settings(folder, header["settings"], arrays, {}))
            storage.restore(rule.state, "state/", arrays, header["scalars"])
            rule.rng.bit_generator.state = header["generator"]
        return rule


@dataclasses.dataclass(frozen=True)
class MeanSettings:
    """step: None for plain means, else the weight of the latest reward; initial: the estimate before the first one.

    >>> MeanSettings().initial
    0.05
    """

    step: float | None = None
    initial: float = 0.05

    def __post_init__(self) -> None:
        checks.finite("initial", self.initial)
        if self.step is not None:
            checks.finite("step", self.step, 1e-12, 1.0)


@dataclasses.dataclass
class ArmState(State):
    """Estimates of every arm and the number of updates.

    >>> ArmState.create(2, estimates=Estimates.create(2)).plays
    0
    """

    estimates: Estimates
    plays: int = 0


MeanSettingsT = TypeVar("MeanSettingsT", bound=MeanSettings)


class MeanRule(Rule[MeanSettingsT, ArmState]):
    """What rules on mean rewards share: stationary or recency-weighted estimates from an initial value.

    >>> rule = UCB(2, initial=0.3)
    >>> rule.learn(np.array([1]), np.array([0.7]))
    >>> rule.state.estimates.mean
    array([0.3, 0.7])
    """

    State = ArmState

    def initial_state(self) -> ArmState:
        estimates = Estimates.create(self.arms)
        estimates.mean[:] = self.settings.initial
        return ArmState(estimates=estimates)

    def joined(self, before: int) -> None:
        super().joined(before)
        self.state.estimates.mean[before:] = self.settings.initial

    def advance(self) -> None:
        self.state.plays += 1

    def learn(self, arms: IntArray, rewards: FloatArray) -> None:
        self.state.estimates.update(arms, rewards, self.settings.step)

    def revise(self, arms: IntArray, before: FloatArray, after: FloatArray, age: int = 0) -> None:
        if self.settings.step is None:
            self.state.estimates.revise(arms, before, after)
        else:
            self.state.estimates.mean[arms] += self.settings.step * (after - before)

    def prior(self, arms: IntArray, values: FloatArray, weight: int) -> None:
        self.state.estimates.mean[arms] = values
        self.state.estimates.count[arms] = weight

    def values(self) -> FloatArray:
        return self.state.estimates.mean

    def rewarded(self) -> BoolArray:
        return np.asarray(self.state.estimates.count > 0)


@dataclasses.dataclass(frozen=True)
class EpsilonGreedySettings(MeanSettings):
    """epsilon: share of exploration; step and initial as in `MeanSettings`.

    >>> EpsilonGreedySettings().epsilon
    0.2
    """

    epsilon: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.finite("epsilon", self.epsilon, 0.0, 1.0)


class EpsilonGreedy(MeanRule[EpsilonGreedySettings]):
    """Greedy with probability exactly 1 - epsilon for each slot, otherwise a uniform arm that is not greedy.

    This is the thesis's rule: the common variant explores among all arms, so its greedy arm gets epsilon/n on top.
    With `count` slots, the number that explores is binomial.

    >>> rule = EpsilonGreedy(3, epsilon=0.0)
    >>> rule.update([0, 1, 2], [0.1, 0.9, 0.3])
    >>> rule.choose()
    array([1])
    """

    name = "epsilon-greedy"
    Settings = EpsilonGreedySettings

    def pick(self, allowed: IntArray, count: int) -> IntArray:
        explorers = min(int(self.rng.binomial(count, self.settings.epsilon)), len(allowed) - count)
        greedy = top_k(self.values()[allowed], count, self.rng)
        if not explorers:
            return greedy
        kept = greedy[uniform(count, count - explorers, self.rng)]
        others = rest(len(allowed), greedy)
        return np.concatenate([kept, others[uniform(len(others), explorers, self.rng)]])


@dataclasses.dataclass(frozen=True)
class UCBSettings(MeanSettings):
    """c: width of the bonus; step and initial as in `MeanSettings`.

    >>> UCBSettings().c
    0.05
    """

    c: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.finite("c", self.c, 0.0)


class UCB(MeanRule[UCBSettings]):
    """Largest mean + c sqrt(2 ln t / count); every arm is played once first. t counts updates.

    >>> rule = UCB(2, c=0.0)
    >>> rule.update([0, 1], [0.1, 0.9])
    >>> rule.choose()
    array([1])
    """

    name = "ucb"
    Settings = UCBSettings

    def pick(self, allowed: IntArray, count: int) -> IntArray:
        pulls = self.state.estimates.count[allowed]
        return unseen_first(self.values()[allowed] + self.bonus()[allowed], pulls == 0, count, self.rng)

    def bonus(self) -> FloatArray:
        """Width added to each estimate."""
        pulls = np.maximum(self.state.estimates.count, 1)
        return np.asarray(self.settings.c * np.sqrt(2.0 * np.log(max(self.state.plays, 1)) / pulls))


@dataclasses.dataclass(frozen=True)
class ThompsonSettings:
    """alpha, beta: the Beta prior; gamma: share of past evidence kept at each update (1 forgets nothing).

    >>> ThompsonSettings().gamma
    1.0
    """

    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        checks.finite("alpha", self.alpha, 1e-9)
        checks.finite("beta", self.beta, 1e-9)
        checks.finite("gamma", self.gamma, 0.0, 1.0)


class Thompson(Rule[ThompsonSettings, BetaPosterior]):
    """Plays the arms with the largest draws from their Beta posteriors; rewards must lie in [0, 1].

    >>> rule = Thompson(2, seed=1)
    >>> for _ in range(50):
    ...     rule.update([0, 1], [0.0, 1.0])
    >>> rule.choose()
    array([1])
    """

    name = "thompson"
    Settings = ThompsonSettings
    State = BetaPosterior

    def pick(self, allowed: IntArray, count: int) -> IntArray:
        draws = self.state.sample(allowed, self.settings.alpha, self.settings.beta, self.rng)
        return top_k(draws, count, self.rng)

    def check_rewards(self, rewards: FloatArray) -> None:
        if ((rewards < 0) | (rewards > 1)).any():
            raise InputError(f"rewards {rewards.tolist()} must lie in [0, 1] for a Beta posterior; scale them first.")

    def learn(self, arms: IntArray, rewards: FloatArray) -> None:
        self.state.update(arms, rewards)

    def advance(self) -> None:
        if self.settings.gamma < 1.0:
            self.state.discount(self.settings.gamma)

    def revise(self, arms: IntArray, before: FloatArray, after: FloatArray, age: int = 0) -> None:
        gain = self.settings.gamma**age * (after - before)  # what was recorded has faded since
        self.state.successes[arms] = np.maximum(self.state.successes[arms] + gain, 0.0)
        self.state.failures[arms] = np.maximum(self.state.failures[arms] - gain, 0.0)

    def prior(self, arms: IntArray, values: FloatArray, weight: int) -> None:
        self.check_rewards(values)
        self.state.successes[arms] = weight * values
        self.state.failures[arms] = weight * (1.0 - values)

    def values(self) -> FloatArray:
        return self.state.mean(self.settings.alpha, self.settings.beta)

    def rewarded(self) -> BoolArray:
        return np.asarray(self.state.successes + self.state.failures > 0)


@dataclasses.dataclass(frozen=True)
class DiscountedThompsonSettings(ThompsonSettings):
    """As `ThompsonSettings`, with the thesis's best discount.

    >>> DiscountedThompsonSettings().gamma
    0.75
    """

    gamma: float = 0.75


class DiscountedThompson(Thompson):
    """Thompson sampling that forgets: before each update all counts shrink by gamma, so unplayed arms open up again.

    >>> rule = DiscountedThompson(2, gamma=0.5)
    >>> rule.update([0], [1.0])
    >>> rule.update([1], [0.0])
    >>> rule.state.successes, rule.state.failures
    (array([0.5, 0. ]), array([0., 1.]))
    """

    name = "discounted-thompson"
    Settings = DiscountedThompsonSettings
