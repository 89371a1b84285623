"""One run in the arena: a selector plays a world for some rounds, and its losses are recorded."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections import deque
from typing import Any

import numpy as np

from enlist._internal import aliases, checks
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.arena.genie import REGRETS, BSFLReward, Regret
from enlist.arena.kinds import JOULES
from enlist.arena.worlds import World
from enlist.books import Books
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.records import Feedback, Outcome, RoundMetrics, Selection

CHECKPOINTS = 200


@dataclasses.dataclass(frozen=True)
class Rules:
    """How rounds are played.

    k             clients wanted per round
    over_commit   ask for this many times k and stop at the first k replies; the rest are late, cut off at that time
    delay         rounds until the selector is told what became of a round
    late          "drop" or "learn": whether the selector still learns from a late reply; there is no model to merge

    >>> Rules(k=5).over_commit
    1.0
    """

    k: int
    over_commit: float = 1.0
    delay: int = 0
    late: str = "drop"

    @property
    def asked(self) -> int:
        """How many clients are asked for."""
        return math.ceil(round(self.k * self.over_commit, 9))

    def __post_init__(self) -> None:
        checks.whole("k", self.k, minimum=1)
        checks.finite("over_commit", self.over_commit, 1.0)
        checks.whole("delay", self.delay, minimum=0)
        object.__setattr__(self, "late", aliases.late(self.late, ("drop", "learn")))


@dataclasses.dataclass(eq=False)
class MatchRecord:
    """The record of a run: cumulative regrets at checkpoints, times selected, and scores.

    >>> import enlist
    >>> from enlist.arena import Scenario, World
    >>> world = World(Scenario(), clients=20, rounds=50, seed=1)
    >>> record = play(enlist.create("random", world.clients(), seed=1), world, Rules(k=5))
    >>> record.rounds[-1], record.selected.sum(), round(record.scores["coverage"], 2)
    (50, np.int64(250), 1.0)
    """

    rounds: list[int]
    curves: dict[str, list[float]]
    selected: IntArray
    scores: dict[str, float]


@dataclasses.dataclass(eq=False)
class _RoundOutcome:
    """What became of one selection, aligned with it: outcomes, latencies and utilities, and who took part.

    waited        how long the server waited
    taking_part   clients whose updates count
    updates       what they sent, in a world with kinds of data
    """

    outcome: AnyArray
    latency: FloatArray
    utility: FloatArray
    waited: float
    taking_part: IntArray
    updates: FloatArray | None = None


class Match:
    """The loop; `play` runs it to the end.

    >>> import enlist
    >>> from enlist.arena import Scenario, World
    >>> world = World(Scenario(), clients=20, rounds=50, seed=1)
    >>> match = Match(enlist.create("random", world.clients(), seed=1), world, Rules(k=5), BSFLReward())
    >>> match.step()
    >>> match.round, int(match.selected.sum())
    (1, 5)
    """

    def __init__(self, selector: Selector[Any, Any], world: World, rules: Rules, reward: BSFLReward) -> None:
        if rules.delay >= selector.max_open:
            raise InputError(f"delay is {rules.delay}; a selection expires after max_open={selector.max_open} rounds.")
        self.selector, self.world, self.rules = selector, world, rules
        self.books = Books(selector, late=rules.late)
        self.regret = Regret(world, reward, rules.k if selector.trains_all else rules.asked)
        self.round, self.now, self.accuracy = 0, 0.0, 0.5
        self.selected = np.zeros(world.count, dtype=np.int64)
        self.sums = dict.fromkeys((*REGRETS, "utility", "selected", "completed", "late", "dropped", "rare"), 0.0)
        self.untold: list[tuple[Selection, _RoundOutcome, RoundMetrics]] = []
        self.coming: list[tuple[float, int, int, Selection]] = []
        self.starts: deque[float] = deque(maxlen=selector.max_open + 1)
        self.rare = world.uptime <= np.quantile(world.uptime, 0.25)
        self.kinds, self.batteries = world.kinds(), world.batteries()
        if self.kinds is not None:
            self.sums |= {"model_loss": 0.0, "update_error": 0.0}

    def step(self) -> None:
        """Play one round: ask, let it happen, tell what is due."""
        self.round += 1
        self._deliver_late_replies()
        self.starts.append(self.now)
        available = self.world.available(self.round, self.now)
        free = np.flatnonzero(available & ~self.books.busy)
        wanted = self.world.count if self.selector.trains_all else self.rules.asked
        enough = min(self.rules.k, wanted)
        picked = self.books.ask(
            available,
            wanted,
            now=self.now,
            deadline=self.world.deadline,
            enough=enough,
            **self._looking(),
        )
        happened = self._happen(picked)
        self._score(free, picked, happened)
        metrics = RoundMetrics(accuracy=self.accuracy, duration=happened.waited)
        self.untold.append((picked, happened, metrics))
        if len(self.untold) > self.rules.delay:
            self._tell(*self.untold.pop(0))
        self.now += happened.waited

    def _tell(self, picked: Selection, happened: _RoundOutcome, metrics: RoundMetrics) -> None:
        replied = happened.outcome == Outcome.COMPLETED
        values = {"latency": happened.latency[replied], **observed(happened.utility[replied])}
        values |= self._sent(None if happened.updates is None else happened.updates[replied], int(replied.sum()))
        self.books.reply(picked, picked.clients[replied], **values)
        self.books.reply(picked, picked.clients[happened.outcome == Outcome.DROPPED], Outcome.DROPPED)
        self.books.close(picked, waited=happened.waited, round=metrics)

    def _happen(self, picked: Selection) -> _RoundOutcome:
        world, k = self.world, self.rules.k
        latency = world.latency(self.round)[picked.clients]
        dropped = self._drops()[picked.clients]
        utility = self._utility(self.round, picked.clients)
        in_time = ~dropped & (latency <= world.deadline)
        arrivals = np.flatnonzero(in_time)[np.argsort(latency[in_time], kind="stable")]
        if self.selector.trains_all:
            accepted = self.books.accept(picked.clients[arrivals], k)
            used = np.searchsorted(picked.clients, np.sort(accepted))
            missed = np.zeros(0, dtype=np.int64)
        else:
            used, missed = arrivals[:k], arrivals[k:]
        complete = len(used) == min(k, len(picked)) and len(used) > 0
        waited = float(latency[used].max()) if complete else world.deadline
        outcome = np.full(len(picked), Outcome.COMPLETED)
        outcome[~in_time] = Outcome.LATE
        outcome[missed] = Outcome.LATE
        outcome[dropped] = Outcome.DROPPED
        late = outcome == Outcome.LATE
        if self.rules.late == "learn":
            for index in np.flatnonzero(late):
                entry = (self.now + float(latency[index]), self.round, int(picked.clients[index]), picked)
                heapq.heappush(self.coming, entry)
        updates = None if self.kinds is None else self.kinds.updates(self.round)[picked.clients]
        return _RoundOutcome(outcome, latency, utility, waited, picked.clients[used], updates)

    def _utility(self, number: int, clients: IntArray) -> FloatArray:
        """What clients bring: more if the model has learned less of their kind of data."""
        utility = self.world.utility(number)[clients]
        return utility if self.kinds is None else utility * self.kinds.level[self.kinds.of[clients]]

    def _drops(self) -> BoolArray:
        """Who would be lost in this round."""
        drops = self.world.drops(self.round)
        return drops if self.batteries is None else drops | self.batteries.empty

    def _looking(self) -> dict[str, Any]:
        """What a selector may look at before it chooses, in worlds that have it."""
        found: dict[str, Any] = {} if self.kinds is None else {"measure": self._measure}
        return found if self.batteries is None else found | {"context": {"battery": self.batteries.left}}

    def _sent(self, updates: FloatArray | None, count: int) -> dict[str, Any]:
        """What this many replies report besides losses, in worlds that have it."""
        found: dict[str, Any] = {}
        if updates is not None:
            found |= {"update": updates, "update_norm": np.sqrt((updates**2).sum(axis=1))}
        return found if self.batteries is None else found | {"energy": np.full(count, JOULES)}

    def _measure(self, clients: IntArray) -> Feedback:
        """Losses of the current model, for selectors that look before they choose."""
        return Feedback(clients=clients, loss=observed(self._utility(self.round, clients))["loss"])

    def _score(self, available: IntArray, picked: Selection, happened: _RoundOutcome) -> None:
        took_part = happened.taking_part if self.selector.trains_all else picked.clients
        dropped = self._drops()[took_part]
        latency = np.where(dropped, self.world.deadline, self.world.latency(self.round)[took_part])
        for name, loss in self.regret.of(self.round, available, took_part, self.selected, latency).items():
            self.sums[name] += loss
        self.selected[took_part] += 1
        outcome = happened.outcome
        replies = happened.utility[np.searchsorted(picked.clients, happened.taking_part)]
        self.sums["utility"] += float(replies.sum())
        self.sums["selected"] += len(picked)
        self.sums["completed"] += len(happened.taking_part)
        self.sums["late"] += int((outcome == Outcome.LATE).sum())
        self.sums["dropped"] += int((outcome == Outcome.DROPPED).sum())
        self.sums["rare"] += int(self.rare[happened.taking_part].sum())
        if self.kinds is not None:
            error = self.kinds.error(self.round, picked, happened.taking_part, self.world.num_examples)
            self.sums["update_error"] += error
            self.kinds.learn(happened.taking_part)
            self.sums["model_loss"] += self.kinds.loss
        if self.batteries is not None:
            self.batteries.spend(picked.clients)
        mean = float(replies.mean()) if len(replies) else 0.0
        self.accuracy += 0.02 * (mean - 0.5) + self.world.accuracy_noise(self.round)

    def _deliver_late_replies(self) -> None:
        untold = {selection.round for selection, _, _ in self.untold}
        waiting = []
        while self.coming and self.coming[0][0] <= self.now:
            time, number, client, picked = entry = heapq.heappop(self.coming)
            if picked.round in untold:
                waiting.append(entry)  # lateness itself is not yet told
            else:
                running = self.round - sum(start > time for start in self.starts) - 1
                values = observed(self._utility(number, np.array([client])))
                values |= self._sent(None if self.kinds is None else self.kinds.updates(number)[[client]], 1)
                self.books.arrived(picked, client, rounds_late=running - number, latency=time - picked.now, **values)
        for entry in waiting:
            heapq.heappush(self.coming, entry)

    def scores(self) -> dict[str, float]:
        """The quantities that selectors are judged by."""
        sums, rounds, selected = self.sums, self.round, self.selected
        total = max(float(selected.sum()), 1.0)
        shares = self.world.num_examples / self.world.num_examples.sum()
        squares = float((selected.astype(float) ** 2).sum())
        names = [name for name in ("model_loss", "update_error") if name in sums]
        of_kinds: dict[str, float] = {name: sums[name] / rounds for name in names}
        return {
            "pseudo_regret": sums["pseudo"],
            "printed_regret": sums["printed"],
            "hypervolume_regret": sums["hypervolume"],
            "front_regret": sums["front"],
            "expected_reward": sums["expected"],
            "round_time": self.now / rounds,
            "utility": sums["utility"] / rounds,
            "utility_per_second": sums["utility"] / max(self.now, 1e-12),
            "completed": sums["completed"] / max(sums["selected"], 1.0),
            "late": sums["late"] / max(sums["selected"], 1.0),
            "dropped": sums["dropped"] / max(sums["selected"], 1.0),
            "rare": sums["rare"] / max(sums["completed"], 1.0),
            "accuracy_gain": (self.accuracy - 0.5) / rounds,
            "coverage": float((selected > 0).mean()),
            "jain": total**2 / (len(selected) * squares) if squares else 1.0,
            "share_error": 0.5 * float(np.abs(selected / total - shares).sum()),
            "least_selected": float(selected.min()) / rounds,
            **of_kinds,
        }


def observed(utility: FloatArray) -> dict[str, Any]:
    """The reply values that a client of this utility reports: high loss and high gain mean that it has much to teach.

    >>> sorted(observed(np.array([0.5])))
    ['accuracy', 'accuracy_gain', 'contribution', 'loss', 'loss_rms']
    """
    return {
        "loss": 2.0 * utility,
        "loss_rms": 2.2 * utility,
        "accuracy": np.clip(1.0 - 0.5 * utility, 0.0, 1.0),
        "accuracy_gain": 0.1 * utility,
        "contribution": utility,
    }


def play(selector: Selector[Any, Any], world: World, rules: Rules, reward: BSFLReward | None = None) -> MatchRecord:
    """Play all rounds of the world and return the record.

    >>> import enlist
    >>> from enlist.arena import Scenario, World
    >>> world = World(Scenario(), clients=20, rounds=300, seed=1)
    >>> slow = play(enlist.create("random", world.clients()), world, Rules(k=5)).scores["round_time"]
    >>> fast = play(enlist.create("bsfl", world.clients()), world, Rules(k=5)).scores["round_time"]
    >>> fast < slow
    True
    """
    match = Match(selector, world, rules, reward or BSFLReward())
    marks = set(np.unique(np.linspace(1, world.rounds, min(CHECKPOINTS, world.rounds)).astype(int)).tolist())
    marks.add(max(world.rounds // 2, 1))
    rounds: list[int] = []
    curves: dict[str, list[float]] = {name: [] for name in (*REGRETS, "time")}
    for number in range(1, world.rounds + 1):
        match.step()
        if number in marks:
            rounds.append(number)
            for name in REGRETS:
                curves[name].append(match.sums[name])
            curves["time"].append(match.now)
    return MatchRecord(rounds, curves, match.selected, match.scores())
