"""FedCS: as many clients as fit into the deadline, packed greedily by upload and update time."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.bandits import top_k, uniform
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.records import Outcome
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class FedCSSettings:
    """Settings of `fedcs`.

    Parameters
    ----------
    step : float, default 0.5
        Weight of the latest time in an estimate.
    overhead : float, default 0.0
        Seconds of each round that are neither update nor upload: selection, download, aggregation.
    unknown_share : float, default 0.2
        Share of k that may go to clients without an estimate.
    forget : int or None, default 50
        Rounds after which a client excluded only because it once did not reply is tried again; None for never.

    >>> FedCSSettings().step
    0.5
    """

    step: float = 0.5
    overhead: float = 0.0
    unknown_share: float = 0.2
    forget: int | None = 50

    def __post_init__(self) -> None:
        checks.finite("step", self.step, 1e-12, 1.0)
        checks.finite("overhead", self.overhead, 0.0)
        checks.finite("unknown_share", self.unknown_share, 0.0, 1.0)
        if self.forget is not None:
            checks.whole("forget", self.forget, minimum=1)


@dataclasses.dataclass
class FedCSState(State):
    """Estimated seconds of a whole round and of its upload (NaN: unknown), the last round told of (0: none), and
    whether that gave only a lower bound.

    >>> FedCSState.create(2).latency
    array([nan, nan])
    """

    latency: FloatArray = column(np.nan)
    upload: FloatArray = column(np.nan)
    heard: AnyArray = column(0, np.int32)
    bound: BoolArray = column(False, bool)


class FedCS(Selector[FedCSSettings, FedCSState]):
    """Adds, one by one, the client with the least  u_i + max(0, c_i - T),  while T stays below the deadline.

    u_i upload time, c_i update time, T when the last accepted upload ends, T <- T + u_i + max(0, c_i - T): updates run
    side by side, uploads one after the other. At most k; often fewer, but never none, as it could then learn no more.

    Reference: Nishio and Yonetani, Client Selection for Federated Learning with Heterogeneous Resources, ICC 2019.
    Needs latency, and upload_latency or clients.expected_upload to tell uploads from updates (else u_i = 0, and it
    takes the k fastest that meet the deadline). O(n log n) per round; 21 bytes of state per client.

    >>> import enlist
    >>> clients = enlist.Clients(expected_latency=[4.0, 5.0, 9.0, 30.0], expected_upload=[2.0, 2.0, 2.0, 2.0])
    >>> enlist.create("fedcs", clients).ask(k=4, deadline=10.0).clients
    array([0, 1, 2])

    Differs from the paper: there, every client reports its resources each round; here estimates start from the profile
    (`Clients`) and follow what was observed. A client that was cut off or lost counts as at least that slow, or as
    slow as the deadline. Clients without an estimate count as immediate, get at most a share `unknown_share` of the k
    slots unless there are too few others, and are drawn at random. The first client that does not fit ends the search:
    all that remain cost more. Ties go to the shorter update, then to chance.
    """

    name = "fedcs"
    reference = "Nishio and Yonetani 2019"
    needs = frozenset({"latency"})
    presets = {"paper": {"step": 1.0, "unknown_share": 0.0, "forget": None}}
    may_choose_fewer = True
    Settings = FedCSSettings
    with_ = WithSettings(FedCSSettings)
    State = FedCSState

    def initial_state(self) -> FedCSState:
        state = super().initial_state()
        _profile(state, self.clients.expected_latency, self.clients.expected_upload, 0)
        return state

    def joined(self, before: int) -> None:
        _profile(self.state, self.clients.expected_latency, self.clients.expected_upload, before)

    def choose(self, request: Request) -> Choice:
        limit = request.deadline - self.settings.overhead
        latency = request.of(self.state.latency)
        upload = np.nan_to_num(request.of(self.state.upload), nan=0.0)
        unknown = np.isnan(latency) | self._forgotten(request, latency, limit)
        new, known = np.flatnonzero(unknown), np.flatnonzero(~unknown)
        share = math.ceil(self.settings.unknown_share * request.k - 1e-9)
        tried = new[uniform(len(new), max(share, request.k - len(known)), self.rng)]
        update = np.maximum(latency - upload, 0.0)
        packed = known[pack(update[known], upload[known], request.k - len(tried), limit, self.rng)]
        if not len(tried) and not len(packed):
            packed = known[top_k(-(update + upload)[known], 1, self.rng)]
        index = np.concatenate([tried, packed])
        return request.pick(index, update=np.where(unknown, 0.0, update), upload=np.where(unknown, 0.0, upload))

    def _forgotten(self, request: Request, latency: FloatArray, limit: float) -> BoolArray:
        if self.settings.forget is None:
            return np.zeros(len(latency), dtype=bool)
        old = self.round - request.of(self.state.heard) >= self.settings.forget
        return np.asarray(old & request.of(self.state.bound) & (latency >= limit))

    def learn(self, told: Observation) -> FloatArray | None:
        state, clients = self.state, told.clients
        before = state.latency[clients]
        value, bound = _measured(told)
        value = np.where(bound & (before > value), before, value)
        known = ~np.isnan(value)
        self._refresh(state.latency, clients[known], value[known])
        state.heard[clients[known]] = told.selection.round
        state.bound[clients[known]] = bound[known]
        self._learn_upload(told)
        return before

    def amend(self, told: Observation) -> None:
        assert told.credited is not None
        state, clients, true = self.state, told.clients, told.column("latency")
        # What its lateness taught is undone, unless something else was learned since.
        last = state.heard[clients] == told.selection.round
        state.latency[clients[last]] = told.credited[last]
        state.bound[clients[last]] = False
        known = ~np.isnan(true)
        self._refresh(state.latency, clients[known], true[known])
        self._learn_upload(told)

    def _learn_upload(self, told: Observation) -> None:
        upload = told.column("upload_latency")
        known = told.completed & ~np.isnan(upload)
        self._refresh(self.state.upload, told.clients[known], upload[known])

    def _refresh(self, estimate: FloatArray, clients: IntArray, values: FloatArray) -> None:
        before = estimate[clients]
        estimate[clients] = np.where(np.isnan(before), values, before + self.settings.step * (values - before))

    def summary(self) -> dict[str, FloatArray]:
        return {"latency": self.state.latency, "upload": self.state.upload}


def pack(update: FloatArray, upload: FloatArray, k: int, limit: float, rng: np.random.Generator) -> IntArray:
    """Indices in the order in which FedCS accepts them: at most k, all uploaded before `limit`. O(n log n + k sqrt n).

    >>> pack(np.array([1.0, 2.0, 6.0]), np.array([3.0, 1.0, 1.0]), 3, 8.0, np.random.default_rng(0))
    array([1, 0, 2])
    """
    if k <= 0 or not len(update):
        return np.zeros(0, dtype=np.int64)
    shuffled = rng.permutation(len(update))
    order = shuffled[np.argsort(update[shuffled], kind="stable")]
    update, upload = update[order], upload[order]
    # At time T the cost is u for those whose update is done (c <= T), and u + c - T for those still at it.
    done, working = _Smallest(np.full(len(order), np.inf)), _Smallest(upload + update)
    accepted: list[int] = []
    time, border = 0.0, 0
    while len(accepted) < k:
        start, border = border, int(np.searchsorted(update, time, side="right"))
        if border > start:
            done.put(start, border, upload[start:border])
            working.put(start, border, np.inf)
        ready, other = done.smallest(), working.smallest()
        costs = done.values[ready], working.values[other] - time
        best, cost = (ready, costs[0]) if costs[0] <= costs[1] else (other, costs[1])
        if not time + cost < limit:
            break
        time += float(cost)
        accepted.append(best)
        upload[best] = np.inf
        (done if best < border else working).put(best, best + 1, np.inf)
    return order[np.array(accepted, dtype=np.int64)]


class _Smallest:
    """Finds the smallest of many values in O(sqrt n): one minimum per block, updated where values change."""

    def __init__(self, values: FloatArray) -> None:
        self.width = math.isqrt(len(values)) + 1
        self.values = np.full((len(values) // self.width + 1) * self.width, np.inf)
        self.values[: len(values)] = values
        self.blocks = self.values.reshape(-1, self.width)
        self.least = self.blocks.min(axis=1)

    def put(self, start: int, stop: int, values: FloatArray | float) -> None:
        self.values[start:stop] = values
        first, last = start // self.width, (stop - 1) // self.width + 1
        self.least[first:last] = self.blocks[first:last].min(axis=1)

    def smallest(self) -> int:
        block = int(self.least.argmin())
        return block * self.width + int(self.blocks[block].argmin())


def _profile(state: FedCSState, latency: FloatArray | None, upload: FloatArray | None, start: int) -> None:
    if latency is not None:
        state.latency[start:] = latency[start:]
    if upload is not None:
        state.upload[start:] = upload[start:]


def _measured(told: Observation) -> tuple[FloatArray, BoolArray]:
    """Seconds of the round, and where they are only a lower bound; NaN where nothing is known."""
    latency = told.column("latency")
    lost = (told.outcome == Outcome.DROPPED) | (told.outcome == Outcome.FAILED)
    assert told.feedback.censored is not None
    bound = lost | ((told.outcome == Outcome.LATE) & (told.feedback.censored | np.isnan(latency)))
    return np.where(lost | np.isnan(latency), told.latency, latency), bound
