"""SAFA against a plain re-implementation of its specification; its cache; that it learns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from enlist.errors import InputError
from enlist.simulation import Callback, Config, Simulation, build
from enlist.simulation.protocols import SafaMemory
from enlist.simulation.protocols import safa as safa_module
from enlist.streams import Streams
from enlist.training.local import TrainingTask, batches
from enlist.training.models import initialise
from tests.simulation.simulation_helpers import Memory, by_hand, config, model, run, scripted, sessions

WORLD: dict[str, Any] = {
    "selector": "safa",
    "data": {"clients": 9, "partition": "dirichlet"},
    "devices": {"kind": "phones"},
    "availability": {"kind": "bernoulli"},
    "failures": {"crash": 0.2},
    "training": {"lr": 0.2, "epochs": 2},
}


def safa(**rounds: Any) -> Config:
    return config(**WORLD, rounds={"rounds": 14, "k": 2, "protocol": "safa", "deadline": 60.0, **rounds})


class Models(Callback):
    """Keeps the global model after every round."""

    def __init__(self) -> None:
        self.found: list[Tensor] = []

    def on_round(self, simulation: Simulation, record: Any) -> None:
        self.found.append(model(simulation))


class Plain:
    """SAFA as the specification prints it: dictionaries of models, no sharing, no versions of slots."""

    def __init__(self, settings: Config, population: Any) -> None:
        self.settings, self.population = settings, population
        self.module = initialise(settings.model, population.shape, population.classes, Streams(settings.seed))
        start = self.flat(self.module)
        count = len(population)
        self.world = start
        self.local, self.cache = [start.clone() for _ in range(count)], [start.clone() for _ in range(count)]
        self.working: dict[int, Tensor] = {}
        self.version = [0] * count
        self.before: set[int] = set()

    @staticmethod
    def flat(module: Any) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])

    def trained(self, start: Tensor, client: int, round: int) -> Tensor:
        own = copy.deepcopy(self.module)
        torch.nn.utils.vector_to_parameters(start.clone(), own.parameters())
        local, samples = self.settings.training, self.population.samples["train"]
        first, stop = (int(edge) for edge in self.population.offsets[client : client + 2])
        task = TrainingTask(client, first, stop, local.steps_for(stop - first), round, 0, 0)
        plan = batches(task, local, Streams(self.settings.seed))
        by_hand(own, torch.from_numpy(samples.x), torch.from_numpy(samples.y), plan, local.lr)
        return self.flat(own)

    def round(self, number: int, rows: list[Any]) -> None:
        rounds = self.settings.rounds
        for client, version in enumerate(self.version):
            if number - 1 - version > rounds.lag_tolerance:  # also of clients that are not online
                self.cache[client] = self.world.clone()
        for row in rows:
            client = row["client"]
            if row["outcome"] == "arrived":
                continue
            behind = number - 1 - self.version[client]
            if behind > rounds.lag_tolerance:
                self.version[client] = number - 1
            if behind == 0 or behind > rounds.lag_tolerance:
                self.local[client] = self.world.clone()
        done = sorted((row["latency"], row["client"]) for row in rows if row["outcome"] == "completed")
        arrivals = [client for _, client in done]
        fresh = [client for client in arrivals if client not in self.before]
        others = [client for client in arrivals if client in self.before]
        picked = arrivals if len(arrivals) <= rounds.k else (fresh + others)[: rounds.k]
        finished = {client: self.trained(self.local[client], client, number) for client in arrivals}
        late = {
            row["client"]: self.trained(self.working[row["client"]], row["client"], row["selected_in"])
            for row in rows
            if row["outcome"] == "arrived"
        }
        for client in picked:
            self.cache[client] = finished[client]
        sizes = self.population.sizes
        self.world = sum(int(size) / int(sizes.sum()) * entry for size, entry in zip(sizes, self.cache, strict=True))
        for client, trained in {**late, **finished}.items():
            self.local[client], self.version[client] = trained, number
            if client not in picked:
                self.cache[client] = trained
        for row in rows:
            if row["outcome"] == "late":
                self.working[row["client"]] = self.local[row["client"]]
        self.before = set(picked)


def compact(simulation: Simulation, vector: Tensor) -> Tensor:
    return torch.cat([place.view(vector).flatten() for place in simulation.server.layout.parameters])


def assert_follows(settings: Config, population: Any = None) -> Memory:
    models = Models()
    population = population or build(settings)
    simulation, memory = run(settings, models, population=population)
    plain = Plain(settings, population)
    for number, found in enumerate(models.found, start=1):
        plain.round(number, [row for row in memory.participations if row["round"] == number])
        torch.testing.assert_close(compact(simulation, found), plain.world, rtol=1e-3, atol=1e-5)
    return memory


@pytest.mark.parametrize("tolerance", [0, 1, 5])
@pytest.mark.parametrize("late", ["drop", "merge"])
def test_the_model_follows_the_specification(tolerance: int, late: str) -> None:
    memory = assert_follows(safa(lag_tolerance=tolerance, late=late))
    outcomes = {row["outcome"] for row in memory.participations}
    assert outcomes >= {"completed", "late", "failed"} | ({"arrived"} if late == "merge" else set())


def test_more_arrivals_than_are_picked_take_effect_in_the_next_round() -> None:
    """Three clients of 1, 2 and 3 s, k = 1. Round 1: client 0 ends it. Round 2: 0 again at 1 s, but it was picked, so
    the server waits for 1 at 2 s and takes it; 0 goes to the cache behind its back, and counts in round 3."""
    settings = config(
        selector="safa",
        data={"clients": 3},
        rounds={"rounds": 3, "k": 1, "protocol": "safa", "late": "drop"},
        training={"lr": 0.3},
    )
    population = scripted(settings, compute=[1.0, 2.0, 3.0])
    memory = assert_follows(settings, population)
    assert memory.told(1) == {0: "completed", 1: "late", 2: "late"}
    assert memory.told(2) == {0: "completed", 1: "completed", 2: "late"}
    assert [row["end"] for row in memory.rounds] == [1.0, 3.0, 4.0]
    plain = Plain(settings, population)
    for number in (1, 2):
        plain.round(number, [row for row in memory.participations if row["round"] == number])
    first, _ = run(
        settings.model_copy(update={"rounds": settings.rounds.model_copy(update={"rounds": 2})}), population=population
    )
    sizes = population.sizes / population.sizes.sum()
    once = plain.trained(Plain(settings, population).world, 0, 1)
    start = Plain(settings, population).world
    # the bypassed model of round 2 is not in the mean of round 2: entry 0 is still that of round 1
    expected = sizes[0] * once + sizes[1] * plain.cache[1] + sizes[2] * start
    torch.testing.assert_close(compact(first, model(first)), expected.float(), rtol=1e-3, atol=1e-5)


def test_a_late_client_that_is_asked_again_keeps_what_it_was_sent() -> None:
    """Client 2 ends round 1 at 1 s and leaves. 0 and 1 are busy until 3 and 3.5 s, so round 2 begins when 0 arrives,
    and 0 is asked again at once. What it trained in round 1 started from the first model, whatever it is sent now."""
    settings = config(
        selector="safa",
        data={"clients": 3},
        training={"lr": 0.3},
        rounds={"rounds": 4, "k": 1, "protocol": "safa", "late": "merge", "deadline": 2.0, "lag_tolerance": 0},
    )
    population = scripted(settings, compute=[3.0, 3.5, 1.0], availability=sessions(3, [(2, 0.0, 1.0)]))
    models = Models()
    simulation, memory = run(settings, models, population=population)
    assert memory.told(1) == {0: "late", 1: "late", 2: "completed"}
    assert [(row["start"], row["end"]) for row in memory.rounds][:2] == [(0.0, 1.0), (3.0, 5.0)]
    second = [(row["client"], row["outcome"]) for row in memory.participations if row["round"] == 2]
    assert sorted(second) == [(0, "arrived"), (0, "late"), (1, "arrived")]
    plain = Plain(settings, population)
    start, sizes = plain.world, (population.sizes / population.sizes.sum()).tolist()
    third = plain.trained(start, 2, 1)
    w1 = (sizes[0] + sizes[1]) * start + sizes[2] * third
    torch.testing.assert_close(compact(simulation, models.found[0]), w1, rtol=1e-3, atol=1e-5)
    arrived = [plain.trained(start, client, 1) for client in (0, 1)]
    # in round 3 client 1 is asked (deprecated or up to date: it gets the model), client 0 arrives with round 2's work
    # client 2 is gone and client 0 under way: both are too far behind, and their entries the model that round 2 left
    w2 = compact(simulation, models.found[1])
    torch.testing.assert_close(w2, sizes[0] * arrived[0] + sizes[1] * w1 + sizes[2] * third, rtol=1e-3, atol=1e-5)
    w3 = (sizes[0] + sizes[2]) * w2 + sizes[1] * arrived[1]
    torch.testing.assert_close(compact(simulation, models.found[2]), w3, rtol=1e-3, atol=1e-5)


def test_entries_that_are_a_global_model_are_kept_once() -> None:
    settings = safa(lag_tolerance=2)
    simulation = Simulation(settings)
    memory = simulation.state.memory
    assert isinstance(memory, SafaMemory)
    assert memory.own == {}
    for _ in range(14):
        simulation.step()
        memory = simulation.state.memory
        assert isinstance(memory, SafaMemory)
        owners = set(np.flatnonzero((memory.cached < 0) | (memory.received < 0)).tolist())
        assert set(memory.own) == owners
        held = {*memory.cached[memory.cached >= 0], *memory.received[memory.received >= 0]}
        assert set(simulation.state.models.slots) == {int(version) for version in held} | {simulation.round}
    vectors = [entry.parameters for entry in memory.own.values()]
    before = [vector.clone() for vector in vectors]
    simulation.step()
    # training on and merging never write into an entry: they put another in its place
    assert all(torch.equal(a, b) for a, b in zip(vectors, before, strict=True))


def test_safa_learns() -> None:
    settings = Config(
        data={"clients": 40},
        selector="safa",
        rounds={"rounds": 60, "k": 5, "protocol": "safa", "deadline": 60.0, "late": "merge"},
        evaluation={"every": 60},
    )
    _, memory = run(settings)
    assert memory.rounds[-1]["accuracy"] > 0.6


def test_everybody_in_time_is_fedavg_over_the_whole_population() -> None:
    """If all arrive and all are picked, the cache holds exactly their models, and the mean is FedAvg's."""
    values: dict[str, Any] = {"data": {"clients": 5, "partition": "dirichlet"}}
    one, _ = run(config(**values, selector="safa", rounds={"rounds": 3, "k": 5, "protocol": "safa", "deadline": 1e6}))
    other, _ = run(config(**values, rounds={"rounds": 3, "k": 5}))
    # the round of SAFA ends when k that were not picked before have replied, or all have
    torch.testing.assert_close(model(one), model(other), rtol=1e-3, atol=1e-5)


def test_a_cache_that_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safa_module, "CACHE_BYTES", 2**10)
    with pytest.raises(
        InputError, match=r"SAFA keeps a model for each of 9 clients, .* Use fewer clients, a smaller model"
    ):
        Simulation(safa())


def test_safa_needs_a_selector_that_accepts() -> None:
    with pytest.raises(InputError, match=r'set selector\.name = "safa", or rounds\.protocol = "synchronous"'):
        config(selector="oort", rounds={"protocol": "safa"})


def test_a_bad_model_never_enters_the_cache() -> None:
    settings = config(
        selector="safa", training={"lr": 1e30, "epochs": 3}, rounds={"rounds": 2, "k": 4, "protocol": "safa"}
    )
    simulation, memory = run(settings)
    assert all(row["failed"] > 0 for row in memory.rounds)
    assert torch.isfinite(model(simulation)).all()


def test_many_rounds_of_safa_stay_bounded() -> None:
    settings = safa(rounds=150, late="merge", lag_tolerance=3)
    simulation = Simulation(settings)
    for _ in range(150):
        simulation.step()
        assert len(simulation.state.queue) <= 9
        assert len(simulation.state.models.slots) <= 12
        assert len(simulation.selector.openings) <= 7
        assert len(simulation.trainer.models.parameters) <= 64
