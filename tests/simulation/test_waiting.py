"""One round on the clock: hand-computed schedules, and a brute-force oracle."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from enlist.records import Outcome, Selection
from enlist.simulation.round.clock import Event, Kind, Queue
from enlist.simulation.round.waiting import IDLE, Schedule, wait

REPLY, ERROR, LOST = Kind.REPLY, Kind.ERROR, Kind.LOST


def schedule(times: list[float], kinds: list[Kind]) -> Schedule:
    zeros = np.zeros(len(times))
    ones = np.ones(len(times))
    return Schedule(zeros, zeros, zeros, ones, np.array(times, dtype=float), kinds)


def waited(
    times: list[float], kinds: list[Kind], deadline: float = math.inf, k: int = 99, now: float = 0.0, round: int = 1,
    queue: Queue | None = None,
) -> Any:  # fmt: skip
    clients = np.arange(len(times)) * 10
    picked = Selection(round, clients, deadline=deadline, now=now)
    return wait(
        queue if queue is not None else Queue(), picked, schedule(times, kinds), now, lambda a, late: len(a) >= k
    )


def names(outcome: Any) -> list[str]:
    return [Outcome(int(code)).name.lower() for code in outcome]


def test_a_client_replies_unless_it_crashes_or_goes_offline_before() -> None:
    found = Schedule.of(
        now=100.0,
        download=np.array([1.0, 1.0, 1.0, 1.0, 1.0]),
        compute=np.array([6.0, 6.0, 6.0, 6.0, 6.0]),
        upload=np.array([3.0, 3.0, 3.0, 3.0, 3.0]),
        share=np.ones(5),
        online_until=np.array([math.inf, 105.0, math.inf, 103.0, 110.0]),
        crashed=np.array([False, False, True, True, False]),
        fraction=np.array([1.0, 1.0, 0.25, 0.75, 1.0]),
    )
    assert found.kinds == [REPLY, LOST, ERROR, LOST, REPLY]  # the last is done in the moment it goes offline
    assert found.times.tolist() == [110.0, 105.0, 102.5, 103.0, 110.0]
    assert found.latency.tolist() == [10.0] * 5


def test_who_does_a_share_of_the_work_computes_for_that_share_of_the_time() -> None:
    three = np.ones(3)
    share = np.array([1.0, 0.5, 0.25])
    forever, crashed = np.full(3, math.inf), np.array([False, False, True])
    found = Schedule.of(10.0, three, 8 * three, 2 * three, share, forever, crashed, fraction=0.5 * three)
    assert found.compute.tolist() == [8.0, 4.0, 2.0]
    assert found.latency.tolist() == [11.0, 7.0, 5.0]
    assert found.times.tolist() == [21.0, 17.0, 12.5]


def test_without_a_deadline_the_round_ends_with_the_last_reply() -> None:
    found = waited([3.0, 9.0, 5.0], [REPLY] * 3, now=0.0)
    assert (found.ended, names(found.outcome), found.arrivals.tolist()) == (9.0, ["completed"] * 3, [0, 20, 10])


def test_the_round_ends_at_the_kth_reply_and_the_others_are_late() -> None:
    queue = Queue()
    found = waited([3.0, 9.0, 5.0, 4.0], [REPLY] * 4, k=2, deadline=20.0, queue=queue)
    assert found.ended == 4.0
    assert names(found.outcome) == ["completed", "late", "late", "completed"]
    assert found.arrivals.tolist() == [0, 30]
    assert [(event.kind, event.client) for event in queue] == [(REPLY, 20), (REPLY, 10)]  # and no deadline is left


def test_with_a_deadline_the_server_waits_in_vain_for_one_that_went_offline() -> None:
    assert waited([3.0, 2.0], [REPLY, LOST], deadline=50.0).ended == 50.0
    assert waited([3.0, 2.0], [REPLY, LOST], deadline=math.inf).ended == 3.0
    assert waited([3.0, 7.0], [REPLY, LOST], deadline=math.inf).ended == 7.0
    assert names(waited([3.0, 2.0], [REPLY, LOST], deadline=50.0).outcome) == ["completed", "dropped"]


def test_one_that_goes_offline_after_the_end_of_the_round_is_late_not_dropped() -> None:
    found = waited([3.0, 8.0, 9.0], [REPLY, LOST, ERROR], k=1, deadline=50.0)
    assert names(found.outcome) == ["completed", "late", "late"]


def test_a_crash_is_heard_of_at_once() -> None:
    found = waited([3.0, 2.0], [REPLY, ERROR], deadline=50.0)
    assert (found.ended, names(found.outcome)) == (3.0, ["completed", "failed"])
    found = waited([3.0, 4.0], [ERROR, ERROR], deadline=50.0)
    assert (found.ended, len(found.arrivals)) == (4.0, 0)


def test_a_reply_at_the_very_deadline_counts() -> None:
    found = waited([107.0, 107.5], [REPLY, REPLY], deadline=7.0, now=100.0)
    assert (found.ended, names(found.outcome)) == (107.0, ["completed", "late"])


def test_a_round_for_nobody_takes_an_idle_while() -> None:
    assert waited([], [], now=10.0).ended == 10.0 + IDLE
    assert waited([], [], now=10.0, deadline=5.0).ended == 15.0


def test_late_replies_of_earlier_rounds_come_out_meanwhile() -> None:
    queue = Queue()
    waited([3.0, 30.0, 8.0, 11.0], [REPLY, REPLY, REPLY, LOST], k=1, queue=queue)
    found = waited([7.0, 12.0], [REPLY, REPLY], now=3.0, round=2, queue=queue)
    assert found.ended == 12.0
    assert [(event.time, event.round, event.client) for event in found.stale] == [(8.0, 1, 20)]
    assert list(queue) == [Event(30.0, REPLY, 1, 10)]


def oracle(times: list[float], kinds: list[Kind], deadline: float, k: int) -> tuple[float, list[str]]:
    """What the server knows at every moment something happens; it stops at the first at which it may."""
    told = {REPLY: "completed", ERROR: "failed", LOST: "dropped"}
    order = sorted(range(len(times)), key=lambda i: (times[i], kinds[i], i))
    for count in range(1, len(order) + 1):
        happened, moment = order[:count], times[order[count - 1]]
        if moment > deadline:
            break
        replies = sum(kinds[i] == REPLY for i in happened)
        silent = [i for i in range(len(times)) if i not in happened or (kinds[i] == LOST and deadline < math.inf)]
        if replies >= k or not silent:
            return moment, [told[kinds[i]] if i in happened else "late" for i in range(len(times))]
    return deadline, [told[kinds[i]] if times[i] <= deadline else "late" for i in range(len(times))]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from([REPLY, REPLY, ERROR, LOST])), min_size=1, max_size=7),
    st.sampled_from([math.inf, 3.0, 6.0, 9.0, 20.0]),
    st.integers(1, 8),
)
def test_waiting_equals_the_oracle(clients: list[tuple[int, Kind]], deadline: float, k: int) -> None:
    times, kinds = [float(time) for time, _ in clients], [kind for _, kind in clients]
    queue = Queue()
    found = waited(times, kinds, deadline, k, queue=queue)
    expected = oracle(times, kinds, deadline, k)
    assert (found.ended, names(found.outcome)) == expected
    replied = [i for i in range(len(times)) if expected[1][i] == "completed"]
    assert found.arrivals.tolist() == [10 * i for i in sorted(replied, key=lambda i: (times[i], i))]
    late = [10 * i for i in range(len(times)) if expected[1][i] == "late"]
    assert sorted(event.client for event in queue) == late


@pytest.mark.parametrize("deadline", [math.inf, 4.0])
def test_arrivals_keep_the_order_of_time_then_client(deadline: float) -> None:
    found = waited([2.0, 1.0, 2.0, 1.0], [REPLY] * 4, deadline=deadline)
    assert found.arrivals.tolist() == [10, 30, 0, 20]
