"""The virtual clock."""

from __future__ import annotations

import math

import hypothesis.strategies as st
from hypothesis import given, settings

from enlist.simulation.round.clock import Event, Kind, Queue

events = st.builds(
    Event,
    st.sampled_from([0.0, 1.0, 1.5, 2.0, math.inf]) | st.floats(0, 1e9),
    st.sampled_from(list(Kind)),
    st.integers(1, 4),
    st.integers(-1, 5),
)


def test_at_equal_times_replies_come_before_crashes_before_losses_before_the_deadline() -> None:
    queue = Queue()
    for kind in (Kind.DEADLINE, Kind.LOST, Kind.ERROR, Kind.REPLY):
        queue.push(Event(5.0, kind, 1, 3))
    queue.push(Event(5.0, Kind.REPLY, 1, 2))
    queue.push(Event(5.0, Kind.REPLY, 0, 9))
    queue.push(Event(4.0, Kind.DEADLINE, 7, -1))
    found = [queue.pop() for _ in range(len(queue))]
    assert [(event.time, event.kind, event.round, event.client) for event in found] == [
        (4.0, Kind.DEADLINE, 7, -1),
        (5.0, Kind.REPLY, 0, 9),
        (5.0, Kind.REPLY, 1, 2),
        (5.0, Kind.REPLY, 1, 3),
        (5.0, Kind.ERROR, 1, 3),
        (5.0, Kind.LOST, 1, 3),
        (5.0, Kind.DEADLINE, 1, 3),
    ]


@settings(deadline=None)
@given(st.lists(events), st.randoms())
def test_events_come_out_sorted_whatever_the_order_they_went_in(given_events: list[Event], random: object) -> None:
    shuffled = list(given_events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    queue = Queue(shuffled[: len(shuffled) // 2])
    for event in shuffled[len(shuffled) // 2 :]:
        queue.push(event)
    assert list(queue) == sorted(given_events)
    assert queue.next_time == min((event.time for event in given_events), default=math.inf)
    assert [queue.pop() for _ in given_events] == sorted(given_events)
    assert len(queue) == 0
    assert queue.next_time == math.inf


@settings(deadline=None)
@given(st.lists(events))
def test_a_saved_queue_goes_on_as_it_was(given_events: list[Event]) -> None:
    again = Queue.of(Queue(given_events).arrays())
    found = [again.pop() for _ in given_events]
    assert found == sorted(given_events)
    assert all(isinstance(event.kind, Kind) and isinstance(event.client, int) for event in found)


def test_keeping_some_forgets_the_others() -> None:
    queue = Queue(Event(float(5 - index), Kind.REPLY, index % 2, index) for index in range(5))
    queue.keep(event for event in queue if event.round == 1)
    assert [event.client for event in queue] == [3, 1]
    assert queue.pop().client == 3
