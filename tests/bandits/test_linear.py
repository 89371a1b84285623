"""Ridge posteriors against a direct solve."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.bandits import Ridge, RidgePerClient, Standardiser


def direct(features, rewards, ridge, at):
    """theta.x and sqrt(x' H^-1 x), with H and b formed from all data at once."""
    precision = ridge * np.eye(features.shape[1]) + features.T @ features
    theta = np.linalg.solve(precision, features.T @ rewards)
    return at @ theta, np.sqrt(np.einsum("ij,ij->i", at, np.linalg.solve(precision, at.T).T))


@pytest.mark.parametrize("ridge", [0.1, 1.0, 10.0])
def test_ridge_equals_a_direct_solve(ridge):
    draw = np.random.default_rng(0)
    features, rewards, at = draw.normal(size=(60, 5)), draw.normal(size=60), draw.normal(size=(9, 5))
    model = Ridge.of(5, ridge)
    for part in np.split(np.arange(60), [1, 8, 8, 30]):  # batches of 1, 7, 0, 22 and 30
        model.update(features[part], rewards[part])
    mean, width = direct(features, rewards, ridge, at)
    np.testing.assert_allclose(model.predict(at)[0], mean, atol=1e-10)
    np.testing.assert_allclose(model.predict(at)[1], width, atol=1e-10)
    np.testing.assert_allclose(at @ model.theta, mean, atol=1e-10)


def test_ridge_before_the_first_observation():
    mean, width = Ridge.of(3, 4.0).predict(np.array([[2.0, 0.0, 0.0]]))
    assert mean.tolist() == [0.0]
    assert width.tolist() == pytest.approx([1.0])  # sqrt(4 / 4)


@pytest.mark.parametrize("ridge", [0.5, 1.0])
def test_ridge_per_client_equals_a_direct_solve_for_each(ridge):
    draw = np.random.default_rng(1)
    model = RidgePerClient.of(6, 3, ridge)
    seen = {client: ([], []) for client in range(6)}
    for _ in range(40):
        clients = draw.choice(6, size=3, replace=False)
        features, rewards = draw.normal(size=(3, 3)), draw.normal(size=3)
        model.update(clients, features, rewards)
        for client, row, reward in zip(clients, features, rewards, strict=True):
            seen[client][0].append(row)
            seen[client][1].append(reward)
    at = draw.normal(size=(6, 3))
    mean, width = model.predict(at)
    for client, (rows, rewards) in seen.items():
        expected = direct(np.array(rows), np.array(rewards), ridge, at[[client]])
        assert mean[client] == pytest.approx(expected[0][0], abs=1e-9)
        assert width[client] == pytest.approx(expected[1][0], abs=1e-9)
    some = np.array([4, 1])
    np.testing.assert_allclose(model.predict(at[some], some), [mean[some], width[some]])


def test_ridge_per_client_grows_and_shrinks():
    model = RidgePerClient.of(2, 2, ridge=2.0)
    model.update(np.array([0]), np.array([[1.0, 0.0]]), np.array([3.0]))
    model.grow(1)
    at = np.tile([1.0, 0.0], (3, 1))
    mean, width = model.predict(at)
    assert mean.tolist() == pytest.approx([1.0, 0.0, 0.0])  # 3 / (2 + 1)
    assert (width**2).tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 2])
    model.keep(np.array([2, 0]))
    assert model.predict(at[:2])[0].tolist() == pytest.approx([0.0, 1.0])


def test_standardiser():
    raw = np.array([[1.0, 0.0, 7.0], [3.0, np.e - 1, 7.0], [5.0, np.e**2 - 1, 7.0]])
    scale = Standardiser.fit(raw, np.array([False, True, False]))
    rows = scale.apply(raw)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), [1.0, 1.0, 0.0], atol=1e-12)  # a constant column stays finite
    np.testing.assert_allclose(rows[:, 0], rows[:, 1], atol=1e-12)  # log1p gives 0, 1, 2
    np.testing.assert_array_equal(scale.apply(raw[[1]]), rows[[1]])
