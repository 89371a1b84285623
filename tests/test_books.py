"""The books between a selector and a federation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import enlist
from enlist import Books, Clients, Feedback, Outcome, RoundMetrics
from enlist.books import replay
from enlist.errors import InputError, MissingColumnError, TellError

BUILT = [
    "random",
    "size-proportional",
    "darts-ucb",
    "epsilon-greedy",
    "ucb",
    "thompson",
    "discounted-thompson",
    "cs-ucb",
    "cs-ucb-q",
    "bsfl",
]
COUNT = 9


def create(name="cs-ucb", seed=4, **arguments):
    return enlist.create(name, Clients(num_examples=np.arange(1.0, COUNT + 1)), seed=seed, **arguments)


def frozen(value):
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def memory(selector):
    leaves = [*selector.state.leaves(), *selector.counts.leaves()]
    outcomes = {number: frozen(opening.outcome) for number, opening in selector.openings.items()}
    return {path: frozen(value) for path, value in leaves}, repr(selector.rng.bit_generator.state), outcomes


def test_busy_clients_are_not_asked_again():
    books = Books(create("random"))
    first = books.ask(k=4)
    assert np.flatnonzero(books.busy).tolist() == first.clients.tolist()
    second = books.ask(k=9)
    assert not set(first.clients) & set(second.clients)
    assert len(second) == COUNT - 4
    assert len(books.ask(k=3)) == 0
    books.close(first, waited=1.0)
    assert np.flatnonzero(books.busy).tolist() == second.clients.tolist()
    assert set(books.ask(first.clients[:2], k=5).clients) == set(first.clients[:2])


def test_busy_clients_are_left_out_of_masks_and_positions():
    books = Books(create("random"))
    first = books.ask([0, 1, 2], k=3)
    assert books.ask([0, 1, 2, 5], k=4).clients.tolist() == [5]
    mask = np.zeros(COUNT, bool)
    mask[[2, 7]] = True
    assert books.ask(mask, k=4).clients.tolist() == [7]
    assert len(first) == 3


def test_replies_in_any_order_give_the_same_tell():
    results = []
    draw = np.random.default_rng(0)
    for attempt in range(6):
        selector = create("bsfl")
        books = Books(selector)
        for _ in range(4):
            picked = books.ask(k=4, deadline=10.0)
            order = np.arange(4) if attempt == 0 else draw.permutation(4)
            for index in order[order != 2]:
                client = picked.clients[index]
                books.reply(picked, client, latency=1.0 + client / 3, loss=0.1 * client)
            feedback = books.close(picked, waited=7.0)
        results.append((memory(selector), feedback.latency.tolist(), feedback.outcome.tolist()))
    assert all(result == results[0] for result in results)


def test_replies_several_at_a_time():
    books = Books(create())
    picked = books.ask([1, 4, 6], k=3, deadline=10.0)
    books.reply(picked, [6, 1], latency=[2.0, 3.0], loss=[0.2, 0.3])
    books.reply(picked, [4], Outcome.DROPPED)
    feedback = books.close(picked, waited=5.0)
    assert feedback.outcome.tolist() == [Outcome.COMPLETED, Outcome.DROPPED, Outcome.COMPLETED]
    np.testing.assert_array_equal(feedback.latency, [3.0, np.nan, 2.0])
    np.testing.assert_array_equal(feedback.loss, [0.3, np.nan, 0.2])
    assert not feedback.censored.any()
    assert books.selector.openings == {}


def test_close_makes_the_silent_late_and_censored_at_the_waited_time():
    books = Books(create())
    picked = books.ask([1, 4, 6], k=3, deadline=10.0)
    books.reply(picked, 4, latency=2.0)
    feedback = books.close(picked, waited=5.0)
    assert feedback.outcome.tolist() == [Outcome.LATE, Outcome.COMPLETED, Outcome.LATE]
    assert feedback.latency.tolist() == [5.0, 2.0, 5.0]
    assert feedback.censored.tolist() == [True, False, True]
    # cs-ucb: 1 - 5/10 for those cut off, not 0 as if they had needed the whole deadline
    assert books.selector.rewards()[[1, 4, 6]].tolist() == pytest.approx([0.5, 0.8, 0.5])
    assert not books.busy.any()


@pytest.mark.parametrize("seed", range(8))
def test_conclude_tells_what_replies_and_close_would(seed, tmp_path):
    rng = np.random.default_rng(seed)
    one, other = (Books(create(name="oort"), log=tmp_path / name) for name in ("one", "other"))
    for _ in range(5):
        pair = [books.ask(k=6, deadline=9.0) for books in (one, other)]
        picked, waited, metrics = pair[0], 8.0, RoundMetrics(accuracy=0.5, duration=8.0)
        outcome = rng.integers(0, 4, len(picked)).astype(np.int8)
        columns = {
            name: rng.uniform(0.1, 10.0, len(picked)) for name in ("latency", "loss", "loss_rms", "num_examples")
        }
        columns |= {"num_examples": rng.uniform(1.0, 9.0, len(picked)), "accuracy_gain": rng.uniform(size=len(picked))}
        columns |= {"update": rng.normal(size=(len(picked), 3)), "upload_latency": rng.uniform(size=len(picked))}
        replied = outcome == Outcome.COMPLETED
        if not replied.any():
            del columns["update"]  # nobody has sent one, so nobody knows how long they are
        one.reply(picked, picked.clients[replied], **{name: values[replied] for name, values in columns.items()})
        for lost in (Outcome.DROPPED, Outcome.FAILED):
            one.reply(picked, picked.clients[outcome == lost], lost)
        one.close(picked, waited=waited, round=metrics)
        other.conclude(pair[1], outcome, columns, waited=waited, round=metrics)
    assert (tmp_path / "one").read_text() == (tmp_path / "other").read_text()
    assert memory(one.selector) == memory(other.selector)


def test_a_round_that_cannot_be_concluded_stays_open():
    books = Books(create())
    picked = books.ask(k=2, deadline=9.0)
    with pytest.raises(InputError, match="latency"):
        books.conclude(picked, np.zeros(2, dtype=np.int8), {"latency": np.array([1.0, -1.0])}, waited=2.0)
    told = books.conclude(picked, np.zeros(2, dtype=np.int8), {"latency": np.array([1.0, 2.0])}, waited=2.0)
    assert told.latency.tolist() == [1.0, 2.0]
    with pytest.raises(TellError, match="not open"):
        books.conclude(picked, np.zeros(2, dtype=np.int8), {}, waited=2.0)


def test_close_at_the_deadline():
    books = Books(create())
    picked = books.ask([1, 4], k=2, deadline=10.0)
    books.close(picked, waited=10.0)
    assert books.selector.rewards()[[1, 4]].tolist() == [0.0, 0.0]
    assert books.selector.state.latency.count[[1, 4]].tolist() == [1, 1]


def test_a_selector_that_needs_no_latency_needs_none_in_the_replies():
    books = Books(create("ucb"))
    picked = books.ask(k=3)
    books.reply(picked, picked.clients, accuracy_gain=[0.1, 0.2, 0.3])
    books.close(picked, waited=1.0)
    assert books.selector.counts.observed.sum() == 3
    picked = books.ask(k=3)
    books.reply(picked, picked.clients[:1], accuracy_gain=[0.1])
    feedback = books.close(picked, waited=1.0)
    assert feedback.outcome.tolist() == [Outcome.COMPLETED, Outcome.LATE, Outcome.LATE]


def test_arrived_amends():
    books = Books(create(), late="learn")
    picked = books.ask([1, 4], k=2, deadline=10.0)
    books.reply(picked, 4, latency=2.0)
    books.close(picked, waited=5.0)
    assert books.arrived(picked, 1, rounds_late=1, latency=8.0)
    assert books.selector.rewards()[[1, 4]].tolist() == pytest.approx([0.2, 0.8])
    assert books.selector.counts.observed[[1, 4]].tolist() == [1, 1]
    assert not books.arrived(picked, 1, rounds_late=1, latency=8.0), "its round is finished"


def test_a_late_reply_is_ignored_where_late_replies_are_dropped():
    books = Books(create(), late="drop")
    picked = books.ask([1, 4], k=2, deadline=10.0)
    books.reply(picked, 4, latency=2.0)
    books.close(picked, waited=5.0)
    before = books.selector.rewards().tolist()
    assert not books.arrived(picked, 1, rounds_late=1, latency=8.0)
    assert books.selector.rewards().tolist() == before


def test_a_reply_after_the_deadline_is_late():
    books = Books(create())
    picked = books.ask([1, 4], k=2, deadline=10.0)
    books.reply(picked, [1, 4], latency=[3.0, 500.0])
    assert books.close(picked, waited=10.0).outcome.tolist() == [Outcome.COMPLETED, Outcome.LATE]
    with pytest.raises(InputError, match="after the deadline of 10; tell it as LATE"):
        books.selector.tell(books.selector.ask([1], k=1, deadline=10.0), Feedback(latency=[11.0]))


def test_an_incomplete_reply_is_refused_at_once_and_can_be_given_again():
    books = Books(create())
    picked = books.ask([1, 4], k=2, deadline=10.0)
    with pytest.raises(MissingColumnError, match="needs latency"):
        books.reply(picked, 1)
    with pytest.raises(InputError, match="LATE anyway"):
        books.reply(picked, 1, Outcome.ARRIVED, latency=3.0)
    books.reply(picked, 1, latency=3.0)
    assert books.close(picked, waited=4.0).latency.tolist() == [3.0, 4.0]


def test_settle_wants_the_whole_selection():
    books = Books(create())
    picked = books.ask([1, 4], k=2, deadline=10.0)
    with pytest.raises(TellError, match="1 of 2 outcomes of round 1"):
        books.settle(picked, Feedback(clients=[1], latency=[2.0]))
    books.settle(picked, Feedback(latency=[2.0, 3.0]))


def test_busy_clients_are_seen_though_not_asked():
    selector = enlist.create("refl", Clients(count=4), seed=1, period=100.0, bins=1)
    books = Books(selector)
    books.ask(k=2, now=0.0)
    second = books.ask(k=2, now=1.0)
    assert len(second) == 2
    state = dict(selector.state.leaves())
    hits = next(value for path, value in state.items() if path.endswith("hits"))
    assert hits.sum(axis=0).tolist() == [2, 2, 2, 2], "everybody was online both times"


def test_observe_join_and_accept_are_replayed(tmp_path):
    log = tmp_path / "log.jsonl"
    books = Books(enlist.create("refl", Clients(count=8), seed=3, period=50.0), log=log)
    for number in range(12):
        books.observe(np.arange(len(books.selector.clients)) < 4 + number % 4, now=5.0 * number)
        picked = books.ask(k=3, now=5.0 * number + 1)
        books.settle(picked, Feedback(latency=np.ones(len(picked))))
        if number == 6:
            books.join(Clients(count=3))
    again = enlist.create("refl", Clients(count=8), seed=3, period=50.0)
    assert all((selection.clients == recorded).all() for selection, recorded in replay(log, again))
    assert len(again.clients) == 11


def test_late_drop_frees_the_late_and_late_await_keeps_them_busy():
    for late, expected in (("drop", []), ("learn", [1, 4])):
        books = Books(create(), late=late)
        picked = books.ask([1, 4, 6], k=3, deadline=10.0)
        books.reply(picked, 6, latency=2.0)
        books.close(picked, waited=5.0)
        assert np.flatnonzero(books.busy).tolist() == expected
        again = books.ask([1, 4, 6], k=3, deadline=10.0)
        assert again.clients.tolist() == sorted({1, 4, 6} - set(expected))
    books.arrived(picked, 4, rounds_late=1, latency=9.0)
    assert np.flatnonzero(books.busy).tolist() == [1, 6]


def test_an_awaited_client_is_free_when_its_selection_expires():
    books = Books(create(max_open=2), late="learn")
    picked = books.ask([1], k=1, deadline=10.0)
    books.close(picked, waited=5.0)
    for _ in range(2):
        assert len(books.ask([1], k=1)) == 0
    assert not books.busy[1]
    assert books.ask([1], k=1).clients.tolist() == [1]


def test_rounds_that_are_never_closed_do_not_pile_up():
    books = Books(create("random", max_open=5))
    first = books.ask(k=1)
    for _ in range(200):
        books.ask(k=1)
    assert len(books.selector.openings) <= 5
    assert len(books.open) <= 6
    with pytest.raises(TellError, match="round 1"):
        books.reply(first, first.clients, latency=[1.0])


def test_closing_an_expired_round_says_so():
    books = Books(create("random", max_open=2))
    first = books.ask(k=1)
    for _ in range(2):
        books.ask(k=1)
    with pytest.raises(TellError, match="round 1"):
        books.close(first, waited=1.0)


def test_a_second_reply_is_refused():
    books = Books(create())
    picked = books.ask([1, 4], k=2)
    books.reply(picked, 4, latency=2.0)
    with pytest.raises(TellError, match="client 4 has already replied in round 1"):
        books.reply(picked, [1, 4], latency=[2.0, 3.0])
    books.reply(picked, 1, latency=2.0)  # the refused call noted nothing


@pytest.mark.parametrize(
    ("clients", "columns", "message"),
    [
        ([2], {"latency": [1.0]}, "client 2 was not selected in round 1"),
        ([1], {"latency": [-1.0]}, "cannot be negative"),
        ([1], {"latency": [math.nan]}, "latency"),
        ([1, 1], {"latency": [1.0, 1.0]}, "repeats"),
        ([1], {"latency": [1.0, 2.0]}, "has shape"),
        ([1.7], {"latency": [1.0]}, "clients"),
        ([True, False], {"latency": [1.0, 1.0]}, "clients"),
        ([1], {"latency": ["soon"]}, "latency"),
    ],
)
def test_bad_replies_are_refused(clients, columns, message):
    books = Books(create())
    picked = books.ask([0, 1, 4], k=3)
    with pytest.raises(InputError, match=message):
        books.reply(picked, clients, **columns)
    books.reply(picked, [0, 1, 4], latency=[1.0, 1.0, 1.0])  # nothing was noted


@pytest.mark.parametrize("waited", [-1.0, math.nan, math.inf, "long"])
def test_a_bad_waiting_time_is_refused(waited):
    books = Books(create())
    picked = books.ask([1, 4], k=2)
    with pytest.raises(InputError, match="waited"):
        books.close(picked, waited=waited)
    books.close(picked, waited=1.0)
    with pytest.raises(TellError, match="round 1 is not open in these books"):
        books.close(picked, waited=1.0)


def test_an_unknown_way_with_late_clients():
    with pytest.raises(InputError, match="Did you mean 'learn'"):
        Books(create(), late="laern")


def test_a_round_that_cannot_be_told_stays_open():
    books = Books(create("darts-ucb"))
    picked = books.ask([1, 4], k=2)
    books.reply(picked, [1, 4], latency=[1.0, 1.0])
    with pytest.raises(MissingColumnError, match=r"needs round\.accuracy"):
        books.close(picked, waited=1.0)
    books.close(picked, waited=1.0, round=RoundMetrics(accuracy=0.5))
    assert books.selector.state.accuracy == 0.5


# ------------------------------------------------------------------------------------------------------ log and replay


def drive(books, rounds, start=0, late=None):
    """A federation with late, lost and failing clients; every number comes from the round and the client."""
    late = [] if late is None else late
    picks = []
    for number in range(start, start + rounds):
        world = np.random.default_rng(77 + number)
        mask = world.uniform(size=COUNT) < 0.85
        clock = None if number % 3 == 0 else 5.0 * number
        deadline = math.inf if number % 4 == 1 else 6.0
        picked = books.ask(mask, k=4, now=clock, deadline=deadline)
        picks.append(picked.clients.tolist())
        fate = world.choice(["in time", "in time", "late", "lost", "failed"], size=len(picked))
        for index in world.permutation(len(picked)):
            client, value = picked.clients[index], world.uniform()
            if fate[index] == "in time":
                books.reply(picked, client, latency=5 * value, loss=value, accuracy_gain=value - 0.5)
            elif fate[index] != "late":
                outcome = Outcome.DROPPED if fate[index] == "lost" else Outcome.FAILED
                books.reply(picked, client, outcome)
        books.close(picked, waited=5.5, round=RoundMetrics(accuracy=float(world.uniform())))
        late.extend((number, picked, client) for client in picked.clients[fate == "late"])
        while late and late[0][0] <= number - 2:
            _, old, client = late.pop(0)
            if old.round in books.selector.openings:
                books.arrived(old, client, rounds_late=2, latency=11.0, loss=0.5, accuracy_gain=0.2)
    return picks


@pytest.mark.parametrize("late", ["drop", "learn"])
@pytest.mark.parametrize("name", BUILT)
def test_replaying_the_log_gives_identical_selections(name, late, tmp_path):
    log = tmp_path / "log.jsonl"
    selector = create(name)
    picks = drive(Books(selector, late=late, log=log), 30)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    arrived = sum(Outcome.ARRIVED in event["feedback"]["outcome"] for event in events if event["event"] == "tell")
    assert arrived > 5 if late == "learn" else arrived == 0
    assert all(event["fresh"] is None for event in events if event["event"] == "ask")
    twin = create(name)
    replayed = list(replay(log, twin))
    assert [selection.clients.tolist() for selection, _ in replayed] == picks
    assert [recorded.tolist() for _, recorded in replayed] == picks
    assert memory(twin) == memory(selector)


def test_replay_of_another_seed_differs(tmp_path):
    log = tmp_path / "log.jsonl"
    books = Books(create("random"), log=log)
    for _ in range(10):
        books.settle(books.ask(k=3), Feedback())
    again = replay(log, create("random", seed=5))
    selection, recorded = next(again)
    assert selection.clients.tolist() != recorded.tolist()
    with pytest.raises(InputError, match="the replay differs from the log from round 1 on"):
        next(again)


def test_replay_keeps_forecasts_and_fresh_values(tmp_path):
    seen = []

    class Nosy(type(create("random"))):
        def candidates(self, available=None, k=1):
            return np.asarray(available)[:2] if k > 1 else np.zeros(0, dtype=np.int64)

        def choose(self, request):
            fresh = None if request.fresh is None else request.fresh.loss.tolist()
            seen.append((None if request.forecast is None else request.forecast.tolist(), fresh))
            return super().choose(request)

    log = tmp_path / "log.jsonl"
    books = Books(Nosy(Clients(count=4), seed=1), log=log)
    measured = []

    def measure(clients):
        measured.append(clients.tolist())
        return Feedback(clients=clients, loss=0.5 + clients)

    books.settle(books.ask([1, 2, 3], k=2, forecast=[0.1, 0.2, np.nan, 0.4], measure=measure), Feedback())
    books.settle(books.ask([0, 1], k=1, measure=measure), Feedback())
    assert measured == [[1, 2]]
    first, seen[:] = list(seen), []
    list(replay(log, Nosy(Clients(count=4), seed=1)))
    assert repr(seen) == repr(first)
    assert first[0][1] == [1.5, 2.5]


def test_numpy_numbers_can_be_logged(tmp_path):
    log = tmp_path / "log.jsonl"
    books = Books(create("darts-ucb"), log=log)
    picked = books.ask(k=np.int64(2), now=np.float32(1.5), deadline=np.float32(8.0))
    books.reply(picked, picked.clients, latency=np.ones(2, np.float32))
    books.close(picked, waited=np.float32(2.0), round=RoundMetrics(accuracy=np.float32(0.5), duration=np.float32(2.0)))
    assert len(log.read_text().splitlines()) == 2
    assert all((a.clients == b).all() for a, b in replay(log, create("darts-ucb")))


def test_a_log_that_was_cut_off(tmp_path):
    log = tmp_path / "log.jsonl"
    drive(Books(create(), log=log), 3)
    text = log.read_text()
    lines = text.count("\n")
    log.write_text(text[:-20])
    with pytest.raises(InputError, match=f"line {lines} is not valid JSON; the log was cut off there"):
        list(replay(log, create()))


# -------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("name", BUILT)
def test_resuming_from_a_saved_selector(name, tmp_path):
    straight = create(name)
    picks = drive(Books(straight, late="learn"), 20)
    log = tmp_path / "log.jsonl"
    selector, late = create(name), []
    before = drive(Books(selector, late="learn", log=log), 9, late=late)
    selector.save(tmp_path)
    resumed = Books(enlist.load(tmp_path), late="learn", log=log)
    after = drive(resumed, 11, start=9, late=late)
    assert before + after == picks
    assert memory(resumed.selector) == memory(straight)
    replayed = [selection.clients.tolist() for selection, _ in replay(log, create(name))]
    assert replayed == picks  # one log over both


def test_resuming_in_mid_round(tmp_path):
    books = Books(create())
    first, second = books.ask([0, 1, 2], k=3, deadline=10.0), books.ask([3, 4], k=2, deadline=10.0)
    books.reply(first, 0, latency=1.0)
    books.selector.save(tmp_path)
    resumed = Books(enlist.load(tmp_path))
    assert np.flatnonzero(resumed.busy).tolist() == [0, 1, 2, 3, 4]
    assert resumed.ask(k=9).clients.tolist() == [5, 6, 7, 8]
    resumed.reply(first, [2, 0], latency=[3.0, 1.0])  # what came before the crash is sent again
    feedback = resumed.close(first, waited=4.0)
    assert feedback.latency.tolist() == [1.0, 4.0, 3.0]
    resumed.close(second, waited=4.0)
    assert np.flatnonzero(resumed.busy).tolist() == [5, 6, 7, 8]


def test_resuming_a_round_of_which_a_part_was_told(tmp_path):
    selector = create()
    picked = selector.ask([0, 1, 2], k=3, deadline=10.0)
    selector.tell(picked, Feedback(clients=[1], latency=[2.0]))
    selector.save(tmp_path)
    resumed = Books(enlist.load(tmp_path))
    assert np.flatnonzero(resumed.busy).tolist() == [0, 2]
    resumed.reply(picked, 0, latency=5.0)
    resumed.close(picked, waited=6.0)
    assert resumed.selector.rewards()[:3].tolist() == pytest.approx([0.5, 0.8, 0.4])
    assert not resumed.busy.any()


def test_who_is_given_up_is_free_again_and_stays_late():
    books = Books(create(), late="learn")
    picked = books.ask(k=3, now=0.0, deadline=10.0)
    books.reply(picked, picked.clients[:1], latency=[2.0])
    books.close(picked, waited=10.0)
    first, second = picked.clients[1:].tolist()
    assert books.awaited == [(picked.round, first), (picked.round, second)]
    books.give_up(picked.round, first)
    assert np.flatnonzero(books.busy).tolist() == [second]
    assert books.awaited == [(picked.round, second)]
    assert books.selector.openings[picked.round].outcome.tolist() == [Outcome.COMPLETED, Outcome.LATE, Outcome.LATE]
    books.give_up(picked.round + 7, second)  # of a round that nobody asked: nothing happens
    assert np.flatnonzero(books.busy).tolist() == [second]


def test_given_up_clients_are_forgotten_with_their_round():
    books = Books(create(max_open=2), late="learn")
    picked = books.ask(k=3, now=0.0, deadline=10.0)
    books.close(picked, waited=10.0)
    books.give_up(picked.round, picked.clients)
    assert not books.busy.any()
    for number in range(1, 4):
        books.close(books.ask(k=1, now=20.0 * number, deadline=10.0), waited=10.0)
    assert books.given_up == set()


def test_selections_are_found_as_long_as_they_are_open():
    books = Books(create())
    picked = books.ask(k=2)
    assert books.selection(picked.round) is picked
    assert books.selection(picked.round + 1) is None


def test_asynchronous_outcomes_are_told_one_by_one(tmp_path: Path) -> None:
    """Metrics come with the last outcome; late clients are not awaited; the log replays."""
    log = tmp_path / "log.jsonl"
    books = Books(enlist.create("cs-ucb", Clients(count=6), seed=1, max_open=1000), log=log)
    first = books.ask(k=3, asynchronous=True)
    one, two, three = first.clients
    books.tell(first, Feedback(clients=[two], latency=[2.0], rounds_late=[0]))
    assert books.busy[[one, three]].all()
    assert not books.busy[two]
    second = books.ask(k=1, busy=[one, three], asynchronous=True)
    books.tell(second, Feedback(latency=[1.0], rounds_late=[1]), RoundMetrics(duration=1.0))
    outcome = [Outcome.LATE, Outcome.DROPPED]
    books.tell(first, Feedback(clients=[one, three], outcome=outcome, latency=[9.0, math.nan]), RoundMetrics())
    books.mark(1)
    assert not books.selector.openings
    assert not books.open
    assert not books.busy.any()
    third = books.ask(k=2, asynchronous=True)
    again = list(replay(log, enlist.create("cs-ucb", Clients(count=6), seed=1, max_open=1000)))
    assert [recorded.tolist() for _, recorded in again] == [each.clients.tolist() for each in (first, second, third)]


def test_a_selection_may_expire_at_once() -> None:
    selector = enlist.create("cs-ucb", Clients(count=4), seed=1)
    picked = selector.ask(k=2)
    selector.expire(picked)
    selector.expire(picked)
    assert not selector.openings
    with pytest.raises(TellError, match="is finished"):
        selector.tell(picked, Feedback(latency=[1.0, 2.0]))
