"""Robust aggregators against brute force, SciPy and hand-computed cases; bounds that follow what is usual."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from enlist.errors import InputError
from enlist.training import aggregators
from enlist.training.aggregation import (
    AGGREGATIONS,
    AggregationOptions,
    BoundedMean,
    BufferMerge,
    CentredClip,
    ClippedMean,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    TrimmedMean,
)
from enlist.training.bounds import ENOUGH, WINDOW, RunningBound
from enlist.training.engine import refused
from enlist.training.flat import Layout, Vectors

STACKS = st.integers(3, 9).flatmap(
    lambda count: arrays(np.float32, (count, 3), elements=st.floats(-100, 100, width=16), unique=True)
)
WITHSTAND_30_PERCENT = (Median(), TrimmedMean(share=0.3), ClippedMean(), GeometricMedian(), Krum(), MultiKrum())


def aggregated(
    options: AggregationOptions, updates: Any, discounts: Any = None, samples: Any = None, memory: Any = None
) -> np.ndarray:
    rows = np.asarray(updates, dtype=np.float32)
    aggregator = options.start(rows.shape[1], memory)
    for index, row in enumerate(rows):
        discount = 1.0 if discounts is None else discounts[index]
        aggregator.add(torch.from_numpy(row), 1.0 if samples is None else samples[index], discount)
    found = aggregator.result()
    assert found is not None
    if memory is not None:
        aggregator.remember(found)
    return found.numpy()


def krum_scores(updates: np.ndarray, hostile: int) -> list[float]:
    """As the paper says it, with two loops."""
    scores = []
    for i, one in enumerate(updates):
        others = sorted(float(((one - other) ** 2).sum()) for j, other in enumerate(updates) if j != i)
        scores.append(sum(others[: max(1, min(len(updates) - hostile - 2, len(others)))]))
    return scores


@given(STACKS, st.sampled_from([0.0, 0.2, 0.34, 0.45]))
def test_krum_is_that_of_two_loops(updates: np.ndarray, share: float) -> None:
    hostile = math.floor(share * len(updates) + 1e-9)
    scores = krum_scores(updates.astype(float), hostile)
    chosen = aggregated(Krum(share=share), updates)
    best = min(scores)
    near = [update for update, score in zip(updates, scores, strict=True) if score <= best * (1 + 1e-9) + 1e-6]
    assert any(np.array_equal(chosen, update) for update in near)
    ranked = np.argsort(scores, kind="stable")[: max(1, len(updates) - hostile)]
    gaps = np.diff(np.sort(scores))
    if (gaps > 1e-3).all():  # no ties
        np.testing.assert_allclose(
            aggregated(MultiKrum(share=share), updates), updates[ranked].mean(axis=0), rtol=1e-4, atol=1e-3
        )


def test_krum_by_hand() -> None:
    updates = [[0.0], [1.0], [3.0], [100.0], [101.0]]  # f = 1, so 2 neighbours: 1+9, 1+4, 4+9, 1+97², 1+98²
    assert aggregated(Krum(share=0.2), updates).tolist() == [1.0]
    assert aggregated(MultiKrum(share=0.2), updates).tolist() == pytest.approx([26.0])  # the best four
    late = aggregated(MultiKrum(share=0.2), updates, discounts=[1.0, 0.5, 0.5, 1.0, 1.0])
    assert late.tolist() == pytest.approx([(0 + 0.5 + 1.5 + 100) / 3])


@given(STACKS)
@settings(deadline=None, max_examples=25)
def test_geometric_median_is_scipys(updates: np.ndarray) -> None:
    def total(point: np.ndarray) -> float:
        return float(np.linalg.norm(updates.astype(float) - point, axis=1).sum())

    found = aggregated(GeometricMedian(iterations=2000), updates)
    starts = [np.median(updates, axis=0), *updates.astype(float)]
    best = min(float(minimize(total, start, method="Nelder-Mead").fun) for start in starts)
    assert total(found) <= best * (1 + 1e-3) + 1e-3


def test_geometric_median_weighs_by_discounts_and_by_samples() -> None:
    line = [[0.0], [1.0], [5.0]]  # on a line it is the weighted median
    assert aggregated(GeometricMedian(iterations=500), line)[0] == pytest.approx(1.0, abs=1e-3)
    assert aggregated(GeometricMedian(iterations=500), line, discounts=[0.2, 0.2, 1.0])[0] == pytest.approx(5, abs=1e-2)
    by_samples = GeometricMedian(iterations=500, weights="samples")
    assert aggregated(by_samples, line, samples=[30.0, 1.0, 1.0])[0] == pytest.approx(0.0, abs=1e-2)


def test_the_bound_follows_a_quantile_by_hand() -> None:
    options = BoundedMean(quantile=0.5, rate=0.2, weights="uniform")
    memory = options.memory(1)
    assert aggregated(options, [[1.0], [2.0], [90.0]], memory=memory)[0] == pytest.approx((1 + 2 + 2) / 3)
    assert float(memory["bound"]) == 2.0  # the quantile of the first round
    assert aggregated(options, [[1.0], [1.5], [-50.0], [0.5]], memory=memory)[0] == pytest.approx(
        (1 + 1.5 - 2 + 0.5) / 4
    )
    assert float(memory["bound"]) == pytest.approx(2.0 * math.exp(-0.2 * (0.75 - 0.5)))


def test_centred_clipping_by_hand() -> None:
    options = CentredClip(iterations=2, weights="uniform")
    memory = {"centre": torch.tensor([1.0, 0.0]), "bound": torch.tensor(1.0, dtype=torch.float64)}
    # Distances from (1, 0) are 1 and 4; the second is shortened to (0, 1):  v = (1, 0) + ((1, 0) + (0, 1)) / 2
    # Then from (1.5, 0.5): (0.5, -0.5) is within 1, (-0.5, 3.5) becomes that / sqrt(12.5).
    found = aggregated(options, [[2.0, 0.0], [1.0, 4.0]], memory=memory)
    far = math.sqrt(12.5)
    expected = [1.5 + (0.5 - 0.5 / far) / 2, 0.5 + (-0.5 + 3.5 / far) / 2]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(memory["centre"].numpy(), found)
    assert float(memory["bound"]) == 1.0  # half of them were within it


def test_history_tells_a_hostile_majority_of_one_round_from_the_usual() -> None:
    options, honest = CentredClip(), np.ones((10, 4))
    memory = options.memory(4)
    for _ in range(5):
        aggregated(options, honest, memory=memory)
    taken_over = np.concatenate([np.ones((4, 4)), np.full((6, 4), -1000.0)])
    assert aggregated(options, taken_over, memory=memory).min() > 0.0
    assert aggregated(Median(), taken_over)[0] == -1000.0


@pytest.mark.parametrize("options", WITHSTAND_30_PERCENT, ids=lambda options: options.kind)
def test_three_of_ten_cannot_move_it_far(options: AggregationOptions) -> None:
    generator = np.random.default_rng(1)
    honest = generator.normal(1.0, 0.1, size=(7, 20))
    for value in (-1e3, 1e6, 3e38):
        found = aggregated(options, np.concatenate([honest, np.full((3, 20), value)]))
        assert np.isfinite(found).all()
        assert np.abs(found - 1.0).max() < 1.5
    few = aggregated(TrimmedMean(share=0.2), np.concatenate([honest, np.full((3, 20), 1e6)]))
    assert few.min() > 1e4  # its breakdown point is 0.2


@pytest.mark.parametrize("kind", [kind for kind in AGGREGATIONS if kind != "mean"])
def test_numbers_near_the_largest_float_give_finite_ones(kind: str) -> None:
    updates = np.full((9, 3), 3e38)
    updates[:3] *= -1
    updates[8] = 1.0
    assert np.isfinite(aggregated(AGGREGATIONS[kind](), updates)).all()


def test_a_mean_refuses_what_it_cannot_sum() -> None:
    for value in (3e38, -3e38, 1e19):
        with pytest.raises(InputError, match=r"long; a mean takes up to 1e\+18"):
            aggregated(Mean(), [[1.0, 1.0], [value, -value]])
    assert np.isfinite(aggregated(Mean(), np.full((50, 3), 5e17), samples=[1e12] * 50)).all()
    layout = Layout.of(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    update = Vectors.zeros(layout)
    assert refused(update, layout) == ""
    update.buffers[0] = 3e38
    assert "3e+38 long" in refused(update, layout)


@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_blocks_do_not_show_and_results_can_be_asked_for_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    updates = np.random.default_rng(2).normal(size=(7, 100)).astype(np.float32)
    whole = aggregated(AGGREGATIONS[kind](), updates)
    monkeypatch.setattr(aggregators, "BLOCK", 70)
    np.testing.assert_allclose(aggregated(AGGREGATIONS[kind](), updates), whole, rtol=1e-6, atol=1e-6)
    aggregator = AGGREGATIONS[kind]().start(100)
    for update in updates:
        aggregator.add(torch.from_numpy(update), 1.0)
        aggregator.result()
    assert np.array_equal(aggregator.result().numpy(), aggregator.result().numpy())  # type: ignore[union-attr]


def test_distances_are_those_of_the_updates_that_count() -> None:
    aggregator = Median().start(1)
    for value, discount in ((1.0, 1.0), (2.0, 0.0), (7.0, 0.5)):
        aggregator.add(torch.tensor([value]), 1.0, discount)
    assert aggregator.distances(torch.tensor([3.0])) == [2.0, 4.0]
    assert Mean().start(1).distances(torch.zeros(1)) == []


def test_robust_buffers_are_medians() -> None:
    for robust, expected in ((True, 2.0), (False, (1 + 2 + 1e9) / 3)):
        merge = BufferMerge(1, 0, robust=robust)
        for value in (1.0, 2.0, 1e9):
            merge.add(torch.tensor([value]), torch.zeros(0, dtype=torch.int64), 1.0)
        buffers = torch.zeros(1)
        merge.into(buffers, torch.zeros(0, dtype=torch.int64))
        assert buffers.item() == pytest.approx(expected)


def test_a_bound_learns_from_what_it_refuses() -> None:
    """Honest updates become four times as long: a bound that forgot the refused ones would refuse them for good."""
    bound = RunningBound(3.0)
    bound.judge([1.0] * WINDOW)
    refusals = [bound.judge([4.0] * 10).count(False) for _ in range(6)]
    assert refusals[0] == 10
    assert refusals[-1] == 0


def test_a_bound_does_not_follow_a_minority() -> None:
    bound, generator = RunningBound(3.0), np.random.default_rng(3)
    for _ in range(200):
        hostile = generator.random(10) < 0.3
        within = bound.judge(np.where(hostile, 10.0, generator.uniform(0.5, 1.5, 10)).tolist())
        assert not np.array(within)[hostile].any()


def test_a_bound_judges_the_first_values_by_each_other_and_later_ones_by_the_past() -> None:
    bound = RunningBound(2.0)
    assert not bound.ready
    assert bound.judge([1.0, 1.0, 5.0, math.inf]) == [True, True, False, False]
    bound.judge([1.0] * ENOUGH)
    assert bound.ready
    assert bound.judge([3.0]) == [False]  # alone, it would be usual
    again = RunningBound(2.0)
    again.restore(bound.state())
    assert again.limit() == bound.limit()
    assert RunningBound(2.0).judge([0.0, 0.0, 1.0]) == [True, True, True]  # nothing is longer than nothing
