"""Rewards by hand: type 1, type 2, running quantile, relative gain."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist.errors import InputError
from enlist.personal.rewards import Binary, Increment, Quantile, Relative, increase, pilot_threshold

NAN = float("nan")


def test_an_increase_is_better_whatever_the_score():
    assert increase(0.62, 0.70) == pytest.approx(0.08)
    assert increase(0.62, 0.70, lower_is_better=True) == pytest.approx(-0.08)
    assert increase(0.5, 0.5) == 0.0


def test_increment_is_the_increase():
    assert Increment().start().rewards([0.03, -0.2, 0.0], reference=0.6).tolist() == [0.03, -0.2, 0.0]


def test_binary_is_strictly_above_the_threshold():
    meter = Binary(threshold=0.025).start()
    assert meter.rewards([0.0251, 0.025, 0.0249, -0.1], reference=0.6).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert Binary(threshold=0.05).start().rewards([0.04], reference=0.6).tolist() == [0.0]


def test_quantile_needs_five_increases_and_then_goes_by_all_earlier_ones():
    meter = Quantile(q=0.5, minimum=5, threshold=0.025).start()
    assert meter.rewards([0.03, 0.02], reference=0.6).tolist() == [1.0, 0.0]  # fixed threshold
    assert meter.rewards([0.06, 0.04], reference=0.6).tolist() == [1.0, 1.0]
    assert meter.rewards([0.05], reference=0.6).tolist() == [1.0]
    # now 0.02 0.03 0.04 0.05 0.06 are known: the median is 0.04, and the increases of this round do not move it
    assert meter.rewards([0.041, 0.04, 0.9], reference=0.6).tolist() == [1.0, 0.0, 1.0]
    # 0.02 0.03 0.04 0.04 0.041 0.05 0.06 0.9: median 0.0405
    assert meter.rewards([0.0405, 0.0406], reference=0.6).tolist() == [0.0, 1.0]


def test_relative_gain_favours_rounds_with_low_scores():
    meter = Relative().start()
    early, late = meter.rewards([0.05], reference=0.5), meter.rewards([0.05], reference=0.8)
    assert (early[0], late[0]) == (pytest.approx(0.1), pytest.approx(0.0625))
    assert np.isnan(meter.rewards([0.05], reference=0.0)).all()


@pytest.mark.parametrize("reward", [Increment(), Binary(), Quantile(minimum=1), Relative()])
def test_what_is_not_credited_earns_nothing_and_moves_nothing(reward):
    meter = reward.start()
    rewards = meter.rewards([NAN, 0.1, NAN], reference=0.6)
    assert np.isnan(rewards).tolist() == [True, False, True]
    assert meter.past.seen == 1


@given(st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=4), min_size=1, max_size=20), st.integers(0, 19))
def test_a_meter_continues_bit_exactly(rounds, cut):
    meter, again = Quantile(minimum=3).start(), Quantile(minimum=3).start()
    for increases in rounds[:cut]:
        meter.rewards(increases, reference=0.6)
    again.restore(json.loads(json.dumps(meter.state())))
    for increases in rounds[cut:]:
        assert meter.rewards(increases, 0.6).tolist() == again.rewards(increases, 0.6).tolist()


def test_the_threshold_from_a_pilot_run():
    assert pilot_threshold([[0.01, NAN], [0.03, 0.05]]) == 0.03
    assert pilot_threshold([0.0, 0.1], q=0.25) == pytest.approx(0.025)
    with pytest.raises(InputError, match="no increase"):
        pilot_threshold([NAN])
    with pytest.raises(InputError, match=r"from 0\.0 to 1\.0"):
        pilot_threshold([0.1], q=2.0)


def test_what_a_score_is_compared_with_is_an_option():
    assert Binary().against == "local"
    assert Increment(against="previous").against == "previous"
    with pytest.raises(InputError, match="'local' or 'previous'"):
        Increment(against="best")
    assert [reward.binary for reward in (Increment, Binary, Quantile, Relative)] == [False, True, True, False]
