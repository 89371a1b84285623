"""Team Darts: UCB on the gain in server accuracy, with epsilon-greedy rounds and a random start."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import Estimates, RecentValues, absurd, uniform, unseen_first
from enlist.contract import Choice, Request, Selector
from enlist.methods import WithSettings
from enlist.records import RoundMetrics, Selection
from enlist.state import State


@dataclasses.dataclass(frozen=True)
class DartsSettings:
    """Settings of `darts-ucb`.

    Parameters
    ----------
    c : float, default 0.3
        Width of the bonus.
    epsilon : float, default 0.1
        Share of rounds that are random.
    initial_rounds : int, default 5
        Random rounds at the start.
    reward : {"quantile", "range", "shift", "clip", "raw"}, default "quantile"
        How a gain in accuracy x becomes a reward: scaled between its running quantiles or between the smallest and
        largest gain of the last 256 rounds, (x+1)/2 or max(x, 0), both clipped to [0, 1], or unchanged.
    count : {"observed", "selected"}, default "observed"
        What narrows the bonus: rewards observed, or times selected.
    first_reward : bool, default False
        Use the accuracy after round 1, unchanged, as its reward; otherwise that round gives none.

    >>> DartsSettings().c
    0.3
    """

    c: float = 0.3
    epsilon: float = 0.1
    initial_rounds: int = 5
    reward: str = "quantile"
    count: str = "observed"
    first_reward: bool = False

    def __post_init__(self) -> None:
        checks.finite("c", self.c, 0.0, 1e30)
        checks.finite("epsilon", self.epsilon, 0.0, 1.0)
        checks.whole("initial_rounds", self.initial_rounds, minimum=0)
        checks.one_of("reward", self.reward, ("quantile", "range", "shift", "clip", "raw"))
        checks.one_of("count", self.count, ("observed", "selected"))


@dataclasses.dataclass
class DartsState(State):
    """Rewards credited to each client, the last server accuracy, and recent gains for the quantiles."""

    rewards: Estimates
    gains: RecentValues
    accuracy: float | None = None


class DartsUCB(Selector[DartsSettings, DartsState]):
    """The k clients with the largest  mean reward + c sqrt(ln s / n_i),  s all selections so far, n_i those of i.

    The reward of a round is the gain in server accuracy, scaled to [0, 1], and is credited to every client that
    completed it. The first `initial_rounds` rounds, and later a share `epsilon` of them, are uniformly random.

    Reference: Team Darts, report on UCB client selection with epsilon-greedy and initial random rounds, 2025.
    Needs round.accuracy. O(n) per round; 16 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("darts-ucb", enlist.Clients(count=12), seed=7)
    >>> picked = selector.ask(k=3)
    >>> selector.tell(picked, enlist.Feedback(), round=enlist.RoundMetrics(accuracy=0.31))
    >>> selector.state.accuracy
    0.31

    Differs from the paper (preset "paper" restores the printed form): gains of a percent or so drown in the printed
    bonus c = sqrt(2), which makes it a round-robin; gains are therefore scaled between their running 5 % and 95 %
    quantiles, and c = 0.3. "Normalised to [0, 1]" is not explained: the preset takes (x+1)/2, the preset
    "paper-stretched" stretches gains to the range seen so far, where a gain with no other to compare it with counts
    0.5. The pseudo-code never stores a reward; here every completed client of a round gets it. The bonus counts
    rewards, not selections. Round 1 gives no reward, because its accuracy is not a gain. Clients never selected come
    first by a mask instead of a bonus divided by 1e-10, and ln(max(s, 1)) avoids the root of a negative number.
    """

    name = "darts-ucb"
    reference = "Team Darts 2025"
    needs = frozenset({"round.accuracy"})
    presets = {
        "paper": {"c": math.sqrt(2.0), "reward": "shift", "count": "selected", "first_reward": True},
        "paper-stretched": {"c": math.sqrt(2.0), "reward": "range", "count": "selected", "first_reward": True},
    }
    Settings = DartsSettings
    with_ = WithSettings(DartsSettings)
    State = DartsState

    def initial_state(self) -> DartsState:
        return DartsState(rewards=Estimates.create(len(self.clients)), gains=RecentValues.of(256))

    def choose(self, request: Request) -> Choice:
        mean, bonus = request.of(self.state.rewards.mean), request.of(self._bonus())
        count = len(request.available)
        if self.round <= self.settings.initial_rounds or self.rng.uniform() < self.settings.epsilon:
            chosen, exploited = uniform(count, request.k, self.rng), np.zeros(count)
        else:
            unseen = request.of(self.counts.selected) == 0
            chosen, exploited = unseen_first(mean + bonus, unseen, request.k, self.rng), np.ones(count)
        return request.pick(chosen, mean=mean, bonus=bonus, exploited=exploited)

    def _bonus(self) -> FloatArray:
        pulls = self.counts.selected if self.settings.count == "selected" else self.state.rewards.count
        total = max(float(self.counts.selected.sum()), 1.0)
        return np.asarray(self.settings.c * np.sqrt(math.log(total) / np.maximum(pulls, 1)))

    def learn_round(self, selection: Selection, completed: IntArray, metrics: RoundMetrics) -> None:
        if metrics.accuracy is None:
            return
        before, self.state.accuracy = self.state.accuracy, metrics.accuracy
        if before is None and not self.settings.first_reward:
            return
        gain = metrics.accuracy - (before or 0.0)
        reward = metrics.accuracy if before is None else self._scaled(gain)
        if not absurd(np.array([gain]), self.state.gains.values())[0]:  # no client has earned an absurd gain
            self.state.rewards.update(completed, np.full(len(completed), reward))

    def _scaled(self, gain: float) -> float:
        if self.settings.reward in ("quantile", "range"):
            quantiles = (0.05, 0.95) if self.settings.reward == "quantile" else (0.0, 1.0)
            self.state.gains.add(np.array([gain]))
            return float(self.state.gains.scaled(np.array([gain]), *quantiles)[0])
        if self.settings.reward == "shift":
            return (min(max(gain, -1.0), 1.0) + 1.0) / 2.0
        return min(max(gain, 0.0), 1.0) if self.settings.reward == "clip" else gain

    def summary(self) -> dict[str, FloatArray]:
        return {"mean": self.state.rewards.mean, "bonus": self._bonus()}
