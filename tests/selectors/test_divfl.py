"""DivFL: facility location against brute force, a round by hand, and who is heard from first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits import Sketches, distances, facility_location
from enlist.errors import InputError
from tests.resuming import UNEVEN, assert_resumes


def cost(gap, chosen, weights):
    return float(weights @ gap[:, list(chosen)].min(axis=1))


@pytest.mark.parametrize("seed", range(25))
def test_lazy_greedy_is_greedy_and_near_the_best_set(seed):
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(9, 3)), rng.uniform(0.5, 2.0, 9)
    gap = distances(rows, rows)
    chosen, stands = facility_location(gap, 4, weights)
    plain: list[int] = []
    for _ in range(4):
        plain.append(min(set(range(9)) - set(plain), key=lambda i: cost(gap, [*plain, i], weights)))
    assert chosen.tolist() == plain
    np.testing.assert_array_equal(gap[np.arange(9), chosen[stands]], gap[:, chosen].min(axis=1))
    worst = float(weights @ gap.max(axis=1))
    best = worst - min(cost(gap, some, weights) for some in itertools.combinations(range(9), 4))
    assert worst - cost(gap, chosen, weights) >= (1 - 1 / np.e) * best


def see_all(selector, updates):
    selector.tell(selector.ask(k=len(selector.clients)), Feedback(update=updates))


def test_a_round_by_hand():
    # On a line: 0, 1, 2, 10, 12. Sums of distances: 25, 22, 21, 35, 43, so 2 is first. What is left are the distances
    # 2, 1, 0, 8, 10. Another at 10 saves 8 + 8 = 16, at 12 saves 6 + 10 = 16, too; at 1 it saves 1 + 1, at 0 2 + 0.
    selector = enlist.create("divfl", Clients(count=5), seed=3)
    see_all(selector, [[0.0], [1.0], [2.0], [10.0], [12.0]])
    picked = selector.ask(k=2)
    assert picked.clients[0] == 2
    assert picked.clients[1] in (3, 4)
    np.testing.assert_allclose(picked.weights, [0.6, 0.4])  # three of five are nearest to 2
    assert picked.terms["stands_for"].tolist() == [3.0, 2.0]
    assert selector.ask([0, 1, 3], k=2).clients.tolist() in ([0, 3], [1, 3])


def test_samples_count():
    # 12 has a hundred times the samples: it is first, and then 1, which is nearest to 0 and 2.
    selector = enlist.create("divfl", Clients(num_examples=[1, 1, 1, 1, 100]), seed=3)
    see_all(selector, [[0.0], [1.0], [2.0], [10.0], [12.0]])
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 4]
    np.testing.assert_allclose(picked.weights, [3 / 104, 101 / 104])


def test_half_of_the_places_are_for_clients_never_heard_of():
    selector = enlist.create("divfl", Clients(count=10), seed=1)
    outcome = [Outcome.COMPLETED] * 6 + [Outcome.DROPPED] * 4
    update = np.arange(10.0)[:, None]
    update[6:] = np.nan
    selector.tell(selector.ask(k=10), Feedback(outcome=outcome, update=update))
    for _ in range(10):
        assert (selector.ask(k=4).clients >= 6).sum() == 2
    assert (selector.ask(k=9).clients >= 6).sum() == 4  # all but one must come
    paper = enlist.create("divfl", Clients(count=10), seed=1, preset="paper")
    picked = paper.ask(k=4)
    paper.tell(picked, Feedback(update=np.ones((4, 2))))
    again = paper.ask(k=4)
    assert not set(again.clients) & set(picked.clients)
    assert again.weights is None


def test_late_and_old_sketches():
    selector = enlist.create("divfl", Clients(count=2), seed=1)
    first, second = selector.ask(k=2), selector.ask(k=2)
    selector.tell(first, Feedback(outcome=[Outcome.LATE] * 2))
    selector.tell(second, Feedback(update=[[2.0], [2.0]]))
    selector.tell(first, Feedback(clients=[0], outcome=[Outcome.ARRIVED], update=[[1.0]]))
    assert selector.state.values[0, 0] == 2.0
    with pytest.raises(InputError, match="sketches have 4097 numbers; at most 4096"):
        Sketches.create(2).note(np.array([0]), np.ones((1, 4097)), 1)


def test_an_absurd_sketch_does_not_drown_the_others():
    selector = enlist.create("divfl", Clients(count=6), seed=1)
    see_all(selector, [[0.0], [1.0], [2.0], [10.0], [12.0], [1e15]])
    assert set(selector.ask(k=3).clients) & {3, 4}
    assert np.abs(selector.state.of(np.arange(6))).max() <= 1e7


def test_many_clients_are_stood_for_by_some():
    selector = enlist.create("divfl", Clients(count=5000), seed=1)
    see_all(selector, np.random.default_rng(0).normal(size=(5000, 8)))
    picked = selector.ask(k=20)
    assert len(picked) == 20
    np.testing.assert_allclose(picked.weights.sum(), 1.0)


def test_late_drop_outs_resume_and_workers_change_nothing(tmp_path):
    assert_resumes(tmp_path, UNEVEN.with_method("divfl"), stops=[2])
