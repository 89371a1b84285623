"""Everything at once, for every selector: a troubled run, stopped and resumed twice, and replayed from its log."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Books, Feedback, Outcome
from enlist.arena import BSFLReward, Match, Rules, Scenario, World
from enlist.books import replay

ROUNDS = 60
CLIENTS = 24
RULES = Rules(k=4, over_commit=1.5, delay=2, late="learn")
WORLDS = {
    kind: Scenario(
        latency="lognormal",
        reliability=(0.6, 1.0),
        sizes="lognormal",
        profiled=True,
        availability=kind,
        changes=1,
        kinds=4,
        battery=20.0,
    )
    for kind in ("markov", "diurnal")
}
MAX_OPEN = 3
"""Late clients that do not come are given up after three rounds, so expiry is part of the run."""


class Measuring(Books):
    """Books that measure the loss of candidates for the selectors that want it."""

    def ask(self, *arguments, **options):
        number = self.selector.round + 1

        def measure(candidates):
            return Feedback(clients=candidates, loss=1.0 + np.sin(number * 7.0 + candidates))

        return super().ask(*arguments, **options | {"measure": measure})


def start(name, kind, log=None):
    world = World(WORLDS[kind], CLIENTS, ROUNDS, seed=6)
    selector = enlist.create(name, world.clients(), seed=3, max_open=MAX_OPEN)
    match = Match(selector, world, RULES, BSFLReward())
    match.books = Measuring(selector, late=RULES.late, log=log)
    return match


def carry_on(match, until, chosen):
    while match.round < until:
        match.step()
        picked, _, _ = match.untold[-1]
        chosen.append(picked.clients.tolist())


def resume(match, folder, log=None):
    """Save the selector, throw it away, load it, and put it back under the same match."""
    match.selector.save(folder)
    del match.selector, match.books
    match.selector = enlist.load(folder)
    match.books = Measuring(match.selector, late=RULES.late, log=log)


def everything(selector):
    leaves = [*selector.state.leaves(), *selector.counts.leaves()]
    shown = {path: np.asarray(value).tobytes() for path, value in leaves}
    openings = {number: opening.outcome.tolist() for number, opening in selector.openings.items()}
    return shown, openings, selector.rng.bit_generator.state, selector.round


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[] if (turn + other) % 2 else pytest.mark.verify)
        for turn, name in enumerate(enlist.names())
        for other, kind in enumerate(WORLDS)
    ],
)
def test_stopped_twice_and_replayed_it_is_the_same_run(name, kind, tmp_path):
    log = tmp_path / "log.jsonl"
    match, chosen = start(name, kind, log), []
    carry_on(match, ROUNDS, chosen)
    assert sum(map(len, chosen)) > ROUNDS, "hardly anybody was selected"

    again, same = start(name, kind), []
    for stop in (17, 38):
        carry_on(again, stop, same)
        assert again.selector.openings, "nothing was open when it was stopped"
        resume(again, tmp_path / f"stop-{stop}")
    carry_on(again, ROUNDS, same)
    assert same == chosen
    assert everything(again.selector) == everything(match.selector)
    assert again.scores() == match.scores()

    fresh = enlist.create(name, World(WORLDS[kind], CLIENTS, ROUNDS, seed=6).clients(), seed=3, max_open=MAX_OPEN)
    for number, (selection, recorded) in enumerate(replay(log, fresh)):
        assert selection.clients.tolist() == recorded.tolist() == chosen[number], f"round {number + 1}"
    assert fresh.round == ROUNDS
    if not fresh.trains_all:  # what such a selector accepted is no part of the log
        assert everything(fresh) == everything(match.selector)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("name", ["random", "safa"])
def test_the_run_is_as_troubled_as_it_claims_to_be(name, kind):
    """Otherwise the test above could pass on a run in which nothing happens."""
    match = start(name, kind)
    seen, expired, unavailable = set(), 0, 0
    tell = match.selector.tell

    def listen(selection, feedback, round=None):
        resolved = feedback.resolved(selection)
        seen.update(resolved.outcome.tolist())
        if resolved.censored.any():
            seen.add("censored")
        tell(selection, feedback, round)

    match.selector.tell = listen
    for number in range(1, ROUNDS + 1):
        expired += sum(old <= number - MAX_OPEN for old in match.selector.openings)
        match.step()
        unavailable += int((~match.world.available(number, match.now)).sum()) if kind == "diurnal" else 0
    wanted = {int(outcome) for outcome in Outcome} - {int(Outcome.FAILED)}
    assert wanted <= seen
    assert "censored" in seen
    assert expired > 0
    assert unavailable > 0 or kind == "markov"


@pytest.mark.parametrize("name", enlist.names())
def test_a_resumed_run_goes_on_in_the_same_log(name, tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    match = start(name, "markov", whole)
    carry_on(match, 30, [])
    again = start(name, "markov", parts)
    carry_on(again, 11, [])
    resume(again, tmp_path / "stop", parts)
    carry_on(again, 30, [])
    assert parts.read_text() == whole.read_text()
