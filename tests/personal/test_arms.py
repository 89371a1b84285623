"""Arms: which combinations there are, what they are called, and which are allowed when somebody is away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.errors import InputError, UnknownNameError
from enlist.personal.arms import Arms

FOUR = ["1", "2", "3", "4"]


def test_pairs_are_the_thesiss_three_combinations():
    arms = Arms.pairs(FOUR, "2")
    assert arms.codes == ("1100", "0110", "0101")
    assert arms.labels == ("1+2", "2+3", "2+4")
    assert arms.target == 1
    assert arms.alone is None
    assert arms.sizes.tolist() == [2, 2, 2]


def test_the_target_alone_can_be_an_arm():
    arms = Arms.pairs(FOUR, 1, alone=True)
    assert arms.codes == ("0100", "1100", "0110", "0101")
    assert arms.alone == 0


@given(st.integers(2, 8), st.data())
def test_every_combination_is_there_once(workers, data):
    target = data.draw(st.integers(0, workers - 1))
    arms = Arms.every([f"w{number}" for number in range(workers)], target)
    assert len(arms) == len(set(arms.codes)) == 2 ** (workers - 1)
    assert arms.members[:, target].all()
    assert arms.code(0).count("1") == 1
    assert arms.code(len(arms) - 1) == "1" * workers
    assert arms.sizes.mean() == (workers - 1) / 2 + 1


def test_every_combination_stops_at_fifteen_others():
    assert len(Arms.every([str(number) for number in range(16)], 3)) == 2**15
    with pytest.raises(InputError, match=r"16 other workers are 2\^16; at most 15"):
        Arms.every([str(number) for number in range(17)], 3)


def test_a_list_takes_names_and_positions_with_or_without_the_target():
    arms = Arms.listed(FOUR, "2", [["3"], [0, 3], ["2"], ["1", "2", "3", "4"]])
    assert arms.codes == ("0110", "1101", "0100", "1111")
    assert arms == Arms.coded(FOUR, "2", arms.codes)
    assert arms != Arms.pairs(FOUR, "2")


def test_positions_of_combinations():
    arms = Arms.pairs(FOUR, "2")
    assert arms.position(["3"]) == arms.position([1, 2]) == 1
    assert arms.position(["1", "3"]) is None
    assert arms.of(2).tolist() == [1, 3]


def test_whoever_is_away_masks_the_arms_it_is_in():
    arms = Arms.every(FOUR, "2")
    away = np.array([True, True, False, True])
    assert [arms.code(arm) for arm in np.flatnonzero(arms.allowed(away))] == ["0100", "1100", "0101", "1101"]
    assert arms.allowed(np.ones(4, dtype=bool)).all()
    assert not arms.allowed([True, False, True, True]).any()  # without the target nothing can be played
    with pytest.raises(InputError, match="each of 4 workers"):
        arms.allowed([True])


def test_more_arms_keep_the_positions_of_the_present_ones():
    arms = Arms.pairs(FOUR, "2").with_more([["1", "3"], ["3"], ["1", "3", "4"]])
    assert arms.codes == ("1100", "0110", "0101", "1110", "1111")


def test_values_of_another_target_go_to_the_same_workers():
    mine, other = Arms.pairs(FOUR, "2", alone=True), Arms.pairs(FOUR, "3")
    values = mine.matching(other, [0.1, 0.2, 0.3])  # 1+3, 2+3, 3+4
    assert np.array_equal(values, [np.nan, np.nan, 0.2, np.nan], equal_nan=True)
    assert mine.matching(mine, [1.0, 2.0, 3.0, 4.0]).tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(InputError, match="each of 3 arms"):
        mine.matching(other, [0.1])


def test_what_cannot_be_right_is_refused():
    with pytest.raises(UnknownNameError, match="no worker is called '5'"):
        Arms.pairs(FOUR, "5")
    with pytest.raises(InputError, match="worker 4 does not exist"):
        Arms.pairs(FOUR, 4)
    with pytest.raises(InputError, match=r"combination 2\+3 is listed twice"):
        Arms.listed(FOUR, "2", [["3"], ["2", "3"]])
    with pytest.raises(InputError, match="two workers are called 'a'"):
        Arms.pairs(["a", "a"], 0)
    with pytest.raises(InputError, match="the target and one other"):
        Arms.pairs(["a"], 0)
    with pytest.raises(InputError, match="a single name"):
        Arms.listed(FOUR, "2", ["31"])
    with pytest.raises(InputError, match="'011'"):
        Arms.coded(FOUR, "2", ["011"])
    with pytest.raises(InputError, match="leaves out the target"):
        Arms.coded(FOUR, "2", ["1011"])
    with pytest.raises(InputError, match="one row of booleans"):
        Arms(np.ones((1, 3), dtype=bool), 0, ("a", "b"))


def test_members_cannot_be_changed():
    arms = Arms.pairs(FOUR, "2")
    with pytest.raises(ValueError, match="read-only"):
        arms.members[0, 0] = False
