"""The thesis's decision rules as k-of-n selectors: every client is an arm of a `bandits.Rule`."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.bandits import UCB, DiscountedThompson, EpsilonGreedy, Thompson, unseen_first
from enlist.bandits.rules import DiscountedThompsonSettings, EpsilonGreedySettings, ThompsonSettings, UCBSettings
from enlist.contract import Choice, Request
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.selectors.rule_selector import RewardSettings, RuleSelector


@dataclasses.dataclass(frozen=True)
class EpsilonGreedySelectorSettings(RewardSettings, EpsilonGreedySettings):
    """Settings of `epsilon-greedy`.

    Parameters
    ----------
    step : float or None, default None
        Weight of the latest reward in a mean; None for plain means.
    initial : float, default 1.0
        The estimate of a client before its first reward.
    epsilon : float, default 0.2
        Probability that a slot goes to a client outside the best.
    reward : {"accuracy_gain", "accuracy", "loss", "loss_rms", "speed", "completed"}, default "accuracy_gain"
        Which value of a reply is the reward; "speed" is 1 - latency/deadline, "completed" is 1 if it came in time.
    scale : {"raw", "quantile", "threshold", "median"}, default "quantile"
        "raw" takes it as it is, "quantile" maps it to [0, 1] between running quantiles, "threshold" and "median"
        give 1 above it, else 0.
    threshold : float, default 0.025
        The limit of scale="threshold", and of "median" until five values are known.

    >>> EpsilonGreedySelectorSettings().epsilon
    0.2
    """

    initial: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_reward()


class EpsilonGreedySelector(RuleSelector[EpsilonGreedySelectorSettings]):
    """The k clients with the best mean reward, each slot given with probability epsilon to a client outside them.

    mean <- mean + (r - mean)/count, or with `step` = a: mean <- mean + a (r - mean), in which the last reward weighs a.

    Reference: Lundahl, Personalization by Combination, master thesis 2021:14, Stockholm University (MAB-FL):
    rule "epsilon-greedy" (there an arm is a combination of workers).
    Needs the column that `reward` names. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("epsilon-greedy", enlist.Clients(count=4), seed=1, epsilon=0.0)
    >>> for _ in range(20):
    ...     picked = selector.ask(k=1)
    ...     selector.tell(picked, enlist.Feedback(accuracy_gain=0.01 * picked.clients))
    >>> selector.counts.selected
    array([ 1,  1,  2, 16])

    Differs from the paper (preset "paper" restores it): rewards are scaled to [0, 1] between running quantiles, and the
    initial value is 1, which is really optimistic; the thesis's 0.05 was not enough. A client that is late or lost
    gets reward 0, and one that was cut off early, or replies without the value, gets its expected reward: otherwise one
    that never brings a reward would be tried for ever.
    """

    name = "epsilon-greedy"
    reference = "Lundahl 2021 (MAB-FL)"
    presets = {"paper": {"scale": "raw", "initial": 0.05, "step": 0.75, "epsilon": 0.2}}
    Settings = EpsilonGreedySelectorSettings
    with_ = WithSettings(EpsilonGreedySelectorSettings)
    Rule = EpsilonGreedy


@dataclasses.dataclass(frozen=True)
class UCBSelectorSettings(RewardSettings, UCBSettings):
    """Settings of `ucb`.

    Parameters
    ----------
    step : float or None, default None
        Weight of the latest reward in a mean; None for plain means.
    initial : float, default 0.05
        The estimate of a client before its first reward.
    c : float, default 0.3
        Width of the bonus.
    reward : {"accuracy_gain", "accuracy", "loss", "loss_rms", "speed", "completed"}, default "accuracy_gain"
        Which value of a reply is the reward; "speed" is 1 - latency/deadline, "completed" is 1 if it came in time.
    scale : {"raw", "quantile", "threshold", "median"}, default "quantile"
        "raw" takes it as it is, "quantile" maps it to [0, 1] between running quantiles, "threshold" and "median"
        give 1 above it, else 0.
    threshold : float, default 0.025
        The limit of scale="threshold", and of "median" until five values are known.

    >>> UCBSelectorSettings().c
    0.3
    """

    c: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_reward()


class UCBSelector(RuleSelector[UCBSelectorSettings]):
    """The k clients with the largest  mean reward + c sqrt(2 ln t / count_i); clients never tried come first.

    Reference: Lundahl, Personalization by Combination, master thesis 2021:14, Stockholm University (MAB-FL):
    rule "UCB" (there an arm is a combination of workers).
    Needs the column that `reward` names. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("ucb", enlist.Clients(count=4), seed=1)
    >>> for _ in range(20):
    ...     picked = selector.ask(k=1)
    ...     selector.tell(picked, enlist.Feedback(accuracy_gain=0.01 * picked.clients))
    >>> int(selector.counts.selected.argmax())
    3

    Differs from the paper (preset "paper" restores it): rewards are scaled to [0, 1] between running quantiles, and c
    is 0.3 to match. A client that is late or lost gets reward 0; one that was cut off early, or replies without the
    value, gets its expected reward.
    """

    name = "ucb"
    reference = "Lundahl 2021 (MAB-FL)"
    presets = {"paper": {"scale": "raw", "c": 0.05, "step": 0.75}}
    Settings = UCBSelectorSettings
    with_ = WithSettings(UCBSelectorSettings)
    Rule = UCB

    def choose(self, request: Request) -> Choice:
        mean, bonus = request.of(self.rule.values()), request.of(self._bonus())
        untried = request.of(self.counts.selected) == 0
        return request.pick(unseen_first(mean + bonus, untried, request.k, self.rng), mean=mean, bonus=bonus)

    def _bonus(self) -> FloatArray:
        assert isinstance(self.rule, UCB)
        return self.rule.bonus()

    def summary(self) -> dict[str, FloatArray]:
        return {"mean": self.rule.values(), "bonus": self._bonus()}


@dataclasses.dataclass(frozen=True)
class ThompsonSelectorSettings(RewardSettings, ThompsonSettings):
    """Settings of `thompson`.

    Parameters
    ----------
    alpha : float, default 1.0
        Successes that every client's Beta prior begins with.
    beta : float, default 1.0
        Failures that it begins with.
    gamma : float, default 1.0
        Share of past evidence kept in every round; 1 forgets nothing.
    reward : {"accuracy_gain", "accuracy", "loss", "loss_rms", "speed", "completed"}, default "accuracy_gain"
        Which value of a reply is the reward; "speed" is 1 - latency/deadline, "completed" is 1 if it came in time.
    scale : {"quantile", "threshold", "median"}, default "median"
        What counts as a success: "threshold" and "median" give 1 above it, else 0; "quantile" maps rewards to [0, 1]
        between running quantiles.
    threshold : float, default 0.025
        The limit of scale="threshold", and of "median" until five values are known.

    >>> ThompsonSelectorSettings().scale
    'median'
    """

    scale: str = "median"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_reward()
        checks.one_of("scale", self.scale, ("quantile", "threshold", "median"))


ThompsonSettingsT = TypeVar("ThompsonSettingsT", bound=ThompsonSelectorSettings)


class _BetaSelector(RuleSelector[ThompsonSettingsT]):
    """Evidence fades once a round, after the choice, so that the last rewards count in full for the next."""

    def begin_round(self, request: Request) -> None:
        pass

    def chosen(self, selection: Selection) -> None:
        self.rule.advance()


class ThompsonSelector(_BetaSelector[ThompsonSelectorSettings]):
    """The k clients with the largest draws from Beta(alpha + successes, beta + failures).

    A success is a reward above the running median of all rewards (scale="median"), or above `threshold`.

    Reference: Lundahl, Personalization by Combination, master thesis 2021:14, Stockholm University (MAB-FL):
    rule "Thompson sampling" with Bernoulli rewards.
    Needs the column that `reward` names. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("thompson", enlist.Clients(count=4), seed=1)
    >>> for _ in range(60):
    ...     picked = selector.ask(k=2)
    ...     selector.tell(picked, enlist.Feedback(accuracy_gain=0.01 * picked.clients))
    >>> int(selector.counts.selected.argmax())
    3

    Differs from the paper: the threshold is the running median by default, because a fixed one needs a pilot run
    (preset "paper": threshold 0.025). A client that is late or lost counts as a failure; one that was cut off early, or
    replies without the value, gets its expected reward.
    """

    name = "thompson"
    reference = "Lundahl 2021 (MAB-FL)"
    presets = {"paper": {"scale": "threshold", "threshold": 0.025}}
    Settings = ThompsonSelectorSettings
    with_ = WithSettings(ThompsonSelectorSettings)
    Rule = Thompson


@dataclasses.dataclass(frozen=True)
class DiscountedThompsonSelectorSettings(ThompsonSelectorSettings, DiscountedThompsonSettings):
    """Settings of `discounted-thompson`.

    Parameters
    ----------
    alpha : float, default 1.0
        Successes that every client's Beta prior begins with.
    beta : float, default 1.0
        Failures that it begins with.
    gamma : float, default 0.98
        Share of past evidence kept in every round; 1 forgets nothing.
    reward : {"accuracy_gain", "accuracy", "loss", "loss_rms", "speed", "completed"}, default "accuracy_gain"
        Which value of a reply is the reward; "speed" is 1 - latency/deadline, "completed" is 1 if it came in time.
    scale : {"quantile", "threshold", "median"}, default "median"
        What counts as a success: "threshold" and "median" give 1 above it, else 0; "quantile" maps rewards to [0, 1]
        between running quantiles.
    threshold : float, default 0.025
        The limit of scale="threshold", and of "median" until five values are known.

    >>> DiscountedThompsonSelectorSettings().gamma
    0.98
    """

    gamma: float = 0.98


class DiscountedThompsonSelector(_BetaSelector[DiscountedThompsonSelectorSettings]):
    """Thompson sampling with fading evidence: in every round, after the choice, all counts shrink by gamma.

    successes <- gamma successes + r,  failures <- gamma failures + 1 - r  for the told clients, and gamma times for all
    others, so that clients not seen for a long time are tried again.

    Reference: Lundahl, Personalization by Combination, master thesis 2021:14, Stockholm University (MAB-FL):
    rule "discounted Thompson sampling".
    Needs the column that `reward` names. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("discounted-thompson", enlist.Clients(count=4), seed=1)
    >>> picked = selector.ask(k=2)
    >>> selector.tell(picked, enlist.Feedback(accuracy_gain=[0.1, 0.2]))
    >>> selector.state.rule.successes.sum()
    np.float64(2.0)

    Differs from the paper: gamma is 0.98 instead of 0.75 (preset "paper"), because with n clients and k a round each is
    seen only every n/k rounds; the threshold, and clients that bring no reward, are as for `thompson`.
    """

    name = "discounted-thompson"
    reference = "Lundahl 2021 (MAB-FL)"
    presets = {"paper": {"gamma": 0.75, "scale": "threshold", "threshold": 0.025}}
    Settings = DiscountedThompsonSelectorSettings
    with_ = WithSettings(DiscountedThompsonSelectorSettings)
    Rule = DiscountedThompson
