"""One client that reports nonsense spoils nothing for the others: neither numbers nor the view of which are good."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import enlist
from enlist import Feedback, RoundMetrics
from enlist._internal import checks
from enlist.bandits import UCB, EpsilonGreedy, absurd, credible, top_k, weighted, weighted_by_logarithm
from enlist.bandits.linear import Standardiser
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.testing import run

CLIENTS, K, ROUNDS, LIAR = 24, 4, 120, 1
CLAIMS = ("loss", "loss_rms", "accuracy_gain", "accuracy", "num_examples")
PRESETS = [
    (name, preset) for name in enlist.names() for preset, given in enlist.selectors.get(name).presets.items() if given
]


def share_of_the_good(name: str, preset: str | None, lies: dict[str, float], deadline: float) -> float:
    """Of what honest clients are asked, the part that goes to the good half of them."""
    rng = np.random.default_rng(0)
    good = np.arange(CLIENTS) % 2 == 0
    features = np.stack([np.where(good, 4.0, 1.0) + 0.1 * rng.normal(size=CLIENTS), rng.normal(size=CLIENTS)], axis=1)
    clients = enlist.Clients(
        num_examples=np.full(CLIENTS, 50),
        features=features,
        feature_names=["cores", "x"],
        label_counts=np.where(good[:, None], [40, 10], [10, 40]),
        battery=np.full(CLIENTS, 1e6),
    )
    selector = enlist.create(name, clients, seed=1, preset=preset)
    for number in range(ROUNDS):
        picked = selector.ask(k=K, now=10.0 * number, deadline=deadline)
        better, count = good[picked.clients], len(picked)
        loss = np.where(better, 2.0, 0.5) + rng.uniform(0.0, 0.1, count)
        columns: dict[str, Any] = {
            "latency": np.where(better, 2.0, 6.0) + rng.uniform(0.0, 0.5, count),
            "num_examples": np.full(count, 50.0),
            "loss": loss,
            "loss_rms": loss.copy(),
            "accuracy": np.where(better, 0.3, 0.6),
            "accuracy_gain": np.where(better, 0.03, 0.01) + rng.normal(0.0, 0.003, count),
            "update": np.stack([np.where(better, 2.0, 1.0), loss], axis=1),
            "update_norm": np.where(better, 3.0, 1.0),
            "energy": np.full(count, 10.0),
            "contribution": np.where(better, 0.2, 0.1),
        }
        lying = picked.clients == LIAR
        accuracy = 0.3 + 0.001 * number + 0.01 * better.mean()
        if lying.any():
            accuracy = lies.get("round", accuracy)
        for column in lies.keys() & columns.keys():
            columns[column][lying] = lies[column]
        outcome = np.where(rng.uniform(size=count) < 0.05, 2, 0)
        selector.tell(picked, Feedback(outcome=outcome, **columns), RoundMetrics(accuracy=float(accuracy)))
    honest = np.arange(CLIENTS) != LIAR
    return float(selector.counts.selected[good & honest].sum() / selector.counts.selected[honest].sum())


@functools.cache
def undisturbed(name: str, preset: str | None, deadline: float) -> float:
    return share_of_the_good(name, preset, {}, deadline)


@pytest.mark.parametrize(
    "lies",
    [dict.fromkeys(CLAIMS, 1e15), {"latency": 1e300}, {"latency": 5e-324}, {"round": 1e300}],
    ids=["claims", "latency", "no latency", "round"],
)
@pytest.mark.parametrize("name", enlist.names())
def test_no_selector_is_blinded(name: str, lies: dict[str, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert share_of_the_good(name, None, lies, np.inf) >= undisturbed(name, None, np.inf) - 0.1


@pytest.mark.verify
@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_presets_go_on_too(name: str, preset: str) -> None:
    kind: Any = enlist.selectors.get(name)

    def made(self: Selector[Any, Any], clients: enlist.Clients, **arguments: Any) -> None:
        kind.__init__(self, clients, preset=preset, **arguments)

    run("one_absurd_client", type("Preset", (kind,), {"__init__": made}))


def test_fedsuv_survives_one_reply_of_1e160() -> None:
    clients = enlist.Clients(features=np.linspace(1.0, 2.0, 30)[:, None], num_examples=np.full(30, 10))
    selector = enlist.create("fedsuv", clients, seed=1)
    for number in range(60):
        picked = selector.ask(k=5, deadline=10.0)
        assert len(picked) == 5
        huge = 1e160 if number == 3 else 10.0
        sizes, losses = np.array([huge, 10.0, 10.0, 10.0, 10.0]), np.array([huge, 1.0, 1.0, 1.0, 1.0])
        selector.tell(picked, Feedback(loss_rms=losses, num_examples=sizes, accuracy_gain=np.full(5, 0.1)))
    assert all(np.isfinite(leaf).all() for path, leaf in selector.state.leaves() if not path.endswith(("high", "low")))


def test_values_are_cut_where_they_enter() -> None:
    told = Feedback(latency=[1e300, 1.0], loss=[-1e200, 5e-324], num_examples=[1.7e308, 2.0])
    resolved = told.resolved(enlist.Selection(1, np.array([0, 1])))
    assert resolved.latency is not None
    assert resolved.latency.tolist() == [1e15, 1.0]
    assert resolved.loss is not None
    assert resolved.loss.tolist() == [-1e15, 0.0]
    assert resolved.num_examples is not None
    assert resolved.num_examples.tolist() == [1e15, 2.0]
    assert RoundMetrics(loss=1e300, duration=1e-320) == RoundMetrics(loss=1e15, duration=0.0)
    clients = enlist.Clients(num_examples=[1e300, 1.0], features=[[1e200], [1e16]])
    assert clients.num_examples is not None
    assert clients.num_examples.tolist() == [1e15, 1.0]
    assert clients.features is not None
    assert clients.features.tolist() == [[1e30], [1e16]]


def test_ordinary_values_are_left_as_they_are() -> None:
    values = np.array([0.1, -3.0, np.nan, 0.0, -0.0, 1e15, 1e-30])
    assert checks.bounded(values) is values or checks.bounded(values).tobytes() == values.tobytes()
    assert credible(values[:2]) is not None
    many = np.random.default_rng(0).lognormal(sigma=3.0, size=1000) * 100
    assert credible(many) is many or credible(many).tobytes() == many.tobytes()


def test_a_deadline_beyond_all_time_is_none() -> None:
    selector = enlist.create("oort", enlist.Clients(count=4), seed=1)
    assert selector.ask(k=2, deadline=1.7e308).deadline == np.inf
    with pytest.raises(InputError, match="above 0"):
        selector.ask(k=2, deadline=1e-320)


def test_absurd_needs_three_and_never_begins_below_a_thousand() -> None:
    assert not absurd(np.array([1e15, 1.0]), np.array([1e15, 1.0])).any()
    assert absurd(np.array([1e15, 1.0, 2.0]), np.array([1e15, 1.0, 2.0])).tolist() == [True, False, False]
    assert not absurd(np.array([999.0]), np.full(9, 1e-9)).any()
    assert credible(np.array([3e15, 2e15, 1e15])).tolist() == [3e15, 2e15, 1e15]


def test_an_absurd_feature_counts_as_the_mean_and_moves_it_not() -> None:
    rows = np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0], [1e30, 1e30]])
    flags = np.array([False, True])
    scale, honest = Standardiser.fit(rows, flags), Standardiser.fit(rows[:3], flags)
    assert np.array_equal(scale.centre, honest.centre)
    assert np.array_equal(scale.spread, honest.spread)
    assert scale.apply(rows)[3].tolist() == [0.0, 0.0]


def test_rules_cut_rewards() -> None:
    for rule in (UCB(3), EpsilonGreedy(3, epsilon=0.0)):
        for reward in (1.7e308, -1.7e308, 1.7e308):
            rule.update([0, 1], [reward, 0.5])
        assert np.isfinite(rule.values()).all()


def test_a_score_of_nan_comes_last() -> None:
    chosen = top_k(np.array([np.nan, 1.0, np.nan, 3.0, 2.0]), 3, np.random.default_rng(0))
    assert sorted(chosen.tolist()) == [1, 3, 4]
    assert len(top_k(np.array([np.nan, np.nan, 3.0]), 2, np.random.default_rng(0))) == 2


def test_draws_by_logarithm_are_those_of_the_weights() -> None:
    logarithms = np.log(np.random.default_rng(1).uniform(0.1, 1.0, 30))
    by_weight = weighted(np.exp(logarithms - logarithms.max()), 5, np.random.default_rng(2))
    assert weighted_by_logarithm(logarithms, 5, np.random.default_rng(2)).tolist() == by_weight.tolist()
    apart = np.concatenate([logarithms, [1e9]])
    counts = np.zeros(31)
    for seed in range(300):
        counts[weighted_by_logarithm(apart, 2, np.random.default_rng(seed))] += 1
    assert counts[30] == 300
    assert np.corrcoef(counts[:30], np.exp(logarithms))[0, 1] > 0.5
