"""Oort: clients with high loss that reply quickly, with exploration, a pacer and retirement."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.bandits import RecentValues, absurd, credible, rest, top_k, uniform, weighted
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Outcome
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class OortSettings:
    """Settings of `oort`.

    Parameters
    ----------
    exploration : float, default 0.9
        Share of the slots for clients never heard from, at the start.
    exploration_decay : float, default 0.98
        Factor on `exploration` in every round.
    exploration_min : float, default 0.2
        Lower bound of `exploration`.
    penalty : float, default 2.0
        Exponent of T/duration for clients slower than T.
    threshold : float, default 30.0
        Percentile of durations at which T starts.
    pacer : {"paper", "code"}, default "paper"
        When T is relaxed: when utility falls or, as in the published code, when it stalls.
    pacer_step : int, default 20
        Window of the pacer, in rounds.
    pacer_delta : float or None, default None
        Percentiles by which T moves; None for as many clients as `pacer_step` rounds select.
    clip : float, default 0.95
        Quantile at which utilities are clipped.
    cut_off : float, default 0.95
        Share of the last exploited score that still qualifies.
    pool : float, default 1.0
        At least this many times the exploited slots qualify.
    round_up : bool, default False
        A fractional slot is exploited, not explored.
    explore_by : {"speed", "size"}, default "speed"
        What decides among clients never heard from.
    sample_window : float, default 5.0
        Size of the shortlist, in multiples of the explored slots.
    retire_after : int or None, default None
        Selections after which a client is no longer exploited; None for never.
    retire_share : float, default 0.3
        At most this share of the clients is retired.
    reward_stragglers : bool, default False
        Give late clients the mean utility of their round.

    >>> OortSettings().exploration
    0.9
    """

    exploration: float = 0.9
    exploration_decay: float = 0.98
    exploration_min: float = 0.2
    penalty: float = 2.0
    threshold: float = 30.0
    pacer: str = "paper"
    pacer_step: int = 20
    pacer_delta: float | None = None
    clip: float = 0.95
    cut_off: float = 0.95
    pool: float = 1.0
    round_up: bool = False
    explore_by: str = "speed"
    sample_window: float = 5.0
    retire_after: int | None = None
    retire_share: float = 0.3
    reward_stragglers: bool = False

    def __post_init__(self) -> None:
        for name in ("exploration", "exploration_decay", "exploration_min", "clip", "cut_off", "retire_share"):
            checks.finite(name, getattr(self, name), 0.0, 1.0)
        checks.finite("penalty", self.penalty, 0.0)
        checks.finite("threshold", self.threshold, 0.0, 100.0)
        checks.one_of("pacer", self.pacer, ("paper", "code"))
        checks.whole("pacer_step", self.pacer_step, minimum=1)
        checks.finite("pacer_step", self.pacer_step, 1, 10**6)
        checks.finite("pool", self.pool, 0.0)
        checks.one_of("explore_by", self.explore_by, ("speed", "size"))
        checks.finite("sample_window", self.sample_window, 1.0)
        if self.pacer_delta is not None:
            checks.finite("pacer_delta", self.pacer_delta, 0.0, 100.0)
        if self.retire_after is not None:
            checks.whole("retire_after", self.retire_after, minimum=1)


def documented(name: str, more: str) -> str:
    """The documentation of settings that extend Oort's.

    >>> documented("mine", "luck : float, default 1.0").count("default")
    18
    """
    head, _, _ = inspect.cleandoc(OortSettings.__doc__ or "").partition("\n\n>>>")
    return f"{head.replace('`oort`', f'`{name}`')}\n{inspect.cleandoc(more)}\n"


@dataclasses.dataclass
class OortState(State):
    """Last utility and duration of each client (NaN: none yet), when it last replied, and the pacer.

    >>> OortState.create(2, history=RecentValues.of(4)).exploited_replies
    0
    """

    history: RecentValues
    utility: FloatArray = column(np.nan)
    duration: FloatArray = column(np.nan)
    last_round: IntArray = column(0, int)
    exploration: float = 0.9
    threshold: float = 30.0
    exploited_utility: float = 0.0
    exploited_replies: int = 0
    told_round: int = 0
    told_utility: float = 0.0
    told_replies: int = 0


class Oort(Selector[OortSettings, OortState]):
    """Exploits clients by  U_i + sqrt(0.1 ln t / last_i),  times (T/d_i)^penalty if d_i > T;  explores by speed.

    U_i = n_i sqrt(mean loss^2) of the last reply, clipped at a quantile and scaled to [0, 1]; d_i its duration; last_i
    the round of that reply; T a percentile of all durations, moved by the pacer. A share of the slots, 0.9 falling to
    0.2, goes to clients never heard from. Exploited clients are drawn in proportion to their score among those that
    reach `cut_off` times the score of the last one needed.

    Reference: Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021.
    Needs loss_rms and latency; num_examples and expected_latency help. O(n) per round; 24 bytes of state per client.

    Variants: the default follows the paper with the code's scaling to [0, 1] and without retirement; preset "paper"
    retires after 10 selections; "oort-code" and "fedscale-code" are the defaults of the two public code bases.

    >>> import enlist
    >>> selector = enlist.create("oort", enlist.Clients(num_examples=[50] * 8), seed=1)
    >>> for _ in range(80):
    ...     picked = selector.ask(k=2, deadline=30.0)
    ...     selector.tell(picked, enlist.Feedback(latency=[5.0, 6.0], loss_rms=0.1 + 0.1 * picked.clients))
    >>> int(selector.counts.selected.argmax()) >= 5
    True

    Differs from the paper: the pacer runs every `pacer_step` rounds instead of every round; T is a percentile of known
    durations instead of seconds, so it needs no tuning; utilities are scaled to [0, 1], otherwise they would swamp the
    staleness term; the cut-off uses the last score that is really needed (the code reads one beyond the end); clients
    never heard from do not enter the scaling (their sample counts are in other units); a late client teaches only its
    duration, a lost one twice the deadline; a client that was tried and never replied no longer counts as unexplored,
    and slots with no client to explore are exploited; an old reply that comes after a newer one is ignored.
    """

    name = "oort"
    reference = "Lai et al. 2021"
    needs = frozenset({"loss_rms", "latency"})
    presets = {
        "paper": {"retire_after": 10, "retire_share": 1.0, "sample_window": 1e9},
        "oort-code": {
            "exploration_decay": 0.95,
            "threshold": 10.0,
            "pacer": "code",
            "pacer_delta": 5.0,
            "clip": 0.98,
            "cut_off": 0.7,
            "explore_by": "size",
            "reward_stragglers": True,
        },
        "fedscale-code": {
            "exploration_min": 0.3,
            "pacer": "code",
            "pacer_delta": 5.0,
            "clip": 0.9,
            "cut_off": 0.05,
            "pool": 10.0,
            "round_up": True,
            "explore_by": "size",
            "reward_stragglers": True,
        },
    }
    Settings = OortSettings
    with_ = WithSettings(OortSettings)
    State = OortState

    def initial_state(self) -> OortState:
        settings = self.settings
        state = self.State.create(
            len(self.clients),
            history=RecentValues.of(2 * settings.pacer_step),
            exploration=settings.exploration,
            threshold=settings.threshold,
        )
        if self.clients.expected_latency is not None:
            state.duration[:] = self.clients.expected_latency
        return state

    def joined(self, before: int) -> None:
        if self.clients.expected_latency is not None:
            self.state.duration[before:] = self.clients.expected_latency[before:]

    def begin_round(self, request: Request) -> None:
        settings, state = self.settings, self.state
        state.exploration = max(state.exploration * settings.exploration_decay, settings.exploration_min)
        if self.round > 1:
            # The paper compares sums, its code means.
            replies = max(state.exploited_replies, 1) if settings.pacer == "code" else 1
            state.history.add(np.array([state.exploited_utility / replies]))
            state.exploited_utility, state.exploited_replies = 0.0, 0
        self._pace(request.k)

    def _pace(self, k: int) -> None:
        settings, state, window = self.settings, self.state, self.settings.pacer_step
        if state.history.seen < 2 * window or state.history.seen % window:
            return
        recent = np.roll(state.history.ring, -(state.history.seen % (2 * window)))
        before, after = float(recent[:window].sum()), float(recent[window:].sum())
        delta = settings.pacer_delta
        if delta is None:
            delta = 100.0 * window * k / len(self.clients)
        if settings.pacer == "paper":
            if before > after:
                state.threshold = min(100.0, state.threshold + delta)
        elif abs(after - before) <= 0.1 * before:
            state.threshold = min(100.0, state.threshold + delta)
        elif abs(after - before) >= 5.0 * before:
            state.threshold = max(delta, state.threshold - delta)

    def choose(self, request: Request) -> Choice:
        k, count = request.k, len(request.available)
        utility, duration = request.of(self.state.utility), request.of(self.state.duration)
        heard = ~np.isnan(utility)
        fast = self._speed(duration)
        score, scaled, stale = np.zeros(count), np.zeros(count), np.zeros(count)
        eligible = np.flatnonzero(heard & ~self._retired(request))
        if not len(eligible):
            eligible = np.flatnonzero(heard)
        untried = np.flatnonzero(~heard & (request.of(self.counts.selected) == 0))
        slots = min(max(self._exploited_slots(k), k - len(untried)), len(eligible))
        if len(eligible):
            scaled[eligible] = self._scaled(utility[eligible])
            last = request.of(self.state.last_round)[eligible]
            stale[eligible] = np.sqrt(0.1 * np.log(max(self.round, 2)) / np.maximum(last, 1))
            score[eligible] = (scaled[eligible] + stale[eligible]) * fast[eligible]
            score[eligible] = self.preferred(request, eligible, score[eligible])
        exploited = eligible[self._exploit(score[eligible], slots)]
        explored = self._explore(request, untried, fast, k - len(exploited))
        chosen = np.concatenate([exploited, explored])
        if len(chosen) < k:
            others = rest(count, chosen)
            chosen = np.concatenate([chosen, others[uniform(len(others), k - len(chosen), self.rng)]])
        flag = np.zeros(count)
        flag[exploited] = 1.0
        return request.pick(chosen, utility=scaled, staleness=stale, speed=fast, score=score, exploited=flag)

    def preferred(self, request: Request, index: IntArray, score: FloatArray) -> FloatArray:
        """Hook: the scores by which the clients at these indices of `request.available` are exploited."""
        return score

    def _exploited_slots(self, k: int) -> int:
        explore = k * self.state.exploration
        return k - int(explore + 1e-9) if self.settings.round_up else int(k - explore + 1e-9)

    def _speed(self, duration: FloatArray) -> FloatArray:
        """(T/d)^penalty for clients slower than T, else 1; unknown durations count as the median of the known ones."""
        known = self.state.duration[~np.isnan(self.state.duration)]
        rank = int(len(known) * self.state.threshold / 100.0)
        if rank >= len(known):
            return np.ones(len(duration))
        preferred = float(np.partition(known, rank)[rank])
        filled = np.where(np.isnan(duration), np.median(known), duration)
        return np.minimum(preferred / np.maximum(filled, 1e-9), 1.0) ** self.settings.penalty

    def _retired(self, request: Request) -> BoolArray:
        limit = self.settings.retire_after
        retired = np.zeros(len(request.available), dtype=bool)
        if limit is None:
            return retired
        worn = np.flatnonzero(self.counts.selected > limit)
        most = int(self.settings.retire_share * len(self.clients) + 1e-9)
        everywhere = np.zeros(len(self.clients), dtype=bool)
        everywhere[worn[top_k(self.counts.selected[worn].astype(float), most, self.rng)]] = True
        return request.of(everywhere)

    def _scaled(self, utility: FloatArray) -> FloatArray:
        known = credible(utility)
        ceiling = np.partition(known, rank := min(int(len(known) * self.settings.clip), len(known) - 1))[rank]
        floor = 0.999 * float(known.min())
        spread = max(float(known.max()) - floor, 1e-4)
        return np.asarray((np.minimum(utility, ceiling) - floor) / spread)

    def _exploit(self, score: FloatArray, slots: int) -> IntArray:
        if not slots:
            return np.zeros(0, dtype=np.int64)
        last_needed = np.partition(score, len(score) - slots)[len(score) - slots]
        qualified = np.flatnonzero(score >= self.settings.cut_off * last_needed)
        more = 1 if self.settings.pool > 1.0 else 0  # FedScale goes on until it has more than ten times the slots
        pool = min(int(self.settings.pool * slots) + more, len(score))
        if len(qualified) < pool:
            qualified = top_k(score, pool, self.rng)
        drawn = weighted(np.maximum(score[qualified], 1e-12), slots, self.rng)
        return np.asarray(qualified[drawn])

    def _explore(self, request: Request, untried: IntArray, fast: FloatArray, slots: int) -> IntArray:
        slots = min(slots, len(untried))
        if not slots:
            return np.zeros(0, dtype=np.int64)
        weight = fast[untried]
        if self.settings.explore_by == "size" and self.clients.num_examples is not None:
            weight = weight * request.of(self.clients.num_examples)[untried]
        elif self.settings.explore_by == "speed" and self.clients.expected_latency is not None:
            weight = 1.0 / np.maximum(request.of(self.state.duration)[untried], 1e-9)
        shortlist = top_k(weight, max(int(self.settings.sample_window * slots), slots), self.rng)
        drawn = weighted(np.maximum(weight[shortlist], 1e-12), slots, self.rng)
        return np.asarray(untried[shortlist[drawn]])

    def learn(self, told: Observation) -> FloatArray | None:
        state = self.state
        self._reply(told)
        latency, clients = told.latency, told.clients
        late = (told.outcome == Outcome.LATE) & ~np.isnan(latency)
        state.duration[clients[late]] = np.fmax(state.duration[clients[late]], latency[late])
        lost = np.isin(told.outcome, (Outcome.DROPPED, Outcome.FAILED))
        if np.isfinite(told.selection.deadline):
            state.duration[clients[lost]] = 2.0 * told.selection.deadline
        if self.settings.reward_stragglers and state.told_replies and state.told_round == told.selection.round:
            newest = late & (told.selection.round >= state.last_round[clients])
            state.utility[clients[newest]] = state.told_utility / state.told_replies
            state.last_round[clients[newest]] = told.selection.round
        return None

    def amend(self, told: Observation) -> None:
        self._reply(told)

    def _reply(self, told: Observation) -> None:
        """Utility, duration and round of the clients whose reply is in."""
        state, done = self.state, told.completed
        latency = told.column("latency")
        newest = told.selection.round >= state.last_round[told.clients]
        timed = done & newest & ~np.isnan(latency)
        state.duration[told.clients[timed]] = latency[timed]
        utility = told.samples(self.clients) * told.column("loss_rms")
        replied = done & ~np.isnan(utility)
        known = replied & newest
        # One absurd value must not decide what others get or what the pacer sees.
        summed = replied & ~absurd(utility, np.concatenate([utility, state.utility]))
        if state.told_round != told.selection.round:
            state.told_round, state.told_utility, state.told_replies = told.selection.round, 0.0, 0
        state.told_utility += float(utility[summed].sum())
        state.told_replies += int(summed.sum())
        state.utility[told.clients[known]] = utility[known]
        state.last_round[told.clients[known]] = told.selection.round
        flags = told.selection.terms.get("exploited")
        if flags is not None:
            exploited = flags[np.searchsorted(told.selection.clients, told.clients)] > 0
            state.exploited_utility += float(utility[summed & exploited].sum())
            state.exploited_replies += int((summed & exploited).sum())

    def summary(self) -> dict[str, FloatArray]:
        return {"utility": self.state.utility, "duration": self.state.duration}
