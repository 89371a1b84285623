"""Tempo: the set of clients with the highest value per second; speed first, even shares later."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtr

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import BetaPosterior, LogLatency, hellinger, round_end, sets_by_time, top_k
from enlist.bandits.lognormal import SHORTEST
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Outcome, Selection
from enlist.state import State, column, nested

MOST = 8.0
"""Upper bound of the exponent of waiting: there, a client a hundred times as slow has half as many turns."""
PRIOR = 8.0
"""How many replies the population's rate of finishing counts for in a client's own."""
OUTCOMES = 100.0
"""The most outcomes that a client's rate of finishing rests on; beyond that, older ones fade."""
PARDONED = 3
"""Misses in a row that change nothing: bad luck, not a client that is gone."""
BACK_OFF = 5
"""The most times that a client's turns are halved: then it is asked a thirty-second as often."""
WIDEST = 2.0
"""Relative losses are clipped at e^2 of the median, either way: no lie goes further."""


@dataclasses.dataclass(frozen=True)
class TempoSettings:
    """Settings of `tempo`.

    Parameters
    ----------
    patience : float, default 10.0
        Turns per client after which even shares count as much as speed; before, speed counts more.
    loss : float, default 0.5
        Exponent of a client's loss relative to the others'; 0 leaves losses out.
    labels : bool, default False
        Prefer sets whose labels resemble those of all clients; needs clients.label_counts.

    >>> TempoSettings().patience
    10.0
    """

    patience: float = 10.0
    loss: float = 0.5
    labels: bool = False

    def __post_init__(self) -> None:
        checks.above_zero("patience", self.patience)
        checks.finite("loss", self.loss, 0.0, 10.0)


@dataclasses.dataclass
class TempoState(State):
    """Latencies, rate of finishing, relative log loss (NaN: never heard from), round of the last turn, misses in a row.

    >>> TempoState.create(2, latency=None).last
    array([0, 0])
    """

    latency: LogLatency
    level: float | None = None
    finishing: BetaPosterior = nested(BetaPosterior)
    loss: FloatArray = column(np.nan)
    last: IntArray = column(0, int)
    misses: IntArray = column(0, np.int8)


class Tempo(Selector[TempoSettings, TempoState]):
    """The set S of k clients with the highest value per second:  maximise  sum_S v_i u_i / T(S).

    v_i = w_i^a l_i^b   value of a reply: it grows with the client's wait and with its loss
    w_i                 turns that the client would have had since its last one if turns were shared evenly, halved
                        for every miss in a row beyond three
    a = 1 + (t/10)^2    speed first, even shares later; t is the mean number of turns of a client so far, a at most 8
    l_i                 its loss relative to that of its rounds, a running mean of logarithms, b = 0.5; 1 if unknown
    u_i                 probability that it finishes, and by the deadline if there is one
    T(S)                seconds until all of S that finish are expected to have replied

    Latencies are log-normal, learned per client and, where features are informative, across clients; all replies count
    until a client changes (`LogLatency`). The probability of finishing at all is a rate over the last hundred
    outcomes, and restarts when a client that was gone is back. Candidates for the best S are the sets of the k highest
    v_i u_i within a time limit, for each limit in turn (64 limits if there are more). If latencies are certain, the
    best set is among them, and otherwise it is close to one of them. T(S) is the time that all of S would take, even if
    the round may end earlier, with enough replies or at the deadline: with the true end instead, slow clients look
    cheap, and the speed-up is lower.

    Why it works. A round waits for its slowest client, so a slow client costs least in the company of other slow
    ones: the ratio forms rounds of similar speed by itself. A client is selected once its v_i has grown to the T that
    it costs, so its turns are in proportion to T^(-1/a): no client starves, and shares become even as a grows. Loss
    counts only by its square root, because a high loss may be noise. docs/tempo.md measures every part and setting.

    In asynchronous rounds (`ask(asynchronous=True)`) no client waits for a set: each holds its own place while it
    works. So tempo selects the clients with the highest value per second of their own time, v_i u_i / E[T_i]. Turns
    are then counted by selected clients, because an ask is for one or a few.

    With `labels`, the value of a set is multiplied by 1 - H(S), where H is the Hellinger distance between the labels of
    its clients together and those of all clients: worth 10 % of speed where labels are skewed, if clients tell the
    server how many samples of each label they hold. Asynchronous asks leave it out.

    Reference: this project's own; like BSFL, it finds the best set in one pass over latencies.
    Needs only latency; uses loss if reported. O(n log n) per round; 65 bytes of state per client, and its features.

    >>> import enlist
    >>> latency = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> selector = enlist.create("tempo", enlist.Clients(count=6), seed=1)
    >>> slow = []
    >>> for _ in range(40):
    ...     picked = selector.ask(k=2)
    ...     slow.append(int((picked.clients >= 3).sum()))
    ...     selector.tell(picked, enlist.Feedback(latency=latency[picked.clients]))
    >>> [slow.count(number) for number in (0, 1, 2)]
    [29, 3, 8]
    """

    name = "tempo"
    reference = "Enlist"
    presets = {}
    Settings = TempoSettings
    with_ = WithSettings(TempoSettings)
    State = TempoState

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"latency", "clients.label_counts"} if self.settings.labels else {"latency"})

    def initial_state(self) -> TempoState:
        latency = LogLatency.of(self.clients)
        self.rows = latency.rows(self.clients)
        return TempoState.create(len(self.clients), latency=latency)

    def joined(self, before: int) -> None:
        self.rows = self.state.latency.rows(self.clients)

    def compacted(self, kept: IntArray) -> None:
        self.rows = self.rows[kept]

    def loaded(self) -> None:
        self.rows = self.state.latency.rows(self.clients)

    def choose(self, request: Request) -> Choice:
        mean, deviation, finishes = self.forecast(request)
        chance = finishes
        if math.isfinite(request.deadline):
            chance = finishes * ndtr((math.log(max(request.deadline, SHORTEST)) - mean) / deviation)
        value = self.worth(request)
        brings = value * chance
        terms = {"value": value, "fair_share": self.waited(request), "chance": chance, "seconds": np.exp(mean)}
        if request.asynchronous:
            alone = np.exp(mean + 0.5 * deviation**2)  # the mean of a log-normal
            return request.pick(top_k(brings / alone, request.k, self.rng), **terms)
        sets = sets_by_time(mean + deviation, brings, request.k, self.rng)
        worth = brings[sets].sum(axis=1)
        if self.settings.labels:
            worth = worth * self.likeness(request.available[sets])
        best = np.argmax(worth / round_end(mean[sets], deviation[sets], finishes[sets]))
        return request.pick(sets[best], **terms)

    def likeness(self, sets: IntArray) -> FloatArray:
        """1 minus the Hellinger distance between the labels of each set of clients and those of all clients."""
        counts = self.clients.label_counts
        assert counts is not None
        whole = hellinger(counts.sum(axis=0, keepdims=True))
        return np.asarray(1.0 - np.linalg.norm(hellinger(counts[sets].sum(axis=1)) - whole, axis=1))

    def exponent(self, k: float) -> float:
        """The exponent of waiting: 1 at first, growing with the mean number of turns of a client."""
        turns = self.round * k / len(self.clients)
        return min(1.0 + (turns / self.settings.patience) ** 2, MOST)

    def waited(self, request: Request) -> FloatArray:
        """Turns that each available client would have had since its last one if turns were shared evenly.

        They are halved for every miss in a row beyond three, so that a client that never replies is asked ever less.
        """
        turns = (self.round - request.of(self.state.last)) * (self.size(request) / len(self.clients))
        return np.asarray(turns * 0.5 ** np.clip(request.of(self.state.misses) - PARDONED, 0, BACK_OFF))

    def size(self, request: Request) -> float:
        """Clients that a round asks; in asynchronous rounds, the mean number per ask so far."""
        return (int(self.counts.selected.sum()) + request.k) / self.round if request.asynchronous else request.k

    def worth(self, request: Request) -> FloatArray:
        """What a reply of each available client is worth: its waiting, and its loss relative to the others'."""
        waited, loss = self.waited(request), np.nan_to_num(request.of(self.state.loss))
        return np.asarray(waited ** self.exponent(self.size(request)) * np.exp(self.settings.loss * loss))

    def forecast(self, request: Request) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and deviation of ln latency, and the probability of finishing, of the available clients."""
        who = slice(None) if len(request.available) == len(self.clients) else request.available
        mean, deviation = self.state.latency.predict(request.of(self.rows), who)
        finishing = self.state.finishing
        done, lost = finishing.successes, finishing.failures
        usual = (done.sum() + PRIOR) / (done.sum() + lost.sum() + PRIOR)
        rate = (request.of(done) + PRIOR * usual) / (request.of(done) + request.of(lost) + PRIOR)
        return mean, deviation, rate

    def chosen(self, selection: Selection) -> None:
        self.state.last[selection.clients] = selection.round

    def learn(self, told: Observation) -> FloatArray | None:
        finishing, clients, misses = self.state.finishing, told.clients, self.state.misses[told.clients]
        lost = np.isin(told.outcome, (Outcome.DROPPED, Outcome.FAILED))
        missed = lost | ((told.outcome == Outcome.LATE) & ~told.cut_off)
        known = finishing.successes[clients] + finishing.failures[clients]
        kept = np.minimum(1.0, (OUTCOMES - 1.0) / np.maximum(known, 1.0))
        kept[~missed & (misses > PARDONED)] = 0.0  # it is back, and counts as new
        finishing.successes[clients] *= kept
        finishing.failures[clients] *= kept
        finishing.update(clients, np.where(lost, 0.0, 1.0))
        self.state.misses[clients] = np.where(missed, np.minimum(misses, 100) + 1, 0)
        self._hear(told)
        return self.state.latency.learn(self.rows[clients], told)

    def amend(self, told: Observation) -> None:
        self.state.misses[told.clients] = np.maximum(self.state.misses[told.clients] - 1, 0)
        self._hear(told)
        self.state.latency.amend(self.rows[told.clients], told)

    def _hear(self, told: Observation) -> None:
        """Losses of replies, relative to the level of the round: half old value, half new."""
        state, loss = self.state, told.column("loss")
        heard = told.completed & (loss > 0.0)
        if not heard.any():
            return
        clients, loss = told.clients[heard], np.log(loss[heard])
        level = float(np.median(loss))
        state.level = level if state.level is None else 0.7 * state.level + 0.3 * level
        relative = np.clip(loss - state.level, -WIDEST, WIDEST)
        before = state.loss[clients]
        state.loss[clients] = np.where(np.isnan(before), relative, 0.5 * (before + relative))

    def summary(self) -> dict[str, FloatArray]:
        mean, _ = self.state.latency.predict(self.rows)
        return {"seconds": np.exp(mean), "waited": (self.round - self.state.last).astype(float)}
