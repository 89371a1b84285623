"""Pisces: high loss, discounted by expected staleness; clients with outlying losses are distrusted."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import BoolArray, FloatArray, IntArray
from enlist.bandits import top_k
from enlist.contract import Choice, Observation, Request, Selector
from enlist.methods import WithSettings
from enlist.state import State, column

WINDOW = 5
"""How many replies of a client its mean staleness covers."""


@dataclasses.dataclass(frozen=True)
class PiscesSettings:
    """Settings of `pisces`; defaults are those of the authors' code, except for `robust`, which is off there.

    Parameters
    ----------
    beta : float, default 0.5
        Exponent of the expected staleness; 0 leaves it out.
    explore : float, default 0.9
        Chance that a slot goes to a client that was never asked.
    decay : float, default 0.98
        Factor on `explore` after every ask.
    least_explore : float, default 0.3
        Lower bound of `explore`.
    robust : bool, default True
        Whether outlying losses cost their clients credits.
    pool : int, default 20
        Clients whose latest losses are compared, those that replied last.
    radius : float, default 0.5
        Losses that differ by at most this are neighbours; half the pool makes a cluster.
    credits : int, default 5
        A client is no longer selected once its loss was an outlier this many times.

    >>> PiscesSettings().beta
    0.5
    """

    beta: float = 0.5
    explore: float = 0.9
    decay: float = 0.98
    least_explore: float = 0.3
    robust: bool = True
    pool: int = 20
    radius: float = 0.5
    credits: int = 5

    def __post_init__(self) -> None:
        checks.finite("beta", self.beta, 0.0, 100.0)
        for name in ("explore", "decay", "least_explore"):
            checks.finite(name, getattr(self, name), 0.0, 1.0)
        checks.whole("pool", self.pool, minimum=2)
        checks.above_zero("radius", self.radius)
        checks.whole("credits", self.credits, minimum=1, maximum=100)


@dataclasses.dataclass
class PiscesState(State):
    """Last loss and samples (NaN: never heard from), last stalenesses, when it last replied, outliers so far.

    >>> PiscesState.create(2, explore=0.9).outliers
    array([0, 0], dtype=int8)
    """

    explore: float
    heard: int = 0
    loss: FloatArray = column(np.nan)
    samples: FloatArray = column(np.nan)
    staleness: FloatArray = column(np.nan, float, (WINDOW,))
    replies: IntArray = column(0, int)
    order: IntArray = column(0, int)
    outliers: IntArray = column(0, np.int8)


class Pisces(Selector[PiscesSettings, PiscesState]):
    """The highest utility, loss times samples, discounted by expected staleness; some slots explore.

        U_i = n_i sqrt(mean loss^2 of i) / (tau_i + 1)^beta

    n_i      samples of the client
    tau_i    mean staleness of its last five replies: server steps from request to reply (`rounds_late`)

    Of k slots, Binomial(k, explore) go to random clients that were never asked, the others to the highest U_i;
    `explore` falls from 0.9 to 0.3. Against corrupted clients the losses of the 20 clients that replied last are
    clustered after every reply (DBSCAN: a cluster is where half of them lie within 0.5). A client whose loss is in no
    cluster loses one of five credits; with none left, it is no longer selected.

    Reference: Jiang, Wang, Li, Li: Pisces: Efficient Federated Learning via Guided Asynchronous Training, SoCC 2022;
    settings, window, clustering and credits are those of the authors' code in Plato.
    Needs loss_rms; staleness comes with asynchronous rounds, and counts as 0 where it is not told. O(n) per ask; 73
    bytes of state per client.

    >>> import enlist
    >>> selector = enlist.create("pisces", enlist.Clients(num_examples=[10, 10, 10]), seed=1, explore=0.0)
    >>> picked = selector.ask(k=3, asynchronous=True)
    >>> selector.tell(picked, enlist.Feedback(latency=[1, 1, 9], loss_rms=[1.0, 0.6, 1.1], rounds_late=[0, 0, 3]))
    >>> selector.ask(k=2, asynchronous=True).clients  # 10, 6, and 11 / sqrt(4)
    array([0, 1])

    Differs from the paper: losses are pooled over the clients that replied last, where the authors pool those of the
    last five versions of the model, which a selector is not told. Clustering is on here; in the code it is an option,
    off by default. The chance to explore falls from the second ask on, there from the third. Their code has another
    factor, an optional penalty on slow clients, which the published Plato version lacks; it is left out. Aggregation
    with adaptive pace is the server's task: see `rounds.max_staleness`. If there are too few others, clients without
    credits are asked.
    """

    name = "pisces"
    reference = "Jiang et al. 2022"
    presets = {"paper": {}}  # the default is the authors' code
    needs = frozenset({"loss_rms"})
    Settings = PiscesSettings
    with_ = WithSettings(PiscesSettings)
    State = PiscesState

    def initial_state(self) -> PiscesState:
        return PiscesState.create(len(self.clients), explore=self.settings.explore)

    def choose(self, request: Request) -> Choice:
        state, available = self.state, request.available
        trusted = request.of(state.outliers) < self.settings.credits
        new = trusted & (request.of(self.counts.selected) == 0)
        known = np.flatnonzero(trusted & ~new)
        explored = min(int(new.sum()), int(self.rng.binomial(request.k, state.explore)))
        utility, staleness = self.utility()[available], self.expected()[available]
        chosen = known[top_k(utility[known], request.k - explored, self.rng)]
        for rest in (new, ~trusted):
            some = np.flatnonzero(rest)
            missing = min(request.k - len(chosen), len(some))
            chosen = np.concatenate([chosen, self.rng.choice(some, missing, replace=False)])
        return request.pick(chosen, utility=utility, staleness=staleness, loss=state.loss[available])

    def begin_round(self, request: Request) -> None:
        if request.k and self.round > 1:
            least = min(self.settings.least_explore, self.settings.explore)
            self.state.explore = max(self.state.explore * self.settings.decay, least)

    def utility(self) -> FloatArray:
        """U of every client; for one that was asked but never heard from, the mean of those heard from."""
        state = self.state
        found = state.samples * state.loss / (self.expected() + 1.0) ** self.settings.beta
        heard = ~np.isnan(found)
        return np.where(heard, found, found[heard].mean() if heard.any() else 0.0)

    def expected(self) -> FloatArray:
        """Mean staleness of the last replies of every client; 0 where nothing is known."""
        known = ~np.isnan(self.state.staleness)
        total = np.where(known, self.state.staleness, 0.0).sum(axis=1)
        return np.asarray(total / np.maximum(known.sum(axis=1), 1))

    def learn(self, told: Observation) -> None:
        self._hear(told)

    def amend(self, told: Observation) -> None:
        self._hear(told)

    def _hear(self, told: Observation) -> None:
        state, done = self.state, told.completed & ~np.isnan(told.column("loss_rms"))
        clients = told.clients[done]
        if not len(clients):
            return
        state.loss[clients] = told.column("loss_rms")[done]
        state.samples[clients] = told.samples(self.clients)[done]
        late = np.nan_to_num(told.column("rounds_late")[done])
        state.staleness[clients, state.replies[clients] % WINDOW] = late
        state.replies[clients] += 1
        state.order[clients] = state.heard + 1 + np.arange(len(clients))
        state.heard += len(clients)
        if self.settings.robust:
            self._distrust()

    def _distrust(self) -> None:
        """Take a credit from every client whose loss is an outlier among those of the last clients that replied."""
        state, size = self.state, self.settings.pool
        latest = np.flatnonzero(state.order > 0)
        if len(latest) < size:
            return
        latest = np.sort(latest[np.argpartition(-state.order[latest], size - 1)[:size]])
        apart = latest[outliers(state.loss[latest], self.settings.radius, size // 2)]
        state.outliers[apart] = np.minimum(state.outliers[apart], 99) + 1

    def summary(self) -> dict[str, FloatArray]:
        return {"utility": self.utility(), "staleness": self.expected()}


def outliers(values: FloatArray, radius: float, least: int) -> BoolArray:
    """Which values DBSCAN leaves out: those not within `radius` of one that has `least` within it, itself included.

    >>> outliers(np.array([1.0, 1.2, 1.4, 5.0, 1.8]), radius=0.5, least=3)
    array([False, False, False,  True, False])
    """
    ranked = np.sort(values)
    near = np.searchsorted(ranked, ranked + radius, "right") - np.searchsorted(ranked, ranked - radius, "left")
    cores = ranked[near >= least]
    if not len(cores):
        return np.ones(len(values), dtype=bool)
    place = np.searchsorted(cores, values)
    below, above = cores[np.maximum(place - 1, 0)], cores[np.minimum(place, len(cores) - 1)]
    return np.minimum(np.abs(values - below), np.abs(values - above)) > radius
