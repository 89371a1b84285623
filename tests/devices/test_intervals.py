"""Interval tables against a brute-force walk over a grid of cells."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enlist._internal.typing import BoolArray
from enlist.devices import Intervals
from enlist.errors import InputError

CELL = 0.25
"""Sessions of these tests begin and end on multiples of this, so a cell is online as a whole or not at all."""


@dataclasses.dataclass
class Oracle:
    """One boolean per client and cell of its period; every question is answered by walking."""

    cells: list[BoolArray]

    def state(self, client: int, cell: int) -> bool:
        return bool(self.cells[client][cell % len(self.cells[client])])

    def online(self, now: float) -> list[bool]:
        return [self.state(client, int(now // CELL)) for client in range(len(self.cells))]

    def until(self, client: int, now: float) -> float:
        cell = int(now // CELL)
        if not self.state(client, cell):
            return now
        if self.cells[client].all():
            return math.inf
        while self.state(client, cell):
            cell += 1
        return cell * CELL

    def next_online(self, now: float) -> float:
        if any(self.online(now)):
            return now
        if not any(cells.any() for cells in self.cells):
            return math.inf
        cell = int(now // CELL)
        while not any(self.state(client, cell) for client in range(len(self.cells))):
            cell += 1
        return cell * CELL

    def share(self, client: int, start: float, end: float) -> float:
        cells = range(int(start // CELL), int(end // CELL) + 1)
        inside = [max(min((cell + 1) * CELL, end) - max(cell * CELL, start), 0.0) for cell in cells]
        return sum(part for part, cell in zip(inside, cells, strict=True) if self.state(client, cell)) / (end - start)


Rows = list[tuple[int, int, int]]


def built(periods: list[int], rows: Rows) -> tuple[Intervals, Oracle]:
    """Both from the same rows (client, first cell, number of cells)."""
    rows = [(client % len(periods), first, length) for client, first, length in rows]
    cells = [np.zeros(period, dtype=bool) for period in periods]
    for client, first, length in rows:
        cells[client][np.arange(first, first + length) % periods[client]] = True
    clients, first, length = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    table = Intervals(clients, first * CELL, (first + length) * CELL, np.array(periods) * CELL)
    return table, Oracle(cells)


tables = st.tuples(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(0, 14)), max_size=12),
)
moments = st.one_of(
    st.integers(0, 400).map(lambda eighth: eighth * CELL / 2),
    st.integers(0, 2**38).map(lambda eighth: eighth * CELL / 2),
    st.floats(0.0, 100.0),
)


@settings(max_examples=400, deadline=None)
@given(tables, moments)
@example(([4], [(0, 0, 1), (0, 1, 3)]), 7.0)
@example(([4], [(0, 3, 2)]), 0.75)
@example(([4, 4], [(0, 0, 4), (1, 0, 1), (1, 3, 1)]), 1.0 + 2**35)
@example(([3, 4], []), 0.0)
def test_queries_equal_a_walk(table: tuple[list[int], Rows], now: float) -> None:
    intervals, oracle = built(*table)
    count = len(table[0])
    assert intervals.online(now).tolist() == oracle.online(now)
    assert intervals.until(np.arange(count), now).tolist() == [oracle.until(client, now) for client in range(count)]
    assert intervals.next_online(now) == oracle.next_online(now)
    assert intervals.uptime.tolist() == pytest.approx([cells.mean() for cells in oracle.cells])


@settings(max_examples=200, deadline=None)
@given(tables, moments, st.floats(0.01, 30.0))
def test_shares_equal_a_walk(table: tuple[list[int], Rows], start: float, length: float) -> None:
    intervals, oracle = built(*table)
    end = start + length
    expected = [oracle.share(client, start, end) for client in range(len(table[0]))]
    assert intervals.share(start, end).tolist() == pytest.approx(expected, abs=1e-6 if start > 1e6 else 1e-9)
    assert intervals.share(start, start).tolist() == [float(up) for up in oracle.online(start)]


@settings(max_examples=200, deadline=None)
@given(st.floats(0.0, 1e6), st.floats(1e-3, 1e6), st.integers(0, 1000))
def test_any_start_is_online_and_any_end_is_offline(start: float, length: float, periods: int) -> None:
    end = start + length
    table = Intervals(np.array([0]), np.array([start]), np.array([end]), np.array([4_000_000.0]))
    assert table.online(start)[0]
    assert not table.online(end)[0]
    if start > 0.001:
        assert not table.online(start - 0.0001)[0]
    assert table.online(end - 0.0001)[0]
    later = start + periods * 4_000_000.0
    stop = table.until(np.array([0]), later)[0]
    assert stop == pytest.approx(end + periods * 4_000_000.0, abs=1e-4)
    assert not table.online(stop)[0]
    begin = table.next_online(stop)
    assert begin == pytest.approx(start + (periods + 1) * 4_000_000.0, abs=1e-4)
    assert table.online(begin)[0]


def test_a_session_across_the_seam_is_one_session() -> None:
    table = Intervals(np.array([0, 0]), np.array([90.0, 0.0]), np.array([100.0, 5.0]), np.array([100.0]))
    assert table.until(np.array([0]), 95.0).tolist() == [105.0]
    assert table.until(np.array([0]), 3.0).tolist() == [5.0]
    assert table.until(np.array([0]), 100.0).tolist() == [105.0]
    assert table.online(99.9).tolist() == table.online(100.0).tolist() == [True]


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    clients, starts = rng.integers(50, size=400), rng.uniform(0, 1000, 400)
    ends = starts + rng.exponential(20, 400)
    order = rng.permutation(400)
    period = np.full(50, 1000.0)
    one, two = Intervals(clients, starts, ends, period), Intervals(clients[order], starts[order], ends[order], period)
    for now in rng.uniform(0, 5000, 50):
        assert (one.online(now) == two.online(now)).all()
        assert (one.until(np.arange(50), now) == two.until(np.arange(50), now)).all()


def test_clients_may_be_asked_in_any_order_and_twice() -> None:
    table = Intervals(np.array([0, 1, 2]), np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0, 7.0]), np.full(3, 10.0))
    assert table.until(np.array([2, 0, 2, 1]), 3.0).tolist() == [7.0, 5.0, 7.0, 6.0]
    assert table.until(np.array([], dtype=np.int64), 3.0).shape == (0,)


def test_queries_do_not_change_the_table() -> None:
    table = Intervals(np.array([0]), np.array([1.0]), np.array([2.0]), np.array([10.0, 20.0]))
    table.online(1.5)[:] = False
    assert table.online(1.5).tolist() == [True, False]
    assert table.uptime.tolist() == table.uptime.tolist() == [0.1, 0.0]


@pytest.mark.parametrize(
    ("rows", "period", "message"),
    [
        (([0], [5.0], [3.0]), [10.0], "a session from 5.0 to 3.0"),
        (([0], [-1.0], [3.0]), [10.0], "a session from -1.0 to 3.0"),
        (([0], [0.0], [math.nan]), [10.0], "a session from 0.0 to nan"),
        (([1], [0.0], [3.0]), [10.0], "allowed are 0 to 0"),
        (([0], [0.0], [3.0]), [0.0], "a period is 0.0"),
        (([0, 0], [0.0], [3.0]), [1.0], "one each per row"),
        (([0], [0.0], [3.0]), [1e15], "shorten the period"),
        (([0], [0.0], [1e15]), [10.0], "times must stay below"),
        (([], [], []), [], "clients is 0"),
    ],
)
def test_mistakes_are_named(
    rows: tuple[list[int], list[float], list[float]], period: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Intervals(*(np.array(column) for column in rows), np.array(period))


@pytest.mark.parametrize("now", [-1.0, math.inf, math.nan])
def test_moments_are_checked(now: float) -> None:
    table = Intervals(np.array([0]), np.array([1.0]), np.array([2.0]), np.array([10.0]))
    for ask in (
        table.online,
        table.next_online,
        lambda now: table.until(np.array([0]), now),
        lambda now: table.share(0, now),
    ):
        with pytest.raises(InputError, match="virtual time"):
            ask(now)
    with pytest.raises(InputError, match="give start <= end"):
        table.share(3.0, 2.0)
