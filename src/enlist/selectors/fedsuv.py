"""FedSUV: validity (LinUCB) and utility (Gaussian process) as rectangles with Pareto pruning."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray, BoolArray, FloatArray, IntArray
from enlist.bandits import (
    ExactGP,
    FeatureGP,
    RecentValues,
    Validity,
    dominated,
    feature_count,
    in_time,
    median_distance,
    top_k,
    uniform,
)
from enlist.bandits.gaussian import best_length
from enlist.clients import Clients
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import PopulationError
from enlist.methods import WithSettings
from enlist.selectors.fedsuv_settings import FedSUVSettings
from enlist.state import Scalar, State, column

EXACT_LIMIT = 5_000


@dataclasses.dataclass
class FedSUVState(State):
    """Both models, the rectangle of each client, who is eliminated, and the scale of utilities.

    >>> import enlist
    >>> state = enlist.create("fedsuv", enlist.Clients(features=[[1.0], [2.0]])).state
    >>> state.validity_high, state.active
    (array([inf, inf]), array([ True,  True]))
    """

    validity: Validity
    utility: State
    utilities: RecentValues
    scores: RecentValues
    observations: FloatArray = column(0.0)
    score_mean: FloatArray = column(0.0)
    validity_low: FloatArray = column(-np.inf)
    validity_high: FloatArray = column(np.inf)
    utility_low: FloatArray = column(-np.inf)
    utility_high: FloatArray = column(np.inf)
    active: BoolArray = column(True, bool)

    def restore(self, saved: dict[str, AnyArray | Scalar], prefix: str = "") -> None:
        # Which posterior it is, and its shapes, follow the population it began with, not the present one.
        gp: type[ExactGP | FeatureGP] = FeatureGP if f"{prefix}utility/landmarks" in saved else ExactGP
        fields = [field.name for field in dataclasses.fields(gp)]
        if all(f"{prefix}utility/{name}" in saved for name in fields):
            values: dict[str, Any] = {name: saved[f"{prefix}utility/{name}"] for name in fields}
            self.utility = gp(**values)
        super().restore(saved, prefix)


class FedSUV(Selector[FedSUVSettings, FedSUVState]):
    """The k clients with the largest product of optimistic validity and optimistic utility.

    validity   theta.x +- a |x|_{H^-1},  a = 1 + sqrt(ln(4/delta)/2): ridge regression of "finished in time"
    utility    mu +- sqrt(b_t) sigma,  b_t = 2 ln(n pi^2 t^2/(3 delta)): Gaussian process on u = L * gain,
               L = samples * RMS loss, gain the client's own gain in accuracy

    With coupling = "none", as printed: the client with the largest rectangle, and the k-1 with the largest optimistic
    utility, among those left after these steps:
    eliminate  Eq. 7: clients whose upper validity lies below another's lower one, while a share 1 - rho is left
    prune      clients whose optimistic corner lies below another's pessimistic corner (O(n log n) by a staircase)

    Reference: FedSUV: Validity and Utility-guided Client Selection for Federated Learning, manuscript of 2024.
    Needs clients.features, loss_rms and accuracy_gain. Up to 5,000 clients the posterior is exact: O(n^2 k) per round
    and 8 n bytes per client; above, Nystrom features: O(n M^2) and about 4 M + 110 bytes, M from 256 down to 64.

    >>> import enlist
    >>> speed = np.linspace(1.0, 2.0, 30)
    >>> selector = enlist.create("fedsuv", enlist.Clients(features=speed[:, None], feature_names=["cpu flops"]), seed=1)
    >>> for _ in range(60):
    ...     picked = selector.ask(k=5, deadline=10.0)
    ...     late = speed[picked.clients] < 1.5
    ...     outcome = np.where(late, enlist.Outcome.DROPPED, enlist.Outcome.COMPLETED)
    ...     feedback = enlist.Feedback(outcome=outcome, loss_rms=np.ones(5), accuracy_gain=0.1 * speed[picked.clients])
    ...     selector.tell(picked, feedback)
    >>> selector.counts.selected[:15].sum() < selector.counts.selected[15:].sum()
    np.True_

    Differs from the paper (preset "paper" restores what it prints): one score for both, and a client that is late or
    fails has utility 0: the printed rule ranks by utility alone, learns nothing from late clients, and so keeps asking
    those that elimination has left. Intervals of utility are scaled by 0.2, because at full width pruning removes
    almost no client; the ridge is 10, so that those of validity, too, begin narrower than the printed bound allows
    (with 1, late clients are tried for longer); rectangles are clipped to [0, 1]; with coupling "none" at most a share
    rho is eliminated, eliminated clients come back when fewer than k of the rest are available, and every 50 rounds,
    because utilities drift; the Gaussian process forgets 2 % a round.

    The preset differs, too. Where the paper is silent: delta is 0.1, the ridge 1 (its bounds imply that); features are
    standardised (logarithms of magnitudes and counts) with an intercept, which keeps |theta| <= 1 as the width assumes,
    see `bandits.Validity`; utilities are divided by their running 95 % quantile, clipped to [0, 1], and standardised by
    the running mean and deviation of the round in which they came; a negative gain counts as 0; the kernel is Gaussian,
    its length the median distance, refitted every 50 rounds by marginal likelihood on at most 512 clients, its noise
    0.1; a client that arrives after the deadline teaches its utility. Where it cannot be followed: the first two rounds
    are random, because all utilities tie; an interval that does not overlap the older one replaces it; dominance needs
    one strict inequality; of the dominated, those with the least optimistic utility go first, until k are left; if
    fewer than k candidates are available, others fill the slots by optimistic utility; the guard of elimination is "at
    least", as in the text (Algorithm 1 has "more than"), and with rho = 0 none go.
    """

    name = "fedsuv"
    reference = "FedSUV manuscript, 2024"
    needs = frozenset({"clients.features", "loss_rms", "accuracy_gain"})
    presets = {
        "paper": {
            "coupling": "none",
            "late_utility": None,
            "width_scale": 1.0,
            "ridge": 1.0,
            "clip": False,
            "elimination": "hard",
            "drift": 0.0,
            "memory": None,
            "readmit_every": None,
        }
    }
    Settings = FedSUVSettings
    with_ = WithSettings(FedSUVSettings)
    State = FedSUVState

    def initial_state(self) -> FedSUVState:
        validity = Validity.of(self.clients, self.settings.ridge)
        self.rows = validity.rows(self._features)
        inputs = self.rows[:, :-1] * validity.norm
        gp = self._prior(inputs, median_distance(inputs, np.random.default_rng(self.seed)))
        return FedSUVState.create(
            len(self.clients),
            validity=validity,
            utility=gp,
            utilities=RecentValues.of(1024),
            scores=RecentValues.of(1024),
        )

    @property
    def _features(self) -> FloatArray:
        assert self.clients.features is not None
        return self.clients.features

    def _prior(self, inputs: FloatArray, length: float) -> ExactGP | FeatureGP:
        settings, count = self.settings, len(inputs)
        exact = settings.posterior == "exact" or (settings.posterior == "auto" and count <= EXACT_LIMIT)
        if exact:
            return ExactGP.of(inputs, length, settings.noise)
        wanted = settings.features or feature_count(count)
        return FeatureGP.of(inputs, length, settings.noise, wanted, np.random.default_rng(self.seed))

    @property
    def _gp(self) -> ExactGP | FeatureGP:
        gp = self.state.utility
        assert isinstance(gp, ExactGP | FeatureGP)
        return gp

    def loaded(self) -> None:
        self.rows = self.state.validity.rows(self._features)

    def _check_population(self, clients: Clients) -> None:
        super()._check_population(clients)
        if self.settings.posterior == "exact" and len(clients) > 4 * EXACT_LIMIT:
            raise PopulationError(
                f"posterior='exact' would need {8e-9 * len(clients) ** 2:.0f} GB for {len(clients)} clients, at most "
                f"{4 * EXACT_LIMIT} are served; posterior='features' serves a million."
            )

    def joined(self, before: int) -> None:
        rows = self.state.validity.rows(self._features[before:])
        self.rows = np.concatenate([self.rows, rows])
        self._gp.extend(rows[:, :-1] * self.state.validity.norm)

    def compacted(self, kept: IntArray) -> None:
        self.rows = self.rows[kept]

    def begin_round(self, request: Request) -> None:
        settings, state = self.settings, self.state
        if settings.drift:
            self._gp.forget(settings.drift)
            state.observations *= 1.0 - settings.drift
            state.score_mean *= math.sqrt(1.0 - settings.drift)
        if settings.refit_every and self.round % settings.refit_every == min(20, settings.refit_every - 1):
            self._refit()
        self._intersect()
        if settings.elimination == "soft" and settings.readmit_every and self.round % settings.readmit_every == 0:
            state.active[:] = True

    def choose(self, request: Request) -> Choice:
        state, k = self.state, request.k
        width = self._diagonal()
        optimistic = state.utility_high
        if self.round <= self.settings.initial_rounds:
            index = uniform(len(request.available), k, self.rng)
        elif self.settings.coupling != "none":
            index = top_k(request.of(self._coupled()), k, self.rng)
        else:
            self._eliminate(k)
            if self.settings.pruning:
                self._prune(k)
            index = self._select(request, width, optimistic)
        return request.pick(
            index,
            validity=request.of(self._validity()[1]),
            utility=request.of(optimistic),
            diagonal=request.of(width),
        )

    def _intersect(self) -> None:
        """R_t = R_{t-1} intersected with the new rectangle, side by side; a side that would be empty starts afresh."""
        settings, state = self.settings, self.state
        _narrow(state.validity_low, state.validity_high, *self._bounds())
        centre, scale = self._score_scale()
        mu, sigma = self._gp.predict()
        beta = 2.0 * math.log(len(self.clients) * math.pi**2 * self.round**2 / (3.0 * settings.delta))
        margin = settings.width_scale * math.sqrt(max(beta, 0.0)) * sigma
        low, high = centre + scale * (mu - margin), centre + scale * (mu + margin)
        if settings.clip:
            low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        if settings.memory and self.round % settings.memory == 0:
            state.utility_low[:], state.utility_high[:] = low, high
        else:
            _narrow(state.utility_low, state.utility_high, low, high)

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Eq. 4: the present validity interval of every client."""
        mean, spread = self.state.validity.interval(self.rows, self.settings.delta)
        return mean - spread, mean + spread

    def _diagonal(self) -> FloatArray:
        state = self.state
        low, high = self._validity()
        return np.hypot(high - low, state.utility_high - state.utility_low)

    def _validity(self) -> tuple[FloatArray, FloatArray]:
        """The interval of validity in the rectangles: clipped to [0, 1], or unchanged."""
        low, high = self.state.validity_low, self.state.validity_high
        return (np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)) if self.settings.clip else (low, high)

    def _coupled(self) -> FloatArray:
        """One score for both, as Oort (a product) and CU-CS (a sum) have it: what FedSUV argues against."""
        validity, utility = np.clip(self.state.validity_high, 0.0, 1.0), self.state.utility_high
        return validity * utility if self.settings.coupling == "multiply" else validity + utility

    def _eliminate(self, k: int) -> None:
        """Eq. 7: eliminate clients that are certainly less valid than another."""
        state, rho = self.state, self.settings.rho
        left, share = int(state.active.sum()), math.ceil((1.0 - rho) * len(self.clients) - 1e-9)
        if self.settings.elimination == "hard":
            if rho > 0.0 and left >= max(share, 1):
                low, high = self._bounds()
                state.active &= high > low[state.active].max()
            return
        surplus = left - max(k, share)
        if surplus <= 0:
            return
        best_low = state.validity_low[state.active].max()
        hopeless = np.flatnonzero(state.active & (state.validity_high <= best_low) & (state.validity_low < best_low))
        state.active[hopeless[top_k(-state.validity_high[hopeless], surplus, self.rng)]] = False

    def _prune(self, k: int) -> None:
        """Pareto classification on the rectangles, stopping at k clients."""
        state = self.state
        pool = np.flatnonzero(state.active)
        surplus = len(pool) - k
        if surplus <= 0:
            return
        low, high = self._validity()
        worse = dominated(high[pool], state.utility_high[pool], low[pool], state.utility_low[pool])
        losers = pool[worse]
        state.active[losers[top_k(-state.utility_high[losers], surplus, self.rng)]] = False

    def _select(self, request: Request, width: FloatArray, optimistic: FloatArray) -> IntArray:
        state, k = self.state, request.k
        active = request.of(state.active)
        if active.sum() < k:
            if self.settings.elimination == "soft":
                away = np.flatnonzero(~active)
                back = away[top_k(request.of(state.validity_high)[away], k - int(active.sum()), self.rng)]
                state.active[request.available[back]] = True
            else:
                back = np.flatnonzero(~active)
                back = back[top_k(request.of(optimistic)[back], k - int(active.sum()), self.rng)]
            return np.concatenate([np.flatnonzero(active), back])
        pool = np.flatnonzero(active)
        widest = top_k(request.of(width)[pool], 1, self.rng)
        others = np.delete(pool, widest)
        return np.concatenate([pool[widest], others[top_k(request.of(optimistic)[others], k - 1, self.rng)]])

    def learn(self, told: Observation) -> FloatArray | None:
        credited = self.state.validity.learn(self.rows[told.clients], told)
        self._learn_utility(told, in_time(told) > 0)
        return credited

    def amend(self, told: Observation) -> None:
        self.state.validity.amend(self.rows[told.clients], told)
        if self.settings.late_utility is None:
            self._learn_utility(told, told.completed)
        else:
            assert told.credited is not None
            new = told.part(np.isnan(told.credited))
            self._learn_utility(new, in_time(new) > 0)

    def _learn_utility(self, told: Observation, valid: BoolArray) -> None:
        """Eq. 3: u = samples * RMS loss * gain, for clients in time; the others teach `late_utility`, or nothing."""
        state, settings = self.state, self.settings
        gain = np.maximum(told.column("accuracy_gain"), 0.0)
        raw = told.samples(self.clients) * told.column("loss_rms") * gain
        if settings.late_utility is not None:
            raw = np.where(valid, raw, settings.late_utility)
            valid = valid | ~told.cut_off
        known = valid & ~np.isnan(raw)
        if not known.any():
            return
        clients, raw = told.clients[known], raw[known]
        state.utilities.add(np.abs(raw))
        top = settings.full_utility or state.utilities.quantile(0.95, default=1.0)
        score = np.clip(raw / max(top, 1e-12), 0.0, 1.0)
        state.scores.add(score)
        centre, scale = self._score_scale()
        values = (score - centre) / scale
        self._gp.update(clients, values)
        state.observations[clients] += 1
        state.score_mean[clients] += (values - state.score_mean[clients]) / state.observations[clients]

    def _score_scale(self) -> tuple[float, float]:
        scores = self.state.scores.values()
        if len(scores) < 2 or self.settings.full_utility is not None:
            return 0.5, 0.5
        return float(scores.mean()), max(float(scores.std()), 0.05)

    def _refit(self) -> None:
        """Refit the kernel's length by marginal likelihood, and rebuild the posterior from client means."""
        state, gp = self.state, self._gp
        seen = np.flatnonzero(state.observations > 1e-3)
        if len(seen) < 10:
            return
        fitted = seen[top_k(state.observations[seen], 512, self.rng)]
        inputs = self.rows[:, :-1] * state.validity.norm
        noise = self.settings.noise / np.maximum(state.observations, 1e-3)
        length = best_length(inputs[fitted], state.score_mean[fitted], noise[fitted], gp.length)
        if length != gp.length:
            fresh = self._prior(inputs, length)
            fresh.update(seen, state.score_mean[seen], noise[seen])
            state.utility = fresh

    def summary(self) -> dict[str, FloatArray]:
        return {"validity": self._validity()[1], "utility": self.state.utility_high, "diagonal": self._diagonal()}


def _narrow(low: FloatArray, high: FloatArray, new_low: FloatArray, new_high: FloatArray) -> None:
    apart = (new_low >= high) | (new_high <= low)
    np.copyto(low, np.where(apart, new_low, np.maximum(low, new_low)))
    np.copyto(high, np.where(apart, new_high, np.minimum(high, new_high)))
