"""How many replies end a round reaches the selector from every driver, and a replay repeats it."""

from __future__ import annotations

import json

import pytest

from enlist import Books, Clients, Feedback
from enlist.arena import Rules, Scenario, World
from enlist.arena.genie import BSFLReward
from enlist.arena.play import Match
from enlist.books import replay
from enlist.errors import InputError
from enlist.methods import Method
from enlist.selectors.random import Random
from enlist.simulation import Config, Simulation


class Curious(Random):
    """Writes down what it is asked for."""

    seen: list[tuple[int, int]] = []

    def choose(self, request):
        self.seen.append((request.k, request.enough))
        return super().choose(request)


@pytest.fixture(autouse=True)
def forget():
    Curious.seen.clear()


def curious(count=12):
    return Curious(Clients(count=count), seed=1)


def test_all_asked_are_awaited_unless_fewer_are_enough():
    selector = curious()
    selector.ask(k=5)
    selector.ask(k=5, enough=3)
    selector.ask([0, 1, 2, 3, 4, 5], k=20, enough=10)  # everybody is asked: there is nothing to choose
    selector.ask(range(6), k=4, busy=[0, 1], enough=4)
    assert Curious.seen == [(5, 5), (5, 3)]


def test_it_is_never_more_than_k_once_few_are_available():
    class Sparing(Curious):
        may_choose_fewer = True

    Sparing(Clients(count=12), seed=1).ask([0, 1, 2], k=13, enough=10)
    assert Curious.seen == [(3, 3)]


@pytest.mark.parametrize("wrong", [0, -1, 6, 2.5, "3", True])
def test_what_cannot_be_is_refused_and_nothing_changes(wrong):
    selector = curious()
    with pytest.raises(InputError, match="enough is"):
        selector.ask(k=5, enough=wrong)
    assert selector.round == 0


def test_a_replayed_log_repeats_it_and_older_logs_know_none(tmp_path):
    log = tmp_path / "log.jsonl"
    books = Books(curious(), log=log)
    for enough in (None, 2, 4):
        books.settle(books.ask(k=4, enough=enough), Feedback())
    first, Curious.seen[:] = list(Curious.seen), []
    assert [entry["enough"] for entry in map(json.loads, log.read_text().splitlines()) if "enough" in entry] == [
        None,
        2,
        4,
    ]
    list(replay(log, curious()))
    assert Curious.seen == first == [(4, 4), (4, 2), (4, 4)]
    older = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps({k: v for k, v in entry.items() if k != "enough"}) + "\n" for entry in older))
    list(replay(log, curious()))
    assert Curious.seen[3:] == [(4, 4)] * 3


def test_simulator_and_arena_say_it():
    config = Config(data={"clients": 12}, rounds={"rounds": 1, "k": 4, "over_commit": 1.3}, selector=Method(Curious))
    with Simulation(config) as simulation:
        simulation.step()
    world = World(Scenario(), clients=12, rounds=5, seed=1)
    Match(Curious(world.clients(), seed=1), world, Rules(k=3, over_commit=1.5), BSFLReward()).step()
    assert Curious.seen == [(6, 4), (5, 3)]


def test_flower_says_it():
    from enlist.flower.fake import FakeGrid
    from tests.flower.flower_helpers import behaving, run

    run(FakeGrid(range(11, 31), behaving()), 1, f"{__name__}:Curious", k=10, over_commit=1.3)
    assert Curious.seen == [(13, 10)]
