"""Every registered selector passes the published contract suite, which finds what is wrong with others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest

import enlist
import enlist.testing
from enlist import Choice, Observation, Request, Selector
from enlist.bandits import top_k

HERE = [check for check in enlist.testing.CHECKS if check != "same_in_another_process"]
"""That one starts a process for each selector; below, one process is enough for all."""


@pytest.mark.parametrize("check", HERE)
@pytest.mark.parametrize("selector", enlist.names())
def test_contract(check: str, selector: str) -> None:
    enlist.testing.run(check, selector)


def test_selectors_are_the_same_in_another_process() -> None:
    code = (
        "import json, enlist, enlist.testing as t\n"
        "kinds = {name: enlist.selectors.get(name) for name in enlist.names()}\n"
        "print(json.dumps({name: t.transcript(kind(t.population(25), seed=11), 30) for name, kind in kinds.items()}))\n"
    )
    surroundings = {**os.environ, "PYTHONHASHSEED": "4242"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=surroundings, check=False)
    assert done.returncode == 0, done.stderr
    chosen = json.loads(done.stdout)
    assert set(chosen) == set(enlist.names())
    for name, there in chosen.items():
        kind = enlist.selectors.get(name)
        assert there == enlist.testing.transcript(kind(enlist.testing.population(25), seed=11), 30), name


class Contextual(Selector):
    """Goes by what changes from ask to ask; it assumes the best of clients about which nothing is told."""

    name = "contextual"
    needs = frozenset({"context.battery", "context.charging", "context.bandwidth", "context.mood"})

    def choose(self, request: Request) -> Choice:
        assert request.context.keys() == {"battery", "charging", "bandwidth", "mood"}
        score = sum(np.nan_to_num(request.of(column), nan=1.0) for column in request.context.values())
        return request.pick(top_k(score + 1e15 / (1 + self.counts.selected[request.available]), request.k, self.rng))


@pytest.mark.parametrize("check", enlist.testing.CHECKS)
def test_a_selector_is_given_the_context_that_it_needs(check: str) -> None:
    enlist.testing.run(check, Contextual)


class Drawing(Selector):
    """Draws k clients, all with the same chance, and says so, as far as it can count."""

    name = "drawing"
    chance: ClassVar[float] = 1.0
    weight: ClassVar[float] = 1.0

    def choose(self, request: Request) -> Choice:
        n, k = len(request.available), request.k
        index = self.rng.choice(n, k, replace=False)
        weights = np.full(n, self.weight / k)
        return request.pick(index, probabilities=np.full(n, self.chance * k / n), weights=weights)


class Wrong(Drawing):
    """Takes the chance of each of k draws for that of being drawn."""

    name = "wrong"
    chance = 0.2


class Heavy(Drawing):
    """Its weights add up to 2, so that the model makes steps twice as long."""

    name = "heavy"
    weight = 2.0


class Forgetful(Drawing):
    """Keeps what it has learned where it is not saved."""

    name = "forgetful"

    def choose(self, request: Request) -> Choice:
        first = getattr(self, "last", 0) % len(request.available)
        return request.pick((first + np.arange(request.k)) % len(request.available))

    def learn(self, told: Observation) -> None:
        self.last = int(told.clients[-1])


class Unlearned(Drawing):
    """Cannot learn from a part of a selection."""

    name = "unlearned"

    def learn(self, told: Observation) -> None:
        assert len(told.clients) == len(told.selection), "told of a part"


@pytest.mark.parametrize(
    ("kind", "check", "message"),
    [
        (Wrong, "weights_probabilities_and_work", "the sums of 1 / probability are 100 on average over 300 draws"),
        (Heavy, "weights_probabilities_and_work", "the sums of the weights are 2 on average over 300 draws, not 1"),
        (Forgetful, "replaced_as_they_finish", "saved with clients at work, it continued differently"),
        (Unlearned, "replaced_as_they_finish", "told of a part"),
    ],
)
def test_the_suite_finds(kind: Any, check: str, message: str) -> None:
    enlist.testing.run(check, Drawing)
    with pytest.raises(AssertionError, match=message):
        enlist.testing.run(check, kind)
