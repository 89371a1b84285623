"""Decisions: which arms to play, which of their models to keep, and what was learned about them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pydantic
from numpy.typing import ArrayLike

from enlist import bandits, storage
from enlist._internal import checks
from enlist._internal.options import Options
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.bandits.evidence import ArmStatistics
from enlist.bandits.extreme import winner
from enlist.errors import InputError
from enlist.personal.arms import Arms

BANDITS: dict[str, type[bandits.Rule[Any, Any]]] = {
    rule.name: rule
    for rule in (
        bandits.EpsilonGreedy,
        bandits.UCB,
        bandits.Thompson,
        bandits.DiscountedThompson,
        bandits.ExtremeExplore,
        bandits.BayesianExtremeExplore,
    )
}


class ExploreRounds(Options):
    """Rounds of Extreme Explore mixed into another rule: with a probability, every i-th round, or both.

    >>> rounds = ExploreRounds(every=2, growth=2.0)
    >>> [round for round in range(1, 31) if rounds.scheduled(round)]
    [2, 6, 14, 30]
    """

    probability: float = pydantic.Field(
        0.0, ge=0, le=1, description="Probability that a round is one of Extreme Explore; 0.1 is a good start."
    )
    every: int | None = pydantic.Field(None, ge=1, description="Rounds from one scheduled exploration to the next.")
    growth: float = pydantic.Field(
        1.0, ge=1, le=1000, description="Factor by which this interval grows after each scheduled exploration."
    )

    def scheduled(self, round: int) -> bool:
        """Whether the schedule makes `round` (from 1) one of Extreme Explore."""
        if self.every is None:
            return False
        gap, due = float(self.every), self.every
        while due < round:
            gap *= self.growth
            due += int(gap + 0.5)
        return due == round

    def extreme(self, round: int, rng: np.random.Generator) -> bool:
        """Whether `round` is one of Extreme Explore, by schedule or by chance."""
        lucky = self.probability > 0 and rng.random() < self.probability
        return lucky or self.scheduled(round)


class Play(NamedTuple):
    """The arms to train and evaluate in a round, and whether it is a round of Extreme Explore.

    Without any arm, the target trains alone.

    >>> Play(np.array([2]), extreme=False).arms
    array([2])
    """

    arms: IntArray
    extreme: bool


class Decision:
    """A rule at work on the arms of one target. `rules` starts it; a round is play, adopt, learn.

    >>> from enlist.personal.rules import UCBRule
    >>> decision = UCBRule().start(Arms.pairs(["1", "2", "3", "4"], "2"), np.random.default_rng(1))
    >>> for round in range(1, 21):
    ...     play = decision.play(np.ones(3, dtype=bool), round)
    ...     increases = np.array([0.01, 0.05, 0.02])[play.arms]
    ...     adopted = decision.adopt(play, increases)
    ...     decision.learn(play.arms, increases, increases)
    >>> decision.arms.label(decision.best()), decision.count().sum()
    ('2+3', np.int64(20))
    """

    def __init__(
        self,
        arms: Arms,
        rule: bandits.Rule[Any, Any],
        *,
        explore: ExploreRounds | None = None,
        delayed: bool = False,
        only: int | None = None,
    ) -> None:
        self.arms, self.rule, self.delayed, self.only = arms, rule, delayed, only
        self.explore = ExploreRounds() if explore is None else explore
        self.evidence = ArmStatistics.create(len(arms))
        self.removed: BoolArray = np.zeros(len(arms), dtype=bool)

    @property
    def always_extreme(self) -> bool:
        """Whether the rule itself is Extreme Explore."""
        return isinstance(self.rule, bandits.ExtremeExplore | bandits.BayesianExtremeExplore)

    def play(self, allowed: ArrayLike, round: int) -> Play:
        """The arms of this round, among those allowed and not removed."""
        extreme = self.explore.extreme(round, self.rng) or self.always_extreme
        given = np.asarray(allowed, dtype=bool)
        if given.shape != (len(self.arms),):
            raise InputError(f"allowed has shape {given.shape}; it needs one value for each of {len(self.arms)} arms.")
        possible = given & ~self.removed
        if self.only is not None:
            possible &= np.arange(len(self.arms)) == self.only
        if not possible.any():
            return Play(np.zeros(0, dtype=np.int64), extreme=False)
        return Play(np.flatnonzero(possible) if extreme else self.rule.choose(possible), extreme)

    def adopt(self, play: Play, rewards: ArrayLike) -> int:
        """Position within `play.arms` of the arm whose model is kept; call it before `learn`.

        In a round of Extreme Explore the best reward wins; ties, which are frequent with binary rewards, are broken by
        the estimate from earlier rounds, then at random. With delayed rewards the best estimate wins. An arm that is
        not credited (NaN) loses.
        """
        if len(play.arms) == 1:
            return 0
        values = self.values()[play.arms]
        given = np.asarray(rewards, dtype=float)
        luck = self.rng.random(len(play.arms))
        if self.delayed:
            return winner(np.where(np.isnan(given), np.nan, values), values, luck)
        return winner(given, values, luck)

    def learn(self, arms: ArrayLike, rewards: ArrayLike, increases: ArrayLike) -> None:
        """Learn from the rewards and increases of the played arms; NaN is not credited."""
        played, earned, gained = np.asarray(arms), np.asarray(rewards, dtype=float), np.asarray(increases, dtype=float)
        credited = ~np.isnan(earned)
        if credited.any():
            self.rule.update(played[credited], earned[credited])
            known = credited & ~np.isnan(gained)
            self.evidence.add(played[known], gained[known])

    @property
    def rng(self) -> np.random.Generator:
        """The generator of the rule, which is saved with it."""
        return self.rule.rng

    def values(self) -> FloatArray:
        """The rule's current estimate of each arm's reward."""
        return self.rule.values()

    def count(self) -> IntArray:
        """How often each arm was credited."""
        return self.evidence.count

    def bounds(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each arm's mean increase; infinite below three increases."""
        return self.evidence.bounds(checks.finite("confidence", confidence, 0.0, 1.0 - 1e-12), self.arms.alone)

    def probability_best(self) -> FloatArray:
        """Probability that each arm has the largest mean increase. The call changes no state."""
        return self.evidence.probability_best(self.arms.alone)

    def best(self) -> int:
        """The combination learned: among credited ones, the one most probably the best."""
        seen = self.count() > 0
        if not seen.any():
            return int(np.argmax(self.values())) if self.only is None else self.only
        return winner(np.where(seen, self.probability_best(), np.nan), self.evidence.mean)

    def eliminate(self, confidence: float = 0.95) -> IntArray:
        """Remove the arms whose upper bound is below the best lower bound; returns the newly removed ones.

        Each interval holds with `confidence` for a single check; use 0.99 for a check after every round.
        """
        lower, upper = self.bounds(confidence)
        clearly_worse = ~self.removed & (upper < lower[~self.removed].max())
        self.removed = self.removed | clearly_worse
        return np.flatnonzero(clearly_worse)

    def extend(self, arms: Arms) -> None:
        """Continue with more arms: the current ones, followed by new ones (`Arms.with_more`)."""
        before, more = len(self.arms), len(arms) - len(self.arms)
        if arms.names != self.arms.names or not np.array_equal(arms.members[:before], self.arms.members):
            raise InputError("the arms to continue with must begin with the current ones; use Arms.with_more.")
        self.arms = arms
        self.rule.state.grow(more)
        self.rule.joined(before)
        self.evidence.grow(more)
        self.removed = np.concatenate([self.removed, np.zeros(more, dtype=bool)])

    def priors(self, values: ArrayLike, weight: int = 1) -> None:
        """Start from the estimates of an earlier run or another target, each worth `weight` rewards; NaN is unknown."""
        given = np.asarray(values, dtype=float)
        if given.shape != (len(self.arms),):
            raise InputError(f"values has shape {given.shape}; it needs one number for each of {len(self.arms)} arms.")
        if self.count().any():
            raise InputError("priors must be set before the first reward; start a new decision.")
        known = np.flatnonzero(~np.isnan(given))
        self.rule.prior(known, given[known], checks.whole("weight", weight, minimum=0))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write everything as JSON and npz."""
        header = {
            "rule": self.rule.name,
            "explore": self.explore.model_dump(),
            "delayed": self.delayed,
            "only": self.only,
            "names": list(self.arms.names),
            "target": self.arms.target,
        }
        state = {name: np.asarray(value) for name, value in self.evidence.leaves("evidence/")}
        storage.write(folder, "decision", header, {"members": self.arms.members, "removed": self.removed, **state})
        self.rule.save(Path(folder) / "rule")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read what `save` wrote and continue bit-exactly."""
        header, arrays = storage.read(folder, "decision")
        arms = Arms(arrays["members"], header["target"], tuple(header["names"]))
        rule = BANDITS[header["rule"]].load(Path(folder) / "rule")
        explore = ExploreRounds(**header["explore"])
        decision = cls(arms, rule, explore=explore, delayed=header["delayed"], only=header["only"])
        decision.evidence.restore(dict(arrays), "evidence/")
        decision.removed = arrays["removed"]
        return decision
