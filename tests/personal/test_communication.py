"""Communication counts of the thesis, and of rounds as they were really played."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.personal.arms import Arms
from enlist.personal.communication import (
    combination_units,
    cost_table,
    expected_units,
    extreme_units,
    fedavg_units,
    units,
)
from enlist.personal.decision import Play

SIX = [str(number) for number in range(6)]


def play(*arms, extreme=False):
    return Play(np.array(arms, dtype=np.int64), extreme)


def test_a_pair_costs_six():
    # the model to two workers, two updates back, the aggregate to the target, its reward
    assert combination_units(2) == 2 + 2 + 1 + 1
    arms = Arms.pairs(SIX, 2)
    assert {units(arms, play(arm)) for arm in range(5)} == {6}
    assert expected_units("pairs", 6) == 6


@pytest.mark.parametrize("workers", [2, 4, 6, 9])
def test_all_combinations_cost_k_plus_three_on_average(workers):
    arms = Arms.every(SIX + ["6", "7", "8"][: max(workers - 6, 0)] if workers > 6 else SIX[:workers], 0)
    costs = [units(arms, play(arm)) for arm in range(len(arms))]
    assert costs == [2 * int(size) + 2 for size in arms.sizes]
    assert np.mean(costs) == workers + 3 == expected_units("all", workers)


@pytest.mark.parametrize("workers", [2, 4, 6, 15])
def test_extreme_explore(workers):
    pairs = Arms.pairs([str(number) for number in range(workers)], 0)
    everything = play(*range(workers - 1), extreme=True)
    assert units(pairs, everything, delayed=True) == 2 * workers == expected_units("extreme-delayed", workers)
    assert units(pairs, everything) == 2 * workers + 2 == expected_units("extreme", workers)
    one_by_one = 2 * workers + 2 * (workers - 1)
    assert units(pairs, everything, bundled=False) == one_by_one == expected_units("extreme-one-by-one", workers)


def test_delayed_extreme_explore_costs_the_same_for_pairs_and_for_all_combinations():
    pairs, every = Arms.pairs(SIX, 0), Arms.every(SIX, 0)
    costs = {units(arms, play(*range(len(arms)), extreme=True), delayed=True) for arms in (pairs, every)}
    assert costs == {12}


def test_a_removed_pair_saves_two_messages_a_round():
    arms = Arms.pairs(SIX, 0)
    whole = units(arms, play(0, 1, 2, 3, 4, extreme=True), delayed=True)
    assert units(arms, play(0, 1, 2, 4, extreme=True), delayed=True) == whole - 2
    assert units(arms, play(4, extreme=True), delayed=True) == 4


def test_the_target_alone_and_lost_replies():
    arms = Arms.pairs(SIX, 0)
    assert units(arms, play()) == units(Arms.every(SIX, 0), play(0)) == 4
    assert units(arms, play(0), lost=1) == 5
    assert units(arms, play(0, 1, extreme=True), delayed=True, lost=2) == 4


def test_six_workers_in_the_thesis():
    # twice the messages of the pairs rule, five times as many combinations evaluated
    rows = {row["kind"]: row for row in cost_table(6)}
    assert rows["extreme-delayed"]["messages"] == 2 * rows["pairs"]["messages"] == 12
    assert rows["extreme-delayed"]["combinations"] == 5 * rows["pairs"]["combinations"]
    assert rows["extreme-delayed"]["messages_per_combination"] < rows["pairs"]["messages_per_combination"] / 2
    assert rows["all"]["messages"] == 9
    assert rows["fedavg"]["messages"] == fedavg_units(6) == 12


def test_what_cannot_be_right_is_refused():
    with pytest.raises(InputError, match="members is 0"):
        combination_units(0)
    with pytest.raises(InputError, match="Did you mean 'pairs'"):
        expected_units("pair", 4)
    with pytest.raises(InputError, match="workers is 0"):
        extreme_units(0, 3)
