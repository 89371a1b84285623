"""EAFL: Oort that also considers the remaining battery."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import credible
from enlist.contract import Choice, Observation, Request
from enlist.methods import WithSettings
from enlist.selectors.oort import Oort, OortSettings, OortState, documented
from enlist.state import column


@dataclasses.dataclass(frozen=True)
class EAFLSettings(OortSettings):
    __doc__ = documented(
        "eafl",
        """
        utility : float, default 0.25
            Weight of Oort's score against the battery: f.

        >>> EAFLSettings().utility
        0.25
        """,
    )

    utility: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.finite("utility", self.utility, 0.0, 1.0)


@dataclasses.dataclass
class EAFLState(OortState):
    """Oort's, and the joules that each client spent in its last round (NaN: unknown) and has left, as far as known."""

    spent: FloatArray = column(np.nan)
    battery: FloatArray = column(np.nan)


class EAFL(Oort):
    """Oort that exploits clients by  f U_i + (1 - f) B_i.

    U_i is Oort's score, scaled to [0, 1]; B_i the share of its battery that client i would have left after the round:
    its charge now less what its last round took. The charge comes with each ask (context.battery); if it is missing,
    the battery counts as full, less what the client has spent.

    Reference: Arouj and Abdelmoniem, Towards Energy-Aware Federated Learning on Battery-Powered Clients, FedEdge 2022.
    Needs loss_rms, latency, energy and clients.battery; context.battery helps. O(n) per round; 40 bytes of state per
    client.

    >>> import enlist
    >>> selector = enlist.create("eafl", enlist.Clients(battery=[100.0, 100.0, 100.0]), seed=1, utility=0.0)
    >>> told = enlist.Feedback(loss_rms=[1.0, 1.0, 1.0], latency=[5.0, 5.0, 5.0], energy=[30.0, 10.0, 20.0])
    >>> selector.tell(selector.ask(k=3), told)
    >>> selector.ask(k=1, context={"battery": [90.0, 50.0, 95.0]}).clients
    array([2])

    Only the paper's abstract could be read. The form of the score is that of other implementations. That B_i is what is
    left after the round, and that f is 0.25, could not be verified: set `utility` if you know better.

    Differs from the paper: as `oort` does. A client about which nothing is known spends what others do on average. One
    with less left than a round takes counts as empty, and is exploited last.
    """

    name = "eafl"
    reference = "Arouj and Abdelmoniem 2022"
    presets = {}  # not Oort's; and "paper" would claim what could not be verified
    needs = frozenset({"loss_rms", "latency", "energy", "clients.battery"})
    Settings = EAFLSettings
    with_ = WithSettings(EAFLSettings)
    State = EAFLState
    settings: EAFLSettings
    state: EAFLState

    def choose(self, request: Request) -> Choice:
        choice = super().choose(request)
        own = self._left(request)[np.searchsorted(request.available, choice.clients)]
        return dataclasses.replace(choice, terms={**choice.terms, "battery": own})

    def preferred(self, request: Request, index: IntArray, score: FloatArray) -> FloatArray:
        low, high = float(score.min()), float(score.max())
        utility = (score - low) / max(high - low, 1e-12)
        share = self.settings.utility
        return np.asarray(share * utility + (1.0 - share) * self._left(request)[index])

    def _left(self, request: Request) -> FloatArray:
        """The share of its battery that each available client would have left after the round."""
        assert self.clients.battery is not None
        full = np.maximum(self.clients.battery, 1e-12)
        reckoned = np.where(np.isnan(self.state.battery), full, self.state.battery)
        now = request.context.get("battery")
        now = reckoned if now is None else np.where(np.isnan(now), reckoned, now)
        known = credible(self.state.spent[~np.isnan(self.state.spent)])
        usual = float(known.mean()) if len(known) else 0.0
        cost = np.where(np.isnan(self.state.spent), usual, self.state.spent)
        return np.asarray(np.clip(request.of((now - cost) / full), 0.0, 1.0))

    def learn(self, told: Observation) -> FloatArray | None:
        self._spend(told)
        return super().learn(told)

    def amend(self, told: Observation) -> None:
        self._spend(told)
        super().amend(told)

    def _spend(self, told: Observation) -> None:
        assert self.clients.battery is not None
        energy = told.column("energy")
        known = told.completed & ~np.isnan(energy)
        clients = told.clients[known]
        self.state.spent[clients] = energy[known]
        before = self.state.battery[clients]
        before = np.where(np.isnan(before), self.clients.battery[clients], before)
        self.state.battery[clients] = np.maximum(before - energy[known], 0.0)
