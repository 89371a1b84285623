"""Optimal sampling: chances by hand, aggregates that are those of all on average, and with less variance."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from tests.resuming import UNEVEN, assert_resumes
from tests.selectors.weighing import GRADIENTS, SIZES, assert_unbiased, see_all


@pytest.mark.parametrize("name", ["optimal-sampling", "optimal-sampling:paper"])
def test_the_mean_of_the_aggregate_is_the_full_gradient(name):
    assert_unbiased(name)


def test_less_variance_than_without_norms():
    spread = {}
    for name in ("optimal-sampling:paper", "optimal-sampling+floor=1"):
        selector = enlist.create(name, Clients(num_examples=SIZES), seed=5)
        see_all(selector, update_norm=np.linalg.norm(GRADIENTS, axis=1))
        sums = [picked.weights @ GRADIENTS[picked.clients] for picked in (selector.ask(k=3) for _ in range(800))]
        spread[name] = float(np.var(sums, axis=0).sum())
    assert spread["optimal-sampling:paper"] < 0.5 * spread["optimal-sampling+floor=1"]


def test_chances_by_hand():
    # u = w |g| in proportion to 8, 1, 1, 2 and k = 2: 2 * 8 / 12 > 1, so 0 is certain, and one place is left for
    # 1, 1, 2: a quarter, a quarter and a half. In the paper's words: l = 3, (2 + 3 - 4) u / 4.
    selector = enlist.create("optimal-sampling:paper", Clients(count=4), seed=1)
    see_all(selector, update_norm=np.array([8.0, 1.0, 1.0, 2.0]))
    for _ in range(10):
        picked = selector.ask(k=2)
        expected = np.array([1.0, 0.25, 0.25, 0.5])[picked.clients]
        np.testing.assert_allclose(picked.probabilities, expected)
        np.testing.assert_allclose(picked.weights, 0.25 / expected)
    # One never heard of counts as the mean of the others.
    selector = enlist.create("optimal-sampling:paper", Clients(count=3), seed=1)
    first = selector.ask(k=3)
    selector.tell(first, Feedback(outcome=[0, 0, Outcome.DROPPED], update_norm=[1.0, 3.0, np.nan]))
    picked = selector.ask(k=1)
    np.testing.assert_allclose(picked.probabilities, np.array([1, 3, 2])[picked.clients] / 6)


def test_late_drop_outs_resume_and_workers_change_nothing(tmp_path):
    assert_resumes(tmp_path, UNEVEN.with_method("optimal-sampling"), stops=[2])
