"""PyramidFL: Oort's clients; the fast ones do more local work while waiting for the slow."""

from __future__ import annotations

import dataclasses

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.contract import Choice, Observation, Request
from enlist.methods import WithSettings
from enlist.selectors.oort import Oort, OortSettings, OortState, documented
from enlist.state import column


@dataclasses.dataclass(frozen=True)
class PyramidFLSettings(OortSettings):
    __doc__ = documented(
        "pyramidfl",
        """
        most : float, default 2.0
            How many times the least work a client may do. The fastest do all local work; the slowest do 1/`most` of it.
        fill : float, default 1.0
            Share of the spare time that is filled with work; the code's beta.

        >>> PyramidFLSettings().most
        2.0
        """,
    )

    most: float = 2.0
    fill: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.finite("most", self.most, 1.0, 1000.0)
        checks.finite("fill", self.fill, 0.0, 1.0)


@dataclasses.dataclass
class PyramidFLState(OortState):
    """Oort's, with durations of the least work, and the seconds that each client's least work took (NaN: unknown)."""

    local: FloatArray = column(np.nan)


class PyramidFL(Oort):
    """Oort whose clients do  r_i = 1 + fill (D - t_i) / c_i  times the least work, at most `most` times.

    t_i is the time of client i with the least work, c_i the part of it that is training, D the time at which the round
    is expected to end: that of the slowest client it waits for. So the round gets no longer, and clients that would be
    done early train on instead. Selection.work is r_i / most: set the local epochs of the training to the most that any
    client is to do. Utilities count the samples trained on (as in Oort, at most those that a client has).

    Reference: Li, Zeng, Zhang and Cao, PyramidFL: A Fine-grained Client Selection Framework for Efficient Federated
    Learning, MobiCom 2022. The paper's text was not available; this is its public code (github.com/liecn/PyramidFL):
    `prune_client_tasks` in training/param_server.py, and oort.py, which is Oort's.
    Needs loss_rms and latency; upload_latency, num_examples and expected_latency help. O(n) per round; 32 bytes of
    state per client. Preset "code" has its settings: Oort's public code, up to 11 times the least work, and beta 0.5 as
    in the authors' configurations for OpenImage.

    >>> import enlist
    >>> selector = enlist.create("pyramidfl", enlist.Clients(count=3), seed=1)
    >>> told = enlist.Feedback(loss_rms=[1.0, 1.0, 1.0], latency=[3.0, 8.0, 20.0], upload_latency=[1.0, 4.0, 2.0])
    >>> selector.tell(selector.ask(k=3), told)
    >>> selector.ask(k=3).work
    array([1. , 1. , 0.5])

    Differs from the code: the second half of the method is left out, in which clients with small gradients drop part of
    the layers before they upload: no protocol here supports that. Work is not rounded to iterations. Training time is
    latency less upload, so the download counts as training, and an upload that is not told counts as none. A client
    that has not replied yet does the least work. In asynchronous rounds the server waits for no client, and all do all
    the work.
    """

    name = "pyramidfl"
    reference = "Li et al. 2022"
    presets = {"code": {**Oort.presets["oort-code"], "most": 11.0, "fill": 0.5}}
    needs = frozenset({"loss_rms", "latency"})
    may_choose_fewer = True  # it never does, but so it is asked for the work even if there is no choice
    Settings = PyramidFLSettings
    with_ = WithSettings(PyramidFLSettings)
    State = PyramidFLState
    settings: PyramidFLSettings
    state: PyramidFLState

    def choose(self, request: Request) -> Choice:
        choice = super().choose(request)
        work = self._work(request, choice.clients)
        return dataclasses.replace(choice, work=work, terms={**choice.terms, "work": work})

    def _work(self, request: Request, clients: IntArray) -> FloatArray:
        """The share of all local work for each of these clients."""
        if request.asynchronous:
            return np.ones(len(clients))
        local, duration, most = self.state.local[clients], self.state.duration[clients], self.settings.most
        known = ~np.isnan(local)
        times = np.full(len(clients), 1.0)
        if known.any():
            arriving = np.sort(duration[known])
            end = min(float(arriving[min(request.enough, len(arriving)) - 1]), request.deadline)
            spare = np.maximum(end - duration[known], 0.0)
            times[known] += self.settings.fill * spare / np.maximum(local[known], 1e-9)
        shares: FloatArray = np.minimum(times, most) / most
        return shares

    def _reply(self, told: Observation) -> None:
        newest = told.selection.round >= self.state.last_round[told.clients]
        super()._reply(told)
        latency, upload, work = told.column("latency"), told.column("upload_latency"), told.selection.work
        timed = told.completed & newest & ~np.isnan(latency)
        clients = told.clients[timed]
        sent = np.minimum(np.nan_to_num(upload[timed]), latency[timed])
        did = np.ones(len(clients))
        if work is not None:
            did = work[np.searchsorted(told.selection.clients, clients)]
        self.state.local[clients] = (latency[timed] - sent) / (did * self.settings.most)
        self.state.duration[clients] = sent + self.state.local[clients]
