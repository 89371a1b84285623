"""Tempo that looks at label counts, for whoever wants to measure whether it helps:

    enlist ladder --rungs label-skew,slow-holds-classes,silos,choice-skewed,fedcor --seeds 5 --alone \\
        --selectors benchmarks.tempo_labels:Rare,benchmarks.tempo_labels:Near,tempo

`Rare` multiplies what a reply is worth by how rare the labels of its client were in those of the last ten rounds or so:
sum_c p_ic q_c / h_c, with p_i the client's shares of labels, q those of all clients, and h those of the replies.
`Near` multiplies what a set brings by 1 - H(labels of the set, q), with Hellinger's distance H.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtr

from enlist._internal.typing import FloatArray
from enlist.bandits import round_end, sets_by_time
from enlist.bandits.lognormal import SHORTEST
from enlist.contract import Choice, Observation, Request
from enlist.selectors import Tempo
from enlist.selectors.tempo import TempoState

KEPT = 0.9
"""Of what was heard before, after each round that is heard of: ten rounds count."""
SMOOTH = 0.1
"""Share of the even mixture of all clients in what was heard, so that no label is infinitely rare."""


def shares(counts: FloatArray) -> FloatArray:
    """Rows of counts as shares; even ones where nothing is known.

    >>> shares(np.array([[3.0, 1.0], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, counts / np.maximum(total, 1e-12), 1.0 / counts.shape[-1]))


def hellinger(left: FloatArray, right: FloatArray) -> FloatArray:
    """Hellinger's distance of shares, along the last axis.

    >>> hellinger(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.0, 1.0])).round(3)
    array([1.   , 0.541])
    """
    return np.asarray(np.sqrt(np.maximum(1.0 - np.sqrt(left * right).sum(axis=-1), 0.0)))


@dataclasses.dataclass
class RareState(TempoState):
    """Tempo's, and the labels of the last replies."""

    heard: FloatArray = dataclasses.field(default_factory=lambda: np.zeros(0))


class Rare(Tempo):
    """Tempo whose replies are worth more if their labels were rare of late."""

    needs = frozenset({"latency", "clients.label_counts"})
    State = RareState
    state: RareState

    def initial_state(self) -> RareState:
        made = super().initial_state()
        assert self.clients.label_counts is not None
        empty = np.zeros(self.clients.label_counts.shape[1])
        return RareState.create(len(self.clients), latency=made.latency, heard=empty)

    def worth(self, request: Request) -> FloatArray:
        counts = np.asarray(self.clients.label_counts, dtype=float)
        whole = shares(counts.sum(axis=0))
        heard = self.state.heard
        recent = whole if not heard.any() else (1.0 - SMOOTH) * shares(heard) + SMOOTH * whole
        rare = whole / np.maximum(recent, 1e-12)
        return super().worth(request) * (shares(counts[request.available]) @ rare)

    def learn(self, told: Observation) -> FloatArray | None:
        counts = np.asarray(self.clients.label_counts, dtype=float)
        self.state.heard = KEPT * self.state.heard + counts[told.clients[told.completed]].sum(axis=0)
        return super().learn(told)


class Near(Tempo):
    """Tempo whose sets bring more if their labels are those of all clients."""

    needs = frozenset({"latency", "clients.label_counts"})

    def choose(self, request: Request) -> Choice:
        if request.asynchronous:
            return super().choose(request)
        mean, deviation, finishes = self.forecast(request)
        chance = finishes
        if math.isfinite(request.deadline):
            chance = finishes * ndtr((math.log(max(request.deadline, SHORTEST)) - mean) / deviation)
        brings = self.worth(request) * chance
        counts = np.asarray(self.clients.label_counts, dtype=float)
        sets = sets_by_time(mean + deviation, brings, request.k, self.rng)
        labels = shares(counts[request.available][sets].sum(axis=1))
        near = 1.0 - hellinger(labels, shares(counts.sum(axis=0)))
        ends = round_end(mean[sets], deviation[sets], finishes[sets])
        return request.pick(sets[np.argmax(near * brings[sets].sum(axis=1) / ends)])
