"""Devices: distributions of section L's table, durations by hand, and draws that belong to (round, client)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist._internal.options import Options
from enlist.devices import (
    AnyDevices,
    DeviceFailures,
    Devices,
    DeviceTrace,
    DirectDevices,
    EqualDevices,
    Mixture,
    Phones,
    Tiers,
)
from enlist.devices.draws import Recent, dealt, normal_scores, truncated_lognormal
from enlist.errors import InputError
from enlist.streams import Streams

MANY = 100_000
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


class Setting(Options):
    devices: AnyDevices = pydantic.Field(Phones(), description="Devices.")


def test_phones_have_the_quantiles_of_the_table_within_3_percent() -> None:
    devices = Phones().draw(MANY, Streams(1))
    assert np.quantile(devices.compute, LEVELS) == pytest.approx([21, 38, 62, 99, 164], rel=0.03)
    assert np.quantile(devices.bandwidth / 1000, LEVELS) == pytest.approx([1.0, 2.9, 6.1, 12.7, 37], rel=0.03)
    assert (devices.bandwidth < 3000).mean() == pytest.approx(0.26, abs=0.01)
    assert devices.compute.min() >= 15
    assert devices.compute.max() <= 200
    assert devices.bandwidth.min() >= 150
    assert devices.bandwidth.max() <= 200_000


def test_slow_phones_have_slow_links() -> None:
    devices = Phones().draw(MANY, Streams(1))
    assert np.corrcoef(np.log(devices.compute), np.log(devices.bandwidth))[0, 1] == pytest.approx(-0.2, abs=0.015)
    same = Phones(correlation=1.0, compute_high=1e9, bandwidth_high=1e9).draw(1000, Streams(1))
    assert (np.argsort(same.compute) == np.argsort(same.bandwidth)).all()


@pytest.mark.parametrize(
    ("parameters", "seconds"), [(60e3, [26, 76, 198]), (1.2e6, [36, 96, 227]), (11e6, [73, 213, 794])]
)
def test_durations_of_the_table_within_3_percent(parameters: float, seconds: list[float]) -> None:
    # The table was measured with independent compute and bandwidth; at -0.2 its ends lie further apart.
    devices = Phones(correlation=0.0).draw(MANY, Streams(1))
    total = devices.expected(np.full(MANY, 400.0), int(4 * parameters)).total
    assert np.quantile(total, [0.05, 0.5, 0.95]) == pytest.approx(seconds, rel=0.03)


def test_round_noise_has_mean_1_and_the_stated_spread() -> None:
    devices = Phones().draw(MANY, Streams(1))
    everybody, samples = np.arange(MANY), np.full(MANY, 10.0)
    drawn, still = devices.latency(4, everybody, samples, 10**6), devices.expected(samples, 10**6)
    compute, bandwidth = drawn.compute / still.compute, still.download / drawn.download
    assert compute.mean() == pytest.approx(1.0, abs=0.005)
    assert bandwidth.mean() == pytest.approx(1.0, abs=0.01)
    assert compute.std() == pytest.approx(np.sqrt(np.exp(0.2**2) - 1), rel=0.03)
    assert bandwidth.std() == pytest.approx(np.sqrt(np.exp(0.4**2) - 1), rel=0.03)
    assert np.log(compute).mean() == pytest.approx(-0.02, abs=0.003)
    assert np.log(bandwidth).mean() == pytest.approx(-0.08, abs=0.006)
    assert abs(np.corrcoef(compute, bandwidth)[0, 1]) < 0.02


@pytest.mark.parametrize(
    "options", [Phones(), Mixture(), Tiers(), EqualDevices(compute_noise=0.3, bandwidth_noise=0.1)]
)
def test_noise_belongs_to_round_and_client(options: Phones | Mixture | Tiers | EqualDevices) -> None:
    samples = np.arange(1.0, 51.0)
    devices = options.draw(50, Streams(9))
    whole = {number: devices.latency(number, np.arange(50), samples, 1000).total for number in range(1, 12)}
    other = options.draw(50, Streams(9))
    rng = np.random.default_rng(0)
    for number in (7, 1, 11, 3, 7, 2):
        clients = rng.permutation(50)[:8]
        assert (other.latency(number, clients, samples[clients], 1000).total == whole[number][clients]).all()
    assert (whole[1] != whole[2]).mean() > 0.8
    assert not (options.draw(50, Streams(10)).latency(1, np.arange(50), samples, 1000).total == whole[1]).all()


def test_the_first_clients_of_a_large_population_are_those_of_a_small_one() -> None:
    small, large = (Phones().draw(count, Streams(2)) for count in (30, 300))
    assert (small.compute == large.compute[:30]).all()
    assert (small.bandwidth == large.bandwidth[:30]).all()
    clients, samples = np.arange(30), np.ones(30)
    assert (small.latency(3, clients, samples, 99).total == large.latency(3, clients, samples, 99).total).all()


def test_duration_by_hand() -> None:
    devices = Devices(np.array([100.0, 50.0]), np.array([4000.0, 8000.0]), Streams(0), upload_ratio=0.25)
    latency = devices.latency(1, np.array([1, 0]), np.array([20.0, 10.0]), model_bytes=500_000)
    assert latency.compute.tolist() == [3.0, 3.0]
    assert latency.download.tolist() == [0.5, 1.0]
    assert latency.upload.tolist() == [2.0, 4.0]
    assert latency.total.tolist() == [5.5, 8.0]
    assert devices.speed.tolist() == [0.01, 0.02]
    assert devices.expected(np.array([10.0, 20.0]), 500_000).total.tolist() == [8.0, 5.5]


def test_matched_moves_devices_and_leaves_noise_with_clients() -> None:
    devices = Phones().draw(6, Streams(3))
    order = np.array([5, 4, 3, 2, 1, 0])
    moved = devices.matched(order)
    assert (moved.compute == devices.compute[order]).all()
    everybody, samples = np.arange(6), np.ones(6)
    before, after = (which.latency(2, everybody, samples, 0).compute for which in (devices, moved))
    factor = before / devices.expected(samples, 0).compute
    assert after == pytest.approx(moved.expected(samples, 0).compute * factor)
    direct = Mixture().draw(6, Streams(3))
    assert isinstance(direct.matched(order), DirectDevices)
    assert (direct.matched(order).compute == direct.compute[order]).all()
    with pytest.raises(InputError, match="not a permutation"):
        devices.matched(np.array([0, 0, 1, 2, 3, 4]))


def test_mixture_is_bsfls() -> None:
    count, rounds = 2000, 60
    devices = Mixture(scale=10.0).draw(count, Streams(5))
    slow = devices.mean > 0.5
    assert slow.sum() == 200
    assert devices.mean[slow].min() > 0.85
    assert devices.mean[slow].max() < 0.9
    assert devices.mean[~slow].min() > 0.05
    assert devices.mean[~slow].max() < 0.1
    assert np.quantile(devices.spread, [0.1, 0.5, 0.9]) == pytest.approx([0.005, 0.025, 0.045], abs=0.003)
    drawn = np.array([devices.latency(number, np.arange(count), np.ones(count), 10).total for number in range(rounds)])
    assert drawn.min() == 0.5
    assert drawn.max() <= 10.0
    far = slow & (devices.spread < 0.02)
    assert drawn[:, far].std(axis=0) / 10.0 == pytest.approx(devices.spread[far], rel=0.5, abs=1e-3)
    assert drawn[:, far].mean(axis=0) / 10.0 == pytest.approx(devices.mean[far], abs=0.02)
    latency = devices.latency(1, np.array([3]), np.array([1e6]), 10**9)
    assert latency.download.tolist() == latency.upload.tolist() == [0.0]
    assert latency.compute[0] == drawn[1, 3]
    assert devices.expected(np.ones(count), 5).total == pytest.approx(devices.mean * 10.0)


def test_tiers_have_their_shares() -> None:
    devices = Tiers(shares=(5, 3, 2), compute=(100, 50, 10), bandwidth=(1, 2, 3)).draw(1000, Streams(1))
    assert np.unique(devices.compute, return_counts=True)[1].tolist() == [200, 300, 500]
    assert (devices.bandwidth[devices.compute == 10] == 3).all()
    third = Phones().draw(MANY, Streams(1))
    assert np.quantile(third.compute, [5 / 6, 0.5, 1 / 6]) == pytest.approx(Tiers().compute, rel=0.03)
    assert np.quantile(third.bandwidth, [1 / 6, 0.5, 5 / 6]) == pytest.approx(Tiers().bandwidth, rel=0.03)


def test_equal_has_no_noise_unless_asked() -> None:
    devices = EqualDevices(compute=10.0, bandwidth=800.0).draw(3, Streams(1))
    assert devices.latency(1, np.arange(3), np.full(3, 100.0), 1000).total == pytest.approx([3.02] * 3)


def test_crashes_belong_to_the_round_and_have_the_chance() -> None:
    crashed, fraction = DeviceFailures(crash=0.3).crashes(2, Streams(1), MANY)
    assert crashed.mean() == pytest.approx(0.3, abs=0.01)
    assert (fraction[~crashed] == 1).all()
    assert np.quantile(fraction[crashed], [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.02)
    again, _ = DeviceFailures(crash=0.3).crashes(2, Streams(1), 50)
    assert (again == crashed[:50]).all()
    more, _ = DeviceFailures(crash=0.6).crashes(2, Streams(1), MANY)
    assert more[crashed].all()
    nobody, everything = DeviceFailures().crashes(2, Streams(1), 4)
    assert not nobody.any()
    assert everything.tolist() == [1.0] * 4


@given(st.floats(1.0, 1e4), st.floats(0.0, 3.0), st.floats(0.1, 1e3), st.floats(1.0, 50.0), st.integers(0, 2**32))
def test_truncated_lognormals_stay_inside_and_keep_the_order(
    median: float, sigma: float, low: float, factor: float, seed: int
) -> None:
    scores = np.sort(np.random.default_rng(seed).normal(0.0, 3.0, 50))
    values = truncated_lognormal(scores, median, sigma, low, low * factor)
    assert (values >= low).all()
    assert (values <= low * factor).all()
    assert (np.diff(values) >= 0).all()


def test_truncated_lognormals_in_a_tail_crowd_at_the_near_bound() -> None:
    scores = np.array([-1.0, 0.0, 1.0])
    upper = truncated_lognormal(scores, 1.0, 0.1, np.exp(1.0), np.exp(3.0))
    # Ten standard deviations out: what lies beyond is about exponential, with mean sigma / 10 of the logarithm.
    assert np.log(upper[1]) == pytest.approx(1.0 + 0.01 * np.log(2), abs=2e-4)
    lower = truncated_lognormal(-scores, 1.0, 0.1, np.exp(-3.0), np.exp(-1.0))
    assert lower == pytest.approx(1.0 / upper)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), st.integers(1, 300), st.integers(0, 2**32))
def test_dealt_shares_are_exact_up_to_rounding(shares: list[float], count: int, seed: int) -> None:
    groups = dealt(shares, count, np.random.default_rng(seed))
    sizes = np.bincount(groups, minlength=len(shares))
    assert sizes.sum() == count
    assert (np.abs(sizes - count * np.array(shares) / sum(shares)) <= 1.0 + 1e-9).all()


def test_normal_scores_of_ties_are_shared() -> None:
    assert normal_scores(np.full(5, 3.0)).tolist() == [0.0] * 5


def test_recent_forgets_the_oldest() -> None:
    made: list[int] = []

    def make(number: int) -> np.ndarray:
        made.append(number)
        return np.array([number])

    recent = Recent(2)
    for number in (1, 2, 1, 3, 2, 1):
        assert recent.get(number, make)[0] == number
    assert made == [1, 2, 3, 1]


def test_options_are_found_by_kind() -> None:
    assert isinstance(Setting.parse({"devices": {"kind": "mixture", "scale": 2.0}}, "f.toml").devices, Mixture)
    with pytest.raises(InputError, match=r"devices\.kind = 'phone' is not known\. Did you mean 'phones'\?"):
        Setting.parse({"devices": {"kind": "phone"}}, "f.toml")
    with pytest.raises(InputError, match="Did you mean 'compute_noise'"):
        Setting.parse({"devices": {"kind": "phones", "compute_noize": 0.1}}, "f.toml")
    for kind in (Phones, Tiers, Mixture, EqualDevices, DeviceTrace, DeviceFailures):
        for name, field in kind.model_fields.items():
            assert name == "kind" or (field.description or "").endswith("."), (kind, name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Phones(compute_low=300.0), "compute_low is 300.0 and compute_high is 200.0; give low <= high"),
        (lambda: Phones(compute_median=float("inf")), "compute_median = inf"),
        (lambda: Tiers(shares=(1, 2)), "2 shares, 3 compute times and 3 bandwidths"),
        (lambda: Mixture(slow=(0.9, 0.8)), "slow is"),
        (lambda: DeviceFailures(crash=1.5), "crash = 1.5"),
        (lambda: Phones().draw(0, Streams(1)), "clients is 0"),
        (lambda: Devices(np.array([1.0]), np.array([0.0]), Streams(1)), r"bandwidth\[0\] is 0.0; it must be above 0"),
        (lambda: Devices(np.array([1.0]), np.array([1.0, 2.0]), Streams(1)), "one number per client"),
        (lambda: EqualDevices().draw(2, Streams(1)).latency(1, np.array([2]), np.ones(1), 1), "allowed are 0 to 1"),
        (lambda: EqualDevices().draw(2, Streams(1)).latency(1, np.array([0]), np.ones(2), 1), "samples has shape"),
        (lambda: EqualDevices().draw(2, Streams(1)).latency(1, np.array([0]), -np.ones(1), 1), "samples go down to -1"),
        (lambda: EqualDevices().draw(2, Streams(1)).latency(1, np.array([0]), np.ones(1), -1), "model_bytes is -1"),
        (lambda: DeviceTrace(path=Path("no/such.csv")).draw(2, Streams(1)), "no/such.csv cannot be read"),
    ],
)
def test_mistakes_are_named(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
