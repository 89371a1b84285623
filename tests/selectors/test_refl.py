"""REFL: the forecast by hand, the length of a round, cooldown, joins."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome, RoundMetrics
from enlist.errors import InputError
from enlist.selectors.refl import DailyPattern

NAN = float("nan")
HOUR = 3600.0


def test_seasons_by_hand() -> None:
    seasons = DailyPattern.of(3, bins=4, period=100.0, fade=0.5)
    seasons.watch(np.array([0, 1]), now=10.0)  # bin 0, day 0
    seasons.watch(np.array([0]), now=20.0)  # bin 0, day 0
    seasons.watch(np.array([2]), now=30.0)  # bin 1, day 0
    seasons.watch(np.array([0, 2]), now=310.0)  # bin 0, day 3: older counts times .5 ** 3
    # bin 0: hits 2/8 + 1, 1/8, 0 + 1; seen 2/8 + 1 for all. bin 1 as it was: hits 0, 0, 1 of 1
    assert seasons.hits[0].tolist() == [1.25, 0.125, 1.0]
    assert seasons.seen[0].tolist() == [1.25, 1.25, 1.25]
    assert seasons.hits[1].tolist() == [0.0, 0.0, 1.0]
    # [0, 25]: (1.25 + 1) / 3.25, 1.125 / 3.25, 2 / 3.25
    first = np.array([2.25, 1.125, 2.0]) / 3.25
    np.testing.assert_allclose(seasons.probability(slice(None), 400.0, 25.0), first)
    # [15, 40]: 10 s of bin 0 and 15 s of bin 1, where p = 1/3, 1/3, 2/3
    second = np.array([1.0, 1.0, 2.0]) / 3.0
    np.testing.assert_allclose(seasons.probability(slice(None), 15.0, 25.0), 0.4 * first + 0.6 * second)
    # [90, 110] wraps round midnight: half in bin 3, never watched, p = 1/2
    np.testing.assert_allclose(seasons.probability(slice(None), 90.0, 20.0), 0.25 + first / 2)
    # more than a day: all bins alike
    everything = (first + second + 0.5 + 0.5) / 4
    np.testing.assert_allclose(seasons.probability(slice(None), 7.0, 101.0), everything)
    # no length: the bin of that moment; only some clients
    np.testing.assert_allclose(seasons.probability(np.array([2]), 30.0, 0.0), second[2:])


def test_seasons_before_the_epoch_and_backwards() -> None:
    seasons = DailyPattern.of(1, bins=2, period=10.0, fade=0.5)
    seasons.watch(np.array([0]), now=-1.0)  # bin 1 of day -1
    seasons.watch(np.array([0]), now=19.0)  # bin 1 of day 1
    seasons.watch(np.array([0]), now=9.0)  # bin 1 of day 0: late news counts in full, fades nothing
    assert seasons.hits[:, 0].tolist() == [0.0, 2.25]


def test_least_available_come_first() -> None:
    selector = enlist.create("refl", Clients(count=4), seed=1)
    # available at hour 10: all; at hour 11: client 3 always, 0 never, 1 on one day of three, 2 on two
    for day, later in enumerate(([3, 1, 2], [3, 2], [3])):
        selector.observe(None, now=day * 24 * HOUR + 10 * HOUR)
        selector.observe(later, now=day * 24 * HOUR + 11 * HOUR)
    now = 3 * 24 * HOUR + 10 * HOUR
    for k, expected in ((1, [0]), (2, [0, 1]), (3, [0, 1, 2])):
        again = enlist.create("refl", Clients(count=4), seed=k)
        again.state = selector.state
        selector.state.last[:] = 0
        assert again.ask(k=k, now=now, deadline=HOUR).clients.tolist() == expected
    # p of client 0 at hour 11: seen .8 * (.8 * 1 + 1) + 1 = 2.44, not faded further today: 1 / 4.44
    selector.state.last[:] = 0
    picked = selector.ask([0, 3], k=1, now=now, deadline=HOUR)
    np.testing.assert_allclose(picked.terms["availability"], [1 / 4.44], rtol=1e-6)


def test_a_forecast_from_outside_wins_and_its_gaps_are_filled() -> None:
    selector = enlist.create("refl", Clients(count=4), seed=1, cooldown=0)
    assert selector.ask(k=2, forecast=[0.9, 0.1, 0.8, 0.3]).clients.tolist() == [1, 3]
    # an hour ahead nothing was ever watched: p = 1/2 fills the gap
    assert selector.ask(k=2, forecast=[0.9, NAN, 0.4, 0.6]).clients.tolist() == [1, 2]
    assert selector.ask(k=2, forecast=[0.9, NAN, 0.3, 0.4]).clients.tolist() == [2, 3]
    assert selector.ask([0, 1, 2], k=1, forecast=[0.9, NAN, 0.95, 0.0]).clients.tolist() == [1]


def test_ties_are_random() -> None:
    firsts = {enlist.create("refl", Clients(count=30), seed=seed).ask(k=1).clients[0] for seed in range(30)}
    assert len(firsts) > 10


def test_cooldown_of_five_rounds() -> None:
    selector = enlist.create("refl", Clients(count=10))
    forecast = np.linspace(0.0, 0.9, 10)
    chosen = [selector.ask(k=1, forecast=forecast).clients[0] for _ in range(8)]
    # client 0 rests in rounds 2 to 6 and is back in round 7
    assert chosen == [0, 1, 2, 3, 4, 5, 0, 1]


def test_cooldown_is_ignored_when_the_pool_is_too_small() -> None:
    selector = enlist.create("refl", Clients(count=3))
    forecast = [0.1, 0.5, 0.9]
    assert selector.ask(k=2, forecast=forecast).clients.tolist() == [0, 1]
    assert selector.ask(k=2, forecast=forecast).clients.tolist() == [0, 1]
    assert selector.ask(k=1, forecast=forecast).clients.tolist() == [2]


def test_length_of_a_round_by_hand() -> None:
    selector = enlist.create("refl", Clients(count=2))
    assert selector.window(80.0) == 80.0
    assert selector.window() == HOUR
    told = Feedback(latency=[3.0, 7.0])
    selector.tell(selector.ask(k=2), told, RoundMetrics(duration=100.0))
    selector.tell(selector.ask(k=2), told, RoundMetrics(duration=20.0))
    assert selector.window(80.0) == 100.0
    selector.tell(selector.ask(k=2), told)
    # .75 * 20 + .25 * 100 = 40
    assert selector.window() == 40.0
    selector.ask(k=2)
    # without a duration the slowest reply: .75 * 7 + .25 * 40 = 15.25
    assert selector.window() == 15.25
    selector.ask(k=2)
    assert selector.window() == 15.25


def test_length_from_late_and_lost_clients() -> None:
    selector = enlist.create("refl", Clients(count=3))
    picked = selector.ask(k=3, deadline=50.0)
    outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED]
    selector.tell(picked, Feedback(outcome=outcome, latency=[5.0, 12.0, NAN], censored=[False, True, False]))
    selector.ask(k=3, deadline=50.0)
    assert selector.window() == 12.0  # the server stopped waiting after 12 s, whatever became of the dropped one
    arrived = Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[49.0])
    selector.tell(picked, arrived)
    selector.ask(k=3, deadline=50.0)
    assert selector.window() == 12.0


def test_length_does_not_depend_on_the_order_of_partial_tells() -> None:
    lengths = []
    for order in ([0, 1, 2], [2, 1, 0]):
        selector = enlist.create("refl", Clients(count=3))
        picked = selector.ask(k=3, deadline=50.0)
        for client in order:
            outcome = [Outcome.DROPPED if client == 0 else Outcome.COMPLETED]
            selector.tell(picked, Feedback(clients=[client], outcome=outcome, latency=[4.0 * client]))
        selector.ask(k=1)
        lengths.append(selector.window())
    assert lengths == [8.0, 8.0]


def test_window_starts_one_round_ahead() -> None:
    selector = enlist.create("refl", Clients(count=2), period=100.0, bins=10, cooldown=0)
    for day in range(6):
        for part in range(10):
            # client 0 is away in part 3, client 1 in part 5
            away = {3: 0, 5: 1}.get(part)
            selector.observe([i for i in (0, 1) if i != away], now=100.0 * day + 10.0 * part)
    # a deadline of 10 s from second 20 on looks at [30, 40]; from second 40 on at [50, 60]
    assert selector.ask(k=1, now=620.0, deadline=10.0).clients.tolist() == [0]
    assert selector.ask(k=1, now=640.0, deadline=10.0).clients.tolist() == [1]


def test_joined_clients_are_not_held_to_days_before_they_came() -> None:
    selector = enlist.create("refl", Clients(count=1), cooldown=0)
    for _ in range(9):
        selector.observe([0], now=0.0)
    selector.join(Clients(count=1))
    for _ in range(2):
        selector.observe([0, 1], now=0.0)
    chance = selector.state.seasons.probability(slice(None), 0.0, 1.0)
    np.testing.assert_allclose(chance, [12 / 13, 3 / 4], rtol=1e-6)  # not 3/13
    assert selector.state.last.tolist() == [0, 0]


def test_compact_and_save(tmp_path: str) -> None:
    selector = enlist.create("refl", Clients(count=3), seed=4, bins=6)
    selector.observe([2], now=0.0)
    selector.join(Clients(count=1))
    selector.compact([1, 2])
    assert selector.state.seasons.hits[0].tolist() == [0.0, 1.0]
    selector.save(tmp_path)
    again = enlist.load(tmp_path)
    assert (
        again.ask(k=1, now=1.0, deadline=2.0).clients.tolist()
        == selector.ask(k=1, now=1.0, deadline=2.0).clients.tolist()
    )
    assert again.state.seasons.seen.tolist() == selector.state.seasons.seen.tolist()


def test_memory() -> None:
    selector = enlist.create("refl", Clients(count=10**5))
    assert (selector.state.nbytes + selector.counts.nbytes) / 10**5 < 400


@pytest.mark.parametrize("wrong", [{"cooldown": -1}, {"alpha": 2.0}, {"period": 0.0}, {"bins": 0}, {"fade": 1.1}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        enlist.create("refl", Clients(count=2), **wrong)
