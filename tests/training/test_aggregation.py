"""Aggregation against hand-computed cases, NumPy, SciPy and Flower."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flwr.server.strategy.aggregate import aggregate, aggregate_median, aggregate_trimmed_avg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from enlist.errors import InputError
from enlist.training import aggregators
from enlist.training.aggregation import (
    AGGREGATIONS,
    AggregationOptions,
    AnyAggregation,
    BufferMerge,
    ClippedMean,
    Mean,
    Median,
    TrimmedMean,
    acceptable,
)

NUMBERS = st.floats(-1e3, 1e3, width=32)
STACKS = st.integers(1, 9).flatmap(lambda count: arrays(np.float32, (count, 5), elements=NUMBERS))


def aggregated(options: AggregationOptions, updates: np.ndarray, samples: list[float] | None = None) -> np.ndarray:
    aggregator = options.start(updates.shape[1])
    scratch = torch.empty(updates.shape[1])
    for update, weight in zip(updates, samples or [1.0] * len(updates), strict=True):
        scratch.copy_(torch.from_numpy(update))
        aggregator.add(scratch, weight)
        scratch.fill_(math.nan)  # the caller's memory is used again
    found = aggregator.result()
    assert found is not None
    assert found.dtype == torch.float32
    return found.numpy()


def test_mean_by_hand() -> None:
    updates = np.array([[1, 2], [4, -1]], dtype=np.float32)
    assert aggregated(Mean(), updates, [10, 20]).tolist() == [3, 0]
    assert aggregated(Mean(weights="uniform"), updates, [10, 20]).tolist() == [2.5, 0.5]


@given(STACKS, st.data())
def test_mean_is_flowers(updates: np.ndarray, data: st.DataObject) -> None:
    samples = data.draw(st.lists(st.integers(1, 500), min_size=len(updates), max_size=len(updates)))
    theirs = aggregate([([update], count) for update, count in zip(updates, samples, strict=True)])[0]
    np.testing.assert_allclose(aggregated(Mean(), updates, [float(n) for n in samples]), theirs, rtol=1e-5, atol=1e-3)


def test_discount_holds_whatever_the_weights() -> None:
    for weights, expected in (("samples", (10 * 1 + 0.5 * 40 * 4) / 30), ("uniform", (1 + 0.5 * 4) / 1.5)):
        aggregator = Mean(weights=weights).start(1)
        aggregator.add(torch.tensor([1.0]), 10.0)
        aggregator.add(torch.tensor([4.0]), 40.0, discount=0.5)
        found = aggregator.result()
        assert found is not None
        assert found.item() == pytest.approx(expected)


def test_same_order_gives_the_same_bits_and_result_can_be_asked_for_again() -> None:
    generator = np.random.default_rng(1)
    updates = generator.normal(size=(30, 200)).astype(np.float32)
    samples = generator.integers(1, 500, 30).astype(float).tolist()
    for options in (Mean(), Median(), TrimmedMean(), ClippedMean(), ClippedMean(norm=3.0)):
        first = aggregated(options, updates, samples)
        aggregator = options.start(200)
        for update, weight in zip(updates, samples, strict=True):
            aggregator.add(torch.from_numpy(update), weight)
            aggregator.result()
        again, once_more = aggregator.result(), aggregator.result()
        assert again is not None
        assert once_more is not None
        assert np.array_equal(first, again.numpy())
        assert np.array_equal(first, once_more.numpy())
        assert again.data_ptr() != once_more.data_ptr()


@given(STACKS)
def test_median_is_numpys_and_flowers(updates: np.ndarray) -> None:
    found = aggregated(Median(), updates)
    np.testing.assert_allclose(found, np.median(updates.astype(float), axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, aggregate_median([([update], 1) for update in updates])[0], rtol=1e-6, atol=1e-6)


@given(STACKS, st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4, 0.49]))
def test_trimmed_mean_is_scipys_and_flowers(updates: np.ndarray, share: float) -> None:
    found = aggregated(TrimmedMean(share=share), updates)
    expected = stats.trim_mean(updates.astype(float), share, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    theirs = aggregate_trimmed_avg([([update], 1) for update in updates], share)[0]
    np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-3)


def test_trimmed_mean_counts_a_share_that_binary_fractions_miss() -> None:
    updates = np.arange(100, dtype=np.float32)[:, None] ** 2
    assert int(0.29 * 100) == 28
    expected = np.mean(np.arange(29, 71) ** 2)
    assert aggregated(TrimmedMean(share=0.29), updates)[0] == pytest.approx(expected)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    updates = np.random.default_rng(2).normal(size=(7, 100)).astype(np.float32)
    whole = aggregated(TrimmedMean(share=0.3), updates)
    monkeypatch.setattr(aggregators, "BLOCK", 50)
    assert np.array_equal(aggregated(TrimmedMean(share=0.3), updates), whole)


def test_clipped_mean_by_hand() -> None:
    updates = np.array([[3, 4], [0, 1], [60, 80]], dtype=np.float32)  # of length 5, 1 and 100
    found = aggregated(ClippedMean(norm=10, weights="uniform"), updates)
    np.testing.assert_allclose(found, [(3 + 0 + 6) / 3, (4 + 1 + 8) / 3], rtol=1e-6)
    found = aggregated(ClippedMean(), updates, [10, 10, 20])  # the median length is 5
    np.testing.assert_allclose(found, [(30 + 0 + 60) / 40, (40 + 10 + 80) / 40], rtol=1e-6)


def test_an_update_beyond_measure_moves_no_robust_kind_far() -> None:
    updates = np.ones((9, 3), dtype=np.float32)
    updates[4] = 3e38
    for options in (Median(), TrimmedMean(), ClippedMean(norm=2.0), ClippedMean()):
        np.testing.assert_allclose(aggregated(options, updates), [1, 1, 1], rtol=0.05)


@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_nothing_gives_nothing(kind: str) -> None:
    aggregator = AGGREGATIONS[kind]().start(3)
    assert aggregator.result() is None
    aggregator.add(torch.ones(3), 5.0, discount=0.0)
    assert aggregator.result() is None


@pytest.mark.parametrize(
    ("update", "samples", "discount", "message"),
    [
        (torch.ones(4), 1.0, 1.0, r"shape \(4,\); the model needs \(3,\)"),
        (torch.ones(3), math.nan, 1.0, "samples of an update is nan"),
        (torch.ones(3), -1.0, 1.0, "samples of an update is -1.0"),
        (torch.ones(3), 1.0, math.inf, "discount of an update is inf"),
    ],
)
def test_refused(update: torch.Tensor, samples: float, discount: float, message: str) -> None:
    for options in AGGREGATIONS.values():
        with pytest.raises(InputError, match=message):
            options().start(3).add(update, samples, discount)


def test_only_robust_kinds_that_need_all_updates_keep_them() -> None:
    kinds = (Mean(), ClippedMean(norm=1.0), Median(), TrimmedMean(), ClippedMean())
    assert [options.start(1).streaming for options in kinds] == [True, True, False, False, False]


def test_options_by_kind() -> None:
    from pydantic import TypeAdapter

    for kind, options in AGGREGATIONS.items():
        assert TypeAdapter(AnyAggregation).validate_python({"kind": kind}) == options()
    with pytest.raises(InputError, match=r"TrimmedMean: share = 0.5, but input should be less than 0.5"):
        TrimmedMean(share=0.5)


@given(arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32)))
@settings(max_examples=300)
def test_acceptable_is_exactly_finite(values: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        reason = acceptable(torch.from_numpy(values), len(values))
    assert (reason is None) == bool(np.isfinite(values).all())


def test_acceptable_is_not_fooled_by_sums() -> None:
    assert acceptable(torch.full((100,), 3e38), 100) is None  # finite numbers whose sum is not
    assert acceptable(torch.tensor([3e38, 3e38, -3e38, -3e38]), 4) is None
    assert acceptable(torch.tensor([math.inf, -math.inf]), 2) == (
        "the update holds 2 of 2 numbers that are not finite (0 of them NaN)"
    )
    assert acceptable(torch.zeros(0), 0) is None
    assert acceptable(torch.zeros(2, 2), 4) == "the update has shape (2, 2); the model needs (4,)"
    assert acceptable(torch.zeros(2, dtype=torch.int64), 2) is not None


def test_buffers_by_mean_and_counters_by_maximum() -> None:
    merge = BufferMerge(2, 2)
    buffers, counters = torch.tensor([9.0, 9.0]), torch.tensor([6, 1])
    merge.into(buffers, counters)
    assert (buffers.tolist(), counters.tolist()) == ([9, 9], [6, 1])  # nothing came
    merge.add(torch.tensor([1.0, 0.0]), torch.tensor([5, 2]), 30.0)
    merge.add(torch.tensor([5.0, 4.0]), torch.tensor([4, 3]), 10.0)
    merge.into(buffers, counters)
    assert buffers.tolist() == [2, 1]
    assert counters.tolist() == [6, 3]  # a counter never goes back
    with pytest.raises(InputError, match=r"needs \(\(2,\), \(2,\)\)"):
        merge.add(torch.zeros(3), torch.zeros(2, dtype=torch.int64), 1.0)
    with pytest.raises(InputError, match="weight of an update is nan"):
        merge.add(torch.zeros(2), torch.zeros(2, dtype=torch.int64), math.nan)


def test_buffers_of_a_batch_norm_equal_the_mean_of_its_clients() -> None:
    generator = torch.Generator().manual_seed(3)
    clients = [torch.nn.BatchNorm1d(4) for _ in range(3)]
    merge = BufferMerge(8, 1)
    for steps, client in enumerate(clients, start=1):
        for _ in range(steps):
            client(torch.randn(16, 4, generator=generator))
        flat = torch.cat([client.running_mean, client.running_var])
        merge.add(flat, client.num_batches_tracked.reshape(1), float(steps))
    buffers, counters = torch.zeros(8), torch.zeros(1, dtype=torch.int64)
    merge.into(buffers, counters)
    expected = sum(steps * client.running_mean for steps, client in enumerate(clients, start=1)) / 6
    torch.testing.assert_close(buffers[:4], expected)
    assert counters.item() == 3
