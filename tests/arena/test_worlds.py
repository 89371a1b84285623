"""Worlds: luck belongs to (purpose, round), `truth` is what the draws average to, and every knob does what it says."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

import enlist
from enlist.arena import SCENARIOS, Scenario, World, scenario
from enlist.errors import EnlistError, InputError

MESSY = Scenario(latency="lognormal", reliability=(0.3, 1.0), availability="bernoulli", sizes="lognormal")
QUERIES = {
    "latency": lambda world, number: world.latency(number),
    "drops": lambda world, number: world.drops(number),
    "utility": lambda world, number: world.utility(number),
    "available": lambda world, number: world.available(number, 0.0),
    "accuracy_noise": lambda world, number: np.array([world.accuracy_noise(number)]),
}


def averages(world, first, last):
    """Means over rounds of latency, speed, being in time, and utility, as a server would meet them."""
    sums = np.zeros((4, world.count))
    for number in range(first, last + 1):
        latency = world.latency(number)
        sums[0] += latency
        sums[1] += world.shortest / np.where(world.drops(number), world.deadline, np.minimum(latency, world.deadline))
        sums[2] += (latency <= world.deadline) & ~world.drops(number)
        sums[3] += world.utility(number)
    return sums / (last - first + 1)


# Common random numbers


def test_draws_do_not_depend_on_the_order_of_queries():
    # 1,000 clients make blocks of 65 rounds: the rounds below lie in four of them.
    rounds = [1, 2, 65, 66, 130, 131, 200]
    asked = [(name, number) for name in QUERIES for number in rounds]
    expected = {}
    for name, number in asked:
        expected[name, number] = QUERIES[name](World(MESSY, 1000, 200, seed=5), number)
    shared = World(MESSY, 1000, 200, seed=5)
    shuffled = np.random.default_rng(0).permutation(len(asked) * 2) % len(asked)
    for index in shuffled:
        name, number = asked[index]
        assert np.array_equal(QUERIES[name](shared, number), expected[name, number]), (name, number)


def test_draws_differ_between_rounds_purposes_and_seeds():
    world, other = World(MESSY, 500, 200, seed=5), World(MESSY, 500, 200, seed=6)
    for name, query in QUERIES.items():
        assert not np.array_equal(query(world, 1), query(world, 2)), name
        assert not np.array_equal(query(world, 1), query(world, 132)), f"{name}: the next block repeats the first"
        assert not np.array_equal(query(world, 1), query(other, 1)), name
    calm = World(Scenario(latency="equal", utility_noise=0.1), 500, 200, seed=5)
    noise = np.log(calm.latency(3)), calm.utility(3) - calm.truth(3).utility
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.2, "latency and utility share their luck"


def test_a_draw_belongs_to_the_client_and_the_round_whoever_is_asked():
    # A world of more rounds is the same world for longer; nothing in it knows who was selected.
    short, long = World(MESSY, 40, 10, seed=2), World(MESSY, 40, 900, seed=2)
    for query in QUERIES.values():
        assert np.array_equal(query(short, 7), query(long, 7))


def test_what_a_world_hands_out_can_be_changed_without_harm():
    world, same = World(MESSY, 20, 10, seed=2), World(MESSY, 20, 10, seed=2)
    for query in QUERIES.values():
        query(world, 3)[:] = 0
        assert np.array_equal(query(world, 3), query(same, 3))


# Markov availability


def test_a_markov_world_must_be_asked_in_order():
    world = World(Scenario(availability="markov"), 20, 50, seed=1)
    world.available(1, 0.0)
    world.available(2, 0.0)
    for number in (2, 1):
        with pytest.raises(InputError, match=f"in order; round {number} does not follow round 2"):
            world.available(number, 0.0)


def test_a_markov_world_that_skips_rounds_is_the_same_or_refuses():
    whole, skipping = (World(Scenario(availability="markov"), 200, 50, seed=1) for _ in range(2))
    for number in range(1, 21):
        last = whole.available(number, 0.0)
    try:
        jumped = skipping.available(20, 0.0)
    except InputError:
        return
    assert np.array_equal(jumped, last), "asking for round 20 alone gives another round 20"


def test_markov_sessions_last_about_ten_redraws_and_average_to_the_uptime():
    world = World(Scenario(availability="markov"), 400, 4000, seed=1)
    seen = np.array([world.available(number, 0.0) for number in range(1, 4001)])
    # Means of a chain that redraws a tenth: standard error at most sqrt(19 * 0.25 / 4000) = 0.034.
    assert np.abs(seen.mean(axis=0) - world.uptime).max() < 4.5 * 0.034
    flips = (seen[1:] != seen[:-1]).mean()
    expected = 0.1 * 2 * (world.uptime * (1 - world.uptime)).mean()
    assert flips == pytest.approx(expected, rel=0.05)


# Truth


@pytest.mark.parametrize("latency", ["mixture", "lognormal", "equal"])
def test_speed_and_validity_of_the_truth_are_what_the_draws_average_to(latency):
    world = World(Scenario(latency=latency, reliability=(0.2, 1.0)), 40, 3000, seed=3)
    _, speed, in_time, _ = averages(world, 1, 3000)
    truth = world.truth(1)
    # The average comes from 3000 draws: sd of a share at most 0.009; more than 4 sd over 40 clients.
    assert np.abs(in_time - truth.validity).max() < 0.05
    assert np.abs(speed - truth.speed).max() < 0.1
    assert np.abs(in_time - truth.validity).mean() < 0.015
    assert np.abs(speed - truth.speed).mean() < 0.015


@pytest.mark.parametrize("latency", ["mixture", "lognormal", "equal"])
def test_latency_of_the_truth_is_what_the_draws_average_to(latency):
    world = World(Scenario(latency=latency), 40, 3000, seed=0)
    mean = averages(world, 1, 3000)[0]
    # One latency varies by at most 100 % of its mean (mixture: spread 0.05 at 0.05): error of the mean 2 %; margin 6 %.
    assert mean == pytest.approx(world.truth(1).latency, rel=0.06)


def test_spread_of_the_truth_is_that_of_the_draws():
    world = World(Scenario(latency="equal", noise=0.3), 40, 3000, seed=3)
    draws = np.array([world.latency(number) for number in range(1, 3001)])
    assert draws.std(axis=0) == pytest.approx(world.truth(1).spread, rel=0.12)


def test_utility_of_the_truth_is_what_the_draws_average_to():
    world = World(Scenario(utility_noise=0.1), 40, 3000, seed=3)
    utility = averages(world, 1, 3000)[3]
    truth = world.truth(1).utility
    # An observed utility is cut at 0, which lifts the mean of a useless client by up to 0.4 * 0.1.
    assert np.abs(utility - truth).max() < 0.05
    assert np.abs(utility - truth)[truth > 0.3].max() < 0.01
    assert np.sort(truth) == pytest.approx((np.arange(40) + 0.5) / 40)


def test_profiled_clients_are_told_the_true_means_and_others_nothing():
    assert World(Scenario(), 5, 5, seed=1).clients().expected_latency is None
    world = World(scenario("profiled"), 40, 3000, seed=0)
    assert world.clients().expected_latency == pytest.approx(averages(world, 1, 3000)[0], rel=0.06)


def test_the_slow_minority_is_a_tenth_and_ten_times_slower():
    truth = World(Scenario(), 50, 10, seed=3).truth(1)
    slow = truth.latency > 0.5
    assert slow.sum() == 5
    assert 0.84 <= truth.latency[slow].min() <= truth.latency[slow].max() <= 0.9
    assert truth.latency[~slow].max() < 0.15
    assert truth.speed[~slow].min() > 5 * truth.speed[slow].max()
    assert truth.speed.max() <= 1.0
    assert (World(Scenario(slow_share=0.4), 50, 10, seed=3).truth(1).latency > 0.5).sum() == 20


def test_two_speeds_are_two():
    speed = np.sort(World(scenario("two-speeds"), clients=20, rounds=1, seed=3).truth(1).speed)
    assert np.ptp(speed[:2]) == np.ptp(speed[2:]) == 0.0
    for found, mean in ((speed[0], 0.9), (speed[-1], 0.06)):
        expected = norm(mean, 0.2 * mean).expect(lambda latency: 0.05 / np.clip(latency, 0.05, 1.0))
        assert found == pytest.approx(expected, abs=1e-3)


def test_everything_scales_with_the_deadline():
    small, large = (World(Scenario(latency="lognormal", deadline=deadline), 30, 9, seed=4) for deadline in (1.0, 60.0))
    assert large.latency(3) == pytest.approx(60.0 * small.latency(3))
    for name in ("speed", "validity", "utility"):
        assert getattr(large.truth(1), name) == pytest.approx(getattr(small.truth(1), name)), name


# Changes


def test_changes_deal_speeds_and_utilities_out_anew():
    world = World(Scenario(latency="lognormal", changes=3), 60, 100, seed=2)
    first = world.truth(1)
    for start, end in ((1, 25), (26, 50), (51, 75), (76, 100)):
        here, there = world.truth(start), world.truth(end)
        assert np.array_equal(here.utility, there.utility), (start, end)
    for number in (26, 51, 76):
        before, after = world.truth(number - 1), world.truth(number)
        assert not np.array_equal(before.utility, after.utility)
        for name in ("latency", "speed", "validity", "utility"):
            assert np.sort(getattr(after, name)).tolist() == np.sort(getattr(first, name)).tolist(), name
        # Speed and utility move together: whoever gets a speed gets the utility that came with it.
        pairs = set(zip(after.latency.tolist(), after.utility.tolist(), strict=True))
        assert pairs == set(zip(first.latency.tolist(), first.utility.tolist(), strict=True))


def test_after_a_change_the_draws_follow_the_new_truth():
    settings = Scenario(latency="lognormal", reliability=(0.2, 1.0), changes=1)
    world = World(settings, 40, 4000, seed=2)
    for first, last in ((1, 2000), (2001, 4000)):
        truth = world.truth(first)
        _, speed, in_time, utility = averages(world, first, last)
        assert np.abs(utility - truth.utility).max() < 0.05
        assert np.abs(speed - truth.speed).max() < 0.1
        assert np.abs(in_time - truth.validity).max() < 0.11, "who drops out was not dealt anew with the truth"


# Knobs


def test_speed_and_utility_correlate_as_asked_for():
    found = {}
    for wanted in (-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0):
        truth = World(Scenario(latency="lognormal", speed_utility=wanted), 2000, 5, seed=7).truth(1)
        found[wanted] = spearmanr(-truth.latency, truth.utility).statistic
    for wanted, correlation in found.items():
        # Of a Gaussian copula: rank correlation 6/pi asin(rho/2); standard error about 1/sqrt(2000).
        assert correlation == pytest.approx(6 / math.pi * math.asin(wanted / 2), abs=0.07)
    assert found[1.0] > 0.99
    assert found[-1.0] < -0.99


@pytest.mark.parametrize("quality", [0.0, 0.8, 1.0])
def test_features_tell_as_much_as_asked_for(quality):
    world = World(Scenario(latency="lognormal", features=quality), 2000, 5, seed=7)
    clients, truth = world.clients(), world.truth(1)
    assert clients.features.shape == (2000, len(clients.feature_names))
    assert (clients.features > 0).all()
    for column, target in enumerate(("speed", "speed", "utility", "utility", "speed", "utility")):
        ranked = -truth.latency if target == "speed" else truth.utility
        correlation = spearmanr(clients.features[:, column], ranked).statistic
        assert correlation == pytest.approx(6 / math.pi * math.asin(quality / 2), abs=0.08), column


def test_sizes_are_equal_or_lognormal():
    assert set(World(Scenario(), 50, 5, seed=1).num_examples) == {100.0}
    sizes = World(Scenario(sizes="lognormal"), 5000, 5, seed=1).clients().num_examples
    assert np.log(sizes).mean() == pytest.approx(4.0, abs=0.1)
    assert np.log(sizes).std() == pytest.approx(1.0, abs=0.1)
    assert (sizes == np.ceil(sizes)).all()


def test_equal_utilities_are_equal():
    assert set(World(Scenario(utility="equal"), 50, 5, seed=1).truth(1).utility) == {0.5}


def test_reliability_bounds_how_often_clients_drop_out():
    assert not World(Scenario(), 50, 5, seed=1).drops(1).any()
    world = World(Scenario(reliability=(0.6, 0.9)), 50, 2000, seed=1)
    stayed = 1.0 - np.mean([world.drops(number) for number in range(1, 2001)], axis=0)
    assert np.abs(stayed - world.reliability).max() < 4.5 * math.sqrt(0.24 / 2000)
    assert world.reliability.min() >= 0.6
    assert world.reliability.max() <= 0.9
    assert not World(Scenario(reliability=(0.0, 0.0)), 50, 5, seed=1).truth(1).validity.any()
    assert World(Scenario(reliability=(0.0, 0.0)), 50, 5, seed=1).drops(1).all()


def test_bernoulli_availability_averages_to_the_uptime_and_forgets():
    world = World(Scenario(availability="bernoulli"), 50, 3000, seed=1)
    seen = np.array([world.available(number, 0.0) for number in range(1, 3001)])
    assert np.abs(seen.mean(axis=0) - world.uptime).max() < 4.5 * math.sqrt(0.25 / 3000)
    flips = (seen[1:] != seen[:-1]).mean(axis=0)
    assert np.abs(flips - 2 * world.uptime * (1 - world.uptime)).max() < 0.06
    assert World(Scenario(), 9, 9, seed=1).available(1, 0.0).all()


def test_diurnal_availability_is_a_pure_function_of_time():
    world, other = (World(Scenario(availability="diurnal", deadline=2.0), 80, 50, seed=1) for _ in range(2))
    times = np.random.default_rng(0).uniform(0.0, 1000.0, 40)
    expected = [other.available(1, now) for now in times]
    for index in np.random.default_rng(1).permutation(40):
        number = int(index) + 1
        assert np.array_equal(world.available(number, times[index]), expected[index])
        day = 100.0 * world.deadline
        assert np.array_equal(world.available(3, times[index] + 5 * day), expected[index]), "not the same every day"
    whole_day = np.array([world.available(1, now) for now in np.linspace(0.0, 200.0, 2000, endpoint=False)])
    assert np.abs(whole_day.mean(axis=0) - world.uptime).max() <= 1.5 / 2000
    assert (whole_day != np.roll(whole_day, 1, axis=0)).sum(axis=0).max() <= 2, "more than one spell a day"


# What is refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency": "mixtur"},
        {"utility": "uneven"},
        {"sizes": "big"},
        {"availability": "sometimes"},
        {"speed_utility": 1.5},
        {"speed_utility": -1.01},
        {"features": -0.1},
        {"features": 1.1},
        {"features": math.nan},
        {"changes": -1},
        {"changes": 1.5},
        {"deadline": 0.0},
        {"deadline": -1.0},
        {"deadline": math.nan},
        {"deadline": math.inf},
        {"noise": -0.1},
        {"noise": math.inf},
        {"utility_noise": -0.1},
        {"slow_share": -0.1},
        {"slow_share": 1.1},
        {"reliability": (0.5, 1.1)},
        {"reliability": (-0.1, 0.5)},
        {"reliability": (0.9, 0.2)},
        {"reliability": 0.5},
    ],
    ids=str,
)
def test_a_scenario_refuses_what_cannot_be(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Scenario(**wrong)


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"rounds": 0}, {"seed": -1}, {"clients": 2.5}], ids=str)
def test_a_world_refuses_what_cannot_be(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        World(Scenario(), **{"clients": 5, "rounds": 5, "seed": 1, **wrong})


def test_an_unknown_scenario_is_refused_with_the_nearest_name():
    with pytest.raises(EnlistError, match="Did you mean 'diurnal'"):
        scenario("diurnall")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_named_scenario_can_be_played(name):
    world = World(scenario(name), 12, 30, seed=0)
    truth = world.truth(30)
    for field in dataclasses.fields(truth):
        values = getattr(truth, field.name)
        assert values.shape == (12,)
        assert np.isfinite(values).all()
    assert ((truth.speed > 0) & (truth.speed <= 1)).all()
    assert ((truth.validity >= 0) & (truth.validity <= 1)).all()
    enlist.create("fedsuv", world.clients())
