"""FedSUV: both models, the rectangles and the three steps of a round worked out by hand.

Two clients with one feature at 1 and 3 stand at z = -1 and 1. Validity: with the intercept their rows are (-1, 1) and
(1, 1), of length sqrt 2; these are orthogonal, so each is a regression of its own: after m outcomes with s successes
the mean is 2s/(1+2m), the width sqrt(2/(1+2m)). Utility: their distance 2 is also the median distance, so the kernel
between them is exp(-2^2/(2 2^2)) = e^-.5 = .60653.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits import ExactGP, FeatureGP
from enlist.bandits.validity import Validity
from enlist.errors import InputError, MissingColumnError, PopulationError
from enlist.selectors import fedsuv as module

A = 2.35810
COMPLETED, LATE, DROPPED, FAILED, ARRIVED = Outcome


def pair(**settings):
    return line(2, num_examples=[10, 20], **settings)


def line(count, num_examples=None, **settings):
    """Clients at 1, 3, 5, ... of a feature that is no magnitude; the rule is the printed one, with two criteria."""
    features = 1.0 + 2.0 * np.arange(count)[:, None]
    clients = Clients(features=features, feature_names=["age"], num_examples=num_examples)
    apart = {"coupling": "none", "late_utility": None, "ridge": 1.0}
    return enlist.create("fedsuv", clients, seed=1, **{"drift": 0.0, **apart, **settings})


def tell(selector, picked, utility=None, **columns):
    """Report utilities as n * 1 * gain."""
    if utility is not None:
        held = 1.0 if selector.clients.num_examples is None else selector.clients.num_examples[picked.clients]
        gain = np.asarray(utility, float) / held
        columns = {"loss_rms": np.ones(len(gain)), "accuracy_gain": gain, **columns}
    selector.tell(picked, Feedback(**columns))


# ------------------------------------------------------------------------------------------------------------- validity


@pytest.mark.parametrize(("delta", "a"), [(0.1, 2.36), (0.05, 2.48), (0.01, 2.73)])
def test_the_constant_of_the_width(delta, a):
    clients = Clients(features=[[1.0], [3.0]], feature_names=["age"])
    validity = Validity.of(clients, ridge=1.0)
    mean, width = validity.interval(np.array([[1.0, 0.0], [0.0, 0.5]]), delta)
    assert mean.tolist() == [0, 0]
    assert width.tolist() == pytest.approx([a, a / 2], abs=0.005)


def test_validity_by_hand():
    # 0 always drops out, 1 always finishes. After 12 rounds: means 0 and 24/25, half widths a sqrt(2/25) = .66697; a
    # probability, so what is shown is cut to [0, 1]; the preset shows it as it is.
    selector = pair(initial_rounds=0)
    for _ in range(12):
        tell(selector, selector.ask(k=2, deadline=10.0), [0.1, 0.1], outcome=[DROPPED, COMPLETED])
    selector.ask([], k=1)
    state = selector.state
    np.testing.assert_allclose(state.validity.model.precision, 25 * np.eye(2), atol=1e-9)
    np.testing.assert_allclose(state.validity_low, [-0.66697, 0.96 - 0.66697], atol=1e-5)
    np.testing.assert_allclose(state.validity_high, [0.66697, 0.96 + 0.66697], atol=1e-5)
    np.testing.assert_allclose(selector.summary()["validity"], [0.66697, 1.0], atol=1e-5)
    selector.settings = dataclasses.replace(selector.settings, clip=False)
    np.testing.assert_allclose(selector.summary()["validity"], [0.66697, 1.62697], atol=1e-5)


def test_magnitudes_are_taken_as_logarithms():
    # log1p of 0, e - 1, e^2 - 1 is 0, 1, 2: z = -1.2247, 0, 1.2247
    features = np.array([[0.0], [np.e - 1], [np.e**2 - 1]])
    expected = np.array([[-np.sqrt(1.5), 1], [0, 1], [np.sqrt(1.5), 1]])
    for name in ("CPU FLOPS", "cpu cores", "GPU count", "number of samples"):
        validity = Validity.of(Clients(features=features, feature_names=[name]), ridge=1.0)
        np.testing.assert_allclose(validity.rows(features), expected, atol=1e-12)
    plain = Validity.of(Clients(features=features, feature_names=["age"]), ridge=1.0)
    assert abs(plain.rows(features)[1, 0]) > 0.1


def test_one_outlier_does_not_shrink_the_others():
    # 99 clients at 0 and 1, half each but one more at 1, and one at 1000. Its z is about sqrt 99 = 9.95, that of the
    # others about -.1: rows of length about 1, so before anything is known everybody may be valid. Divided by the
    # longest row, 10, their upper validity would be .236: certainly late, although nobody was selected.
    features = np.array([*[0.0] * 49, *[1.0] * 50, 1000.0])[:, None]
    validity = Validity.of(Clients(features=features, feature_names=["age"]), ridge=1.0)
    mean, width = validity.interval(validity.rows(features), 0.1)
    assert not mean.any()
    np.testing.assert_allclose(width[:99], A * np.sqrt(1.0 + 0.1**2), rtol=1e-3)
    assert width[99] == pytest.approx(A * 10.0, rel=1e-3)


def test_weights_are_as_small_as_the_width_assumes():
    # Of 16 clients with two independent features the 12 in time are those with a 1 in either: p = 3/4. The regression
    # on (z1, z2, 1) has slopes 1/4, 1/4 and intercept 3/4: |theta|^2 = 1/8 + 9/16 = .6875 <= p.
    grid = np.array([[one, other] for one in (0.0, 1.0) for other in (0.0, 1.0)] * 4)
    validity = Validity.of(Clients(features=grid, feature_names=["age", "place"]), ridge=1e-9)
    rows = validity.rows(grid)
    validity.model.update(rows, grid.max(axis=1))
    np.testing.assert_allclose(validity.model.theta, [0.25, 0.25, 0.75], atol=1e-6)


def test_an_uninformative_feature():
    validity = Validity.of(Clients(features=[[7.0], [7.0]]), ridge=1.0)
    np.testing.assert_array_equal(validity.rows(np.array([[7.0]])), [[0.0, 1.0]])


@pytest.mark.parametrize(("outcome", "latency"), [(LATE, 12.0), (DROPPED, np.nan), (FAILED, 3.0)])
def test_invalid_clients_teach_validity_only(outcome, latency):
    # x x' is added and nothing to b; no utility, although loss and gain are there.
    selector = pair()
    picked = selector.ask([1], k=1, deadline=10.0)
    tell(selector, picked, [5.0], outcome=[outcome], latency=[latency])
    state = selector.state
    np.testing.assert_allclose(state.validity.model.precision, [[2, 1], [1, 2]])
    assert state.validity.model.moment.tolist() == [0, 0]
    assert state.utilities.seen == 0
    assert state.utility.mean.tolist() == [0, 0]
    assert state.observations.tolist() == [0, 0]


@pytest.mark.parametrize(("latency", "valid"), [(9.0, 1.0), (10.0, 1.0), (12.0, 0.0)])
def test_a_client_cut_off_teaches_nothing_until_it_arrives(latency, valid):
    selector = pair()
    picked = selector.ask([1], k=1, deadline=10.0)
    tell(selector, picked, [5.0], outcome=[LATE], latency=[4.0], censored=[True])
    np.testing.assert_array_equal(selector.state.validity.model.precision, np.eye(2))
    assert selector.state.utilities.seen == 0
    tell(selector, picked, [5.0], outcome=[ARRIVED], latency=[latency])
    np.testing.assert_allclose(selector.state.validity.model.precision, [[2, 1], [1, 2]])
    np.testing.assert_allclose(selector.state.validity.model.moment, np.full(2, valid))
    if valid:
        assert selector.state.utilities.values().tolist() == [5.0]
        assert selector.state.utility.mean[1] == pytest.approx(1 / 1.1)


@pytest.mark.parametrize("censored", [True, False])
def test_a_client_past_the_deadline_counts_once_even_if_it_arrives(censored):
    # One selection is one outcome: H = I + x x', b = 0, whether the server waited out the deadline or saw 12 s.
    selector = pair()
    picked = selector.ask([1], k=1, deadline=10.0)
    tell(selector, picked, [5.0], outcome=[LATE], latency=[10.0 if censored else 12.0], censored=[censored])
    tell(selector, picked, [5.0], outcome=[ARRIVED], latency=[12.0])
    assert selector.state.validity.model.moment.tolist() == [0, 0]
    np.testing.assert_allclose(selector.state.validity.model.precision, [[2, 1], [1, 2]])


# -------------------------------------------------------------------------------------------------------------- utility


def test_utility_by_hand():
    # n * loss * max(gain, 0): 10 * 1 * .1 = 1, 20 * 2 * .2 = 8, 0 for the negative gain. The 95 % quantile of 0, 1, 8
    # is 1 + .9 * 7 = 7.3: scores 1/7.3, 1, 0.
    selector = line(3, num_examples=[10, 20, 30])
    picked = selector.ask(k=3)
    selector.tell(picked, Feedback(loss_rms=[1.0, 2.0, 1.0], accuracy_gain=[0.1, 0.2, -0.3]))
    state = selector.state
    np.testing.assert_allclose(state.utilities.values(), [1, 8, 0])
    scores = np.array([1 / 7.3, 1, 0])
    np.testing.assert_allclose(state.scores.values(), scores)
    # mean .378995, deviation .442663: what the Gaussian process sees is z-scored
    np.testing.assert_allclose(state.score_mean, (scores - 0.378995) / 0.442663, atol=1e-5)
    assert state.observations.tolist() == [1, 1, 1]
    # The quantile runs on: with 73 it is that of 0, 1, 8, 73, at .95 * 3 = 2.85: 8 + .85 * 65 = 63.25.
    picked = selector.ask([0], k=1)
    selector.tell(picked, Feedback(loss_rms=[7.3], accuracy_gain=[1.0]))
    assert state.scores.values()[3] == 1.0
    picked = selector.ask([1], k=1)
    selector.tell(picked, Feedback(loss_rms=[1.0], accuracy_gain=[0.5], num_examples=[2.0]))  # 1, as reported
    # 0, 1, 1, 8, 73 at .95 * 4 = 3.8: 8 + .8 * 65 = 60
    assert state.scores.values()[4] == pytest.approx(1 / 60)


ZERO = {"late_utility": 0.0}


@pytest.mark.parametrize(("outcome", "latency"), [(LATE, 12.0), (DROPPED, np.nan), (FAILED, 3.0)])
def test_who_is_not_in_time_has_brought_nothing(outcome, latency):
    # Utilities 4 and 0: the 95 % quantile is .95 * 4 = 3.8, scores 1 and 0, seen as (1 - .5)/.5 = 1 and -1.
    selector = pair(**ZERO)
    picked = selector.ask(k=2, deadline=10.0)
    tell(selector, picked, [4.0, 5.0], outcome=[COMPLETED, outcome], latency=[3.0, latency])
    assert selector.state.utilities.values().tolist() == [4, 0]
    assert selector.state.score_mean.tolist() == [1, -1]
    # Noise .1, covariance c = e^-.5: by symmetry the posterior is +-(1 - c)/(1.1 - c) = +-.79735
    np.testing.assert_allclose(selector.state.utility.mean, [0.79735, -0.79735], atol=1e-5)


def test_nothing_is_brought_by_a_client_that_reports_nothing():
    selector = pair(**ZERO)
    selector.tell(selector.ask([1], k=1, deadline=10.0), Feedback(outcome=[DROPPED]))
    assert selector.state.utilities.values().tolist() == [0]
    assert selector.state.observations.tolist() == [0, 1]


@pytest.mark.parametrize(("latency", "utility"), [(9.0, 5.0), (10.0, 5.0), (12.0, 0.0)])
def test_a_client_cut_off_has_brought_something_if_it_was_in_time(latency, utility):
    selector = pair(**ZERO)
    picked = selector.ask([1], k=1, deadline=10.0)
    tell(selector, picked, [5.0], outcome=[LATE], latency=[4.0], censored=[True])
    assert selector.state.utilities.seen == 0
    tell(selector, picked, [5.0], outcome=[ARRIVED], latency=[latency])
    assert selector.state.utilities.values().tolist() == [utility]


@pytest.mark.parametrize("censored", [True, False])
def test_a_client_past_the_deadline_has_brought_nothing_once(censored):
    selector = pair(**ZERO)
    picked = selector.ask([1], k=1, deadline=10.0)
    tell(selector, picked, [5.0], outcome=[LATE], latency=[10.0 if censored else 12.0], censored=[censored])
    tell(selector, picked, [5.0], outcome=[ARRIVED], latency=[12.0])
    assert selector.state.utilities.values().tolist() == [0]
    assert selector.state.observations.tolist() == [0, 1]


def test_what_is_missing_teaches_nothing():
    selector = line(3)
    picked = selector.ask(k=3)
    selector.tell(picked, Feedback(loss_rms=[np.nan, 1.0, 1.0], accuracy_gain=[0.1, np.nan, 0.5]))
    assert selector.state.utilities.values().tolist() == [0.5]
    assert selector.state.observations.tolist() == [0, 0, 1]


def test_all_gains_negative():
    selector = line(3)
    for _ in range(3):
        tell(selector, selector.ask(k=2), [-1.0, -2.0])
    assert selector.state.scores.values().tolist() == [0.0] * 6
    assert np.isfinite(selector.state.utility_high).all()


def test_the_posterior_by_hand():
    # Client 0 alone reports: the first score is 1, seen as (1 - .5)/.5 = 1. Noise .1:
    # means 1/1.1 and .60653/1.1, variances 1 - 1/1.1 and 1 - e^-1/1.1
    selector = pair()
    tell(selector, selector.ask([0], k=1), [3.0])
    mean, deviation = selector.state.utility.predict()
    np.testing.assert_allclose(mean, [0.909091, 0.551392], atol=1e-5)
    np.testing.assert_allclose(deviation, [0.301511, 0.815817], atol=1e-5)


def test_the_posterior_of_three_by_hand():
    # Inputs z = -1.2247, 0, 1.2247; the length is their median distance 1.2247 (0-1, 1-2: 1.2247; 0-2: 2.4495):
    # k01 = k12 = e^-.5 = .60653, k02 = e^-2 = .13534. Clients 0 and 2 report 1 and 3: any two scores are z-scored to
    # -1 and 1. By symmetry the mean of 1 is 0, and that of 2 is (1 - .13534)/(1.1 - .13534) = .896337.
    # Variance of 1: 1 - 2 * .36788/(1.1 + .13534) = .404402.
    selector = line(3)
    assert selector.state.utility.length == pytest.approx(1.224745, abs=1e-5)
    tell(selector, selector.ask([0, 2], k=2), [1.0, 3.0])
    mean, deviation = selector.state.utility.predict()
    np.testing.assert_allclose(mean, [-0.896337, 0.0, 0.896337], atol=1e-5)
    assert deviation[1] ** 2 == pytest.approx(0.404402, abs=1e-5)


def test_forgetting():
    # a share q: mean * sqrt(1 - q), what was learned of the variance * (1 - q)
    selector = pair(drift=0.19)
    tell(selector, selector.ask([0], k=1), [3.0])
    selector.ask([], k=1)
    mean, deviation = selector.state.utility.predict()
    np.testing.assert_allclose(mean, [0.9 * 0.909091, 0.9 * 0.551392], atol=1e-5)
    np.testing.assert_allclose(deviation**2, [1 - 0.81 / 1.1, 1 - 0.81 * np.exp(-1) / 1.1], atol=1e-5)


@pytest.mark.parametrize(("t", "expected"), [(1, 4.8), (10, 5.7), (100, 6.5), (1000, 7.1)])
def test_the_width_of_utility(t, expected):
    # sqrt(2 ln(3500 pi^2 t^2/(3 * .1))); at the prior the interval is .5 +- .5 * .1 * that
    clients = Clients(features=np.arange(3500.0)[:, None])
    settings = {"width_scale": 0.1, "posterior": "features", "features": 4, "memory": 1, "refit_every": None}
    selector = enlist.create("fedsuv", clients, **settings)
    selector.round = t - 1
    selector.ask([], k=1)
    width = (selector.state.utility_high - selector.state.utility_low) / 0.1
    np.testing.assert_allclose(width, expected, atol=0.05)


# ----------------------------------------------------------------------------------------------------------- rectangles

# Round 1: b = 2 ln(2 pi^2/.3) = 8.37319, sqrt 2.89365; prior .5 +- .5 * .2 * 2.89365: [.210635, .789365].
# Round 2, after client 0 alone has reported: b = 2 ln(8 pi^2/.3) = 11.14578, sqrt 3.33853; * .2 = .667706
#   client 0: .5 + .5 (.909091 -+ .667706 * .301511) = [.853886, 1.055205]
#   client 1: .5 + .5 (.551392 -+ .667706 * .815817) = [.503331, 1.048061]


def test_rectangles_are_intersected_or_replaced():
    # Client 0: the new interval lies above the old one and replaces it; client 1: intersected. Cut to [0, 1].
    selector = pair()
    tell(selector, selector.ask([0], k=1), [3.0])
    state = selector.state
    np.testing.assert_allclose(state.utility_low, 0.210635, atol=1e-5)
    np.testing.assert_allclose(state.utility_high, 0.789365, atol=1e-5)
    selector.ask([], k=1)
    np.testing.assert_allclose(state.utility_low, [0.853886, 0.503331], atol=1e-5)
    np.testing.assert_allclose(state.utility_high, [1.0, 0.789365], atol=1e-5)
    # Round 3 is wider (b grows): nothing changes.
    selector.ask([], k=1)
    np.testing.assert_allclose(state.utility_low, [0.853886, 0.503331], atol=1e-5)
    np.testing.assert_allclose(state.utility_high, [1.0, 0.789365], atol=1e-5)


def test_memory_starts_utility_afresh():
    selector = pair(memory=2)
    tell(selector, selector.ask([0], k=1), [3.0])
    selector.state.validity_high[:] = 0.7
    selector.ask([], k=1)
    state = selector.state
    np.testing.assert_allclose(state.utility_low, [0.853886, 0.503331], atol=1e-5)
    np.testing.assert_allclose(state.utility_high, [1.0, 1.0], atol=1e-5)
    assert state.validity_high.tolist() == [0.7, 0.7]  # validity keeps what it knew


def test_an_interval_below_the_older_one_replaces_it():
    selector = pair(width_scale=0.01)
    selector.state.utility_low[:], selector.state.utility_high[:] = 0.8, 0.9
    selector.state.validity_low[:], selector.state.validity_high[:] = 0.1, 0.2
    selector.ask([], k=1)
    np.testing.assert_allclose(selector.state.utility_high, 0.5 + 0.005 * 2.89365, atol=1e-5)
    np.testing.assert_allclose(selector.state.utility_low, 0.5 - 0.005 * 2.89365, atol=1e-5)
    assert selector.state.validity_low.tolist() == [0.1, 0.1]  # side by side: this one is intersected


def boxed(validity, utility, **settings):
    """Five clients with these rectangles; both models still allow everything in [0, 1] x [0, 1]."""
    given = {"initial_rounds": 0, "width_scale": 100.0, "memory": None, "readmit_every": None, **settings}
    selector = line(len(validity), **given)
    state = selector.state
    state.validity_low[:], state.validity_high[:] = np.transpose(validity)
    state.utility_low[:], state.utility_high[:] = np.transpose(utility)
    return selector


ANY = [[0.0, 1.0]] * 5


def test_the_injected_rectangles_stand():
    validity = [[0.8, 0.9], [0.1, 0.2], [0.1, 0.3], [0.1, 0.5], [0.5, 1.0]]
    selector = boxed(validity, validity[::-1])
    selector.ask([], k=1)
    assert np.transpose([selector.state.validity_low, selector.state.validity_high]).tolist() == validity
    assert np.transpose([selector.state.utility_low, selector.state.utility_high]).tolist() == validity[::-1]


# ------------------------------------------------------------------------------------------------------------ eliminate


@pytest.mark.parametrize(
    ("rho", "k", "active"),
    # best lower bound .8; hopeless are 1, 2, 3 with upper bounds .2, .3, .8 (not above); the lowest go first, until
    # max(k, 60 % of 5 = 3) are left
    [
        (0.4, 1, [0, 3, 4]),
        (0.4, 4, [0, 2, 3, 4]),
        (0.0, 1, [0, 1, 2, 3, 4]),
        (0.3, 1, [0, 2, 3, 4]),  # 3.5: at least four stay
        (1.0, 1, [0, 4]),
    ],
)
def test_elimination(rho, k, active):
    validity = [[0.8, 0.9], [0.1, 0.2], [0.1, 0.3], [0.1, 0.8], [0.5, 1.0]]
    selector = boxed(validity, ANY, rho=rho)
    selector.ask(k=k)
    assert np.flatnonzero(selector.state.active).tolist() == active


def test_the_least_promising_of_many_go_over_the_rounds():
    validity = [[0.8, 0.9], [0.1, 0.2], [0.1, 0.3], [0.1, 0.5], [0.5, 1.0]]
    selector = boxed(validity, ANY)
    for _ in range(5):
        selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == [0, 3, 4]  # the floor is of the population, not the rest


def test_the_bar_is_set_by_those_still_in():
    # 0 would set it at .8, but is out; of the others 4 sets it at .25.
    validity = [[0.8, 0.9], [0.1, 0.2], [0.1, 0.3], [0.1, 0.5], [0.25, 1.0]]
    selector = boxed(validity, ANY, rho=1.0)
    selector.state.active[0] = False
    selector.ask([1, 2, 3, 4], k=1)
    assert np.flatnonzero(selector.state.active).tolist() == [2, 3, 4]


def test_the_share_that_stays_is_not_rounded_up_by_accident():
    # 1 - .7 of ten are three, whatever floating point makes of it.
    validity = [[0.9, 1.0], *([0.1, 0.2 + 0.01 * i] for i in range(9))]
    selector = boxed(validity, [[0.0, 1.0]] * 10, rho=0.7)
    selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == [0, 8, 9]


def test_certainty_of_one_eliminates_nobody_who_may_be_as_good():
    # Eq. 7 compares theta.x + a|x| with theta.x_j - a|x_j|. Five clients at z = -1.414, -.707, 0, .707, 1.414, rows
    # (z, 1) of lengths sqrt 3 = 1.732, 1.225, 1, 1.225, 1.732. H = 417 I, so a|x|/sqrt H is .2/sqrt 3 |x|; with theta
    # the means are .1, .4, .7, 1.0, 1.3: the best lower bound is 1.1. Client 3 reaches 1.0 + .1414 = 1.14 and stays,
    # client 2 only .7 + .1155. (If both were cut to [0, 1] first, 1 <= 1 would eliminate client 3.)
    for elimination in ("soft", "capped", "hard"):
        selector = line(5, initial_rounds=0, width_scale=100.0, rho=1.0, elimination=elimination)
        believe(selector)
        selector.ask(k=1)
        assert np.flatnonzero(selector.state.active).tolist() == [3, 4]


def believe(selector):
    """Validities .1, .4, .7, 1.0, 1.3 of five clients in line, with half widths .2, .1414, .1155, .1414, .2."""
    model = selector.state.validity.model
    model.precision = 3 * (A / 0.2) ** 2 * np.eye(2)
    model.moment = model.precision @ np.array([0.3 * np.sqrt(2), 0.7])


@pytest.mark.parametrize(
    ("rho", "out", "active"),
    # The best lower bound is 1.1, so 0, 1 and 2 are in E_t, and all of them go, whatever share rho names: the guard
    # 5 >= (1 - rho) 5 is tested once. With one client gone, 4 >= (1 - rho) 5 fails for rho = .1 (4.5), but not for .2.
    [
        (0.4, [], [3, 4]),
        (0.1, [], [3, 4]),
        (0.1, [3], [0, 1, 2, 4]),
        (0.2, [3], [4]),
        (0.0, [], [0, 1, 2, 3, 4]),
    ],
)
def test_elimination_as_printed(rho, out, active):
    selector = line(5, initial_rounds=0, width_scale=100.0, rho=rho, elimination="hard", pruning=False)
    believe(selector)
    selector.state.active[out] = False
    selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == active


def test_elimination_as_printed_looks_at_the_present_bounds():
    # Eq. 7 is on Eq. 4. The rectangles have other news from earlier rounds, and elimination does not look at them.
    selector = boxed([[0.8, 0.9], *[[0.1, 0.2]] * 4], ANY, elimination="hard", pruning=False)
    selector.ask(k=1)
    assert selector.state.active.all()  # the model knows nothing yet
    np.testing.assert_array_equal(selector.state.validity_high, [0.9, *[0.2] * 4])


def test_elimination_as_printed_with_nobody_left():
    selector = line(5, initial_rounds=0, rho=1.0, elimination="hard")
    selector.state.active[:] = False
    assert len(selector.ask(k=2)) == 2


# ---------------------------------------------------------------------------------------------------------------- prune


def test_pruning():
    # Pessimistic corners of 0 and 1: (.6, .3) and (.3, .6). 2 reaches (.6, .3): below in neither strictly, equal to
    # 0's corner in both, so it stays; 3 reaches (.5, .3): below 0's; 4 reaches (.5, .5): below neither.
    validity = [[0.6, 0.9], [0.3, 0.9], [0.1, 0.6], [0.1, 0.5], [0.1, 0.5]]
    utility = [[0.3, 0.9], [0.6, 0.9], [0.1, 0.3], [0.1, 0.3], [0.1, 0.5]]
    selector = boxed(validity, utility, rho=0.0)
    selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize(("clip", "active"), [(True, [0, 1, 2, 3, 4]), (False, [0, 1, 2, 4])])
def test_pruning_beyond_certainty(clip, active):
    # Pessimistic corner of 0: (1.2, .5). 3 reaches (1.1, .5): below it. Cut to [0, 1] both are (1, .5), equal, and 3
    # stays. The others reach 2.
    validity = [[1.2, 2.0], [0.1, 2.0], [0.1, 2.0], [0.1, 1.1], [0.1, 2.0]]
    utility = [[0.5, 0.9], [0.1, 0.5], [0.1, 0.5], [0.1, 0.5], [0.1, 0.5]]
    selector = boxed(validity, utility, rho=0.0, clip=clip)
    selector.state.validity.model.precision *= 1e-3  # so wide that the injected rectangles stand
    selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == active


def test_pruning_keeps_identical_clients():
    validity = [[0.9, 0.9], [0.9, 0.9], [0.1, 0.3], [0.1, 0.3], [0.1, 0.3]]
    selector = boxed(validity, validity, rho=0.0)
    selector.ask(k=1)
    assert np.flatnonzero(selector.state.active).tolist() == [0, 1]


def test_pruning_stops_at_k():
    # 1 to 4 are all dominated; those with the least optimistic utility go first.
    validity = [[0.9, 1.0], [0.1, 0.3], [0.1, 0.3], [0.1, 0.3], [0.1, 0.3]]
    utility = [[0.9, 1.0], [0.1, 0.4], [0.1, 0.2], [0.1, 0.5], [0.1, 0.3]]
    selector = boxed(validity, utility, rho=0.0)
    assert selector.ask(k=3).clients.tolist() == [0, 1, 3]
    assert np.flatnonzero(selector.state.active).tolist() == [0, 1, 3]


# --------------------------------------------------------------------------------------------------------------- select


def test_the_widest_and_the_most_optimistic():
    # Diagonals: sqrt(1 + .04) = 1.02 for 0, then .224, .707, .224, .510; optimistic .2, .9, .8, .7, .6
    validity = [[0.0, 1.0], *[[0.4, 0.5]] * 4]
    utility = [[0.0, 0.2], [0.7, 0.9], [0.1, 0.8], [0.5, 0.7], [0.1, 0.6]]
    selector = boxed(validity, utility)
    picked = selector.ask(k=3)
    assert picked.clients.tolist() == [0, 1, 2]
    np.testing.assert_allclose(picked.terms["diagonal"], np.sqrt([1.04, 0.05, 0.5]))
    assert picked.terms["utility"].tolist() == [0.2, 0.9, 0.8]
    assert picked.terms["validity"].tolist() == [1, 0.5, 0.5]
    assert selector.ask(k=1).clients.tolist() == [0]
    assert selector.ask([1, 3, 4], k=2).clients.tolist() == [1, 4]
    assert selector.ask([1, 3, 4], k=1).clients.tolist() == [4]


def test_the_widest_is_not_taken_twice():
    # 0 is the widest and the most optimistic; then come 1 and 2.
    utility = [[0.0, 1.0], [0.1, 0.9], [0.1, 0.8], [0.1, 0.7], [0.1, 0.6]]
    assert boxed([[0.4, 0.5]] * 5, utility).ask(k=3).clients.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("coupling", "order"),
    # optimistic validity 1, .9, .5, .2, .1 (cut to 1) and utility .1, .5, .8, .9, 1: products .1, .45, .4, .18, .1;
    # sums 1.1, 1.4, 1.3, 1.1, 1.1. Nobody is eliminated: 3 and 4 are certainly less valid than 0.
    [("multiply", [1, 2, 3]), ("add", [1, 2])],
)
def test_one_score(coupling, order):
    validity = [[0.6, 1.2], [0.5, 0.9], [0.3, 0.5], [0.1, 0.2], [0.0, 0.1]]
    utility = [[0.0, 0.1], [0.2, 0.5], [0.7, 0.8], [0.8, 0.9], [0.9, 1.0]]
    for k in range(1, len(order) + 1):
        selector = boxed(validity, utility, coupling=coupling)
        assert set(selector.ask(k=k).clients.tolist()) == set(order[:k])
        assert selector.state.active.all()
    assert boxed(validity, utility, coupling=coupling).ask([2, 4], k=1).clients.tolist() == [2]


def test_ties_are_drawn():
    chosen = set()
    for seed in range(40):
        selector = boxed(ANY, ANY)
        selector.rng = np.random.default_rng(seed)
        chosen.update(selector.ask(k=1).clients.tolist())
    assert chosen == {0, 1, 2, 3, 4}


def test_the_first_rounds_are_random():
    # Later 0 would be the widest; in round 1 and 2 anybody, and nobody is judged.
    validity = [[0.8, 1.0], *[[0.1, 0.2]] * 4]
    rounds = {1: set(), 2: set(), 3: set()}
    for seed in range(60):
        selector = boxed(validity, [[0.8, 1.0], *[[0.1, 0.2]] * 4], initial_rounds=2)
        selector.rng = np.random.default_rng(seed)
        for number, seen in rounds.items():
            seen.update(selector.ask(k=1).clients.tolist())
            assert selector.state.active.all() == (number < 3)
    assert rounds == {1: {0, 1, 2, 3, 4}, 2: {0, 1, 2, 3, 4}, 3: {0}}


RETURN = [[0.1, 0.9], [0.1, 0.2], [0.1, 0.8], [0.1, 0.5], [0.1, 0.9]]
UTILITY = [[0.1, 0.3], [0.1, 0.9], [0.1, 0.2], [0.1, 0.8], [0.1, 0.3]]


def test_soft_elimination_lets_the_most_valid_come_back():
    # 0 and 4 are in, 0 is away; two more are needed: 2 and 3, with upper validities .8 and .5. They stay in.
    selector = boxed(RETURN, UTILITY)
    selector.state.active[:] = [True, False, False, False, True]
    assert selector.ask([1, 2, 3, 4], k=3).clients.tolist() == [2, 3, 4]
    assert selector.state.active.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("elimination", ["capped", "hard"])
def test_hard_elimination_is_for_ever(elimination):
    # The server still needs three: by optimistic utility, 1 and 3. But they stay out.
    selector = boxed(RETURN, UTILITY, elimination=elimination)
    selector.state.active[:] = [True, False, False, False, True]
    assert selector.ask([0, 1, 2, 3], k=3).clients.tolist() == [0, 1, 3]
    assert selector.state.active.tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(("elimination", "back"), [("soft", True), ("capped", False), ("hard", False)])
def test_soft_elimination_starts_afresh(elimination, back):
    selector = boxed(ANY, ANY, elimination=elimination, readmit_every=4)
    selector.state.active[1:3] = False
    for _ in range(3):
        selector.ask(k=1)
        assert selector.state.active.tolist() == [True, False, False, True, True]
    selector.ask(k=1)
    assert selector.state.active.all() == back


# ---------------------------------------------------------------------------------------------------------------- refit


def evidence(selector, values, length):
    """Log marginal likelihood, straight from its definition."""
    covariance = covariances(selector, length) + 0.1 * np.eye(len(values))
    return -0.5 * values @ np.linalg.solve(covariance, values) - 0.5 * np.linalg.slogdet(covariance)[1]


def covariances(selector, length):
    z = selector.state.utility.inputs
    return np.exp(-((z[:, None, :] - z[None, :, :]) ** 2).sum(2) / (2 * length**2))


@pytest.mark.parametrize(("waves", "factor"), [(2.0, 0.5), (0.5, 1.0), (None, 2.0)])
def test_the_length_is_refitted(waves, factor):
    # Fast waves want half the length, slow ones the present one, a straight line the double; then the posterior is
    # that of the observations under the new kernel.
    selector = line(40, refit_every=2)
    before = selector.state.utility.length
    place = np.linspace(0.0, 1.0, 40)
    wanted = place if waves is None else 1.0 + np.sin(2 * np.pi * waves * place)
    tell(selector, selector.ask(k=40), wanted)
    values = selector.state.score_mean.copy()
    best = max((before, before / 2, before * 2), key=lambda length: evidence(selector, values, length))
    for _ in range(2):
        selector.ask([], k=1)  # round 3 refits
    assert best == before * factor
    assert selector.state.utility.length == best
    prior = covariances(selector, best)
    mean, deviation = selector.state.utility.predict()
    np.testing.assert_allclose(mean, prior @ np.linalg.solve(prior + 0.1 * np.eye(40), values), atol=1e-8)
    left = np.diag(prior - prior @ np.linalg.solve(prior + 0.1 * np.eye(40), prior))
    np.testing.assert_allclose(deviation**2, left, atol=1e-8)


def test_the_rounds_of_a_refit(monkeypatch):
    rounds = []
    monkeypatch.setattr(module.FedSUV, "_refit", lambda self: rounds.append(self.round))
    selector = line(3)
    for _ in range(130):
        selector.ask([], k=1)
    assert rounds == [20, 70, 120]
    selector = line(3, refit_every=None)
    for _ in range(80):
        selector.ask([], k=1)
    assert rounds == [20, 70, 120]


def test_a_refit_needs_ten_clients():
    for count, refitted in ((9, False), (10, True)):
        selector = line(count, refit_every=2)
        before = selector.state.utility.length
        for _ in range(2):
            tell(selector, selector.ask(k=count), np.arange(count) % 2)
        selector.ask([], k=1)
        assert (selector.state.utility.length != before) == refitted


def test_a_refit_weighs_clients_by_their_observations():
    # Every client twice: one observation of the mean with half the noise.
    selector = line(12, refit_every=2)
    waves = 1.0 + np.sin(3 * np.pi * np.linspace(0.0, 1.0, 12))
    for part in (1.0, 0.5):
        tell(selector, selector.ask(k=12), part * waves)
    values = selector.state.score_mean.copy()
    assert selector.state.observations.tolist() == [2] * 12
    before = selector.state.utility.length
    selector.ask([], k=1)
    assert selector.state.utility.length == before / 2
    prior = covariances(selector, before / 2)
    expected = prior @ np.linalg.solve(prior + 0.05 * np.eye(12), values)
    np.testing.assert_allclose(selector.state.utility.mean, expected, atol=1e-8)


def test_a_refit_forgets_nobody():
    # An observation of noise .1 leaves a client at most the deviation sqrt(1 - 1/1.1) = .30151, whatever the kernel.
    # (The length may be fitted on 512 clients; the posterior is of all 560.)
    rng = np.random.default_rng(1)
    clients = Clients(features=rng.normal(size=(560, 6)))
    selector = enlist.create("fedsuv", clients, seed=1, drift=0.0, refit_every=2)
    before = selector.state.utility.length
    tell(selector, selector.ask(k=560), rng.uniform(size=560))
    assert selector.state.utility.predict()[1].max() < 0.30152
    for _ in range(2):
        selector.ask([], k=1)
    assert selector.state.utility.length != before
    assert selector.state.utility.predict()[1].max() < 0.30152


def test_a_refit_does_not_bring_back_what_was_forgotten():
    # With a share of .9 forgotten each round, next to nothing is left of round 1 in round 9, refitted or not.
    for refit_every in (None, 10):
        selector = line(40, drift=0.9, refit_every=refit_every)
        tell(selector, selector.ask(k=40), 1.0 + np.sin(np.arange(40)))
        for _ in range(8):
            selector.ask([], k=1)
        assert selector.state.utility.predict()[1].min() > 0.99


# ----------------------------------------------------------------------------------------------------------- population


def test_exact_or_features():
    assert isinstance(line(5_000).state.utility, ExactGP)
    assert isinstance(line(5_001).state.utility, FeatureGP)
    assert isinstance(line(5_001, posterior="exact").state.utility, ExactGP)
    small = line(30, posterior="features", features=7).state.utility
    assert isinstance(small, FeatureGP)
    assert small.features.shape == (30, 7)


def test_a_population_too_large_for_the_exact_posterior():
    clients = Clients(features=np.zeros((20_001, 1)))
    with pytest.raises(PopulationError, match=r"20001 clients.*20000.*posterior='features'"):
        enlist.create("fedsuv", clients, posterior="exact")
    assert isinstance(enlist.create("fedsuv", clients, features=4).state.utility, FeatureGP)


def test_joining_is_refused_beyond_the_exact_posterior(monkeypatch):
    monkeypatch.setattr(module, "EXACT_LIMIT", 2)
    selector = line(8, posterior="exact")
    with pytest.raises(PopulationError, match="posterior='features'"):
        selector.join(Clients(features=[[4.0]], feature_names=["age"]))
    assert len(selector.clients) == 8
    assert len(selector.ask(k=3)) == 3


def test_joining_extends_both_models():
    # After client 0 reported (see above) a twin of it, a twin of 1 and one halfway join: halfway is 1 from 0,
    # exp(-1/8)/1.1 = .802270, variance 1 - e^-.25/1.1
    selector = pair()
    tell(selector, selector.ask([0], k=1), [3.0])
    more = Clients(features=[[1.0], [3.0], [2.0]], feature_names=["age"], num_examples=[1, 1, 1])
    assert selector.join(more).tolist() == [2, 3, 4]
    mean, deviation = selector.state.utility.predict()
    np.testing.assert_allclose(mean, [0.909091, 0.551392, 0.909091, 0.551392, 0.802270], atol=1e-5)
    twins = [0.301511, 0.815817, 0.301511, 0.815817, np.sqrt(1 - np.exp(-0.25) / 1.1)]
    np.testing.assert_allclose(deviation, twins, atol=1e-5)
    assert selector.state.active.tolist() == [True] * 5
    # validity: H = I + x x', b = x, one success of 0: mean 2/3 for its twin, 1/3 halfway with row (0, 1)
    selector.ask([], k=1)
    centre, width = selector.state.validity.interval(selector.state.validity.rows(more.features), 0.1)
    np.testing.assert_allclose(centre, [2 / 3, 0.0, 1 / 3], atol=1e-12)
    np.testing.assert_allclose(width, [A * np.sqrt(2 / 3), A * np.sqrt(2), A * np.sqrt(2 / 3)], atol=1e-4)
    # what the new ones report counts for the old
    tell(selector, selector.ask([3], k=1), [3.0])
    mean, deviation = selector.state.utility.predict()
    assert deviation[1] == pytest.approx(deviation[3], abs=1e-4)
    assert deviation[1] < 0.4


@pytest.mark.parametrize("change", ["join", "compact"])
@pytest.mark.parametrize("posterior", ["exact", "features"])
def test_saved_after_the_population_changed(tmp_path, change, posterior):
    selector = line(6, posterior=posterior, initial_rounds=0, memory=1)
    tell(selector, selector.ask(k=6), [1, 5, 2, 3, 0, 4])
    if change == "join":
        selector.join(Clients(features=[[21.0], [40.0]], feature_names=["age"]))
    else:
        selector.compact([1, 2, 5])
    selector.save(tmp_path)
    again = enlist.load(tmp_path)
    for _ in range(3):
        picked = [one.ask(k=2) for one in (selector, again)]
        assert picked[0].clients.tolist() == picked[1].clients.tolist()
        for one, same in zip((selector, again), picked, strict=True):
            tell(one, same, [1.0, 2.0])
    for one in ("validity_low", "validity_high", "utility_low", "utility_high"):
        np.testing.assert_array_equal(getattr(selector.state, one), getattr(again.state, one))
    np.testing.assert_array_equal(selector.state.validity.model.precision, again.state.validity.model.precision)


def test_exact_and_features_agree_on_who_is_best():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(120, 2))
    worth = np.exp(-((features - [0.5, -0.5]) ** 2).sum(1))
    best = []
    for settings in ({"posterior": "exact"}, {"posterior": "features", "features": 48}):
        selector = enlist.create("fedsuv", Clients(features=features), seed=1, **settings)
        sample = np.random.default_rng(4)
        for _ in range(25):
            picked = selector.ask(np.sort(sample.choice(120, 8, replace=False)), k=8)
            tell(selector, picked, worth[picked.clients])
        best.append(selector.state.utility.predict()[0])
    exact, features = best
    assert np.corrcoef(exact, features)[0, 1] > 0.98
    assert len(np.intersect1d(np.argsort(-exact)[:10], np.argsort(-features)[:10])) >= 8
    assert worth[np.argmax(exact)] > np.quantile(worth, 0.95)


# -------------------------------------------------------------------------------------------------------------- presets


def test_presets():
    settings = enlist.create("fedsuv", Clients(features=[[1.0], [2.0]])).settings
    assert (settings.delta, settings.rho, settings.ridge, settings.noise) == (0.1, 0.4, 10.0, 0.1)
    assert (settings.width_scale, settings.initial_rounds, settings.elimination) == (0.2, 2, "soft")
    assert (settings.readmit_every, settings.memory, settings.refit_every) == (50, 20, 50)
    assert (settings.coupling, settings.late_utility) == ("multiply", 0.0)
    paper = enlist.create("fedsuv", Clients(features=[[1.0], [2.0]]), preset="paper").settings
    assert (paper.width_scale, paper.elimination, paper.drift) == (1.0, "hard", 0.0)
    assert (paper.memory, paper.readmit_every, paper.rho) == (None, None, 0.4)
    assert (paper.coupling, paper.late_utility) == ("none", None)
    assert (paper.ridge, paper.clip) == (1.0, False)


def test_the_paper_at_full_width():
    # round 1: .5 +- .5 * 2.89365, as Eq. 5 has it; cut to [0, 1], that says nothing, and all would tie
    selector = enlist.create("fedsuv", Clients(features=[[1.0], [3.0]]), preset="paper")
    selector.ask([], k=1)
    np.testing.assert_allclose(selector.state.utility_low, -0.946825, atol=1e-5)
    np.testing.assert_allclose(selector.state.utility_high, 1.946825, atol=1e-5)
    selector = enlist.create("fedsuv", Clients(features=[[1.0], [3.0]]), preset="paper", clip=True)
    selector.ask([], k=1)
    assert selector.state.utility_low.tolist() == [0, 0]
    assert selector.state.utility_high.tolist() == [1, 1]


def test_it_finds_valid_and_useful_clients():
    # Speed decides who finishes (the upper half), place who is useful.
    rng = np.random.default_rng(2)
    speed, place = rng.uniform(1, 2, 60), rng.uniform(0, 1, 60)
    clients = Clients(features=np.transpose([speed, place]), feature_names=["cpu speed", "place"])
    selector = enlist.create("fedsuv", clients, seed=1)
    for _ in range(80):
        picked = selector.ask(k=6, deadline=10.0)
        outcome = np.where(speed[picked.clients] < 1.5, DROPPED, COMPLETED)
        tell(selector, picked, place[picked.clients], outcome=outcome)
    share = selector.counts.selected / selector.counts.selected.sum()
    good = (speed >= 1.5) & (place > 0.5)
    assert share[good].sum() > 2 * good.mean()


def test_needs():
    with pytest.raises(MissingColumnError, match="features"):
        enlist.create("fedsuv", Clients(count=3))
    selector = pair()
    with pytest.raises(MissingColumnError, match="accuracy_gain"):
        selector.tell(selector.ask(k=1), Feedback(loss_rms=[1.0]))
    with pytest.raises(MissingColumnError, match="loss_rms"):
        selector.tell(selector.ask(k=1), Feedback(accuracy_gain=[1.0]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": 0.0},
        {"rho": 1.5},
        {"ridge": 0.0},
        {"noise": 0.0},
        {"drift": 1.0},
        {"width_scale": -1.0},
        {"initial_rounds": -1},
        {"elimination": "gentle"},
        {"posterior": "exactly"},
        {"memory": 0},
        {"features": 0},
        {"refit_every": 0},
        {"readmit_every": 0},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        pair(**wrong)
