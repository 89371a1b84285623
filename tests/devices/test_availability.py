"""Availability: slots against a brute-force walk, and the shapes of generated sessions."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist._internal.options import Options
from enlist.devices import Always, AnyAvailability, AvailabilityTrace, Bernoulli, Diurnal, Markov, Slots, traces
from enlist.devices import availability as module
from enlist.devices.sessions import DAY, HOUR
from enlist.errors import InputError
from enlist.streams import Streams

GENERATED = [Bernoulli(), Markov(), Diurnal()]


class Setting(Options):
    availability: AnyAvailability = pydantic.Field(Always(), description="Availability.")


def test_always() -> None:
    everybody = Always().draw(3, Streams(1))
    assert len(everybody) == 3
    assert everybody.online(1e12).all()
    assert everybody.share(3.0, 9.0).tolist() == everybody.share(3.0, 3.0).tolist() == [1.0] * 3
    assert everybody.until(np.array([2, 0]), 1.0).tolist() == [math.inf] * 2
    with pytest.raises(InputError, match="virtual time"):
        everybody.next_online(math.nan)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([0.1, 0.3, 7.0, 600.0]),
    st.floats(0.0, 40.0),
    st.sampled_from([0, 1, 10**6, 10**12]),
    st.booleans(),
)
def test_slots_equal_a_walk(seed: int, length: float, slots: float, far: int, boundary: bool) -> None:
    chance = np.array([0.0, 0.2, 0.5, 0.9, 0.97, 1.0])
    table = Slots(chance, length, 30, Streams(seed))
    first = far + int(slots)
    now = first * length if boundary else min((far + slots) * length, np.nextafter((first + 1) * length, 0.0))
    now = max(now, first * length)
    drawn = np.array([table.online((first + ahead) * length) for ahead in range(31)])
    assert (table.online(now) == drawn[0]).all()
    assert drawn[:, 5].all()
    assert not drawn[:, 0].any()
    for client, end in enumerate(table.until(np.arange(6), now)):
        off = np.flatnonzero(~drawn[:30, client])
        expected = math.inf if client == 5 else (first + 30) * length if not len(off) else (first + off[0]) * length
        assert end == (now if len(off) and off[0] == 0 else expected)
    assert table.next_online(now) == now
    some = Slots(chance[1:3], length, 30, Streams(seed))
    begin = some.next_online(now)
    assert some.online(begin).any()
    before = [ahead for ahead in range(31) if (first + ahead) * length < begin and begin > now]
    assert not any(some.online((first + ahead) * length).any() for ahead in before)


def test_share_of_slots_by_hand() -> None:
    slots = Slots(np.full(4, 0.5), 10.0, 30, Streams(3))
    drawn = np.array([slots.online(10.0 * number) for number in range(3)])
    assert slots.share(5.0, 25.0) == pytest.approx((5 * drawn[0] + 10 * drawn[1] + 5 * drawn[2]) / 20)
    assert slots.share(10.0, 20.0).tolist() == drawn[1].astype(float).tolist()
    assert slots.share(12.0, 13.0).tolist() == drawn[1].astype(float).tolist()
    assert slots.share(10.0, 10.0).tolist() == drawn[1].astype(float).tolist()
    assert len(np.unique(drawn, axis=0)) == 3


def test_nobody_ever() -> None:
    assert Slots(np.zeros(3), 10.0, 5, Streams(1)).next_online(3.0) == math.inf
    with pytest.raises(InputError, match="cannot be counted that far"):
        Slots(np.ones(3), 0.01, 5, Streams(1)).online(1e15)


@pytest.mark.parametrize("options", GENERATED)
def test_answers_do_not_depend_on_who_asks_or_in_which_order(
    options: Bernoulli | Markov | Diurnal, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = options.draw(40, Streams(4))
    monkeypatch.setattr(module, "REMEMBERED", 0)
    two = options.draw(40, Streams(4))
    times = np.random.default_rng(1).uniform(0, 20 * DAY, 60)
    asked = {now: (one.online(now), one.until(np.arange(40), now), one.share(now, now + 5000)) for now in times}
    for now in times[::-1]:
        assert (two.share(now, now + 5000) == asked[now][2]).all()
        assert (two.until(np.array([30, 2]), now) == asked[now][1][[30, 2]]).all()
        assert (two.online(now) == asked[now][0]).all()
    assert any((options.draw(40, Streams(5)).online(now) != asked[now][0]).any() for now in times)


@pytest.mark.parametrize("options", GENERATED)
def test_the_first_clients_of_a_large_population_are_those_of_a_small_one(
    options: Bernoulli | Markov | Diurnal,
) -> None:
    small, large = options.draw(40, Streams(4)), options.draw(9000, Streams(4))
    for now in np.linspace(0, 8 * DAY, 15):
        assert (small.online(now) == large.online(now)[:40]).all()
    assert (small.uptime == large.uptime[:40]).all()


@pytest.mark.parametrize("options", GENERATED)
def test_queries_agree_with_each_other(options: Bernoulli | Markov | Diurnal) -> None:
    table = options.draw(30, Streams(6))
    everybody = np.arange(30)
    for now in np.random.default_rng(2).uniform(0, 30 * DAY, 40):
        up, end = table.online(now), table.until(everybody, now)
        assert ((end > now) == up).all()
        assert (end[~up] == now).all()
        assert not any(table.online(end[client])[client] for client in np.flatnonzero(up))
        stays = table.share(now, min(end[up].min(), now + 1e5)) if up.any() else np.ones(30)
        assert stays[up] == pytest.approx(1.0)
        begin = table.next_online(now)
        assert begin >= now
        assert table.online(begin).any()
    # What is seen at many moments is the long-run share.
    period = 7 * DAY if not isinstance(options, Bernoulli) else 1000 * options.slot
    assert table.share(0.0, period) == pytest.approx(
        table.uptime, abs=1e-9 if not isinstance(options, Bernoulli) else 0.05
    )


def test_bernoulli_chances_are_beta() -> None:
    chance = Bernoulli(a=2.0, b=6.0).draw(50_000, Streams(1)).uptime
    assert chance.mean() == pytest.approx(0.25, abs=0.003)
    assert chance.std() == pytest.approx(math.sqrt(0.25 * 0.75 / 9), rel=0.02)


def test_markov_sojourns_are_exponential_and_stationary_from_the_start() -> None:
    table = Markov(mean_on=100.0, mean_off=300.0, period=50_000.0).draw(4000, Streams(1))
    assert table.uptime.mean() == pytest.approx(0.25, abs=0.003)
    for now in (0.0, 50.0, 25_000.0, 49_999.0):
        assert table.online(now).mean() == pytest.approx(0.25, abs=0.025)
    left = table.until(np.arange(4000), 20_000.0) - 20_000.0
    left = left[left > 0]
    # Exponential sojourns have no memory: what is left of a session has the law of a whole one.
    assert left.mean() == pytest.approx(100.0, rel=0.1)
    assert np.median(left) == pytest.approx(100.0 * math.log(2), rel=0.1)
    assert table.sessions.mean() == pytest.approx(50_000 / 400, rel=0.03)


def test_markov_with_long_sojourns_covers_the_period() -> None:
    table = Markov(mean_on=1e6, mean_off=1e6, period=1000.0).draw(2000, Streams(1))
    assert set(np.unique(table.uptime.round(6))) >= {0.0, 1.0}
    assert table.uptime.mean() == pytest.approx(0.5, abs=0.05)


def test_diurnal_short_sessions_follow_the_clock() -> None:
    options = Diurnal(night_median=0.0, sessions_per_day=3.0, hour_sd=0.0, session_sigma=0.0, session_median=1.0)
    table = options.draw(6000, Streams(1))
    begun = np.array([table.share(hour * HOUR, (hour + 1) * HOUR).sum() * HOUR for hour in range(24)])
    assert begun.sum() == pytest.approx(3 * 6000, rel=0.05)
    middle = np.arange(24) + 0.5
    expected = begun.sum() / 24 * (1 + 0.8 * np.cos(2 * np.pi * (middle - 1.0) / 24))
    assert (np.abs(begun - expected) < 4.5 * np.sqrt(expected)).all()


def test_diurnal_lengths_are_lognormal() -> None:
    options = Diurnal(night_median=0.0, sessions_per_day=1.0, days=366)
    lengths = []
    for seed in range(4):
        table = options.draw(1, Streams(seed))
        now = 0.0
        for _ in range(300):
            now = table.next_online(now)
            end = float(table.until(np.array([0]), now)[0])
            lengths.append(end - now)
            now = end
    assert np.median(lengths) == pytest.approx(450.0, rel=0.15)
    assert np.log(lengths).std() == pytest.approx(1.5, rel=0.1)


def test_diurnal_nights_are_long_and_around_the_own_hour() -> None:
    table = Diurnal(sessions_per_day=0.0).draw(3000, Streams(1))
    assert table.uptime.mean() == pytest.approx(6 * math.exp(0.3**2 / 2) / 24, rel=0.03)
    assert (table.sessions >= 6).all()
    at = {hour: table.online(DAY * 3 + hour * HOUR).mean() for hour in (4, 9, 16, 22)}
    assert at[4] > 0.7 > at[9] > at[16]
    assert at[16] < 0.02
    both = Diurnal().draw(3000, Streams(1))
    assert both.uptime.mean() > table.uptime.mean()


def test_a_large_population_is_built_and_asked_quickly() -> None:
    # Built in about one second and asked in about 10 ms where nothing else runs; the bounds only catch loops in Python.
    begun = time.process_time()
    table = Diurnal().draw(100_000, Streams(1))
    built = time.process_time()
    for now in range(10):
        table.online(1e5 * now)
    asked = time.process_time()
    assert built - begun < 10.0
    assert (asked - built) / 10 < 0.1


def test_options_are_found_by_kind() -> None:
    found = Setting.parse({"availability": {"kind": "markov", "mean_on": 5}}, "f.toml").availability
    assert isinstance(found, Markov)
    with pytest.raises(InputError, match="Did you mean 'diurnal'"):
        Setting.parse({"availability": {"kind": "diurnall"}}, "f.toml")
    for kind in (Always, Bernoulli, Markov, Diurnal, AvailabilityTrace):
        for name, field in kind.model_fields.items():
            assert name == "kind" or (field.description or "").endswith("."), (kind, name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Markov(mean_on=0.0), "mean_on = 0.0"),
        (lambda: Markov(mean_on=math.inf), "mean_on = inf"),
        (lambda: Markov(mean_on=0.001, mean_off=0.001).draw(1000, Streams(1)), "Shorten period"),
        (lambda: Diurnal(sessions_per_day=1000, days=366).draw(1000, Streams(1)), "Lower days"),
        (lambda: Bernoulli().draw(0, Streams(1)), "clients is 0"),
        (lambda: Diurnal(swing=1.2), "swing = 1.2"),
        (lambda: Diurnal(sessions_per_day=0, night_median=0), "so that no client is ever online; raise one of them"),
        (lambda: Diurnal(session_median=1e-300), "session_median = 1e-300"),
        (lambda: Markov(mean_on=1e-300), "mean_on = 1e-300"),
        (lambda: Markov(mean_off=1e-30, period=1e15).draw(2, Streams(1)), "Shorten period"),
        (lambda: Markov(mean_on=1e300), r"mean_on = 1e\+300, but numbers go up to 1e\+15"),
        (lambda: Markov(mean_on=1e15, period=1e15).draw(2, Streams(1)), "shorten the period"),
        (lambda: Markov(mean_on=1.0, mean_off=1e15, period=1e15).draw(1, Streams(1)), "shorten the period"),
        (lambda: Bernoulli(slot=1e-300), "slot = 1e-300"),
        (lambda: Bernoulli(a=1e-12, b=1.0).draw(10, Streams(1)), "all 10 clients are offline at all times"),
        (
            lambda: Bernoulli(a=1.0, b=1e8).draw(10, Streams(1)),
            r"once in .*e\+06 slots of 600 seconds.*raise a, lower b",
        ),
        (lambda: Bernoulli(a=1e308), r"a = 1e\+308"),
        (lambda: Bernoulli(a=1e-309, b=1e-309), "a = 1e-309"),
        (lambda: Bernoulli(lookahead=100_000).draw(10**6, Streams(1)), "set lookahead to 2147 or less"),
        (lambda: Slots(np.full(3, 0.5), 0.01, 5, Streams(1)).share(0.0, 1e5), "slots of 0.01 seconds; at most 65536"),
        (lambda: Slots(np.full(3, 0.5), 5e-324, 5, Streams(1)).online(1.0), "cannot be counted that far"),
    ],
)
def test_mistakes_are_named(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()


def test_looking_for_somebody_is_bounded() -> None:
    slots = Slots(np.full(1, 1e-15), 600.0, 5, Streams(1))
    drawn = []
    slots._drawn = lambda number: drawn.append(number) or np.zeros(1, dtype=bool)
    assert slots.next_online(0.0) == math.inf
    assert len(drawn) == module.MOST_SLOTS


def test_a_trace_that_would_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.csv"
    path.write_text("client,start,end\n0,0,1\n0,2,3\n1,0,1\n")
    monkeypatch.setattr(traces, "MOST_SESSIONS", 100)
    assert len(AvailabilityTrace(path=path).draw(66, Streams(1))) == 66
    with pytest.raises(InputError, match=r"100 clients have 150 sessions; at most 100 fit together. Take fewer"):
        AvailabilityTrace(path=path).draw(100, Streams(1))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,0,1e-300\n", "a period is 1e-300 seconds"),
        ("0,0,1e300\n", "shorten the period"),
        ("0,1e300,1e301\n", "shorten the period"),
        ("0,0,inf\n", "inf"),
    ],
)
def test_absurd_times_in_a_trace_are_named(rows: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sessions.csv"
    path.write_text(f"client,start,end\n{rows}")
    with pytest.raises(InputError, match=message):
        AvailabilityTrace(path=path).draw(2, Streams(1))
