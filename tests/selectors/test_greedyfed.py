"""GreedyFed: every client once, then the largest mean Shapley values."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError
from enlist.simulation import Config, Simulation, simulate
from enlist.training.mixtures import Mixtures
from enlist.training.workers import Trainer
from tests.resuming import assert_resumes


def test_rounds_by_hand():
    selector = enlist.create("greedyfed", Clients(count=5), seed=1)
    first = selector.ask(k=2)
    selector.tell(first, Feedback(contribution=[0.4, 0.1]))
    second = selector.ask(k=2)
    assert not set(first.clients) & set(second.clients)
    selector.tell(second, Feedback(contribution=[-0.3, 0.2]))
    # One is left of the first pass; the other place goes to the best so far, 0.4.
    third = selector.ask(k=2)
    best, last = int(first.clients[0]), ({*range(5)} - {*first.clients.tolist(), *second.clients.tolist()}).pop()
    assert third.clients.tolist() == sorted([best, last])
    assert third.terms["new"].tolist() == [float(client == last) for client in third.clients.tolist()]
    selector.tell(third, Feedback(contribution=[-0.2 if client == best else 0.15 for client in third.clients]))
    # Means: (0.4 - 0.2) / 2 = 0.1 of the former best, 0.1, -0.3, 0.2, 0.15 of the last: the latter two lead.
    values = {
        best: 0.1,
        int(first.clients[1]): 0.1,
        int(second.clients[0]): -0.3,
        int(second.clients[1]): 0.2,
        last: 0.15,
    }
    np.testing.assert_allclose(selector.state.value, [values[client] for client in range(5)])
    assert selector.ask(k=2).clients.tolist() == sorted([int(second.clients[1]), last])


def test_memory_by_hand():
    selector = enlist.create("greedyfed", Clients(count=1), seed=1, memory=0.5)
    for value, expected in ((0.4, 0.2), (0.4, 0.3), (-0.1, 0.1)):  # v = v / 2 + value / 2, from 0
        selector.tell(selector.ask(k=1), Feedback(contribution=[value]))
        assert selector.state.value[0] == pytest.approx(expected)


def test_who_is_lost_keeps_the_value_nothing():
    selector = enlist.create("greedyfed", Clients(count=3), seed=1)
    outcome = [Outcome.COMPLETED, Outcome.DROPPED, Outcome.COMPLETED]
    selector.tell(selector.ask(k=3), Feedback(outcome=outcome, contribution=[-0.1, np.nan, 0.2]))
    assert selector.state.value.tolist() == [-0.1, 0.0, 0.2]
    assert selector.ask(k=2).clients.tolist() == [1, 2]


def config(data=None, rounds=None, **sections):
    partition = {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}
    return Config(
        data={"clients": 12, "partition": partition, **(data or {})},
        model={"name": "logistic"},
        rounds={"rounds": 6, "k": 4, **(rounds or {})},
        selector="greedyfed",
        **sections,
    )


def test_wrong_labels_are_worth_less():
    with Simulation(config(data={"label_noise": {"share": 0.5, "low": 0.9, "high": 1.0}})) as simulation:
        for _ in range(3):  # everybody once
            simulation.step()
        value, quality = simulation.selector.state.value, simulation.population.clients.quality
        assert (simulation.selector.state.rounds == 1).all()
    assert value[quality < 0.5].mean() < value[quality > 0.5].mean()


@pytest.mark.parametrize("model", [{"name": "logistic"}, {"name": "mlp", "hidden": [9, 5]}])
def test_small_dense_models_get_the_same_values_by_a_shorter_way(model, monkeypatch):
    """The samples pass the first layer once for every update, not once for every set of updates."""
    evaluate, evaluated, found = Trainer.evaluate, [], []
    monkeypatch.setattr(Trainer, "evaluate", lambda *some: evaluated.append(some[2]) or evaluate(*some))
    for fits in (True, False):
        monkeypatch.setattr(Mixtures, "fits", staticmethod(lambda *_, answer=fits: answer))
        evaluated.clear()
        with Simulation(config().replace({"model": model, "rounds.k": 9})) as simulation:
            simulation.step()
            found.append((simulation.selector.state.value, evaluated.count("validation")))
    (short, few), (long, many) = found
    assert few <= 2 < 50 < many  # of which one measures the model at the end of the round
    assert np.abs(long).max() > 1e-3
    np.testing.assert_allclose(short, long, rtol=0, atol=2e-5)


@pytest.mark.parametrize("protocol", ["synchronous", "buffered", "async", "late"])
def test_it_is_the_same_after_stops_with_other_workers(tmp_path, protocol):
    rounds = {"over_commit": 1.5, "late": "merge", "deadline": {"kind": "percentile"}} if protocol == "late" else {
        "protocol": protocol
    }  # fmt: skip
    chosen = config(rounds=rounds, failures={"crash": 0.2})
    assert_resumes(tmp_path, chosen, stops=[2, 4])


def test_without_validation_samples_it_is_refused():
    with pytest.raises(InputError, match=r"'greedyfed' learns from what updates do.*data\.validation is 0"):
        simulate(config(data={"validation": 0.0}))


def test_others_get_no_contributions():
    with Simulation(config().replace("selector=random")) as simulation:
        assert simulation.updates.contributions is None


def test_flower_refuses_it_at_once():
    from enlist.flower.selector import SelectorSource

    with pytest.raises(MissingColumnError, match=r"'greedyfed' needs contribution.*choose another selector"):
        SelectorSource.of("greedyfed", None, None, 0)
