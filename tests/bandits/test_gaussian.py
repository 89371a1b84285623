"""Gaussian processes against scikit-learn and against their own definitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from enlist.bandits import ExactGP, FeatureGP, feature_count, median_distance, rbf

LENGTH, NOISE = 1.3, 0.1


def points(count, seed=0, dimension=3):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def reference(inputs, clients, values):
    """What scikit-learn believes after all observations at once."""
    model = GaussianProcessRegressor(kernel=RBF(LENGTH, length_scale_bounds="fixed"), alpha=NOISE, optimizer=None)
    model.fit(inputs[clients], values)
    mean, covariance = model.predict(inputs, return_cov=True)
    return mean, covariance


def batches(count, rounds, size, seed=1):
    draw = np.random.default_rng(seed)
    return [(draw.choice(count, size, replace=False), draw.normal(size=size)) for _ in range(rounds)]


def covariance(gp):
    return rbf(gp.inputs, gp.inputs, gp.length) - gp.scale * gp.reduction


def test_rbf_is_the_kernel_of_scikit_learn():
    inputs = points(20)
    np.testing.assert_allclose(rbf(inputs, inputs[:7], LENGTH), RBF(LENGTH)(inputs, inputs[:7]), atol=1e-12)


def test_exact_equals_scikit_learn_with_repeated_observations():
    inputs, gp = points(30), ExactGP.of(points(30), LENGTH, NOISE)
    seen_clients, seen_values = [], []
    for clients, values in batches(30, rounds=8, size=7):  # 56 observations of 30 clients: many are seen again
        gp.update(clients, values)
        seen_clients.extend(clients)
        seen_values.extend(values)
        mean, truth = reference(inputs, np.array(seen_clients), np.array(seen_values))
        np.testing.assert_allclose(gp.predict()[0], mean, atol=1e-8)
        np.testing.assert_allclose(gp.predict()[1], np.sqrt(truth.diagonal()), atol=1e-8)
        np.testing.assert_allclose(covariance(gp), truth, atol=1e-8)
    assert len(set(seen_clients)) < len(seen_clients)


def test_exact_does_not_depend_on_the_order_of_a_batch():
    left, right = (ExactGP.of(points(12), LENGTH, NOISE) for _ in range(2))
    clients, values = np.array([3, 7, 1]), np.array([1.0, -1.0, 0.5])
    left.update(clients, values)
    for index in (2, 0, 1):
        right.update(clients[[index]], values[[index]])
    np.testing.assert_allclose(left.predict(), right.predict(), atol=1e-12)


def test_identical_clients_share_what_is_seen():
    inputs = np.zeros((3, 2))
    gp = ExactGP.of(inputs, LENGTH, NOISE)
    gp.update(np.array([0, 1]), np.array([1.0, 1.0]))
    mean, deviation = gp.predict()
    # two looks at one point with noise s: mean 2/(2 + s), variance s/(2 + s)
    assert mean.tolist() == pytest.approx([2 / 2.1] * 3)
    assert (deviation**2).tolist() == pytest.approx([0.1 / 2.1] * 3)


def test_forgetting_mixes_the_covariance_with_the_prior():
    gp = ExactGP.of(points(15), LENGTH, NOISE)
    for number, (clients, values) in enumerate(batches(15, 6, 4)):
        gp.update(clients, values)
        before, mean = covariance(gp), gp.mean.copy()
        share = 0.05 * (number + 1)
        gp.forget(share)
        np.testing.assert_allclose(
            covariance(gp), (1 - share) * before + share * rbf(gp.inputs, gp.inputs, LENGTH), atol=1e-12
        )
        np.testing.assert_allclose(gp.mean, np.sqrt(1 - share) * mean, atol=1e-12)


def test_forgetting_leaves_an_unobserved_client_at_the_prior():
    inputs = np.vstack([points(5), [[100.0, 0.0, 0.0]]])
    gp = ExactGP.of(inputs, LENGTH, NOISE)
    for clients, values in batches(5, 40, 2):
        gp.forget(0.1)
        gp.update(clients, values)
    mean, deviation = gp.predict()
    assert abs(mean[5]) < 1e-12
    assert deviation[5] == pytest.approx(1.0, abs=1e-12)


def test_everything_is_forgotten_in_the_end():
    gp = ExactGP.of(points(6), LENGTH, NOISE)
    gp.update(np.array([0, 1]), np.array([3.0, -3.0]))
    for _ in range(2000):  # the scale would underflow if it were never folded in
        gp.forget(0.5)
    mean, deviation = gp.predict()
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(deviation, 1.0)
    gp.update(np.array([0]), np.array([1.0]))
    assert gp.predict()[0][0] == pytest.approx(1 / 1.1)


def test_folding_the_scale_in_changes_nothing():
    folded, plain = (ExactGP.of(points(8), LENGTH, NOISE) for _ in range(2))
    for clients, values in batches(8, 5, 3):
        for gp in (folded, plain):
            gp.update(clients, values)
            gp.forget(0.3)
        folded.reduction *= folded.scale
        folded.scale = 1.0
    np.testing.assert_allclose(folded.predict(), plain.predict(), atol=1e-10)


def test_extending_equals_having_had_the_clients_from_the_start():
    inputs = points(25, dimension=4)
    grown, whole = ExactGP.of(inputs[:18], LENGTH, NOISE), ExactGP.of(inputs, LENGTH, NOISE)
    for clients, values in batches(18, 5, 6):
        for gp in (grown, whole):
            gp.update(clients, values)
            gp.forget(0.1)
    grown.extend(inputs[18:])
    np.testing.assert_allclose(grown.predict(), whole.predict(), atol=1e-5)
    for clients, values in batches(25, 3, 6, seed=9):  # and they go on together
        for gp in (grown, whole):
            gp.update(clients, values)
            gp.forget(0.1)
    np.testing.assert_allclose(grown.predict(), whole.predict(), atol=1e-5)
    np.testing.assert_allclose(covariance(grown), covariance(whole), atol=1e-5)


def test_extending_by_a_twin():
    inputs = points(6)
    gp = ExactGP.of(inputs, LENGTH, NOISE)
    gp.update(np.array([2]), np.array([1.0]))
    gp.extend(inputs[[2]])
    mean, deviation = gp.predict()
    assert mean[6] == pytest.approx(mean[2], abs=1e-6)
    assert deviation[6] == pytest.approx(deviation[2], abs=1e-6)


def test_keeping_some_clients():
    gp = ExactGP.of(points(9), LENGTH, NOISE)
    gp.update(np.array([1, 4, 5]), np.array([1.0, 2.0, 3.0]))
    mean, deviation = gp.predict()
    gp.keep(np.array([4, 0, 8]))
    np.testing.assert_array_equal(gp.predict(), [mean[[4, 0, 8]], deviation[[4, 0, 8]]])


def test_features_with_every_point_a_landmark_equal_exact():
    inputs = points(40)
    exact, feature = (
        ExactGP.of(inputs, LENGTH, NOISE),
        FeatureGP.of(inputs, LENGTH, NOISE, 40, np.random.default_rng(0)),
    )
    for clients, values in batches(40, 6, 8):
        for gp in (exact, feature):
            gp.update(clients, values)
            gp.forget(0.05)
    # single precision features, and eigenvalues below 1e-6 are cut
    np.testing.assert_allclose(feature.predict()[0], exact.predict()[0], atol=2e-3)
    np.testing.assert_allclose(feature.predict()[1], exact.predict()[1], atol=2e-3)


def test_features_at_two_thousand_clients():
    """256 landmarks in 6 dimensions, at the usual length: means within 0.05, deviations within 0.03 of exact."""
    inputs = points(2000, dimension=6)
    length = median_distance(inputs, np.random.default_rng(0))
    exact = ExactGP.of(inputs, length, NOISE)
    feature = FeatureGP.of(inputs, length, NOISE, 256, np.random.default_rng(0))
    draw = np.random.default_rng(1)
    truth = np.sin(inputs[:, 0]) + 0.5 * inputs[:, 1]
    for _ in range(15):
        clients = draw.choice(2000, 20, replace=False)
        values = truth[clients] + 0.3 * draw.normal(size=20)
        exact.update(clients, values)
        feature.update(clients, values)
    mean, deviation = exact.predict()
    near, near_deviation = feature.predict()
    assert np.abs(near - mean).max() < 0.05
    assert np.abs(near_deviation - deviation).max() < 0.03
    assert np.corrcoef(near, mean)[0, 1] > 0.999


def test_features_stay_honest_far_from_every_landmark():
    inputs = np.vstack([np.zeros((50, 2)) + points(50, dimension=2) * 0.1, [[50.0, 50.0]]])
    gp = FeatureGP.of(inputs[:50], LENGTH, NOISE, 8, np.random.default_rng(0))
    gp.extend(inputs[50:])
    for clients, values in batches(50, 5, 10):
        gp.update(clients, values)
    mean, deviation = gp.predict()
    assert len(mean) == 51
    assert abs(mean[50]) < 1e-6
    assert deviation[50] == pytest.approx(1.0)


def test_features_extend_and_keep():
    inputs = points(30)
    whole = FeatureGP.of(inputs[:20], LENGTH, NOISE, 20, np.random.default_rng(0))
    whole.update(np.arange(5), np.arange(5.0))
    before = np.array(whole.predict())
    whole.extend(inputs[20:])
    np.testing.assert_allclose(np.array(whole.predict())[:, :20], before, rtol=1e-5)
    # a newcomer in the place of a known client is believed to be like it
    whole.extend(inputs[[3]])
    np.testing.assert_allclose(np.array(whole.predict())[:, 30], before[:, 3], rtol=1e-4)
    whole.keep(np.array([3, 1]))
    np.testing.assert_allclose(whole.predict(), before[:, [3, 1]], rtol=1e-5)


def test_feature_count_is_a_power_of_two_that_falls_with_the_population():
    counts = [feature_count(clients) for clients in (2_000, 10_000, 100_000, 1_000_000, 10_000_000, 10**9)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (256, 32)
    assert all(count & (count - 1) == 0 for count in counts)


def test_median_distance():
    inputs = points(500, dimension=2)
    from scipy.spatial.distance import pdist

    assert median_distance(inputs, np.random.default_rng(0)) == pytest.approx(np.median(pdist(inputs)), rel=0.05)
    assert median_distance(np.zeros((4, 2)), np.random.default_rng(0)) == 1.0
