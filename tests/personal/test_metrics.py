"""Metrics: AUC as scikit-learn has it, accuracy, loss, models that have burst, and gains with intervals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from enlist.errors import InputError
from enlist.personal.metrics import Metric, auc, gain


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_auc_is_scikit_learns_with_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([score for score, _ in pairs], float), np.array([label for _, label in pairs], int)
    if len(set(labels)) < 2:
        with pytest.raises(InputError, match=r"an AUC needs both.*metric = \"accuracy\""):
            auc(scores, labels)
    else:
        assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_scores_that_cannot_be_ranked_are_refused() -> None:
    with pytest.raises(InputError, match="a score is NaN"):
        auc([0.1, float("nan")], [0, 1])


def test_auc_by_hand() -> None:
    # Pairs (1 against 0): 0.7 beats 0.2 and 0.5; 0.5 beats 0.2 and ties with 0.5: (2 + 1.5) / 4.
    assert auc([0.2, 0.5, 0.7, 0.5], [0, 0, 1, 1]) == 0.875


def test_auc_of_logits_is_that_of_probabilities() -> None:
    outputs = torch.randn(500, 2, generator=torch.Generator().manual_seed(1))
    targets = (outputs[:, 1] + torch.randn(500, generator=torch.Generator().manual_seed(2)) > 0).long()
    expected = roc_auc_score(targets.numpy(), torch.softmax(outputs.double(), dim=1)[:, 1].numpy())
    assert Metric.of("auto", 2)(outputs, targets) == pytest.approx(expected, abs=1e-6)


def test_auto_is_auc_for_two_classes_accuracy_for_more_and_loss_for_a_regression() -> None:
    assert [Metric.of("auto", classes).name for classes in (2, 3, 10, 0)] == ["auc", "accuracy", "accuracy", "loss"]
    with pytest.raises(InputError, match="has 3 classes; it needs 2"):
        Metric.of("auc", 3)
    with pytest.raises(InputError, match='use "loss" or "auto"'):
        Metric.of("accuracy", 0)


def test_accuracy_and_loss_by_hand() -> None:
    outputs, targets = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 0.0]]), torch.tensor([0, 2, 1])
    assert Metric.of("auto", 3)(outputs, targets) == pytest.approx(2 / 3)
    probabilities = torch.softmax(outputs.double(), dim=1).numpy()
    expected = log_loss(targets.numpy(), probabilities, labels=[0, 1, 2])
    assert Metric.of("loss", 3)(outputs, targets) == pytest.approx(expected, abs=1e-9)
    squared = Metric.of("auto", 0)(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0]))
    assert squared == pytest.approx((1 + 4) / 2)


def test_a_model_that_has_burst_is_as_good_as_guessing() -> None:
    wild = torch.tensor([[float("nan"), 1.0], [float("inf"), float("-inf")], [float("nan")] * 2, [float("inf")] * 2])
    targets = torch.tensor([0, 1, 0, 1])
    burst = torch.full((4, 2), float("nan"))
    assert Metric.of("auc", 2)(burst, targets) == 0.5
    assert np.isfinite(Metric.of("auc", 2)(wild, targets))
    assert Metric.of("loss", 2)(burst, targets) == pytest.approx(np.log(2))
    huge = Metric.of("loss", 0)(torch.full((2, 1), 1e30), torch.zeros(2))
    assert np.isfinite(huge)
    assert huge > 1e50


def test_better_knows_the_direction() -> None:
    score, loss = Metric.of("auc", 2), Metric.of("loss", 2)
    assert score.better(0.7, 0.6)
    assert loss.better(0.6, 0.7)
    assert score.better(0.0, score.worst)
    assert loss.better(1e9, loss.worst)


def test_a_gain_has_an_interval_that_holds_the_truth_and_knows_the_direction() -> None:
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(0, 2, (800,), generator=generator)
    signal = targets.float() * 2 - 1
    good = torch.stack([torch.zeros(800), signal + torch.randn(800, generator=generator)], dim=1)
    poor = torch.stack([torch.zeros(800), 0.2 * signal + torch.randn(800, generator=generator)], dim=1)
    found = gain(Metric.of("auc", 2), good, poor, targets)
    assert 0 < found.low < found.mean < found.high
    loss = gain(Metric.of("loss", 2), good, poor, targets)
    assert loss.mean > 0


def test_resamples_that_lack_a_class_are_left_out() -> None:
    targets = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1])  # a third of all resamples lacks class 1: (7/8)^8
    outputs = torch.tensor([0.1, 0.4, 0.2, 0.9, 0.3, 0.5, 0.0, 0.8])[:, None] * torch.tensor([[0.0, 1.0]])
    found = gain(Metric.of("auc", 2), outputs, torch.zeros(8, 2), targets)
    assert found.mean == pytest.approx(6 / 7 - 0.5)
    assert -0.5 <= found.low < found.mean < found.high == 0.5


def test_no_resample_with_both_classes_is_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = torch.tensor([0, 1])
    metric = Metric.of("auc", 2)
    calls = iter([True])
    monkeypatch.setattr(metric, "defined", lambda targets: next(calls, False))
    found = gain(metric, targets[:, None] * torch.tensor([[0.0, 1.0]]), torch.zeros(2, 2), targets)
    assert found.mean == 0.5
    assert np.isnan([found.low, found.high]).all()
