"""Power-of-choice: among a few candidates, those with the largest loss."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.bandits import credible, uniform, unseen_first, weighted
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import InputError
from enlist.methods import WithSettings
from enlist.state import State, column


@dataclasses.dataclass(frozen=True)
class PowerOfChoiceSettings:
    """Settings of `power-of-choice`.

    Parameters
    ----------
    d : int or None, default None
        How many candidates are drawn, at least k; None for 2k.

    >>> PowerOfChoiceSettings(d=30).d
    30
    """

    d: int | None = None

    def __post_init__(self) -> None:
        if self.d is not None:
            checks.whole("d", self.d, minimum=1)


@dataclasses.dataclass
class PowerOfChoiceState(State):
    """The last known loss of each client, NaN if there is none, and the round it was measured in.

    >>> PowerOfChoiceState.create(2).loss
    array([nan, nan])
    """

    loss: FloatArray = column(np.nan)
    measured: IntArray = column(0, int)

    def note(self, clients: IntArray, loss: FloatArray, number: int) -> None:
        """Record losses measured in round `number`, unless later ones are known."""
        newer = ~np.isnan(loss) & (self.measured[clients] <= number)
        self.loss[clients[newer]] = loss[newer]
        self.measured[clients[newer]] = number


class PowerOfChoice(Selector[PowerOfChoiceSettings, PowerOfChoiceState]):
    """Draw d candidates without replacement in proportion to num_examples; keep the k with the largest loss.

    The loss is the last known one (rpow-d, no extra traffic; clients never selected come first). For the paper's pow-d
    (cpow-d, if on one mini-batch), first measure the loss of the current model on the candidates:
    `fresh = Feedback(clients=selector.candidates(available, k), loss=...)`, then `ask(available, k, fresh=fresh)`.

    Reference: Cho et al., Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022.
    Needs clients.num_examples and loss. O(n) per round; 16 bytes of state per client. Pair it with an unweighted mean.

    >>> import enlist
    >>> selector = enlist.create("power-of-choice", enlist.Clients(num_examples=[10, 20, 30, 40, 50, 60]), seed=1)
    >>> candidates = selector.candidates(k=2)
    >>> candidates
    array([1, 3, 4, 5])
    >>> fresh = enlist.Feedback(clients=candidates, loss=[0.4, 0.9, 0.1, 0.7])
    >>> selector.ask(k=2, fresh=fresh).clients
    array([3, 5])

    Differs from the paper: clients without examples are candidates only if there are too few others. A client that
    was selected and never reported a loss counts as the mean of the credible known ones, so that one that always fails
    is neither preferred nor shut out.
    """

    name = "power-of-choice"
    reference = "Cho et al. 2022"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"clients.num_examples", "loss"})
    Settings = PowerOfChoiceSettings
    with_ = WithSettings(PowerOfChoiceSettings)
    State = PowerOfChoiceState

    def candidates(self, available: ArrayLike | None = None, k: int = 1) -> IntArray:
        """The candidates that the next `ask` with the same arguments will choose from; calling this changes nothing."""
        positions = self.resolve_available(available)
        wanted = min(checks.whole("k", k, minimum=0), len(positions))
        return self._draw(positions, wanted, self.round + 1)

    def validate(self, request: Request) -> None:
        self._candidate_count(min(request.k, len(request.available)))
        if request.fresh is not None and request.fresh.loss is None:
            raise InputError("selector 'power-of-choice' got fresh without loss; pass Feedback(clients=..., loss=...).")
        if request.fresh is not None and request.k and len(request.available):
            wanted = self._draw(request.available, min(request.k, len(request.available)), request.round)
            if not np.isin(wanted, np.asarray(request.fresh.clients)).any():
                raise InputError("fresh names none of the candidates; call candidates() with the same available and k.")

    def begin_round(self, request: Request) -> None:
        fresh = request.fresh
        if fresh is not None:
            assert fresh.clients is not None
            assert fresh.loss is not None
            self.state.note(fresh.clients, fresh.loss, self.round)

    def choose(self, request: Request) -> Choice:
        candidates = self._draw(request.available, request.k, self.round)
        loss = self.state.loss[candidates]
        unknown = np.isnan(loss)
        unseen = unknown & (self.counts.selected[candidates] == 0)
        known = credible(self.state.loss[~np.isnan(self.state.loss)])
        middle = float(known.mean()) if len(known) else 0.0
        chosen = unseen_first(np.where(unknown, middle, loss), unseen, request.k, self.rng)
        return Choice(candidates[chosen], {"loss": loss[chosen]})

    def learn(self, told: Observation) -> None:
        self._note(told)

    def amend(self, told: Observation) -> None:
        self._note(told)

    def _note(self, told: Observation) -> None:
        done = told.completed
        self.state.note(told.clients[done], told.column("loss")[done], told.selection.round)

    def _candidate_count(self, k: int) -> int:
        d = 2 * k if self.settings.d is None else self.settings.d
        if d < k:
            raise InputError(f"selector 'power-of-choice': d={d} candidates cannot give k={k} clients; let d >= k.")
        return d

    def _draw(self, available: IntArray, k: int, number: int) -> IntArray:
        # A generator of its own for each round: `candidates` and `ask` must draw the same.
        rng = np.random.default_rng((self.seed, number))
        assert self.clients.num_examples is not None
        drawn = weighted(self.clients.num_examples[available], self._candidate_count(k), rng)
        if len(drawn) < k:
            rest = np.setdiff1d(np.arange(len(available)), drawn, assume_unique=True)
            drawn = np.sort(np.concatenate([drawn, rest[uniform(len(rest), k - len(drawn), rng)]]))
        return available[drawn]

    def summary(self) -> dict[str, FloatArray]:
        return {"loss": self.state.loss}
