"""Selectors made of a `bandits.Rule`: every client is an arm, and a value of its reply is the reward."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import RecentValues, Rule
from enlist.bandits.validity import in_time
from enlist.contract import Choice, Observation, Request, Selector
from enlist.state import State

REWARDS = ("accuracy_gain", "accuracy", "loss", "loss_rms", "speed", "completed")
SCALES = ("raw", "quantile", "threshold", "median")


@dataclasses.dataclass(frozen=True)
class RewardSettings:
    """reward: which reply value is the reward ("speed": 1 - latency/deadline, "completed": 1 if in time);
    scale: "raw", "quantile" (to [0, 1] between running quantiles), "threshold" or "median" (1 if above it, else 0);
    threshold: for scale="threshold", and for "median" until five values are known.

    >>> RewardSettings().reward
    'accuracy_gain'
    """

    reward: str = "accuracy_gain"
    scale: str = "quantile"
    threshold: float = 0.025

    def check_reward(self) -> None:
        """Refuse a reward, scale or threshold that does not exist."""
        checks.one_of("reward", self.reward, REWARDS)
        checks.one_of("scale", self.scale, SCALES)
        checks.finite("threshold", self.threshold)


@dataclasses.dataclass
class RuleState(State):
    """The rule's own state, and recent rewards for the quantiles.

    >>> from enlist.bandits import Thompson
    >>> RuleState(rule=Thompson(2).state, recent=RecentValues.of(4)).recent.seen
    0
    """

    rule: State
    recent: RecentValues


RewardSettingsT = TypeVar("RewardSettingsT", bound=RewardSettings)


class RuleSelector(Selector[RewardSettingsT, RuleState]):
    """Outcomes become rewards, rewards go to the rule, and the rule chooses.

    >>> import enlist
    >>> clients = enlist.Clients(count=3)
    >>> enlist.create("ucb", clients).needs, enlist.create("ucb", clients, reward="speed").needs
    (frozenset({'accuracy_gain'}), frozenset({'latency'}))
    """

    Rule: ClassVar[type[Rule[Any, Any]]]

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        column = {"speed": "latency", "completed": ""}.get(self.settings.reward, self.settings.reward)
        return frozenset({column} if column else ())

    def initial_state(self) -> RuleState:
        self.rule = self.Rule(len(self.clients), rng=self.rng, **self._rule_settings())
        return RuleState(rule=self.rule.state, recent=RecentValues.of(1024))

    def _rule_settings(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self.Rule.Settings)]
        return {name: getattr(self.settings, name) for name in names}

    def joined(self, before: int) -> None:
        self.rule.joined(before)

    def compacted(self, kept: IntArray) -> None:
        self.rule.arms = len(self.clients)

    def begin_round(self, request: Request) -> None:
        self.rule.advance()

    def choose(self, request: Request) -> Choice:
        values = request.of(self.rule.values())
        return request.pick(self.rule.pick(request.available, request.k), mean=values)

    def learn(self, told: Observation) -> FloatArray | None:
        raw = self._raw(told)
        known = told.completed & ~np.isnan(raw)
        self.state.recent.add(raw[known])
        # A lost round teaches the floor. A reply without the value, or a client cut off early, gets the expected
        # reward: it did nothing wrong, but as long as it counted as untried, it would be asked for ever.
        floor = min(float(self.state.recent.credible().min(initial=0.0)), 0.0) if self.settings.scale == "raw" else 0.0
        told_nothing = told.cut_off | (told.completed & ~known)
        reward = np.where(told_nothing, self._expected(told.clients), np.where(known, self._scaled(raw), floor))
        self.rule.learn(told.clients, reward)
        return reward

    def amend(self, told: Observation) -> None:
        assert told.credited is not None
        raw = self._raw(told)
        self.state.recent.add(raw[~np.isnan(raw)])
        reward = self._scaled(raw)
        known = ~np.isnan(reward)
        age = self.round - told.selection.round
        self.rule.revise(told.clients[known], told.credited[known], reward[known], age)

    def _expected(self, clients: IntArray) -> FloatArray:
        """The present estimates; for clients without any reward, the middle of what others bring."""
        values, recent = self.rule.values()[clients], self.state.recent.credible()
        if self.settings.scale != "raw":
            middle = np.full(len(clients), 0.5)
        else:
            middle = np.full(len(clients), recent.mean()) if len(recent) else values
        return np.where(self.rule.rewarded()[clients], values, middle)

    def _raw(self, told: Observation) -> FloatArray:
        if self.settings.reward == "completed":
            return in_time(told)
        if self.settings.reward == "speed":
            finite = np.isfinite(told.selection.deadline)
            return 1.0 - told.latency / told.selection.deadline if finite else -told.latency
        return told.column(self.settings.reward)

    def _scaled(self, raw: FloatArray) -> FloatArray:
        if self.settings.scale == "raw" or self.settings.reward == "completed":
            return raw
        if self.settings.scale == "quantile":
            return self.state.recent.scaled(raw)
        limit = self.settings.threshold
        if self.settings.scale == "median":
            limit = self.state.recent.quantile(0.5, default=limit, minimum=5)
        return np.where(np.isnan(raw), np.nan, (raw > limit).astype(float))

    def summary(self) -> dict[str, FloatArray]:
        return {"mean": self.rule.values()}
