"""Rules: how the next combination is chosen, as options of a configuration. `start` makes a `Decision`.

The bandits themselves are in enlist.bandits; here they get the thesis's settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic

from enlist import bandits
from enlist._internal.options import Options
from enlist.errors import InputError
from enlist.personal.arms import Arms, Worker
from enlist.personal.decision import Decision, ExploreRounds


class RuleOptions(Options):
    """Base class of all rules: they start a decision over some arms.

    >>> isinstance(UCBRule(), RuleOptions), UCBRule().binary, ThompsonRule().binary
    (True, False, True)
    """

    binary: ClassVar[bool] = False
    """Whether rewards must lie in [0, 1], as those of a binary reward do."""

    def bandit(self, arms: int, seed: int) -> bandits.Rule[Any, Any]:
        """The bandit over this many arms."""
        raise NotImplementedError(f"{type(self).__name__} must define bandit(arms, seed)")

    def start(self, arms: Arms, rng: np.random.Generator, explore: ExploreRounds | None = None) -> Decision:
        """A decision over `arms`; it draws one number from `rng` to seed its own generator."""
        return Decision(arms, self.bandit(len(arms), int(rng.integers(2**63))), explore=explore)


class MeanOptions(RuleOptions):
    """Options of rules based on mean rewards.

    >>> EpsilonGreedyRule(stationary=True).weight is None, EpsilonGreedyRule().weight
    (True, 0.75)
    """

    step: float = pydantic.Field(
        0.75, gt=0, le=1, description="Weight of the latest reward in an estimate; a larger one favours recent rewards."
    )
    stationary: bool = pydantic.Field(False, description="Plain means of all rewards; then step is not used.")
    initial: float = pydantic.Field(
        0.05, allow_inf_nan=False, description="Estimate before the first reward; high makes the rule try every arm."
    )

    @property
    def weight(self) -> float | None:
        """The step of the estimates; None for plain means."""
        return None if self.stationary else self.step


class BetaOptions(RuleOptions):
    """Options of rules based on Beta posteriors.

    >>> ThompsonRule().alpha
    1.0
    """

    binary: ClassVar[bool] = True
    alpha: float = pydantic.Field(1.0, ge=1e-9, allow_inf_nan=False, description="Successes in the Beta prior.")
    beta: float = pydantic.Field(1.0, ge=1e-9, allow_inf_nan=False, description="Failures in the Beta prior.")


class ExtremeOptions(RuleOptions):
    """Options of both kinds of Extreme Explore.

    >>> ExtremeExploreRule().delayed
    False
    """

    delayed: bool = pydantic.Field(
        False, description="Evaluations travel with the next round: fewer messages, models are kept by old estimates."
    )

    def start(self, arms: Arms, rng: np.random.Generator, explore: ExploreRounds | None = None) -> Decision:
        return Decision(arms, self.bandit(len(arms), int(rng.integers(2**63))), explore=explore, delayed=self.delayed)


class EpsilonGreedyRule(MeanOptions):
    """The best estimate with probability exactly 1 - epsilon, otherwise one of the others.

    >>> EpsilonGreedyRule(epsilon=0.1).bandit(3, seed=0).settings
    EpsilonGreedySettings(step=0.75, initial=0.05, epsilon=0.1)
    """

    kind: Literal["epsilon-greedy"] = "epsilon-greedy"
    epsilon: float = pydantic.Field(0.2, ge=0, le=1, description="Probability of an arm that is not the best.")

    def bandit(self, arms: int, seed: int) -> bandits.EpsilonGreedy:
        return bandits.EpsilonGreedy(arms, seed=seed, epsilon=self.epsilon, step=self.weight, initial=self.initial)


class UCBRule(MeanOptions):
    """The largest estimate + c sqrt(2 ln t / count), every arm once first.

    >>> UCBRule(stationary=True).bandit(3, seed=0).settings
    UCBSettings(step=None, initial=0.05, c=0.05)
    """

    kind: Literal["ucb"] = "ucb"
    c: float = pydantic.Field(
        0.05, ge=0, allow_inf_nan=False, description="Width of the bonus; small, because differences of AUC are."
    )

    def bandit(self, arms: int, seed: int) -> bandits.UCB:
        return bandits.UCB(arms, seed=seed, c=self.c, step=self.weight, initial=self.initial)


class ThompsonRule(BetaOptions):
    """The largest draw from Beta(alpha + successes, beta + failures). Needs a binary reward.

    >>> ThompsonRule().bandit(3, seed=0).values()
    array([0.5, 0.5, 0.5])
    """

    kind: Literal["thompson"] = "thompson"

    def bandit(self, arms: int, seed: int) -> bandits.Thompson:
        return bandits.Thompson(arms, seed=seed, alpha=self.alpha, beta=self.beta)


class DiscountedThompsonRule(BetaOptions):
    """Thompson sampling in which successes and failures of all arms fade. Needs a binary reward.

    >>> DiscountedThompsonRule().bandit(3, seed=0).settings.gamma
    0.75
    """

    kind: Literal["discounted-thompson"] = "discounted-thompson"
    gamma: float = pydantic.Field(0.75, ge=0, le=1, description="Share of past observations that is kept each round.")

    def bandit(self, arms: int, seed: int) -> bandits.DiscountedThompson:
        return bandits.DiscountedThompson(arms, seed=seed, gamma=self.gamma, alpha=self.alpha, beta=self.beta)


class ExtremeExploreRule(MeanOptions, ExtremeOptions):
    """All workers train, all arms are tried in every round, and the best one of the round is kept.

    >>> rule = ExtremeExploreRule(delayed=True)
    >>> rule.start(Arms.pairs("abc", "a"), np.random.default_rng(0)).play([True, True], round=1)
    Play(arms=array([0, 1]), extreme=True)
    """

    kind: Literal["extreme-explore"] = "extreme-explore"

    def bandit(self, arms: int, seed: int) -> bandits.ExtremeExplore:
        return bandits.ExtremeExplore(arms, seed=seed, step=self.weight, initial=self.initial)


class BayesianExtremeExploreRule(BetaOptions, ExtremeOptions):
    """Extreme Explore with Beta posteriors. Needs a binary reward.

    >>> BayesianExtremeExploreRule(gamma=0.5).bandit(2, seed=0).settings.gamma
    0.5
    """

    kind: Literal["bayesian-extreme-explore"] = "bayesian-extreme-explore"
    gamma: float = pydantic.Field(1.0, ge=0, le=1, description="Share of past observations that is kept each round.")

    def bandit(self, arms: int, seed: int) -> bandits.BayesianExtremeExplore:
        return bandits.BayesianExtremeExplore(arms, seed=seed, gamma=self.gamma, alpha=self.alpha, beta=self.beta)


class FixedRule(MeanOptions):
    """The same combination in every round: "all" (federated averaging), "alone", or a list of names.

    Estimates are still updated.

    >>> FixedRule(combination="all").arms(["1", "2", "3"], "2").codes
    ('111',)
    >>> decision = FixedRule(combination=["3"]).start(Arms.pairs("123", "2"), np.random.default_rng(0))
    >>> decision.play([True, True], round=1)
    Play(arms=array([1]), extreme=False)
    """

    kind: Literal["fixed"] = "fixed"
    combination: Literal["all", "alone"] | tuple[str, ...] = pydantic.Field(
        "all", description='"all", "alone", or the names of the workers; the target may be left out.'
    )

    def workers(self, names: Sequence[str]) -> Sequence[Worker]:
        """The workers of the combination, with or without the target."""
        if isinstance(self.combination, str):
            return list(names) if self.combination == "all" else []
        return self.combination

    def arms(self, names: Sequence[str], target: Worker) -> Arms:
        """The combination as the only arm."""
        return Arms.listed(names, target, [self.workers(names)])

    def bandit(self, arms: int, seed: int) -> bandits.EpsilonGreedy:
        return bandits.EpsilonGreedy(arms, seed=seed, epsilon=0.0, step=self.weight, initial=self.initial)

    def start(self, arms: Arms, rng: np.random.Generator, explore: ExploreRounds | None = None) -> Decision:
        only = arms.position(self.workers(arms.names))
        if only is None:
            named = self.combination if isinstance(self.combination, str) else "+".join(self.combination)
            raise InputError(f"the combination '{named}' is not among the arms {', '.join(arms.labels)}; list it.")
        return Decision(arms, self.bandit(len(arms), int(rng.integers(2**63))), only=only)


AnyRule = Annotated[
    EpsilonGreedyRule
    | UCBRule
    | ThompsonRule
    | DiscountedThompsonRule
    | ExtremeExploreRule
    | BayesianExtremeExploreRule
    | FixedRule,
    pydantic.Field(discriminator="kind"),
]
