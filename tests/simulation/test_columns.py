"""The simulator gives selectors label counts and sketches, and takes their weights and shares of work."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from enlist import Selector
from enlist.errors import InputError
from enlist.simulation import Config, Simulation, simulate
from enlist.streams import Streams
from enlist.training.sketch import Sketch

SMALL = {
    "data": {"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
    "model": {"name": "logistic"},
    "training": {"batch": 10, "epochs": 2},
    "rounds": {"rounds": 3, "k": 3},
}


class Looking(Selector):
    """Needs everything, and notes it."""

    needs = frozenset({"clients.label_counts", "update", "update_norm"})

    def initial_state(self):
        self.told = []
        return super().initial_state()

    def choose(self, request):
        return request.pick(self.rng.permutation(len(request.available))[: request.k])

    def learn(self, told):
        self.told.append(told.feedback)


class Weighing(Selector):
    """The first k, with its own weights."""

    weights = (0.5, 0.25, 2.0)

    def choose(self, request):
        weights = np.resize(self.weights, len(request.available))
        return request.pick(np.arange(request.k), weights=weights)


class Halving(Selector):
    """The first k; the second does half of its work."""

    def choose(self, request):
        work = np.ones(len(request.available))
        work[1] = 0.5
        return request.pick(np.arange(request.k), work=work)


def test_label_counts_and_sketches_come_to_those_who_need_them():
    with Simulation(Config(**SMALL), Looking) as simulation:
        before = simulation.server.model.parameters.clone()
        record = simulation.step()
        selector = simulation.selector
        np.testing.assert_array_equal(selector.clients.label_counts, simulation.population.counts)
        told = selector.told[0]
        assert told.update.shape == (3, 64)
        assert told.update_norm.min() > 0
        change = (simulation.server.model.parameters - before).double()
        weights = np.array([row["weight"] for row in record.participations])
        mean = (weights[:, None] * told.update).sum(axis=0) / weights.sum()
        sketch = simulation.updates.sketch.of(change)
        np.testing.assert_allclose(mean, sketch, atol=1e-4 * float(change.norm()))  # a sketch of the mean is the mean


def test_others_are_not_given_them():
    with Simulation(Config(**SMALL), "oort") as simulation:
        assert simulation.selector.clients.label_counts is None
        assert simulation.updates.sketch is None


def test_the_model_moves_by_the_weighted_sum():
    plain = {}
    for client in range(3):  # each alone, weight 1: its own update
        config = Config(**SMALL).replace("rounds.k=3")

        class Alone(Weighing):
            weights = tuple(1.0 if place == client else 0.0 for place in range(3))

        with Simulation(config, Alone) as simulation:
            before = simulation.server.model.parameters.clone()
            simulation.step()
            plain[client] = (simulation.server.model.parameters - before).double()
    with Simulation(Config(**SMALL), Weighing) as simulation:
        before = simulation.server.model.parameters.clone()
        record = simulation.step()
        change = (simulation.server.model.parameters - before).double()
    wanted = sum(weight * plain[client] for client, weight in enumerate(Weighing.weights))
    assert torch.allclose(change, wanted, atol=1e-6)
    assert [row["weight"] for row in record.participations] == [0.5, 0.25, 2.0]


def test_an_aggregation_without_weights_refuses_them():
    config = Config(**SMALL, server={"aggregation": {"kind": "median"}})
    with Simulation(config, Weighing) as simulation, pytest.raises(InputError, match="'median', which has no weights"):
        simulation.step()


def test_half_the_work_takes_half_the_time_and_half_the_steps():
    config = Config(**SMALL)
    rows, steps = {}, {}
    for kind in (Weighing, Halving):
        with Simulation(config, kind) as simulation:
            rows[kind] = simulation.step().participations
            asked = simulation.selector.ask(k=3)
            share = [simulation.clients.share(asked, 1, client) for client in range(3)]
            steps[kind] = [task.steps for task in simulation.clients.tasks(np.arange(3), asked, 1, share, [0] * 3)]
    for place, share in ((0, 1.0), (1, 0.5), (2, 1.0)):
        assert rows[Halving][place]["compute"] == pytest.approx(share * rows[Weighing][place]["compute"])
    assert steps[Halving][0] == steps[Weighing][0]
    assert steps[Halving][1] == pytest.approx(steps[Weighing][1] / 2, abs=0.5)


@pytest.mark.parametrize("kind", [Looking, Weighing, Halving])
def test_late_drop_outs_resume_and_workers_change_nothing(kind, tmp_path):
    deadline = {"kind": "percentile", "percentile": 60.0}
    config = Config(
        **SMALL | {"rounds": {"rounds": 6, "k": 3, "over_commit": 1.4, "late": "merge", "deadline": deadline}},
        devices={"kind": "phones"},
        failures={"crash": 0.2},
        seed=4,
    )
    simulate(config, kind, folder=tmp_path / "whole")
    for stop, workers in ((2, 2), (6, 1)):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, kind, folder=tmp_path / "cut", workers=workers, resume=stop > 2)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_sketches_keep_inner_products_within_the_stated_error():
    rng = np.random.default_rng(3)
    errors = []
    for seed in range(40):
        sketch = Sketch(5000, Streams(seed))
        x, y = (torch.from_numpy(rng.standard_normal(5000)).float() for _ in range(2))
        y = y + 0.5 * x
        errors.append((sketch.of(x) @ sketch.of(y) - float(x @ y)) / float(x.norm() * y.norm()))
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(len(errors))  # no bias
    assert np.std(errors) < np.sqrt(2 / 64)


def test_the_size_of_a_sketch_is_a_setting(tmp_path):
    """Longer sketches than the default are kept by selectors, saved, and gone on with; joining clients get as many."""
    joins = {"joins": [{"round": 4, "clients": 2}]}
    rounds = {"rounds": 5, "k": 3}
    settings = Config(**SMALL | {"rounds": rounds}, selector="divfl", server={"sketch": 100}, membership=joins)
    simulate(settings, folder=tmp_path / "whole")
    for rounds in (2, 5):
        again = simulate(settings.replace(f"rounds.rounds={rounds}"), folder=tmp_path / "cut", resume=rounds > 2)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    assert again.config.server.sketch == 100
    with Simulation(settings) as simulation:
        for _ in range(5):
            simulation.step()
        assert simulation.selector.state.values.shape == (8, 100)
    assert "sketch" not in Config().model_dump()["server"]  # runs of before it was a setting can be continued
