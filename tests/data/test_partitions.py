"""Partitions: every sample once, sizes as promised, the same by seed, skew as the knobs say."""

from __future__ import annotations

import time

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist._internal.options import Options
from enlist.data.dataset import Samples
from enlist.data.describe import class_counts, distance
from enlist.data.partitions import (
    IID,
    PARTITIONS,
    AnyPartition,
    Dirichlet,
    DirichletLogNormal,
    LabelShards,
    LogNormal,
    Natural,
    PowerLaw,
    Shards,
    both,
    label_bins,
)
from enlist.data.partitions.base import log_gamma_draws, shares, sizes_by_weight
from enlist.data.partitions.label_skew import _ceiling
from enlist.errors import InputError
from enlist.streams import Streams


def data(count, classes, seed=0, users=None):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count) if classes else rng.normal(size=count).astype(np.float32)
    return Samples(x=np.zeros((count, 1)), y=y, users=users)


def same(first, second):
    return np.array_equal(first.order, second.order) and np.array_equal(first.offsets, second.offsets)


alphas = st.floats(1e-4, 1e4)
least = st.integers(1, 4)
COMPLETE = st.one_of(
    st.builds(IID, balanced=st.booleans()),
    st.builds(Dirichlet, alpha=alphas, min_size=least, balanced=st.booleans()),
    st.builds(LabelShards, per_client=least),
    st.builds(LogNormal, sigma=st.floats(0, 20), min_size=least),
    st.builds(PowerLaw, exponent=st.floats(0, 20), min_size=least),
    st.builds(DirichletLogNormal, alpha=alphas, sigma=st.floats(0, 20), min_size=least),
)
FIXED = [
    IID(),
    IID(balanced=True),
    Dirichlet(alpha=0.05, min_size=3),
    LabelShards(per_client=3),
    LogNormal(sigma=1.5),
    PowerLaw(exponent=1.5),
    DirichletLogNormal(alpha=0.3, sigma=1.0),
]


@given(COMPLETE, st.integers(0, 6), st.integers(1, 12), st.integers(0, 60), st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_every_sample_is_held_once_and_nobody_has_too_few(partition, classes, clients, spare, seed):
    floor = getattr(partition, "min_size", getattr(partition, "per_client", 1))
    samples = data(clients * floor + spare, classes, seed=seed % 1000)
    shards = partition.split(samples, classes, clients, Streams(seed))
    assert len(shards) == clients
    assert np.array_equal(np.sort(shards.order), np.arange(len(samples)))
    assert shards.sizes.min() >= floor
    assert shards.sizes.sum() == len(samples)
    assert same(shards, partition.split(samples, classes, clients, Streams(seed)))


@pytest.mark.parametrize("partition", FIXED, ids=lambda partition: partition.kind)
def test_only_the_seed_decides(partition):
    samples = data(600, 5)
    np.random.seed(1)  # noqa: NPY002
    first = partition.split(samples, 5, 20, Streams(3))
    np.random.seed(2)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert same(first, partition.split(samples, 5, 20, Streams(3)))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert not same(first, partition.split(samples, 5, 20, Streams(4)))


@given(st.integers(1, 5), st.integers(1, 10), st.integers(0, 80), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_balanced_is_balanced_in_every_class_and_in_size(classes, clients, spare, seed):
    samples = data(clients + spare, classes, seed)
    shards = IID(balanced=True).split(samples, classes, clients, Streams(seed))
    counts = class_counts(samples.y, shards, classes)
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(shards.sizes) <= 1


def test_balanced_is_exact_where_it_can_be():
    samples = Samples(x=np.zeros((60, 1)), y=np.repeat([0, 1, 2], [12, 18, 30]))
    shards = IID(balanced=True).split(samples, 3, 6, Streams(1))
    assert (class_counts(samples.y, shards, 3) == [2, 3, 5]).all()


def test_iid_sizes_differ_by_at_most_one_and_labels_vary():
    samples = data(1003, 10)
    shards = IID().split(samples, 10, 20, Streams(1))
    assert sorted(set(shards.sizes)) == [50, 51]
    assert np.ptp(class_counts(samples.y, shards, 10), axis=0).max() > 1


def test_remainders_do_not_favour_the_first_clients():
    samples = data(15, 3)
    extra = sum(IID(balanced=True).split(samples, 3, 10, Streams(seed)).sizes - 1 for seed in range(400))
    # Each client is one of 5 out of 10 in 400 draws: 200 on average, standard deviation 10.
    assert abs(extra - 200).max() < 50


def slow_level(sizes, floor):
    """One sample at a time from the then richest."""
    sizes = list(sizes)
    while min(sizes) < floor:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(min(sizes))] += 1
    return sorted(sizes)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=12), st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_the_ceiling_is_that_of_giving_one_by_one(sizes, floor):
    sizes = np.array(sizes)
    lack = int(np.maximum(floor - sizes, 0).sum())
    if lack == 0 or sizes.sum() < floor * len(sizes):
        return
    ceiling = _ceiling(sizes, lack)
    assert np.maximum(sizes - ceiling, 0).sum() >= lack > np.maximum(sizes - ceiling - 1, 0).sum()
    richest = max(slow_level(sizes, floor))
    assert richest in (ceiling, ceiling + 1)


def test_dirichlet_with_a_floor_is_what_giving_one_by_one_leads_to():
    samples = data(400, 4)
    for seed in range(20):
        raw = Dirichlet(alpha=0.05, min_size=1).split(samples, 4, 30, Streams(seed)).sizes
        lifted = Dirichlet(alpha=0.05, min_size=6).split(samples, 4, 30, Streams(seed)).sizes
        assert lifted.min() == 6
        assert sorted(lifted) == slow_level(raw, 6)


def test_a_floor_that_takes_everything_gives_everybody_the_same():
    shards = Dirichlet(alpha=1e-4, min_size=10).split(data(1000, 10), 10, 100, Streams(1))
    assert (shards.sizes == 10).all()


def test_clients_above_the_floor_and_below_the_ceiling_keep_their_samples():
    samples = data(2000, 10)
    raw = Dirichlet(alpha=0.3, min_size=1).split(samples, 10, 40, Streams(5))
    lifted = Dirichlet(alpha=0.3, min_size=15).split(samples, 10, 40, Streams(5))
    untouched = np.flatnonzero((raw.sizes >= 15) & (raw.sizes < lifted.sizes.max()))
    assert 0 < len(untouched) < 40
    for client in untouched:
        assert np.array_equal(raw.held_by(client), lifted.held_by(client))


def test_receivers_stay_skewed():
    samples = data(20_000, 10)
    shards = Dirichlet(alpha=0.05, min_size=10).split(samples, 10, 1000, Streams(1))
    counts = class_counts(samples.y, shards, 10)
    dominance = counts.max(axis=1) / shards.sizes
    lifted = shards.sizes == 10
    assert lifted.sum() > 200
    assert dominance[lifted].mean() == pytest.approx(dominance[~lifted].mean(), abs=0.1)


def test_balanced_dirichlet_gives_nothing_more_to_a_client_that_has_its_share():
    # alpha near 0: a class goes to one client. Of two classes of 50 the first fills one of two clients, so the second
    # goes to the other: 50 and 50 with every seed. Without balancing one client gets both with about half of them.
    samples = Samples(x=np.zeros((100, 1)), y=np.arange(100) % 2)
    balanced, plain = Dirichlet(alpha=1e-4, balanced=True), Dirichlet(alpha=1e-4)
    assert [balanced.split(samples, 2, 2, Streams(seed)).sizes.tolist() for seed in range(20)] == [[50, 50]] * 20
    both = sum(plain.split(samples, 2, 2, Streams(seed)).sizes.max() == 99 for seed in range(20))  # the other gets 1
    assert 4 <= both <= 16


def test_balanced_dirichlet_class_by_class():
    # 10 classes of 60 over 12 clients, a share of 50: who holds 50 of the first classes holds nothing of later ones,
    # so the most there can be are 49 + 60.
    samples = Samples(x=np.zeros((600, 1)), y=np.arange(600) % 10)
    largest, plain = [], []
    for seed in range(20):
        shards = Dirichlet(alpha=0.05, balanced=True).split(samples, 10, 12, Streams(seed))
        counts = class_counts(samples.y, shards, 10)
        before = np.cumsum(counts, axis=1) - counts
        assert not counts[before >= 50].any()
        assert counts.sum() == 600
        largest.append(shards.sizes.max())
        plain.append(Dirichlet(alpha=0.05).split(samples, 10, 12, Streams(seed)).sizes.max())
    assert max(largest) <= 109
    assert np.mean(largest) < 0.75 * np.mean(plain)


def test_balancing_changes_nothing_where_everybody_has_the_same():
    # alpha = 1e6: nobody reaches its share before the last class.
    samples = Samples(x=np.zeros((600, 1)), y=np.arange(600) % 10)
    for seed in range(3):
        one, other = (
            Dirichlet(alpha=1e6, balanced=balanced).split(samples, 10, 12, Streams(seed)) for balanced in (False, True)
        )
        assert [one.held_by(client).tolist() for client in range(12)] == [
            other.held_by(client).tolist() for client in range(12)
        ]


def test_dirichlet_skews_more_the_smaller_alpha_is():
    samples = data(20_000, 10)

    def skew(partition):
        return distance(class_counts(samples.y, partition.split(samples, 10, 50, Streams(1)), 10)).mean()

    by_class = [skew(Dirichlet(alpha=alpha)) for alpha in (0.01, 0.1, 1.0, 10.0, 1000.0)]
    by_client = [skew(DirichletLogNormal(alpha=alpha, sigma=0.0)) for alpha in (0.1, 1.0, 10.0, 100.0, 10_000.0)]
    for values in (by_class, by_client):
        assert values == sorted(values, reverse=True)
        assert values[0] > 0.75
        assert values[-1] < 0.08
    # Documented: alpha here is about as skewed as alpha / C in `dirichlet`, less where classes run short.
    assert np.allclose(by_class[1:-1], by_client[1:-1], atol=0.05)
    assert by_client[0] < by_class[0]


def test_dirichlet_shares_have_the_moments_of_a_dirichlet():
    # Dirichlet(a, a, a, a): mean 1/4, variance (1/4)(3/4) / (4 a + 1).
    for alpha in (0.05, 0.5, 5.0):
        drawn = shares(log_gamma_draws(alpha, (40_000, 4), np.random.default_rng(1)))
        assert np.allclose(drawn.mean(axis=0), 0.25, atol=0.01)
        assert np.allclose(drawn.var(axis=0), 3 / 16 / (4 * alpha + 1), rtol=0.04)


def test_tiny_alpha_gives_a_class_to_one_client():
    samples = data(500, 5)
    shards = Dirichlet(alpha=1e-4).split(samples, 5, 3, Streams(1))
    counts = class_counts(samples.y, shards, 5)
    # One sample may have moved to a client that had none.
    assert (counts.max(axis=0) >= counts.sum(axis=0) - 2).all()


def test_shards_hold_few_classes_and_equal_sizes():
    samples = Samples(x=np.zeros((1000, 1)), y=np.repeat(np.arange(10), 100))
    shards = LabelShards(per_client=2).split(samples, 10, 10, Streams(1))
    assert (shards.sizes == 100).all()
    counts = class_counts(samples.y, shards, 10)
    # 20 shards of 50, two per class: each is pure.
    assert set(counts.ravel()) <= {0, 50, 100}
    assert (counts > 0).sum(axis=1).max() <= 2


def test_one_shard_each_of_as_many_classes_separates_them():
    samples = Samples(x=np.zeros((40, 1)), y=np.arange(40) % 4)
    counts = class_counts(samples.y, LabelShards(per_client=1).split(samples, 4, 4, Streams(1)), 4)
    assert sorted(counts.argmax(axis=1)) == [0, 1, 2, 3]
    assert (counts.max(axis=1) == 10).all()


def test_sizes_by_weight_by_hand():
    # Weights 8, 4, 2, 1, a floor of 6, 44 in all. Lifting 1 leaves 38 for 14 and gives 2 only 5.43: lifted too. 8 and 4
    # share 32 as 21.33 and 10.67.
    assert sizes_by_weight(np.log([8.0, 4.0, 2.0, 1.0]), 44, 6).tolist() == [21, 11, 6, 6]
    # 10 in thirds: 3.33 each, and one of them gets what is left.
    assert sizes_by_weight(np.zeros(3), 10, 1).tolist() == [4, 3, 3]


@given(st.lists(st.floats(-300, 300), min_size=1, max_size=30), st.integers(1, 5), st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_sizes_by_weight_sum_and_keep_order(log_weights, floor, spare):
    log_weights = np.array(log_weights)
    total = floor * len(log_weights) + spare
    sizes = sizes_by_weight(log_weights, total, floor)
    assert sizes.sum() == total
    assert sizes.min() >= floor
    rising = sizes[np.argsort(log_weights, kind="stable")]
    assert (np.diff(rising) >= -1).all()


def test_lognormal_sizes_are_lognormal_and_labels_are_not_skewed():
    samples = data(400_000, 4)
    shards = LogNormal(sigma=0.8).split(samples, 4, 2000, Streams(1))
    logs = np.log(shards.sizes)
    assert logs.std() == pytest.approx(0.8, rel=0.05)
    assert abs(((logs - logs.mean()) ** 3).mean() / logs.std() ** 3) < 0.2
    large = shards.sizes > 400
    assert distance(class_counts(samples.y, shards, 4))[large].max() < 0.1


def test_power_law_sizes_fall_with_rank():
    shards = PowerLaw(exponent=2.0).split(data(100_000, 2), 2, 50, Streams(1))
    falling = np.sort(shards.sizes)[::-1]
    ranks = np.arange(1, 51)
    assert np.allclose(falling, 100_000 * ranks**-2.0 / (ranks**-2.0).sum(), atol=1)
    assert shards.sizes.argmax() != 0 or shards.sizes.argmin() != 49


def test_sigma_and_exponent_zero_give_equal_sizes():
    for partition in (LogNormal(sigma=0), PowerLaw(exponent=0), DirichletLogNormal(sigma=0)):
        assert np.ptp(partition.split(data(103, 3), 3, 10, Streams(1)).sizes) == 1


def test_dirichlet_lognormal_has_the_sizes_of_lognormal():
    samples = data(5000, 10)
    both = DirichletLogNormal(alpha=0.1, sigma=1.2, min_size=4).split(samples, 10, 80, Streams(9))
    sizes = LogNormal(sigma=1.2, min_size=4).split(samples, 10, 80, Streams(9)).sizes
    assert np.array_equal(both.sizes, sizes)


def test_dirichlet_lognormal_follows_an_uneven_prior_and_missing_classes():
    y = np.repeat([0, 3], [9000, 1000])
    samples = Samples(x=np.zeros((10_000, 1)), y=y)
    counts = class_counts(y, DirichletLogNormal(alpha=1e5, sigma=0.0).split(samples, 5, 10, Streams(1)), 5)
    assert (counts[:, [1, 2, 4]] == 0).all()
    assert np.allclose(counts[:, 3] / 1000, 0.1, atol=0.04)


def test_natural_is_by_user():
    users = np.array([30, 10, 30, 20, 10, 30])
    samples = data(6, 2, users=users)
    shards = Natural().split(samples, 2, 0, Streams(1))
    assert [shards.held_by(client).tolist() for client in range(3)] == [[1, 4], [3], [0, 2, 5]]
    assert np.array_equal(users[shards.order[shards.offsets[:-1]]], [10, 20, 30])
    kept = Natural(min_samples=2).split(samples, 2, 2, Streams(1))
    assert [kept.held_by(client).tolist() for client in range(2)] == [[1, 4], [0, 2, 5]]


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_natural_takes_a_choice_of_whole_users(clients, floor, seed):
    users = np.random.default_rng(seed).integers(0, 40, 200).astype(str)
    samples = data(200, 3, users=users)
    names, sizes = np.unique(users, return_counts=True)
    able = set(names[sizes >= floor])
    if clients > len(able):
        with pytest.raises(InputError, match="ask for fewer clients"):
            Natural(min_samples=floor).split(samples, 3, clients, Streams(seed))
        return
    shards = Natural(min_samples=floor).split(samples, 3, clients, Streams(seed))
    taken = users[shards.order[shards.offsets[:-1]]]
    assert len(set(taken)) == clients == len(shards)
    assert set(taken) <= able
    for client, name in enumerate(taken):
        assert np.array_equal(shards.held_by(client), np.flatnonzero(users == name))
    assert same(shards, Natural(min_samples=floor).split(samples, 3, clients, Streams(seed)))


def test_natural_choices_differ_by_seed():
    samples = data(1000, 3, users=np.arange(1000) % 100)
    chosen = [tuple(Natural().split(samples, 3, 10, Streams(seed)).order) for seed in range(5)]
    assert len(set(chosen)) == 5


def test_natural_needs_users():
    with pytest.raises(InputError, match="needs a data set with users"):
        Natural().split(data(10, 2), 2, 0, Streams(1))
    with pytest.raises(InputError, match="lower min_samples"):
        Natural(min_samples=5).split(data(10, 2, users=np.arange(10)), 2, 0, Streams(1))


def test_targets_are_binned_by_quantiles():
    y = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    bins, count = label_bins(y, 0)
    assert count == 10
    assert (np.bincount(bins) == 100).all()
    assert (np.diff(bins[np.argsort(y)]) >= 0).all()
    tied, _ = label_bins(np.zeros(30), 0)
    assert len(set(tied)) == 1


def test_regression_can_be_skewed_by_target():
    samples = data(5000, 0)
    shards = Dirichlet(alpha=0.01).split(samples, 0, 10, Streams(1))
    spread = np.array([samples.y[shards.held_by(client)].mean() for client in range(10)]).std()
    even = IID(balanced=True).split(samples, 0, 10, Streams(1))
    assert spread > 5 * np.array([samples.y[even.held_by(client)].mean() for client in range(10)]).std()


@pytest.mark.parametrize(
    "partition",
    [Dirichlet(min_size=6), LogNormal(min_size=6), PowerLaw(min_size=6), LabelShards(per_client=6)],
    ids=lambda partition: partition.kind,
)
def test_too_many_clients_are_refused(partition):
    with pytest.raises(InputError, match=r"cannot give 10 clients 6 samples each .*at most 8 clients, or a smaller"):
        partition.split(data(50, 2), 2, 10, Streams(1))
    assert len(partition.split(data(60, 2), 2, 10, Streams(1))) == 10


@pytest.mark.parametrize("partition", FIXED, ids=lambda partition: partition.kind)
def test_no_clients_or_more_clients_than_samples_are_refused(partition):
    with pytest.raises(InputError, match="clients is 0"):
        partition.split(data(50, 2), 2, 0, Streams(1))
    with pytest.raises(InputError, match="cannot give 51 clients"):
        partition.split(data(50, 2), 2, 51, Streams(1))


def test_labels_out_of_range_are_refused():
    with pytest.raises(InputError, match="with 2 classes allowed are 0 to 1"):
        Dirichlet().split(data(50, 5), 2, 5, Streams(1))
    with pytest.raises(InputError, match="classes=0 for a regression"):
        Dirichlet().split(data(50, 0), 2, 5, Streams(1))


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_positive_and_finite(alpha):
    with pytest.raises(InputError, match="alpha"):
        Dirichlet(alpha=alpha)
    with pytest.raises(InputError, match="alpha"):
        DirichletLogNormal(alpha=alpha)


def test_a_file_says_which_partition_it_wants():
    class File(Options):
        partition: AnyPartition = IID()

    assert File.parse({"partition": {"kind": "power-law", "exponent": 2}}, "file").partition == PowerLaw(exponent=2.0)
    with pytest.raises(InputError, match="Did you mean 'dirichlet'"):
        File.parse({"partition": {"kind": "dirichle"}}, "file")
    for kind, options in PARTITIONS.items():
        assert type(File.parse({"partition": {"kind": kind}}, "file").partition) is options
        assert options().kind == kind
        assert all(field.description for field in options.model_fields.values())


def test_every_kind_is_in_the_union():
    adapter = pydantic.TypeAdapter(AnyPartition)
    assert {type(adapter.validate_python({"kind": kind})) for kind in PARTITIONS} == set(PARTITIONS.values())


def test_shards_from_owners():
    shards = Shards.from_owners(np.array([2, -1, 0, 2, -1]), 4)
    assert shards.order.tolist() == [2, 0, 3]
    assert shards.offsets.tolist() == [0, 1, 1, 3, 3]
    assert shards.sizes.tolist() == [1, 0, 2, 0]
    assert shards.owner.tolist() == [0, 2, 2]
    assert len(Shards.from_owners(np.array([-1, -1]), 3).order) == 0


@pytest.mark.parametrize(
    ("order", "offsets", "message"),
    [
        ([0, 1, 1], [0, 3], "repeats sample 1"),
        ([0, -1], [0, 2], "begin at 0"),
        ([0, 1], [0, 1], "must go from 0 to 2"),
        ([0, 1], [0, 2, 1, 2], "without decreasing"),
        ([0, 1], [], "must go from 0 to 2"),
        ([0.5, 1.0], [0, 2], "whole numbers"),
        ([[0, 1]], [0, 2], "whole numbers"),
    ],
)
def test_shards_that_cannot_be(order, offsets, message):
    with pytest.raises(InputError, match=message):
        Shards(order=order, offsets=offsets)


def test_an_unknown_client_holds_nothing_that_could_be_told():
    with pytest.raises(InputError, match="allowed are 0 to 1"):
        Shards(order=[0], offsets=[0, 1, 1]).held_by(-1)


def test_a_hundred_thousand_clients_take_seconds():
    samples = data(1_000_000, 10)
    start = time.perf_counter()
    for partition in (Dirichlet(alpha=0.05, min_size=5), DirichletLogNormal(alpha=0.5, sigma=1.0)):
        assert len(partition.split(samples, 10, 100_000, Streams(1))) == 100_000
    assert time.perf_counter() - start < 20


def test_more_shares_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(both, "MOST_SHARES", 20)
    samples = Samples(x=np.zeros((60, 1)), y=np.arange(60) % 5)
    assert len(DirichletLogNormal().split(samples, 5, 4, Streams(1))) == 4
    with pytest.raises(InputError, match=r"shares of 5 classes for each of 5 clients; .* Use at most 4 clients"):
        DirichletLogNormal().split(samples, 5, 5, Streams(1))
