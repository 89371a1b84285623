"""Log-normal latencies: every formula by hand, cut-off replies against SciPy, ends of rounds against Monte Carlo."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import spearmanr, truncnorm

from enlist import Clients, Feedback, Outcome, Selection
from enlist.bandits import LogLatency, round_end
from enlist.bandits.lognormal import MEMORY, SHORTEST, UNLIKELY, WINDOW, beyond
from enlist.rounds import Observation

LATE, ARRIVED, DROPPED = int(Outcome.LATE), int(Outcome.ARRIVED), int(Outcome.DROPPED)


def told(clients, latency, outcome=None, credited=None, deadline=100.0):
    selection = Selection(1, np.array(clients), deadline)
    feedback = Feedback(outcome=outcome, latency=latency)
    return Observation(selection, feedback.resolved(selection), None if credited is None else np.array(credited))


def plain(count=3):
    """Clients about which nothing is known up front."""
    clients = Clients(count=count)
    latency = LogLatency.of(clients)
    return latency, latency.rows(clients)


def see(latency, rows, clients, seconds):
    who = np.array(clients)
    latency.observe(rows[who], who, np.log(np.array(seconds, dtype=float)))


def test_two_first_replies_by_hand():
    # The centre is ln 4, the two miss it by ln 2 either way: between = (1 * 1 + 2 ln^2 2) / 3, and theta stays 0.
    latency, rows = plain()
    see(latency, rows, [0, 1], [2.0, 8.0])
    assert latency.centre == pytest.approx(math.log(4.0))
    between = (1.0 + 2.0 * math.log(2.0) ** 2) / 3.0
    assert (latency.between, latency.between_weight) == (pytest.approx(between), 3.0)
    assert latency.model.theta == pytest.approx([0.0])
    np.testing.assert_allclose(latency.mean, [math.log(2.0), math.log(8.0), 0.0])
    assert latency.weight.tolist() == [1.0, 1.0, 0.0]
    # Features are worth within / between replies: the two are drawn towards 4 s, the third is expected there.
    prior = 0.04 / between
    mean, deviation = latency.predict(rows)
    toward = [(prior * math.log(4.0) + math.log(seconds)) / (prior + 1.0) for seconds in (2.0, 8.0)]
    np.testing.assert_allclose(mean, [*toward, math.log(4.0)])
    seen, unseen = math.sqrt(0.04 + 0.04 / (prior + 1.0)), math.sqrt(0.04 + between)
    np.testing.assert_allclose(deviation, [seen, seen, unseen])


def test_the_intercept_moves_by_ridge_regression():
    # Three first replies, ln 1, ln 1, ln e^3: the median, 0, is the centre; theta = (0 + 0 + 3) / (1 + 3).
    latency, rows = plain(4)
    see(latency, rows, [0, 1, 2], [1.0, 1.0, math.e**3])
    assert latency.model.theta == pytest.approx([0.75])
    assert latency.predict(rows)[0][3] == pytest.approx(0.75)


def test_a_second_reply_by_hand():
    # It is 0.1 off a mean of one reply, which has twice the variance of the noise: 0.01 / 2; (0.04 * 4 + 0.005) / 5.
    latency, rows = plain(1)
    see(latency, rows, [0], [1.0])
    see(latency, rows, [0], [math.exp(0.1)])
    assert (latency.within, latency.within_weight) == (pytest.approx(0.165 / 5.0), 5.0)
    assert latency.mean[0] == pytest.approx(0.05)
    assert latency.weight[0] == 2.0
    # Only first replies tell of other clients.
    assert latency.between_weight == 2.0


def test_every_reply_counts_alike():
    latency, rows = plain(1)
    replies = np.random.default_rng(2).normal(1.0, 0.1, 50)
    for reply in replies:
        see(latency, rows, [0], [math.exp(reply)])
    assert latency.mean[0] == pytest.approx(replies.mean())
    assert latency.weight[0] == 50.0


def test_no_more_replies_than_the_memory_holds_are_counted():
    latency, rows = plain(1)
    latency.mean[0], latency.weight[0], latency.centre = 0.0, MEMORY + 1.0, 0.0
    see(latency, rows, [0], [math.exp(0.1)])
    assert latency.mean[0] == pytest.approx(0.1 / (MEMORY + 1.0))
    assert latency.weight[0] == MEMORY + 1.0


def test_a_trend_by_hand():
    # The noise is 0.2. The second reply is 0.1 off a mean of one: z = 0.1 / (0.2 sqrt(2)), of which a fifth counts.
    latency, rows = plain(1)
    see(latency, rows, [0], [1.0])
    assert latency.trend[0] == 0.0  # the first reply is off nothing
    see(latency, rows, [0], [math.exp(0.1)])
    first = 0.2 * 0.1 / (0.2 * math.sqrt(2.0))
    assert latency.trend[0] == pytest.approx(first)
    # within = (0.16 + 0.005) / 5 = 0.033; the third is 0.2 - 0.05 off a mean of two.
    see(latency, rows, [0], [math.exp(0.2)])
    assert latency.trend[0] == pytest.approx(0.8 * first + 0.2 * 0.15 / math.sqrt(0.033 * 1.5))
    assert pytest.approx(1.1) == UNLIKELY  # 3.3 sqrt(0.2 / 1.8)


def settled(noise, rng, count=1, replies=200):
    latency, rows = plain(count)
    for _ in range(replies):
        see(latency, rows, np.arange(count), np.exp(rng.normal(0.0, noise, count)))
    return latency, rows


@pytest.mark.parametrize("shift", [-0.3, 0.3])
def test_a_client_that_becomes_a_little_slower_or_faster_is_found_out(shift):
    """No reply is far off by itself; a mean of 200 would need hundreds more to follow."""
    rng = np.random.default_rng(3)
    latency, rows = settled(0.1, rng)
    for _ in range(12):
        see(latency, rows, [0], [math.exp(shift + rng.normal(0.0, 0.1))])
    assert latency.weight[0] <= 12.0
    assert latency.mean[0] == pytest.approx(shift, abs=0.12)


def test_chance_is_hardly_ever_taken_for_a_change():
    latency, _ = settled(0.2, np.random.default_rng(4), count=200)
    # One reply in a thousand looks like a change, so about a fifth of the clients had one in 200; few had one lately.
    assert (latency.weight < 20.0).mean() < 0.05
    assert latency.weight.mean() > 120.0


def test_what_was_guessed_makes_no_trend():
    latency, rows = settled(0.1, np.random.default_rng(5))
    before = latency.trend[0]
    latency.learn(rows, told([0], [1.0], [LATE]))
    assert latency.trend[0] == before


def test_one_that_changed_is_taken_at_its_word():
    # 3 sqrt(2 * 0.04) = 0.85 is less than ln 8 = 2.08, and more than ln 2 = 0.69; the noise then seen widens it.
    for factor, mean, within in ((8.0, math.log(8.0), 0.132), (2.0, math.log(2.0) / 2.0, 0.0800453)):
        latency, rows = plain(1)
        see(latency, rows, [0], [1.0])
        see(latency, rows, [0], [factor])
        assert latency.within == pytest.approx(within)
        assert latency.mean[0] == pytest.approx(mean)
        assert latency.weight[0] == (1.0 if factor == 8.0 else 2.0)


def test_noise_that_hardly_is_any_does_not_make_a_change_of_everything():
    # The jump is at least 3 * 0.15, however little the noise.
    latency, rows = plain(1)
    for _ in range(400):
        see(latency, rows, [0], [1.0])
    assert latency.within < 0.001
    see(latency, rows, [0], [math.exp(0.44)])
    assert latency.weight[0] == 401.0
    assert latency.mean[0] == pytest.approx(0.44 / 401.0)


def test_variances_are_learned_and_forget():
    # 500 clients around 0 with deviation 0.7, replies around them with 0.3.
    rng = np.random.default_rng(3)
    latency, rows = plain(500)
    own = rng.normal(0.0, 0.7, 500)
    for _ in range(6):
        for part in np.array_split(np.arange(500), 25):
            see(latency, rows, part, np.exp(own[part] + rng.normal(0.0, 0.3, len(part))))
    assert math.sqrt(latency.between) == pytest.approx(math.hypot(0.7, 0.3), rel=0.1)
    assert math.sqrt(latency.within) == pytest.approx(0.3, rel=0.1)
    for _ in range(6):
        see(latency, rows, np.arange(500), np.exp(own + rng.normal(0.0, 0.3, 500)))
    assert latency.within_weight == WINDOW


def test_an_absurd_first_reply_moves_others_by_four_deviations_at_most():
    latency, rows = plain(10)
    see(latency, rows, np.arange(8), np.ones(8))
    most = 4.0 * math.sqrt(latency.between + latency.within)
    see(latency, rows, [8], [1e15])
    assert latency.mean[8] == pytest.approx(math.log(1e15))
    assert latency.model.theta == pytest.approx([most / 10.0])
    assert latency.predict(rows)[0][9] < 0.2


def test_no_time_at_all_has_a_logarithm():
    latency, rows = plain(1)
    latency.learn(rows, told([0], [0.0]))
    assert latency.mean[0] == pytest.approx(math.log(SHORTEST))


def test_who_was_lost_tells_nothing_of_latency():
    latency, rows = plain(2)
    credited = latency.learn(rows, told([0, 1], [math.nan, 3.0], [DROPPED, 0]))
    assert np.isnan(credited[0])
    assert latency.weight.tolist() == [0.0, 1.0]


def population(count, rng):
    """Latency falls with one feature and grows with the number of samples; another feature tells nothing."""
    speed, sizes, noise = rng.lognormal(0.0, 1.0, count), rng.lognormal(4.0, 0.8, count), rng.normal(size=count)
    own = np.log(sizes) - np.log(speed) + 0.2 * rng.normal(size=count)
    clients = Clients(num_examples=sizes.round() + 1.0, features=np.column_stack([speed, noise]))
    return clients, own


def test_features_tell_the_order_of_clients_never_seen():
    clients, own = population(400, np.random.default_rng(4))
    timed, others = np.arange(100), np.arange(100, 400)
    latency = LogLatency.of(clients)
    rows = latency.rows(clients)
    blind, same = plain(400)
    for part in np.array_split(timed, 10):  # what features tell makes the unknown part of the next ones smaller
        see(latency, rows, part, np.exp(own[part]))
        see(blind, same, part, np.exp(own[part]))
    mean, deviation = latency.predict(rows)
    assert spearmanr(mean[others], own[others]).statistic > 0.95
    assert np.abs(mean - own)[others].mean() < 0.4
    assert np.ptp(blind.predict(same)[0][others]) == 0.0  # without features all the unseen are alike
    assert deviation[others].max() < blind.predict(same)[1][others].min()


def test_declared_latencies_are_features_too():
    own = np.random.default_rng(5).normal(2.0, 1.0, 60)
    clients = Clients(expected_latency=np.exp(own))
    latency = LogLatency.of(clients)
    rows = latency.rows(clients)
    see(latency, rows, np.arange(20), 3.0 * np.exp(own[:20]))  # three times as long as they say
    assert spearmanr(latency.predict(rows)[0][20:], own[20:]).statistic > 0.99


def test_replies_outweigh_features_as_they_come():
    clients, own = population(60, np.random.default_rng(6))
    latency = LogLatency.of(clients)
    rows = latency.rows(clients)
    see(latency, rows, np.arange(30), np.exp(own[:30]))
    told_by_features = latency.predict(rows)[0][40]
    off = []
    for _ in range(3):
        see(latency, rows, [40], [math.exp(told_by_features + 0.5)])
        off.append(abs(latency.predict(rows)[0][40] - told_by_features - 0.5))
    assert off[0] > off[1] > off[2]
    prior, weight = latency.within / latency.between, latency.weight[40]
    expected = (prior * (latency.centre + rows[40] @ latency.model.theta) + weight * latency.mean[40]) / (
        prior + weight
    )
    assert latency.predict(rows[40:41], np.array([40]))[0][0] == pytest.approx(expected)


@pytest.mark.parametrize("bound", [-3.0, 0.0, 0.7, 4.0, 30.0])
def test_beyond_a_bound_is_the_mean_of_a_truncated_normal(bound):
    mean, deviation = 0.5, 0.4
    expected = truncnorm.mean((bound - mean) / deviation, np.inf, mean, deviation)
    found = beyond(np.array([bound]), np.array([mean]), np.array([deviation]))[0]
    assert found == pytest.approx(expected, abs=1e-6)
    assert found >= bound


def test_far_beyond_is_the_bound_and_finite():
    found = beyond(np.array([35.0]), np.array([-13.0]), np.array([0.01]))
    assert found[0] == pytest.approx(35.0, abs=1e-4)


def test_a_late_reply_counts_as_what_is_expected_beyond_the_time_waited():
    latency, rows = plain(2)
    see(latency, rows, [0, 1], [2.0, 2.0])
    mean, deviation = latency.predict(rows[:1], np.array([0]))
    within = latency.within
    credited = latency.learn(rows[:1], told([0], [3.0], [LATE]))
    standing = (math.log(3.0) - mean[0]) / deviation[0]
    assert credited[0] == pytest.approx(truncnorm.mean(standing, np.inf, mean[0], deviation[0]))
    assert latency.mean[0] == pytest.approx((math.log(2.0) + credited[0]) / 2.0)
    assert latency.within == within  # what was guessed says nothing of the noise


def test_cut_off_early_a_client_does_not_become_faster():
    latency, rows = plain(1)
    for _ in range(3):
        see(latency, rows, [0], [10.0])
    before = latency.predict(rows)[0][0]
    credited = latency.learn(rows, told([0], [0.5], [LATE]))
    assert credited[0] == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_amended_by_the_truth_it_is_as_if_it_had_come_in_time(times):
    """The mean and its weight are the same, bit for bit but for rounding, as if the true latency had been told."""
    both = []
    for amended in (False, True):
        latency, rows = plain(1)
        for number in range(times):
            see(latency, rows, [0], [2.0 + 0.1 * number])
        if amended:
            credited = latency.learn(rows, told([0], [2.2], [LATE]))
            assert credited[0] > math.log(2.2)
            latency.amend(rows, told([0], [2.6], [ARRIVED], credited))
        else:
            see(latency, rows, [0], [2.6])
        both.append((latency.mean[0], latency.weight[0]))
    assert both[1] == (pytest.approx(both[0][0], rel=1e-12), both[0][1])


def test_amended_without_having_been_credited_it_counts_as_a_reply():
    latency, rows = plain(1)
    latency.amend(rows, told([0], [7.0], [ARRIVED], [math.nan]))
    assert latency.mean[0] == pytest.approx(math.log(7.0))
    assert latency.weight[0] == 1.0


DRAWS = 40_000


def monte_carlo(mean, deviation, finishes):
    """Mean time until the last of those who finish has replied."""
    rng = np.random.default_rng(0)
    replies = np.exp(mean + deviation * rng.standard_normal((DRAWS, len(mean))))
    replies[rng.uniform(size=replies.shape) >= finishes] = 0.0
    return replies.max(axis=1).mean()


@pytest.mark.parametrize("finishing", [1.0, 0.8])
@pytest.mark.parametrize("spread", [0.1, 0.3])
def test_the_end_of_a_round_against_monte_carlo(finishing, spread):
    mean = np.linspace(-0.6, 0.9, 10)
    deviation, finishes = np.full(10, spread), np.full(10, finishing)
    seconds = round_end(mean[None], deviation[None], finishes[None])
    # A mean number of replies stands for their distribution.
    assert seconds[0] == pytest.approx(monte_carlo(mean, deviation, finishes), rel=0.08)


def test_a_single_client_ends_the_round_at_its_median():
    assert round_end(np.array([[1.3]]), np.array([[0.2]]), np.ones((1, 1)))[0] == pytest.approx(math.exp(1.3))


def test_sure_times_end_the_round_with_the_slowest():
    mean = np.log([[1.0, 2.0, 4.0, 8.0], [4.0, 3.0, 2.0, 1.0]])
    assert round_end(mean, np.full((2, 4), 1e-6), np.ones((2, 4))) == pytest.approx([8.0, 4.0], rel=1e-4)


def test_nobody_waits_for_those_who_are_lost():
    mean, sure = np.log([[1.0, 1.0, 1.0, 50.0]]), np.full((1, 4), 0.01)
    assert round_end(mean, sure, np.array([[1.0, 1.0, 1.0, 0.01]]))[0] == pytest.approx(1.0, rel=0.05)


def test_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(7)
    mean, deviation, finishes = rng.normal(size=(6, 4)), rng.uniform(0.1, 0.5, (6, 4)), rng.uniform(0.5, 1.0, (6, 4))
    seconds = round_end(mean, deviation, finishes)
    for row in range(6):
        one = slice(row, row + 1)
        np.testing.assert_allclose(round_end(mean[one], deviation[one], finishes[one]), seconds[one])


def test_nobody_who_can_finish_gives_no_division_by_zero():
    nobody = np.zeros((1, 3))
    assert np.isfinite(round_end(nobody, nobody + 0.1, nobody)).all()


def test_growing_and_keeping_leave_what_is_shared_alone():
    clients, own = population(40, np.random.default_rng(8))
    latency = LogLatency.of(clients)
    rows = latency.rows(clients)
    see(latency, rows, np.arange(30), np.exp(own[:30]))
    shared = latency.model.theta, latency.centre, latency.between
    before = latency.predict(rows)[0]
    latency.grow(2)
    assert latency.weight[-2:].tolist() == [0.0, 0.0]
    latency.keep(np.array([3, 35, 40]))
    assert (latency.model.theta == shared[0]).all()
    assert (latency.centre, latency.between) == shared[1:]
    np.testing.assert_array_equal(latency.predict(rows[[3, 35]], np.array([0, 1]))[0], before[[3, 35]])


def test_what_is_saved_gives_the_same_forecast():
    clients, own = population(40, np.random.default_rng(9))
    latency = LogLatency.of(clients)
    rows = latency.rows(clients)
    see(latency, rows, np.arange(30), np.exp(own[:30]))
    again = LogLatency.of(clients)
    again.centre = 0.0  # None is restored as what was saved
    again.restore(dict(latency.leaves()))
    for one, other in zip(latency.predict(rows), again.predict(rows), strict=True):
        assert one.tobytes() == other.tobytes()
    assert {field.name for field in dataclasses.fields(latency)} >= {path.split("/")[0] for path, _ in again.leaves()}
