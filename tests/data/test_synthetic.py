"""Linear regression, Synthetic(alpha, beta) and the telecom data: shapes, formulas, and who helps whom."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from enlist.data import FedProxSynthetic, LinearRegression, Telecom
from enlist.data.telecom import RATES
from enlist.errors import InputError
from enlist.streams import Streams


def least_squares(samples):
    design = np.c_[samples.x, np.ones(len(samples))]
    return np.linalg.lstsq(design, samples.y, rcond=None)[0], design


def test_linear_regression_has_one_rule_and_the_noise_asked_for():
    dataset = LinearRegression(features=4, samples=5000, test_samples=2000, noise=0.3).load(Streams(1))
    weights, _ = least_squares(dataset.train)
    other, design = least_squares(dataset.test)
    np.testing.assert_allclose(weights, other, atol=0.05)
    assert (dataset.test.y - design @ weights).std() == pytest.approx(0.3, rel=0.05)
    assert dataset.classes == 0
    exact = LinearRegression(noise=0.0).load(Streams(1))
    weights, design = least_squares(exact.train)
    np.testing.assert_allclose(exact.train.y, design @ weights, atol=1e-4)
    assert not np.allclose(exact.train.y, LinearRegression(noise=0.0).load(Streams(2)).train.y)


def test_fedprox_sizes_and_split():
    dataset = FedProxSynthetic().load(Streams(1))
    trained, tested = np.bincount(dataset.train.users), np.bincount(dataset.test.users)
    sizes = trained + tested
    assert len(sizes) == 30
    assert sizes.min() >= 50
    assert (abs(tested - 0.1 * sizes) <= 1).all()
    assert sizes.max() > 3 * np.median(sizes)


def test_fedprox_input_variances_fall_as_the_paper_says():
    dataset = FedProxSynthetic(iid=True, users=200).load(Streams(2))
    variances = dataset.train.x.var(axis=0, dtype=float)
    np.testing.assert_allclose(variances, np.arange(1, 61) ** -1.2, rtol=0.1)
    np.testing.assert_allclose(dataset.train.x.mean(axis=0), 0, atol=0.03)


def means(beta):
    dataset = FedProxSynthetic(users=60, alpha=0, beta=beta).load(Streams(3))
    x, users = dataset.train.x, dataset.train.users
    return np.stack([x[users == user].mean(axis=0) for user in range(60)])


def test_fedprox_beta_moves_users_apart():
    # Centre entries: variance 1 within a user, beta^2 shared by all entries of a user.
    assert means(0.0).mean(axis=1).std() == pytest.approx(1 / np.sqrt(60), rel=0.35)
    assert means(2.0).mean(axis=1).std() == pytest.approx(2.0, rel=0.35)


def test_fedprox_users_share_a_rule_only_if_iid():
    def agreement(**knobs):
        dataset = FedProxSynthetic(users=6, features=8, classes=3, **knobs).load(Streams(4))
        largest = np.bincount(dataset.train.users).argmax()
        one = dataset.train.take(dataset.train.users == largest)
        model = LogisticRegression(C=100.0, max_iter=500).fit(one.x, one.y)
        others = dataset.train.take(dataset.train.users != largest)
        return model.score(others.x, others.y)

    assert agreement(iid=True) > 0.85
    assert agreement(alpha=1.0, beta=1.0) < 0.7


def test_fedprox_with_one_rule_one_model_serves_users_whose_inputs_differ():
    def pooled(**knobs):
        train = FedProxSynthetic(users=20, features=8, classes=3, **knobs).load(Streams(4)).train
        centres = np.stack([train.x[train.users == user].mean(axis=0) for user in range(20)])
        return LogisticRegression(C=100.0, max_iter=500).fit(train.x, train.y).score(train.x, train.y), centres

    fit, centres = pooled(one_rule=True)
    apart, same = pooled(alpha=1.0)
    assert fit > 0.97
    assert apart < 0.8
    np.testing.assert_array_equal(centres, same)


@pytest.mark.parametrize("knobs", [{"iid": True, "alpha": 0.5}, {"iid": True, "beta": 0.0}])
def test_fedprox_refuses_knobs_that_iid_makes_void(knobs):
    with pytest.raises(InputError, match="iid = true makes all users alike"):
        FedProxSynthetic(**knobs)


@pytest.mark.parametrize("knobs", [{"alpha": 0.5}, {"iid": True}])
def test_fedprox_refuses_knobs_that_one_rule_makes_void(knobs):
    with pytest.raises(InputError, match="one_rule = true gives all users one rule"):
        FedProxSynthetic(one_rule=True, **knobs)


@pytest.mark.parametrize("knob", ["iid", "one_rule"])
def test_fedprox_options_survive_being_written_out(knob):
    options = FedProxSynthetic(**{knob: True})
    assert FedProxSynthetic(**options.model_dump(mode="json")) == options


def test_a_users_data_do_not_depend_on_how_many_there_are():
    few, many = (FedProxSynthetic(users=n, test_share=0.5).load(Streams(5)) for n in (2, 4))

    def rows(dataset):
        parts = [part.x[part.users == 0] for part in (dataset.train, dataset.test)]
        return {row.tobytes() for row in np.concatenate(parts)}

    assert rows(few) == rows(many)


def test_telecom_has_the_shape_of_the_thesis():
    dataset = Telecom().load(Streams(1))
    assert dataset.shape == (153,)
    assert {part: len(samples) for part, samples in dataset.parts.items()} == {
        "train": 400,
        "validation": 16_000,
        "test": 23_600,
    }
    for part, samples in dataset.parts.items():
        assert_array_equal(np.unique(samples.users), [1, 2, 3, 4])
        assert len(set(np.bincount(samples.users)[1:])) == 1
        for worker in range(1, 5):
            rate = samples.y[samples.users == worker].mean()
            assert rate == pytest.approx(RATES[part][worker - 1], abs=0.005)
    x = np.concatenate([samples.x for samples in dataset.parts.values()])
    distinct = np.array([len(np.unique(column[:500])) for column in x.T])
    assert ((distinct <= 5) == (np.arange(153) >= 151)).all()
    assert_array_equal(np.unique(x[:, 151:]), [0, 1, 2, 3, 4])
    assert (x[:, :151].min(axis=0) < 0).all()


def test_telecom_parts_share_no_row_and_follow_the_seed():
    dataset = Telecom(rows=2000, train_share=0.2).load(Streams(1))
    rows = [row.tobytes() for samples in dataset.parts.values() for row in samples.x]
    assert len(set(rows)) == len(rows) == 2000
    assert_array_equal(Telecom(rows=2000, train_share=0.2).load(Streams(1)).test.x, dataset.test.x)
    assert not np.array_equal(Telecom(rows=2000, train_share=0.2).load(Streams(2)).test.x, dataset.test.x)


def score(dataset, workers, part="train"):
    """Test AUC at worker 2 of a model trained on these workers together."""
    samples = dataset.parts[part]
    trained = samples.take(np.isin(samples.users, workers))
    target = dataset.test.take(dataset.test.users == 2)
    model = LogisticRegression(C=0.1, solver="liblinear").fit(trained.x, trained.y)
    return roc_auc_score(target.y, model.decision_function(target.x))


@pytest.fixture(scope="module")
def scores():
    combinations = [(2,), (1, 2), (2, 3), (2, 4), (1, 2, 3, 4)]
    table = []
    for seed in range(6):
        dataset = Telecom().load(Streams(seed))
        table.append([score(dataset, workers) for workers in combinations])
    return dict(zip(combinations, np.array(table).T, strict=True))


def test_telecom_worker_3_helps_worker_2_and_the_others_do_not(scores):
    best = scores[2, 3]
    for workers, others in scores.items():
        if workers != (2, 3):
            gain = best - others
            assert gain.mean() > 0.02, workers
            assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain)), workers
    assert scores[1, 2].mean() > scores[2, 4].mean()


def test_telecom_with_much_data_worker_2_does_best_alone():
    dataset = Telecom(train_share=0.5, validation_share=0.01).load(Streams(1))
    assert score(dataset, (2,)) > score(dataset, (2, 3))


def test_telecom_difficulty_lowers_what_can_be_reached():
    reached = []
    for difficulty in (0.0, 0.5, 1.0):
        dataset = Telecom(rows=8000, difficulty=difficulty).load(Streams(1))
        reached.append(score(dataset, (2,), part="validation"))
    assert reached[0] > 0.9
    assert reached[0] > reached[1] + 0.05
    assert reached[2] == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"train_share": 0.7, "validation_share": 0.4}, "train_share . validation_share = 1.1"),
        ({"likeness": (0.1, 0.9, 0.5, 0.1)}, "that of worker 2 is 1"),
        ({"likeness": (2.0, 1.0, 0.5, 0.1)}, "cosines lie in"),
        ({"rows": 400}, "a part has 1 samples for each worker"),
        ({"difficulty": 1.5}, "difficulty = 1.5"),
    ],
)
def test_telecom_refuses_what_makes_no_sense(knobs, words):
    with pytest.raises(InputError, match=words):
        Telecom(**knobs)
