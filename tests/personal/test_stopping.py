"""Stopping by patience, by the slope of a smoothing spline, and by the slope of a moving average."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.personal.stopping import EMASlope, Never, Patience, SplineSlope

NAN = float("nan")


def stops_at(options, scores, lower_is_better=False):
    """The round after which it stops, from 1; None if it never does."""
    stopper = options.start(lower_is_better)
    return next((round for round, score in enumerate(scores, 1) if stopper.update(score)), None)


def peaked(peak, rounds, noise=0.0, seed=0):
    """A curve that rises to its peak and falls, as the thesis's Figure 14."""
    round = np.arange(1, rounds + 1)
    curve = 0.7 - 0.004 * (round - peak) ** 2
    return curve + noise * np.random.default_rng(seed).normal(size=rounds)


def test_patience_by_hand():
    assert stops_at(Patience(rounds=5), [0.5, 0.6, 0.7, 0.6, 0.6, 0.6, 0.6, 0.7]) == 8
    assert stops_at(Patience(rounds=5), [0.5, 0.6, 0.7, 0.6, 0.6, 0.6, 0.6, 0.71, 0.7]) is None
    assert stops_at(Patience(rounds=2, gain=0.05), [0.5, 0.54, 0.549]) == 3
    assert stops_at(Patience(rounds=2), [0.9, 0.8, 0.8, 0.85], lower_is_better=True) == 4


def test_rounds_without_a_score_do_not_count_against_patience():
    assert stops_at(Patience(rounds=2), [0.7, NAN, NAN, NAN, 0.6, NAN, 0.6]) == 7
    assert stops_at(Patience(rounds=1), [NAN, NAN, NAN]) is None


def test_never_stops_but_knows_the_best():
    stopper = Never().start()
    improved = []
    for score in (NAN, 0.5, 0.7, 0.6, 0.7):
        assert not stopper.update(score)
        improved.append(stopper.improved)
    assert (stopper.best, stopper.best_round) == (0.7, 3)
    assert improved == [False, True, True, False, False]
    assert math.isnan(Never().start().best)


@pytest.mark.parametrize("options", [SplineSlope(), SplineSlope(smoothing=1.0), EMASlope()])
def test_slopes_stop_after_the_peak_and_not_before(options):
    stopped = stops_at(options, peaked(10, 40))
    assert 11 <= stopped <= 16
    assert stops_at(options, peaked(60, 40)) is None
    assert stops_at(options, -peaked(10, 40), lower_is_better=True) == stopped


def test_the_moving_average_by_hand():
    # averages 1, 1.5, 2.25, 1.625: over three rounds 1.5 -> 1.625 still rises; the next, 1.3125 after 2.25, falls
    options = EMASlope(window=3, weight=0.5, least=3)
    assert stops_at(options, [1.0, 2.0, 3.0, 1.0]) is None
    assert stops_at(options, [1.0, 2.0, 3.0, 1.0, 1.0]) == 5


def test_a_spline_sees_through_noise_that_patience_does_not():
    rising = 0.5 + 0.01 * np.arange(40) + 0.06 * np.random.default_rng(3).normal(size=40)
    assert stops_at(Patience(rounds=4), rising) is not None
    assert stops_at(SplineSlope(window=10, least=12), rising) is None


def test_slopes_wait_for_enough_rounds_and_for_a_curve():
    assert stops_at(SplineSlope(least=8), [7, 6, 5, 4, 3, 2, 1]) is None
    assert stops_at(SplineSlope(least=8), [8, 7, 6, 5, 4, 3, 2, 1]) == 8
    assert stops_at(SplineSlope(), [0.5] * 20) is None
    assert stops_at(SplineSlope(least=5), [5.0, NAN, 4.0, NAN, 3.0, 2.0, NAN, 1.0]) == 8
    with pytest.raises(InputError, match="least = 4"):
        SplineSlope(least=4)


@pytest.mark.parametrize("options", [Patience(rounds=3), SplineSlope(), EMASlope()])
@pytest.mark.parametrize("lower_is_better", [False, True])
def test_a_stopper_continues_bit_exactly(options, lower_is_better):
    scores = peaked(10, 30, noise=0.01)
    scores[[2, 7]] = NAN
    scores = -scores if lower_is_better else scores
    stopper = options.start(lower_is_better)
    for score in scores[:9].tolist():
        stopper.update(score)
    again = options.start(lower_is_better)
    again.restore(json.loads(json.dumps(stopper.state())))
    for score in scores[9:].tolist():
        assert again.update(score) == stopper.update(score)
        assert (again.best, again.best_round, again.improved) == (stopper.best, stopper.best_round, stopper.improved)
