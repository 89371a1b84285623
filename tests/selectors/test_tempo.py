"""Tempo: worth, forecast and choice by hand; sets against brute force; what it does over many rounds."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from scipy.special import ndtr

import enlist
from enlist import Clients, Feedback, Outcome, Request
from enlist.bandits import round_end, sets_by_time
from enlist.errors import InputError, MissingColumnError
from enlist.selectors import Tempo
from enlist.simulation import Config
from tests.resuming import assert_resumes

LATE, ARRIVED, DROPPED, FAILED = (
    int(outcome) for outcome in (Outcome.LATE, Outcome.ARRIVED, Outcome.DROPPED, Outcome.FAILED)
)


PATIENT = 1e9
"""With so much patience the exponent of waiting stays 1."""


def make(clients=4, **settings):
    if isinstance(clients, int):
        clients = Clients(count=clients)
    return enlist.create("tempo", clients, seed=1, **settings)


def request(selector, k, available=None, **others):
    """What `choose` would be given in the selector's present round."""
    who = np.arange(len(selector.clients)) if available is None else np.array(available)
    return Request(selector.round, who, k, len(selector.clients), **others)


def inject(selector, seconds, last=None, round=10):
    """Clients that are known to take so long, all but exactly, as if it had been told."""
    latency = selector.state.latency
    latency.centre, latency.within = float(np.median(np.log(seconds))), 1e-4
    latency.mean[:], latency.weight[:] = np.log(seconds), 1e9
    selector.state.last[:] = 0 if last is None else last
    selector.round = round - 1  # `ask` begins the next
    return selector


class Known(Tempo):
    """Knows how long each client takes; clients that are asked reply, to a millionth."""

    seconds = np.ones(1)

    def forecast(self, request):
        mean = np.log(request.of(self.seconds))
        return mean, np.full(len(mean), 1e-7), np.ones(len(mean))


def play(selector, seconds, rounds, k, rng=None, lost=None, **asked):
    """Rounds with these latencies, perhaps noisy, and clients that are always lost; returns who was chosen."""
    chosen = []
    for _ in range(rounds):
        picked = selector.ask(k=k, **asked)
        took = seconds[picked.clients] * (1.0 if rng is None else np.exp(0.1 * rng.standard_normal(len(picked))))
        gone, late = np.isin(picked.clients, [] if lost is None else lost), took > picked.deadline
        told = np.where(gone, np.nan, np.minimum(took, picked.deadline))
        outcome = np.where(gone, DROPPED, np.where(late, LATE, 0))
        selector.tell(picked, Feedback(outcome=outcome, latency=told, censored=late))
        chosen.append(picked.clients)
    return chosen


def test_worth_by_hand():
    # Round 10, 2 of 4 a round: 5 turns, a = 1 + (5/10)^2; waited (10 - last) / 2; loss e^(0.5 l), unknown as 0.
    selector = make()
    selector.round = 10
    selector.state.last[:] = [0, 3, 5, 9]
    selector.state.loss[:] = [np.nan, 1.0, -2.0, 0.0]
    asked = request(selector, 2)
    exponent = 1.0 + 25.0 / 100.0
    assert selector.exponent(2) == pytest.approx(exponent)
    np.testing.assert_allclose(selector.waited(asked), [5.0, 3.5, 2.5, 0.5])
    loss = np.array([1.0, math.exp(0.5), math.exp(-1.0), 1.0])
    np.testing.assert_allclose(selector.worth(asked), np.array([5.0, 3.5, 2.5, 0.5]) ** exponent * loss)
    some = request(selector, 2, available=[1, 3])
    np.testing.assert_allclose(selector.worth(some), selector.worth(asked)[[1, 3]])


def test_the_exponent_grows_with_the_square_of_turns_to_eight():
    selector = make(10)
    grown = []
    for selector.round in (0, 50, 100, 10_000):  # 0, 10, 20, and 2000 turns
        grown.append(selector.exponent(2))
    assert grown == pytest.approx([1.0, 2.0, 5.0, 8.0])
    patient = make(10, patience=20.0)
    patient.round = 100
    assert patient.exponent(2) == pytest.approx(2.0)


def test_without_loss_it_counts_for_nothing():
    selector = make(loss=0.0)
    selector.round = 1
    selector.state.loss[:] = [2.0, -2.0, 0.0, np.nan]
    assert np.ptp(selector.worth(request(selector, 1))) == 0.0


def test_the_last_turn_is_when_it_was_asked_whatever_became_of_it():
    selector = make()
    first = selector.ask([0, 1], k=2)
    selector.tell(first, Feedback(outcome=[DROPPED, 0], latency=[math.nan, 1.0]))
    second = selector.ask([2], k=1)
    assert selector.state.last.tolist() == [1, 1, 2, 0]
    assert len(second) == 1


def hear(selector, clients, loss):
    picked = selector.ask(clients, k=len(clients))
    selector.tell(picked, Feedback(latency=np.ones(len(clients)), loss=loss))


def test_relative_losses_by_hand():
    # ln losses 0, 1, 5: the level is their median, 1, and e^4 above it counts as e^2.
    # Then 2, 2, 2: the level is 0.7 * 1 + 0.3 * 2 = 1.3, all are 0.7 above it, and half of what was known stays.
    selector = make()
    hear(selector, [0, 1, 2], np.exp([0.0, 1.0, 5.0]))
    assert selector.state.level == pytest.approx(1.0)
    np.testing.assert_allclose(selector.state.loss, [-1.0, 0.0, 2.0, np.nan])
    hear(selector, [0, 1, 2], np.exp([2.0, 2.0, 2.0]))
    assert selector.state.level == pytest.approx(1.3)
    np.testing.assert_allclose(selector.state.loss, [-0.15, 0.35, 1.35, np.nan])


@pytest.mark.parametrize("loss", [0.0, math.nan])
def test_a_loss_of_zero_or_none_is_not_heard(loss):
    selector = make()
    hear(selector, [0, 1], [loss, loss])
    assert selector.state.level is None
    assert np.isnan(selector.state.loss).all()


@pytest.mark.parametrize("strength", [0.25, 0.5, 1.0])
def test_one_liar_counts_at_most_e_to_the_twice_b(strength):
    selector = make(6, loss=strength)
    for _ in range(30):
        hear(selector, np.arange(6), [1e15, 1.0, 1.0, 1.0, 1.0, 1.0])
    selector.state.last[:] = selector.round
    selector.round += 1
    worth = selector.worth(request(selector, 2))
    assert worth[0] / worth[1] == pytest.approx(math.exp(2.0 * strength))
    assert selector.state.level == 0.0  # and the level stays that of the others


def test_losses_of_late_clients_count_when_they_arrive():
    selector = make(2)
    picked = selector.ask(k=2, deadline=5.0)
    selector.tell(picked, Feedback(outcome=[0, LATE], latency=[1.0, 5.0], loss=[1.0, 9.0], censored=[False, True]))
    assert np.isnan(selector.state.loss[1])
    selector.tell(picked, Feedback(clients=[1], outcome=[ARRIVED], latency=[7.0], loss=[math.e]))
    # The level is 0.7 * 0 + 0.3 * 1.
    assert selector.state.loss[1] == pytest.approx(0.7)


def test_the_rate_of_finishing_by_hand():
    # Client 0: reply, lost, reply: two done, one lost. Client 1: nothing, so what is usual.
    selector = make(2)
    for outcome in (0, DROPPED, 0):
        picked = selector.ask([0], k=1)
        selector.tell(picked, Feedback(outcome=[outcome], latency=[math.nan if outcome else 1.0]))
    usual = (2.0 + 8.0) / (3.0 + 8.0)
    rate = selector.forecast(request(selector, 1))[2]
    np.testing.assert_allclose(rate, [(2.0 + 8.0 * usual) / (3.0 + 8.0), usual])


def test_a_rate_rests_on_a_hundred_outcomes():
    selector = make(1)
    for _ in range(120):
        selector.tell(selector.ask(k=1), Feedback(latency=[1.0]))
    finishing = selector.state.finishing
    assert finishing.successes[0] == pytest.approx(100.0)
    selector.tell(selector.ask(k=1), Feedback(outcome=[DROPPED], latency=[math.nan]))
    assert (finishing.successes[0], finishing.failures[0]) == (pytest.approx(99.0), 1.0)


@pytest.mark.parametrize("outcome", [DROPPED, FAILED])
def test_who_was_gone_and_is_back_begins_anew(outcome):
    selector = make(1)
    for _ in range(60):
        selector.tell(selector.ask(k=1), Feedback(outcome=[outcome], latency=[math.nan]))
    assert selector.forecast(request(selector, 1))[2][0] < 0.2
    selector.tell(selector.ask(k=1), Feedback(latency=[1.0]))
    finishing = selector.state.finishing
    assert (finishing.successes[0], finishing.failures[0]) == (1.0, 0.0)


def test_three_misses_in_a_row_are_bad_luck_and_stay_on_record():
    selector = make(1)
    for _ in range(3):
        selector.tell(selector.ask(k=1), Feedback(outcome=[DROPPED], latency=[math.nan]))
    selector.tell(selector.ask(k=1), Feedback(latency=[1.0]))
    assert (selector.state.finishing.successes[0], selector.state.finishing.failures[0]) == (1.0, 3.0)


def test_who_is_late_has_finished():
    selector = make(1)
    selector.tell(selector.ask(k=1, deadline=2.0), Feedback(outcome=[LATE], latency=[2.0], censored=[True]))
    assert selector.state.finishing.successes.tolist() == [1.0]


def test_before_anything_was_seen_everybody_is_expected_to_finish():
    mean, deviation, rate = make(3).forecast(Request(1, np.arange(3), 1, 3))
    assert rate.tolist() == [1.0, 1.0, 1.0]
    assert np.ptp(mean) == np.ptp(deviation) == 0.0


def test_the_forecast_of_some_is_that_of_all():
    rng = np.random.default_rng(2)
    selector = make(Clients(num_examples=rng.integers(10, 500, 12)))
    play(selector, rng.lognormal(0.0, 1.0, 12), 8, 3, lost=[5])
    everybody = selector.forecast(request(selector, 3))
    some = selector.forecast(request(selector, 3, available=[2, 5, 11]))
    for whole, part in zip(everybody, some, strict=True):
        np.testing.assert_allclose(part, whole[[2, 5, 11]])


@pytest.mark.parametrize(("rounds", "picked"), [(3, [0, 1]), (5, [2, 3])])
def test_a_choice_by_hand(rounds, picked):
    # Two clients take 1 s and waited a round, two take 4 s and waited 3 or 5: 2/1 against 6/4 or 10/4 (mixed 6/4).
    selector = inject(make(patience=PATIENT), [1.0, 1.0, 4.0, 4.0], [9, 9, 10 - rounds, 10 - rounds])
    chosen = selector.ask(k=2)
    assert chosen.clients.tolist() == picked
    assert set(chosen.terms) == {"value", "fair_share", "chance", "seconds"}
    seconds, waited = ([1.0, 1.0], 0.5) if picked == [0, 1] else ([4.0, 4.0], 0.5 * rounds)
    np.testing.assert_allclose(chosen.terms["seconds"], seconds, rtol=1e-6)
    np.testing.assert_allclose(chosen.terms["fair_share"], waited)
    np.testing.assert_allclose(chosen.terms["value"], waited)
    np.testing.assert_allclose(chosen.terms["chance"], 1.0)


def test_who_cannot_meet_the_deadline_is_left_out_however_long_it_waited():
    selector = inject(make(), [1.0, 1.1, 50.0, 60.0], [9, 9, 0, 0])
    assert selector.ask(k=2, deadline=5.0).clients.tolist() == [0, 1]


def test_the_chance_to_meet_the_deadline_by_hand():
    selector = inject(make(3), [1.0, 2.0, 4.0])
    selector.state.latency.within = 0.09
    mean, deviation, rate = selector.forecast(request(selector, 2))
    expected = rate * ndtr((math.log(2.0) - mean) / deviation)
    picked = selector.ask(k=2, deadline=2.0)
    np.testing.assert_allclose(picked.terms["chance"], expected[picked.clients], rtol=1e-6)
    assert picked.terms["chance"][picked.clients == 1] == pytest.approx(0.5)


def test_a_set_costs_the_time_of_its_slowest_even_if_the_round_ends_without_it():
    # The round may end with the third reply, or at the deadline; a set is still judged by what all of it would take.
    seconds, waiting = [1.0, 1.0, 1.0, 1.0, 4.0], [9, 9, 9, 9, 4]
    for asked in ({}, {"enough": 3}, {"deadline": 100.0}):
        chosen = inject(make(5, patience=PATIENT), seconds, waiting).ask(k=4, **asked).clients
        assert chosen.tolist() == [0, 1, 2, 3], asked  # 4/1 against (3 + 6)/4


def test_what_is_not_expected_by_the_deadline_brings_nothing():
    # Two of 1 s that waited a round, and two of 4 s that waited five: 10/4, but not if they are late.
    for deadline, picked in ((9.0, [2, 3]), (3.0, [0, 1])):
        selector = inject(make(patience=PATIENT), [1.0, 1.0, 4.0, 4.0], [9, 9, 5, 5])
        assert selector.ask(k=2, deadline=deadline).clients.tolist() == picked


def worth_in(selector, round, k):
    """What clients are worth in a round, which the next `ask` then begins."""
    selector.round = round
    value = selector.worth(request(selector, k))
    selector.round = round - 1
    return value


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_best_set_against_brute_force(k):
    """Without a deadline, and latencies all but certain, no set of k brings more per second."""
    rng = np.random.default_rng(k)
    for _ in range(60):
        count = int(rng.integers(k + 1, 10))
        selector = Known(Clients(count=count), seed=int(rng.integers(1000)))
        selector.seconds = rng.choice([1.0, 2.0, 5.0], count) if rng.uniform() < 0.3 else rng.lognormal(0, 1, count)
        selector.state.last[:] = rng.integers(0, 30, count)
        selector.state.loss[:] = rng.normal(size=count)
        value = worth_in(selector, 31, k)
        picked = selector.ask(k=k).clients

        def ratio(chosen, value=value, seconds=selector.seconds):
            return value[list(chosen)].sum() / seconds[list(chosen)].max()

        best = max(map(ratio, itertools.combinations(range(count), k)))
        assert ratio(picked.tolist()) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("deadline", "least", "spread"),
    [(math.inf, 1.0, (0.2, 0.2)), (math.inf, 0.5, (0.2, 0.2)), (1.5, 0.5, (0.2, 0.2)), (9.0, 1.0, (0.1, 0.8))],
)
def test_with_noise_and_losses_little_is_lost_to_brute_force(deadline, least, spread):
    """The best set need not be the k best within a limit of time then; on average they bring 96 % of it or more."""
    rng = np.random.default_rng(5)
    everybody = np.array(list(itertools.combinations(range(9), 4)))
    ratios = []
    for _ in range(60):
        mean, deviation = rng.normal(size=9), rng.uniform(*spread, 9)
        finishes, value = rng.uniform(least, 1.0, 9), rng.lognormal(size=9)
        brings = value * finishes * ndtr((math.log(deadline) - mean) / deviation)
        best = [
            (brings[sets].sum(axis=1) / round_end(mean[sets], deviation[sets], finishes[sets])).max()
            for sets in (sets_by_time(mean + deviation, brings, 4, rng), everybody)
        ]
        ratios.append(best[0] / best[1])
    assert np.mean(ratios) > 0.96


def test_among_many_limits_of_time_little_is_lost():
    # 2000 clients have 1981 limits; 64 of them are tried.
    rng = np.random.default_rng(3)
    for _ in range(5):
        selector = Known(Clients(count=2000), seed=1)
        selector.seconds = rng.lognormal(0.0, 1.0, 2000)
        selector.state.last[:] = rng.integers(0, 400, 2000)
        value = worth_in(selector, 401, 20)
        picked = selector.ask(k=20).clients
        order = np.argsort(selector.seconds)
        best = max(
            np.sort(value[order[:length]])[-20:].sum() / selector.seconds[order[length - 1]]
            for length in range(20, 2001)
        )
        assert value[picked].sum() / selector.seconds[picked].max() > 0.93 * best


def test_late_then_arrived_is_as_if_it_had_come_in_time():
    selector, other = make(2), make(2)
    for each in (selector, other):
        each.tell(each.ask(k=2), Feedback(latency=[2.0, 3.0]))
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(outcome=[0, LATE], latency=[2.1, 3.2], censored=[False, True]))
    guessed = selector.state.latency.mean[1]
    assert guessed > (math.log(3.0) + math.log(3.2)) / 2.0
    selector.tell(picked, Feedback(clients=[1], outcome=[ARRIVED], latency=[3.5], rounds_late=[1.0]))
    other.tell(other.ask(k=2), Feedback(latency=[2.1, 3.5]))
    np.testing.assert_allclose(selector.state.latency.mean, other.state.latency.mean, rtol=1e-12)
    assert selector.state.latency.weight.tolist() == other.state.latency.weight.tolist() == [2.0, 2.0]
    assert selector.state.finishing.successes.tolist() == other.state.finishing.successes.tolist()


def test_eight_times_as_slow_is_noticed_at_the_next_reply():
    rng = np.random.default_rng(4)
    seconds = rng.lognormal(0.0, 0.6, 20)
    selector = make(20)
    play(selector, seconds, 60, 4, rng)
    slower = seconds.copy()
    slower[7] *= 8.0
    while True:
        picked = selector.ask(k=4)
        selector.tell(picked, Feedback(latency=slower[picked.clients]))
        if 7 in picked.clients:
            break
    mean, _, _ = selector.forecast(request(selector, 4))
    assert mean[7] == pytest.approx(math.log(slower[7]), abs=0.1)
    before = selector.counts.selected[7]
    play(selector, slower, 10, 4, rng)
    assert selector.counts.selected[7] - before <= 1  # and it has to wait for its turn


def test_unseen_clients_are_tried():
    seconds = np.random.default_rng(5).lognormal(0.0, 1.0, 60)
    selector = make(60)
    play(selector, seconds, 75, 4)  # five turns each, were they dealt out evenly
    assert selector.counts.selected.min() >= 1


def test_clients_that_join_are_tried_soon():
    seconds = np.random.default_rng(6).lognormal(0.0, 1.0, 25)
    selector = make(20)
    play(selector, seconds, 60, 4)
    selector.join(Clients(count=5))
    play(selector, seconds, 8, 4)
    assert selector.counts.selected[20:].min() >= 1


def test_nobody_starves_and_shares_become_even():
    """Turns go with T^(-1/a), and become even as a grows to 8."""
    rng = np.random.default_rng(7)
    seconds = np.geomspace(1.0, 100.0, 30)
    selector = make(30)
    play(selector, seconds, 300, 3, rng)
    early = selector.counts.selected.copy()
    play(selector, seconds, 300, 3, rng)
    late = selector.counts.selected - early
    assert early.min() >= 4  # of 30 on average
    assert late.min() >= 15
    fast, slow = slice(0, 5), slice(25, 30)
    assert early[fast].mean() > 1.5 * early[slow].mean()
    # With a = 8 clients 68 times as slow, as these, have 0.59 as many turns.
    assert late[slow].mean() / late[fast].mean() == pytest.approx(68.0**-0.125, abs=0.15)


def test_rounds_group_clients_of_like_speed():
    rng = np.random.default_rng(8)
    seconds = rng.lognormal(0.0, 1.0, 60)
    chosen = play(make(60), seconds, 200, 6, rng)[50:]
    apart = np.mean([np.log(seconds[clients]).std() for clients in chosen])
    assert apart < 0.5 * np.log(seconds).std()
    rounds = [seconds[clients].max() for clients in chosen]
    at_random = [seconds[rng.choice(60, 6, replace=False)].max() for _ in chosen]
    assert np.mean(rounds) < 0.75 * np.mean(at_random)


def test_misses_in_a_row_beyond_three_halve_what_waiting_counts():
    selector = make(2)
    selector.round = 8
    asked = request(selector, 1)
    for misses, expected in ((0, 4.0), (3, 4.0), (4, 2.0), (6, 0.5), (8, 0.125), (99, 0.125)):
        selector.state.misses[0] = misses
        np.testing.assert_allclose(selector.waited(asked), [expected, 4.0])


def test_misses_are_counted_in_a_row():
    selector = make(1)
    told = [(DROPPED, math.nan), (FAILED, math.nan), (LATE, 2.0), (0, 1.0), (DROPPED, math.nan)]
    counted = []
    for outcome, latency in told:
        picked = selector.ask(k=1, deadline=2.0)
        selector.tell(picked, Feedback(outcome=[outcome], latency=[latency], censored=[outcome == LATE]))
        counted.append(int(selector.state.misses[0]))
    assert counted == [1, 2, 3, 0, 1]
    # Who was cut off before the deadline has missed nothing; who arrives after all has not missed that turn.
    selector.tell(selector.ask(k=1, deadline=2.0), Feedback(outcome=[LATE], latency=[1.0], censored=[True]))
    assert selector.state.misses[0] == 0
    picked = selector.ask(k=1, deadline=2.0)
    selector.tell(picked, Feedback(outcome=[LATE], latency=[2.0], censored=[True]))
    assert selector.state.misses[0] == 1
    selector.tell(picked, Feedback(outcome=[ARRIVED], latency=[3.0], rounds_late=[1.0]))
    assert selector.state.misses[0] == 0


@pytest.mark.parametrize("patience", [10.0, PATIENT])
def test_a_client_that_never_replies_is_asked_rarely(patience):
    """After eight misses its turns come 32 times as late, whatever the exponent; the others share the rest."""
    rng = np.random.default_rng(9)
    selector = make(20, patience=patience)
    play(selector, np.ones(20), 100, 4, rng, lost=[3])
    early = selector.counts.selected.copy()
    assert 1 <= early[3] <= 10
    play(selector, np.ones(20), 400, 4, rng, lost=[3])
    late = selector.counts.selected - early
    assert late[3] <= 5  # an even share would be 80
    assert np.delete(late, 3).min() >= 70


def test_features_help_before_anything_was_seen_of_a_client():
    """Of clients that were never asked the faster ones are tried first; without features it is chance."""
    rng = np.random.default_rng(10)
    seconds = rng.lognormal(0.0, 1.0, 300)
    known = make(Clients(features=(1.0 / seconds)[:, None] * rng.lognormal(0.0, 0.2, (300, 1))))
    blind = make(300)
    first = {}
    for name, selector in (("known", known), ("blind", blind)):
        play(selector, seconds, 6, 5)
        seen = selector.counts.selected > 0
        play(selector, seconds, 6, 5)
        new = (selector.counts.selected > 0) & ~seen
        first[name] = np.median(seconds[new])
        rank = np.corrcoef(selector.forecast(request(selector, 5))[0][~seen], np.log(seconds[~seen]))
        assert (rank[0, 1] > 0.8) == (name == "known")
    assert first["known"] < 0.6 * first["blind"]


def everything(selector):
    leaves = [*selector.state.leaves(), *selector.counts.leaves()]
    shown = {path: np.asarray(value).tobytes() for path, value in leaves}
    return shown, selector.rows.tobytes(), selector.rng.bit_generator.state, selector.round


def test_joins_compact_save_and_load_continue_bit_by_bit(tmp_path):
    rng = np.random.default_rng(11)
    features, seconds = rng.lognormal(size=(40, 2)), rng.lognormal(0.0, 1.0, 40)
    ids = np.arange(40)

    def run(stops):
        """Rounds with late replies, losses, a join after 10, a compaction after 20; saved and loaded at the stops."""
        noise, times = np.random.default_rng(12), seconds
        clients = Clients(ids=ids[:30], num_examples=np.arange(1, 31), features=features[:30])
        selector = enlist.create("tempo", clients, seed=5)
        for number in range(30):
            if number in stops:
                selector.save(tmp_path / f"{number}")
                selector = enlist.load(tmp_path / f"{number}")
            if number == 10:
                selector.join(Clients(ids=ids[30:], num_examples=np.arange(31, 41), features=features[30:]))
            if number == 20:
                kept = selector.compact(np.arange(0, 40, 2))
                times = seconds[kept]
            picked = selector.ask(k=5, deadline=4.0, enough=4)
            took = times[picked.clients] * np.exp(0.2 * noise.standard_normal(5))
            late = took > 2.0
            outcome = np.where(late, LATE, 0)
            loss = np.where(late, np.nan, noise.lognormal(size=5))
            told = np.where(late, 2.0, took)
            selector.tell(picked, Feedback(outcome=outcome, latency=told, censored=late, loss=loss))
            if late.any():
                arrived = Feedback(clients=picked.clients[late], outcome=[ARRIVED] * late.sum(), latency=took[late])
                selector.tell(picked, arrived)
        return selector

    whole, cut = run(()), run((1, 10, 15, 20, 27))
    assert everything(whole) == everything(cut)


def test_latency_is_needed_and_nothing_else():
    selector = make(3)
    assert selector.needs == {"latency"}
    with pytest.raises(MissingColumnError, match="latency"):
        selector.tell(selector.ask(k=1), Feedback(loss=[1.0]))


@pytest.mark.parametrize("wrong", [{"patience": 0.0}, {"loss": 11.0}, {"loss": -1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(InputError):
        make(2, **wrong)


def many(count):
    rng = np.random.default_rng(13)
    selector = make(count)
    seconds = rng.lognormal(0.0, 1.0, count)
    chosen = play(selector, seconds, 5, 100, rng, deadline=8.0, enough=80)
    assert all(len(np.unique(clients)) == 100 for clients in chosen)
    half = rng.uniform(size=count) < 0.5
    assert half[selector.ask(half, k=100, deadline=8.0, enough=80).clients].all()
    return selector


def test_a_hundred_thousand_clients():
    selector = many(100_000)
    shared = 1000  # bytes of what clients share
    assert selector.state.nbytes + selector.rows.nbytes <= 65 * 100_000 + shared


@pytest.mark.verify
def test_a_million_clients_within_a_second_a_round():
    selector = many(1_000_000)
    spent = []
    for _ in range(5):
        began = time.thread_time()
        picked = selector.ask(k=100)
        selector.tell(picked, Feedback(latency=np.ones(100)))
        spent.append(time.thread_time() - began)
    assert np.median(spent) < 1.0


def test_asynchronously_it_takes_the_most_per_second_of_each():
    # Round 10, everybody waited for 9 asks of one: value 1. Seconds 1, 2, 4, 40: per second 1, 1/2, 1/4, 1/40.
    # As a set of two, 0 and 1 would wait 2 s; asynchronously nobody waits, and a long wait makes up for being slow.
    selector = inject(make(patience=PATIENT), [1.0, 2.0, 4.0, 40.0], last=1)
    assert selector.ask(k=2, asynchronous=True).clients.tolist() == [0, 1]
    selector = inject(make(patience=PATIENT), [1.0, 2.0, 4.0, 40.0], last=[9, 9, 1, 1])  # waited 1, 1, 9, 9 of a turn
    picked = selector.ask(k=2, asynchronous=True)
    assert picked.clients.tolist() == [0, 2]  # 1, 1/2, 9/4, 9/40 per second
    assert selector.ask([1, 3], k=1, asynchronous=True).clients.tolist() == [1]


def test_asynchronously_turns_are_counted_by_clients():
    selector = make(10)
    selector.ask(k=6, asynchronous=True)
    for _ in range(4):
        selector.ask(k=1, asynchronous=True)
    assert selector.size(request(selector, 5, asynchronous=True)) == (6 + 4 + 5) / 5
    assert selector.size(request(selector, 5)) == 5


def test_asynchronously_nobody_starves():
    seconds = np.array([1.0, 1.0, 2.0, 2.0, 30.0, 30.0])
    selector, counts = make(6), np.zeros(6)
    for clients in play(selector, seconds, 400, 1, asynchronous=True):
        counts[clients] += 1
    assert counts.min() >= 400 / 6 / 4
    assert counts[:2].mean() > counts[4:].mean()


def test_labels_prefer_sets_that_resemble_all_clients():
    """Two clients of label 0 and two of label 1: H of a set with one label is sqrt(1 - sqrt(1/2)), of one of each 0."""
    clients = Clients(label_counts=[[9, 0], [9, 0], [0, 9], [0, 9]])
    plain, selector = make(clients), make(clients, labels=True)
    sets = np.array([[0, 1], [0, 2], [2, 3]])
    alike = 1.0 - math.sqrt(1.0 - math.sqrt(0.5))
    np.testing.assert_allclose(selector.likeness(sets), [alike, 1.0, alike])
    for one in (plain, selector):
        inject(one, [1.0, 1.0, 1.2, 9.0], last=[1, 1, 0, 0])  # values 4.5, 4.5, 5 and 5
    assert sorted(plain.choose(request(plain, 2)).clients.tolist()) == [0, 1], "9 / 1 against 9.5 / 1.2"
    assert 2 in selector.choose(request(selector, 2)).clients, "9 alike / 1 against 9.5 / 1.2"
    alone = selector.choose(request(selector, 2, asynchronous=True)).clients
    assert sorted(alone.tolist()) == [0, 1], "no client waits for a set"


def test_labels_are_needed_only_if_asked_for():
    assert make().needs == {"latency"}
    assert Tempo.needs_with(labels=True) == {"latency", "clients.label_counts"}
    assert Tempo.needs_with() == {"latency"}
    with pytest.raises(MissingColumnError, match="label_counts"):
        make(labels=True)


def test_labels_of_clients_that_join_count():
    selector = make(Clients(label_counts=[[4, 0], [4, 0]]), labels=True)
    selector.join(Clients(label_counts=[[0, 8]]))
    np.testing.assert_allclose(selector.likeness(np.array([[0, 1, 2]])), [1.0])
    selector.compact([0, 1])
    np.testing.assert_allclose(selector.likeness(np.array([[0, 1]])), [1.0])


def test_labels_with_late_updates_joins_crashes_and_stops_with_other_workers(tmp_path):
    config = Config(
        data={"clients": 16, "partition": {"kind": "dirichlet", "alpha": 0.2}},
        failures={"crash": 0.2},
        membership={"joins": [{"round": 3, "clients": 3}]},
        rounds={"rounds": 6, "k": 4, "over_commit": 1.4, "late": "merge", "deadline": {"kind": "percentile"}},
        selector="tempo+labels=true",
    )
    assert_resumes(tmp_path, config, stops=[2, 4])
