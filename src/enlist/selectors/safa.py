"""SAFA: all clients train, and the server takes the first to arrive, starting with those it passed over last time."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.locks import exclusive
from enlist._internal.settings import NoSettings
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.bandits import MeanLatency, top_k
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.records import Selection
from enlist.state import State, column, nested


@dataclasses.dataclass
class SAFAState(State):
    """Who was accepted in the last `accept`, who was chosen in the last `ask`, and mean latencies.

    >>> SAFAState.create(2).accepted
    array([False, False])
    """

    accepted: BoolArray = column(False, bool)
    chosen: BoolArray = column(False, bool)
    latency: MeanLatency = nested(MeanLatency)


class SAFA(Selector[NoSettings, SAFAState]):
    """The first k to arrive, clients that were not taken in the last round before those that were (CFCFM).

    Drive it with `trains_all`: ask for every available client, let all of them train, and call `accept` once a round
    with those that arrived in time. Asked for fewer clients than are available, it chooses before training
    (SAFALite): first those not chosen in the last round, among them the ones with the shortest expected duration.

    Reference: Wu et al., SAFA: A Semi-Asynchronous Protocol for Fast Federated Learning, IEEE Trans. Comput. 2021.
    Needs latency. O(n) per round; 18 bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("safa", enlist.Clients(count=5))
    >>> selector.accept([3, 0, 4, 1], k=2)
    array([3, 0])
    >>> selector.accept([3, 0, 4, 1], k=3)
    array([4, 1, 3])

    Differs from the paper: "first" means order of arrival, not device speed as in the published code. SAFALite goes by
    mean observed latency, else clients.expected_latency; a client with neither is placed at random among the others.
    The cache of local models, lag-tolerant distribution and bypass belong to the server, not to a selector.
    """

    name = "safa"
    reference = "Wu et al. 2021"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"latency"})
    trains_all = True
    with_ = WithSettings(NoSettings)
    State = SAFAState

    @exclusive
    def accept(self, arrivals: ArrayLike, k: int) -> IntArray:
        """Of `arrivals`, in order of arrival, the clients to take, most wanted first; call it once a round."""
        arrived = self._checked_arrivals(arrivals)
        k = checks.whole("k", k, minimum=0)
        before = self.state.accepted[arrived]
        taken = arrived if len(arrived) <= k else np.concatenate([arrived[~before], arrived[before]])[:k]
        self.state.accepted[:] = False
        self.state.accepted[taken] = True
        return taken

    def _checked_arrivals(self, arrivals: ArrayLike) -> IntArray:
        arrived = checks.as_array("accept", "arrivals", arrivals, None)
        if arrived.dtype == bool and arrived.size:
            raise InputError("arrivals is a mask; pass positions in order of arrival, as the first come first.")
        checks.positions("arrivals", arrived, len(self.clients))
        return arrived.astype(np.int64)

    def choose(self, request: Request) -> Choice:
        duration = self._duration(request)
        fresh = np.flatnonzero(~request.of(self.state.chosen))
        index = fresh[top_k(-duration[fresh], request.k, self.rng)]
        if len(index) < request.k:
            others = np.flatnonzero(request.of(self.state.chosen))
            index = np.concatenate([index, others[top_k(-duration[others], request.k - len(index), self.rng)]])
        return request.pick(index, duration=duration, chosen_before=request.of(self.state.chosen))

    def _duration(self, request: Request) -> FloatArray:
        profile = self.clients.expected_latency
        prior = np.full(len(request.available), np.nan) if profile is None else request.of(profile)
        duration = np.where(request.of(self.state.latency.count) > 0, request.of(self.state.latency.mean), prior)
        unknown = np.isnan(duration)
        known = duration[~unknown]
        missing = int(unknown.sum())
        duration[unknown] = self.rng.choice(known, missing) if len(known) else self.rng.uniform(size=missing)
        return duration

    def chosen(self, selection: Selection) -> None:
        self.state.chosen[:] = False
        self.state.chosen[selection.clients] = True

    def learn(self, told: Observation) -> FloatArray | None:
        return self.state.latency.learn(told)

    def amend(self, told: Observation) -> None:
        self.state.latency.amend(told)

    def summary(self) -> dict[str, FloatArray]:
        return {"latency": self.state.latency.mean}
