"""RBCS-F: predicted latency per client, with fairness queues, solved exactly."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.bandits import RidgePerClient, VirtualQueues, argmax_min_plus_sum, credible_extent
from enlist.bandits.credible import APART, SMALL
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.state import State, column, nested

COMPUTE_NAMES = ("cpu", "flops", "compute")
TRANSFER_NAMES = ("bandwidth",)
MOST_RELATIVE = 1000.0
HISTORY_BITS = 64


@dataclasses.dataclass(frozen=True)
class RBCSFSettings:
    """Settings of `rbcs-f`.

    Parameters
    ----------
    ridge : float, default 1.0
        Lambda of the regressions.
    alpha : float, default 0.1
        Weight of the confidence width.
    v : float, default 5.0
        Weight of latency against the queues.
    share : float, default 0.5
        Fraction of rounds that a client is owed, as a share of k/n.
    normalised : bool, default True
        Latencies as fractions of the deadline, not in seconds.
    compute_feature : str or None, default None
        Name of the feature with the compute speed; None finds it by name.
    transfer_feature : str or None, default None
        Name of the feature with the bandwidth; None finds it by name.

    >>> RBCSFSettings().v
    5.0
    """

    ridge: float = 1.0
    alpha: float = 0.1
    v: float = 5.0
    share: float = 0.5
    normalised: bool = True
    compute_feature: str | None = None
    transfer_feature: str | None = None

    def __post_init__(self) -> None:
        checks.finite("ridge", self.ridge, 1e-12)
        checks.finite("alpha", self.alpha, 0.0)
        checks.finite("v", self.v, 0.0)
        checks.finite("share", self.share, 0.0, 1.0)


@dataclasses.dataclass
class RBCSFState(State):
    """Regressions of latency in seconds, queues, how often each was available, and who took part in recent rounds.

    history    bit j says whether the client was selected j rounds ago: the context of a late reply
    typical    medians of the first population, so that clients that join later are scaled alike
    longest    the longest latency seen: the scale where there is no deadline

    >>> state = RBCSFState.create(2, latency=RidgePerClient.of(2, 3))
    >>> state.history
    array([0, 0], dtype=uint64)
    """

    latency: RidgePerClient
    queues: VirtualQueues = nested(VirtualQueues)
    seen_available: FloatArray = column(0.0)
    joined_after: IntArray = column(0, int)
    history: AnyArray = column(0, np.uint64)
    typical_compute: float = 1.0
    typical_transfer: float = 1.0
    longest: float = 0.0


class RBCSF(Selector[RBCSFSettings, RBCSFState]):
    """The set S of k clients that minimises  V max_S tau_i - sum_S z_i,  found exactly.

    tau_i = max(c_i' H_i^-1 b_i - alpha sqrt(c_i' H_i^-1 c_i), 0)   lower bound of latency, in units of the deadline
    c_i = [1/compute, took part in the last round, 1/bandwidth]     one ridge regression per client
    z_i <- max(z_i + beta_i - x_i, 0), beta_i = share k/n           what is owed; x_i: chosen in the last round

    Reference: Huang et al., An Efficiency-Boosting Client Selection Scheme for Federated Learning With Fairness
    Guarantee, IEEE TPDS 2020.
    Needs latency. O(n log n) per round; 129 bytes of state per client. Speeds come from Clients.features, each
    relative to its median; without them the context is constant and the model a mean per client.

    >>> import enlist
    >>> selector = enlist.create("rbcs-f", enlist.Clients(count=6), seed=1)
    >>> for _ in range(120):
    ...     picked = selector.ask(k=2, deadline=10.0)
    ...     selector.tell(picked, enlist.Feedback(latency=np.where(picked.clients == 0, 9.0, 1.0)))
    >>> selector.counts.selected[0], selector.counts.selected[1:].min() > 40
    (np.int64(17), np.True_)

    Differs from the paper: latency is divided by the deadline (by the longest seen if there is none), so that V means
    the same everywhere; preset "paper" keeps seconds. The required fraction is a share of k/n and at most how often the
    client has been available, because more than that lets the queues grow without bound. A late or lost client is
    scored at the deadline; one cut off early, at no less than predicted. A reply more than 62 rounds old counts as
    after a pause.
    """

    name = "rbcs-f"
    reference = "Huang et al. 2020"
    needs = frozenset({"latency"})
    presets = {"paper": {"normalised": False}}
    Settings = RBCSFSettings
    with_ = WithSettings(RBCSFSettings)
    State = RBCSFState

    def initial_state(self) -> RBCSFState:
        count = len(self.clients)
        return RBCSFState.create(
            count,
            latency=RidgePerClient.of(count, dimension=3, ridge=self.settings.ridge),
            typical_compute=_typical(self._speeds("compute")),
            typical_transfer=_typical(self._speeds("transfer")),
        )

    def joined(self, before: int) -> None:
        self.state.joined_after[before:] = self.round

    def begin_round(self, request: Request) -> None:
        state = self.state
        state.seen_available[request.online] += 1.0
        owed = self.settings.share * request.k / len(self.clients)
        state.queues.advance(np.minimum(owed, state.seen_available / (self.round - state.joined_after)))
        np.left_shift(state.history, np.uint64(1), out=state.history)

    def choose(self, request: Request) -> Choice:
        everybody = len(request.available) == request.population
        clients = slice(None) if everybody else request.available
        seconds, width = self.state.latency.predict(self._context(clients, self.round), clients)
        latency = seconds / self._scale(request.deadline)
        bound = np.maximum(latency - self.settings.alpha * width, 0.0)
        queue = request.of(self.state.queues.backlog)
        chosen = argmax_min_plus_sum(-self.settings.v * bound, queue, request.k, self.rng)
        return request.pick(chosen, latency=latency, width=width, queue=queue)

    def chosen(self, selection: Selection) -> None:
        self.state.queues.serve(selection.clients)
        self.state.history[selection.clients] |= np.uint64(1)

    def learn(self, told: Observation) -> FloatArray | None:
        state, clients = self.state, told.clients
        context = self._context(clients, told.selection.round)
        seconds = self._seconds(told)
        # A client cut off would have needed longer than that: no less than predicted.
        predicted = state.latency.predict(context, clients)[0]
        seconds = np.where(told.cut_off, np.maximum(seconds, predicted), seconds)
        known = ~np.isnan(seconds)
        state.latency.update(clients[known], context[known], seconds[known])
        return seconds

    def amend(self, told: Observation) -> None:
        assert told.credited is not None
        context = self._context(told.clients, told.selection.round)
        seconds, before = self._seconds(told), told.credited
        again = ~np.isnan(before)
        change = (seconds - before)[again]
        self.state.latency.moment[told.clients[again]] += change[:, None] * context[again]
        first = ~again & ~np.isnan(seconds)
        self.state.latency.update(told.clients[first], context[first], seconds[first])

    def _seconds(self, told: Observation) -> FloatArray:
        latency = told.latency
        self.state.longest = max(self.state.longest, float(np.nanmax(latency, initial=0.0)))
        # Lost without a deadline: as slow as the slowest, or it would look fast for ever.
        unknown = np.isnan(latency)
        return np.where(unknown, self._longest() or np.nan, latency) if unknown.any() else latency

    def _scale(self, deadline: float) -> float:
        if not self.settings.normalised:
            return 1.0
        return deadline if np.isfinite(deadline) else self._longest() or 1.0

    def _longest(self) -> float:
        """The longest latency seen, unless it is absurd: then the longest credible prediction."""
        if self.state.longest <= APART * SMALL:
            return self.state.longest
        return credible_extent(
            self.state.longest, self.state.latency.predict(self._context(slice(None), self.round))[0]
        )

    def _context(self, clients: IntArray | slice, number: int) -> FloatArray:
        """The contexts (n, 3) of these clients as they were in round `number`."""
        history = self.state.history[clients]
        ago = self.round - number + 1
        context = np.ones((len(history), 3))
        context[:, 1] = (history >> np.uint64(ago)) & np.uint64(1) if ago < HISTORY_BITS else 0.0
        kinds = (("compute", self.state.typical_compute), ("transfer", self.state.typical_transfer))
        for place, (kind, typical) in zip((0, 2), kinds, strict=True):
            speeds = self._speeds(kind)
            if speeds is not None:
                context[:, place] = typical / np.maximum(speeds[clients], typical / MOST_RELATIVE)
        return context

    def _speeds(self, kind: str) -> FloatArray | None:
        """The column of Clients.features that holds compute speeds or bandwidths."""
        compute, names = kind == "compute", self.clients.feature_names
        given = self.settings.compute_feature if compute else self.settings.transfer_feature
        if given is not None:
            if given not in names:
                known = ", ".join(names) or "none"
                raise InputError(
                    f"selector 'rbcs-f': {kind}_feature is '{given:.80}'; the clients have these features: {known}."
                )
            found: str | None = given
        else:
            parts = COMPUTE_NAMES if compute else TRANSFER_NAMES
            found = next((name for name in names if any(part in name.lower() for part in parts)), None)
        if found is None:
            return None
        assert self.clients.features is not None
        return np.asarray(self.clients.features[:, list(names).index(found)])

    def summary(self) -> dict[str, FloatArray]:
        seconds, width = self.state.latency.predict(self._context(slice(None), self.round))
        return {"latency": seconds, "width": width, "queue": self.state.queues.backlog}


def _typical(speeds: FloatArray | None) -> float:
    usable = np.zeros(0) if speeds is None else speeds[speeds > 0]
    return float(np.median(usable)) if len(usable) else 1.0
