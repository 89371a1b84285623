"""Whole rounds: training against hand-written loops, times against hand-computed schedules, bad updates, luck."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from enlist.data import Dataset, Samples
from enlist.devices import DeviceFailures
from enlist.errors import InputError
from enlist.records import Outcome
from enlist.simulation import Config, Simulation, build
from enlist.simulation.round.clock import Event, Kind
from enlist.simulation.simulation import PATIENCE
from enlist.streams import Streams
from enlist.training.local import TrainingTask, batches
from enlist.training.models import initialise
from tests.simulation.simulation_helpers import Remembering, by_hand, config, model, named, run, scripted, sessions

LOCAL = {
    "plain": {},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 0.01, "epochs": 2},
    "prox": {"prox": 0.5, "epochs": 3},
    "steps": {"steps": 3, "prox": 0.1, "momentum": 0.5},
}
MODELS: dict[str, Any] = {
    "stacked": {"name": "mlp", "hidden": [9]},
    "sequential": {"name": "cnn", "channels": [2, 3], "hidden": [5]},
}


def fresh_module(settings: Config, population: Any) -> nn.Module:
    return initialise(settings.model, population.shape, population.classes, Streams(settings.seed))


def train(
    module: nn.Module, population: Any, settings: Config, client: int, round: int, steps: int | None = None
) -> Any:
    """A client's model after training from `module`, in plain PyTorch; also the losses of its steps."""
    own, local = copy.deepcopy(module), settings.training
    start, stop = (int(edge) for edge in population.offsets[client : client + 2])
    task = TrainingTask(client, start, stop, steps or local.steps_for(stop - start), round, 0, 0)
    x, y = (torch.from_numpy(values) for values in (population.samples["train"].x, population.samples["train"].y))
    plan = batches(task, local, Streams(settings.seed))
    rate = local.lr * local.lr_decay ** (round - 1)
    losses = by_hand(own, x, y, plan, rate, local.momentum, local.weight_decay, local.prox, population.classes)
    return own, losses


def update(after: nn.Module, before: nn.Module) -> dict[str, Any]:
    start = before.state_dict()
    return {name: value - start[name] for name, value in after.state_dict().items()}


def mean(updates: list[dict[str, Any]], weights: list[float]) -> dict[str, Any]:
    total = sum(weights)
    pairs = list(zip(updates, weights, strict=True))
    return {name: sum(weight * change[name] for change, weight in pairs) / total for name in updates[0]}


def moved(module: nn.Module, change: dict[str, Any]) -> nn.Module:
    other = copy.deepcopy(module)
    other.load_state_dict({name: value + change[name] for name, value in module.state_dict().items()})
    return other


def assert_model(found: dict[str, Any], expected: nn.Module) -> None:
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=2e-4, atol=3e-6)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("kind", MODELS)
def test_a_round_of_fedavg_equals_a_loop_by_hand(kind: str, local: str) -> None:
    settings = config(
        data={"partition": "dirichlet", "clients": 8},
        model=MODELS[kind],
        training={"measure": True, **LOCAL[local]},
        rounds={"rounds": 1, "k": 8},
    )
    simulation, memory = run(settings)
    population = build(settings)
    assert len(set(population.sizes.tolist())) > 3
    module = fresh_module(settings, population)
    updates, samples, all_losses = [], [], []
    for row in memory.participations:
        after, losses = train(module, population, settings, row["client"], 1)
        first = torch.cat(losses[: math.ceil(population.sizes[row["client"]] / 20)])
        assert row["num_examples"] == len(first)
        assert row["loss"] == pytest.approx(float(first.mean()), rel=1e-4)
        assert row["loss_rms"] == pytest.approx(float((first**2).mean() ** 0.5), rel=1e-4)
        updates.append(update(after, module))
        samples.append(float(len(first)))
        all_losses.append(float(first.mean()))
    assert [row["client"] for row in memory.participations] == list(range(8))
    assert_model(named(simulation), moved(module, mean(updates, samples)))
    assert memory.rounds[0]["train_loss"] == pytest.approx(np.average(all_losses, weights=samples), rel=1e-4)


def test_one_full_step_everywhere_is_a_step_of_centralised_sgd() -> None:
    settings = config(training={"batch": 10_000, "lr": 0.5}, rounds={"rounds": 3, "k": 10}, data={"validation": 0})
    simulation, _ = run(settings)
    population = build(settings)
    module = fresh_module(settings, population)
    x, y = (torch.from_numpy(values) for values in (population.samples["train"].x, population.samples["train"].y))
    for _ in range(3):
        module.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.5 * parameter.grad
    assert len(x) == 1438
    assert_model(named(simulation), module)


def test_several_rounds_equal_a_loop_by_hand() -> None:
    settings = config(rounds={"rounds": 4, "k": 3}, training={"lr_decay": 0.8}, evaluation={"every": 1})
    simulation, memory = run(settings)
    population = build(settings)
    module = fresh_module(settings, population)
    test = population.samples["test"]
    for row in memory.rounds:
        chosen = [entry["client"] for entry in memory.participations if entry["round"] == row["round"]]
        updates = [update(train(module, population, settings, client, row["round"])[0], module) for client in chosen]
        module = moved(module, mean(updates, population.sizes[chosen].tolist()))
        with torch.no_grad():
            outputs, y = module(torch.from_numpy(test.x)), torch.from_numpy(test.y)
        assert row["accuracy"] == pytest.approx(float((outputs.argmax(1) == y).float().mean()), abs=0.003)
        assert row["loss"] == pytest.approx(float(nn.functional.cross_entropy(outputs, y)), rel=1e-3)
    assert_model(named(simulation), module)


PARTS = {
    "download": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    "compute": [2.0, 6.0, 3.0, 10.0, 4.0, 8.0],
    "upload": [1.0, 2.0, 1.0, 3.0, 1.0, 5.0],
}
"""In all 4, 9, 5, 14, 6 and 14 seconds."""


def crash(monkeypatch: pytest.MonkeyPatch, plan: dict[tuple[int, int], float]) -> None:
    """Who crashes, (round, client) -> after which fraction of its work."""

    def crashes(self: DeviceFailures, round: int, streams: Streams, count: int) -> Any:
        fraction = np.array([plan.get((round, client), 1.0) for client in range(count)])
        return fraction < 1.0, fraction

    monkeypatch.setattr(DeviceFailures, "crashes", crashes)


def test_times_outcomes_and_what_is_told_follow_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over-commitment: 6 are asked for 3 replies. Client 0 crashes half-way (2 s), client 2 goes offline at 3 s.

    Replies: 4 at 6 s, 1 at 9 s, 3 and 5 at 14 s: the third is client 3's, and client 5 is late by a tie. Then
    client 2 is offline: 0, 4, 1 reply after 4, 6, 9 s, twice.
    """
    Remembering.register(monkeypatch)
    crash(monkeypatch, {(1, 0): 0.5})
    settings = config(
        selector="remembering",
        data={"clients": 6},
        rounds={"rounds": 3, "k": 3, "over_commit": 2.0, "deadline": 20.0},
    )
    population = scripted(settings, **PARTS, availability=sessions(6, [(2, 0.0, 3.0), (2, 40.0, 1e6)]))
    _, memory = run(settings, population=population)
    assert [(row["start"], row["end"], row["duration"]) for row in memory.rounds] == [
        (0, 14, 14),
        (14, 23, 9),
        (23, 32, 9),
    ]
    assert memory.told(1) == {0: "failed", 1: "completed", 2: "dropped", 3: "completed", 4: "completed", 5: "late"}
    assert memory.told(2) == {0: "completed", 1: "completed", 3: "late", 4: "completed", 5: "late"}
    counted = [
        [row[name] for name in ("available", "selected", "completed", "late", "dropped", "failed")]
        for row in memory.rounds
    ]
    assert counted == [[6, 6, 3, 1, 1, 1], [5, 5, 3, 2, 0, 0], [5, 5, 3, 2, 0, 0]]
    assert [row["deadline"] for row in memory.rounds] == [20.0] * 3

    number, told, metrics = Remembering.heard[0]
    assert number == 1
    assert told.outcome.tolist() == [Outcome.FAILED, 0, Outcome.DROPPED, 0, 0, Outcome.LATE]
    np.testing.assert_array_equal(told.latency, [math.nan, 9, math.nan, 14, 6, 14])
    np.testing.assert_array_equal(told.upload_latency, [math.nan, 2, math.nan, 3, 1, math.nan])
    assert told.censored.tolist() == [False] * 5 + [True]
    assert metrics.duration == 14.0
    for name in ("loss", "accuracy", "accuracy_gain", "num_examples"):
        assert np.isnan(getattr(told, name)).tolist() == [True, False, True, False, False, True]
    assert told.num_examples[1] == population.sizes[1]
    assert [(ask.now, ask.deadline, ask.k) for ask in Remembering.asked] == [(0, 20, 6), (14, 20, 6), (23, 20, 6)]

    rows = {row["client"]: row for row in memory.participations if row["round"] == 1}
    assert [rows[3][name] for name in ("latency", "download", "compute", "upload")] == [14.0, 1.0, 10.0, 3.0]
    assert (rows[5]["latency"], rows[5]["censored"]) == (14.0, True)
    assert rows[3]["weight"] == population.sizes[3]
    assert "latency" not in rows[0]


def test_with_a_deadline_the_server_waits_in_vain_for_who_went_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(data={"clients": 6}, rounds={"rounds": 2, "k": 6, "deadline": 20.0})
    away = sessions(6, [(2, 0.0, 3.0), (2, 30.0, 1e6)])
    _, memory = run(settings, population=scripted(settings, **PARTS, availability=away))
    assert [(row["start"], row["end"]) for row in memory.rounds] == [(0, 20), (20, 34)]
    assert memory.told(1)[2] == "dropped"
    assert 2 not in memory.told(2)
    settings = config(data={"clients": 6}, rounds={"rounds": 2, "k": 6})
    _, memory = run(settings, population=scripted(settings, **PARTS, availability=away))
    assert [(row["start"], row["end"]) for row in memory.rounds] == [(0, 14), (14, 28)]


def test_a_client_must_be_online_all_the_time_that_it_works() -> None:
    """Client 0 works from 0 to 4 s. A gap of half a second at 2 s loses it; going offline at 4 s does not."""
    settings = config(data={"clients": 6}, rounds={"rounds": 1, "k": 6})
    for rows, expected in (
        ([(0, 0.0, 2.0), (0, 2.5, 1e6)], "dropped"),
        ([(0, 0.0, 4.0), (0, 4.5, 1e6)], "completed"),
        ([(0, 0.0, 3.999), (0, 4.5, 1e6)], "dropped"),
    ):
        _, memory = run(settings, population=scripted(settings, **PARTS, availability=sessions(6, rows)))
        assert memory.told(1)[0] == expected


def test_nobody_online_means_waiting_for_the_first() -> None:
    settings = config(data={"clients": 6}, rounds={"rounds": 2, "k": 2})
    rows = [(client, 100.0 + 50 * client, 5000.0) for client in range(6)]
    _, memory = run(settings, population=scripted(settings, **PARTS, availability=sessions(6, rows, period=1e5)))
    assert [(row["start"], row["available"], row["selected"]) for row in memory.rounds] == [(100, 1, 1), (104, 1, 1)]


def test_a_run_without_anybody_ever_ends_by_itself() -> None:
    settings = config(data={"clients": 3}, rounds={"rounds": 9, "k": 2})
    rows = [(client, 5.0, 5.0) for client in range(3)]
    simulation, memory = run(settings, population=scripted(settings, availability=sessions(3, rows)))
    assert [row["selected"] for row in memory.rounds] == [0]
    assert simulation.result()["status"] == "abandoned"


def test_partial_work_meets_the_deadline() -> None:
    """Client 1: transfers take 2 s and computing 10 s; within 7 s it can do 3 of 7 steps, which is 43 %."""
    parts = {"download": [1.0] * 10, "compute": [1.0, 10.0, 99.0] + [1.0] * 7, "upload": [1.0] * 10}
    for least, outcome in ((1.0, "late"), (0.5, "late"), (0.4, "completed")):
        settings = config(rounds={"rounds": 1, "k": 10, "deadline": 7.0}, training={"partial": least, "prox": 0.1})
        population = scripted(settings, **parts)
        assert settings.training.steps_for(int(population.sizes[1])) == 7
        simulation, memory = run(settings, population=population)
        assert memory.told(1)[0] == "completed"
        assert memory.told(1)[2] == "late"  # 2 % are never enough
        assert memory.told(1)[1] == outcome
        if outcome == "completed":
            row = memory.participations[1]
            assert row["compute"] == pytest.approx(10 * 3 / 7)
            assert row["latency"] == pytest.approx(2 + 10 * 3 / 7)
            assert row["num_examples"] == 60
            module = fresh_module(settings, population)
            done = [client for client in range(10) if client != 2]
            changes = [
                update(train(module, population, settings, client, 1, steps=3 if client == 1 else None)[0], module)
                for client in done
            ]
            weights = [60.0 if client == 1 else float(population.sizes[client]) for client in done]
            assert_model(named(simulation), moved(module, mean(changes, weights)))


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.7, 1.1, 7.3])
def test_partial_work_that_just_fits_is_in_time(seconds: float) -> None:
    """The deadline is a whole number of steps: rounding errors must not make the client late, or break the run."""
    steps = 7
    for now in (0.0, 1e5):
        settings = config(
            rounds={"rounds": 1, "k": 10, "deadline": 3 * seconds}, training={"partial": 0.1}, evaluation={"every": 9}
        )
        rows = [(client, now, 1e6) for client in range(10)]
        population = scripted(settings, compute=[steps * seconds] * 10, availability=sessions(10, rows))
        _, memory = run(settings, population=population)
        assert set(memory.told(1).values()) == {"completed"}


@pytest.mark.parametrize("ulps", [-3, -1, 0, 1])
def test_a_reply_within_rounding_of_the_deadline_does_not_break_the_run(ulps: int) -> None:
    """At a late hour, now + latency and now + deadline are one number though latency > deadline by a hair."""
    latency = 10.1
    deadline = latency + ulps * math.ulp(latency)
    settings = config(data={"clients": 3}, rounds={"rounds": 3, "k": 3, "deadline": deadline})
    rows = [(client, 1000.0, 1e6) for client in range(3)]
    population = scripted(settings, compute=[latency] * 3, availability=sessions(3, rows))
    _, memory = run(settings, population=population)
    assert len(memory.rounds) == 3


def test_a_deadline_that_follows_equal_latencies_does_not_break_the_run() -> None:
    deadline = {"kind": "moving-average", "factor": 1.0, "alpha": 0.3}
    settings = config(
        devices={"kind": "equal", "compute": 33.3}, rounds={"rounds": 12, "k": 5, "deadline": deadline},
        data={"clients": 5}, training={"steps": 3},
    )  # fmt: skip
    _, memory = run(settings)
    assert len(memory.rounds) == 12


def late_case(staleness: str, **rounds: Any) -> Any:
    """4 clients that need 2, 3, 5 and 5.5 s, asked for 2 replies: round 1 lasts 0-3 s, round 2 (clients 0, 1) 3-6 s,
    with clients 2 and 3 of round 1 arriving at 5 and 5.5 s."""
    settings = config(
        data={"clients": 4, "partition": "dirichlet"},
        server={"aggregation": {"kind": "mean", "weights": "uniform"}},
        rounds={"rounds": 2, "k": 2, "over_commit": 2.0, "late": "merge", "staleness": staleness, **rounds},
    )
    return settings, scripted(settings, compute=[2.0, 3.0, 5.0, 5.5])


@pytest.mark.parametrize("staleness", ["equal", "dynsgd", "adasgd", "refl"])
def test_late_updates_are_trained_from_the_model_that_was_sent_and_weighted(staleness: str) -> None:
    settings, population = late_case(staleness)
    simulation, memory = run(settings, population=population)
    assert memory.told(1) == {0: "completed", 1: "completed", 2: "late", 3: "late"}
    assert memory.told(2) == {0: "completed", 1: "completed", 2: "arrived", 3: "arrived"}
    assert [row["arrived"] for row in memory.rounds] == [0, 2]
    first = fresh_module(settings, population)
    changes = [update(train(first, population, settings, client, 1)[0], first) for client in range(4)]
    second = moved(first, mean(changes[:2], [1.0, 1.0]))
    fresh = [update(train(second, population, settings, client, 2)[0], second) for client in range(2)]

    def flat(change: dict[str, Any]) -> Any:
        return torch.cat([value.flatten() for value in change.values()]).double().numpy()

    if staleness == "refl":
        middle = flat(mean(fresh, [1.0, 1.0]))
        different = [
            ((middle - (flat(change) + 2 * middle) / 3) ** 2).sum() / (middle**2).sum() for change in changes[2:]
        ]
        weights = [0.65 / 2 + 0.35 * (1 - math.exp(-one / max(different))) for one in different]
        assert abs(weights[0] - weights[1]) > 1e-3
    else:
        weights = [{"equal": 1.0, "dynsgd": 0.5, "adasgd": math.exp(-2)}[staleness]] * 2
    expected = moved(second, mean([*fresh, *changes[2:]], [1.0, 1.0, *weights]))
    assert_model(named(simulation), expected)
    rows = [row for row in memory.participations if row["outcome"] == "arrived"]
    assert [(row["latency"], row["rounds_late"], row["selected_in"], row["censored"]) for row in rows] == [
        (5.0, 1, 1, False),
        (5.5, 1, 1, False),
    ]


def test_a_round_with_late_updates_only_still_moves_the_model() -> None:
    """Round 1: both late (deadline 2 s); round 2: no client is free until 3 s, when client 0 arrives."""
    settings = config(
        data={"clients": 2}, rounds={"rounds": 2, "k": 2, "deadline": 2.0, "late": "merge", "staleness": "refl"}
    )
    population = scripted(settings, compute=[3.0, 3.5])
    simulation, memory = run(settings, population=population)
    assert memory.told(1) == {0: "late", 1: "late"}
    assert memory.rounds[1]["start"] == 3.0
    assert {row["client"] for row in memory.participations if row["outcome"] == "arrived"} == {0, 1}
    module = fresh_module(settings, population)
    changes = [update(train(module, population, settings, client, 1)[0], module) for client in range(2)]
    # nothing fresh to compare with: both weigh the same, whatever that is
    assert_model(named(simulation), moved(module, mean(changes, population.sizes.tolist())))


def test_late_clients_are_busy_told_once_and_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients need 2, 3, 5 and 100 s; two replies end a round. Client 3 is given up after max_lateness = 2 rounds."""
    Remembering.register(monkeypatch)
    settings = config(
        selector="remembering",
        data={"clients": 4},
        rounds={"rounds": 8, "k": 2, "over_commit": 2.0, "late": "merge", "max_lateness": 2},
    )
    run(settings, population=scripted(settings, compute=[2.0, 3.0, 5.0, 100.0]))
    asked = {entry.selection.round: entry.selection.clients.tolist() for entry in Remembering.asked}
    assert asked[1] == [0, 1, 2, 3]
    assert asked[2] == [0, 1]
    assert asked[3] == [0, 1, 2]
    assert Remembering.asked[1].available.tolist() == [0, 1, 2, 3]
    assert Remembering.asked[1].busy.tolist() == [2, 3]
    arrived = [(number, told) for number, told, _ in Remembering.heard if (told.outcome == Outcome.ARRIVED).any()]
    assert arrived[0][0] == 1
    assert arrived[0][1].clients.tolist() == [2]
    assert arrived[0][1].latency.tolist() == [5.0]
    assert arrived[0][1].rounds_late.tolist() == [1.0]
    assert arrived[0][1].num_examples[0] > 0
    assert math.isfinite(arrived[0][1].loss[0])
    assert all(told.clients.tolist() != [3] for _, told in arrived)
    again = [number for number, clients in asked.items() if 3 in clients and number > 1]
    assert again
    assert again[0] in (4, 5)


@pytest.mark.parametrize("lateness", [1, 2, 3])
def test_an_update_counts_up_to_max_lateness_rounds(lateness: int) -> None:
    """Rounds last 3 s. Client 2 needs 3 lateness + 1.5 s, and so arrives `lateness` rounds after its own; with one
    more round it is thrown away."""
    for extra, expected in ((0, 1), (1, 0)):
        settings = config(
            data={"clients": 3},
            rounds={"rounds": 7, "k": 2, "over_commit": 1.5, "late": "merge", "max_lateness": lateness},
        )
        seconds = [[2.0, 3.0, 3.0 * (lateness + extra) + 1.5], [2.0, 3.0, 999.0]]
        population = scripted(settings, np.zeros((2, 3)), seconds, np.zeros((2, 3)))
        _, memory = run(settings, population=population)
        arrived = [row for row in memory.participations if row["outcome"] == "arrived"]
        assert len(arrived) == expected
        if arrived:
            assert (arrived[0]["round"], arrived[0]["rounds_late"]) == (1 + lateness, lateness)


def test_late_replies_are_thrown_away_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, population = late_case("equal", late="drop")
    _, memory = run(settings, population=population)
    assert [row["outcome"] for row in memory.participations if row["round"] == 2] == [
        "completed",
        "completed",
        "late",
        "late",
    ]


def test_fewer_are_asked_when_late_ones_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients need 2, 3, 5, 5.5, 100 and 100 s. Round 1 (3 s long) leaves 2 (2 s to go), 3 (2.5 s to go), 4 and 5;
    two of them are due within 3 s, so max(1, 2 - 2) is wanted in round 2, and three times that is asked."""
    Remembering.register(monkeypatch)
    for adaptive, expected in ((True, [6, 3]), (False, [6, 6])):
        Remembering.asked.clear()
        settings = config(
            selector="remembering",
            data={"clients": 6},
            rounds={"rounds": 2, "k": 2, "over_commit": 3.0, "late": "merge", "adaptive_target": adaptive},
        )
        run(settings, population=scripted(settings, compute=[2.0, 3.0, 5.0, 5.5, 100.0, 100.0]))
        assert [entry.k for entry in Remembering.asked] == expected


@pytest.mark.parametrize("behaviour", ["nan", "inf", "runtime", "value", "key", "zero"])
@pytest.mark.parametrize("late", [False, True])
def test_a_bad_update_fails_its_client_and_the_round_goes_on(
    behaviour: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Remembering.register(monkeypatch)
    model_section = {
        "name": "python",
        "factory": "tests.simulation.simulation_helpers:Touchy",
        "options": {"behaviour": behaviour},
    }
    rounds = {"rounds": 3, "k": 4, "over_commit": 1.25, "late": "merge"} if late else {"rounds": 3, "k": 5}
    settings = config(
        data={"clients": 5, "validation": 0}, selector="remembering", model=model_section, rounds=rounds,
        training={"measure": True},
    )  # fmt: skip
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100, 3))
    data = Samples(x, (x[:, 0] > 0).astype(np.int64))
    population = build(settings, Dataset("spoiled", data, data, classes=2))
    marked = population.samples["train"].x
    bad = 4
    marked[population.offsets[bad] : population.offsets[bad + 1], 0] = 100.0
    fixed = scripted(settings, compute=[1.0, 1.0, 1.0, 1.0, 1.5])
    population.devices = fixed.devices
    simulation, memory = run(settings, population=population)
    assert len(memory.rounds) == 3
    assert torch.isfinite(model(simulation)).all()
    if late:
        assert memory.told(1)[bad] == "late"
        assert "arrived" not in {row["outcome"] for row in memory.participations if row["client"] == bad}
        assert all(row["completed"] == 4 for row in memory.rounds)
        return
    for row in memory.rounds:
        assert (row["completed"], row["failed"]) == (4, 1)
        assert math.isfinite(row["train_loss"])
    told = Remembering.heard[0][1]
    assert told.outcome.tolist() == [0, 0, 0, 0, Outcome.FAILED]
    assert math.isnan(told.latency[bad])
    assert math.isnan(told.loss[bad])
    module = fresh_module(settings, population)
    changes = [update(train(module, population, settings, client, 1)[0], module) for client in range(4)]
    once = settings.model_copy(update={"rounds": settings.rounds.model_copy(update={"rounds": 1})})
    simulation, _ = run(once, population=population)
    assert_model(named(simulation), moved(module, mean(changes, population.sizes[:4].tolist())))


@pytest.mark.parametrize("bad", [0, 3])
def test_a_client_whose_numbers_overflow_fails_alone_in_a_stack(bad: int) -> None:
    settings = config(
        data={"clients": 6, "validation": 0, "partition": "dirichlet"},
        rounds={"rounds": 3, "k": 6},
        training={"epochs": 3, "lr": 3.0},
    )
    population = build(settings)
    x = population.samples["train"].x.copy()
    x[population.offsets[bad] : population.offsets[bad + 1]] = 3e38
    samples = {**population.samples, "train": Samples(x, population.samples["train"].y)}
    simulation, memory = run(settings, population=dataclasses.replace(population, samples=samples))
    assert [(row["completed"], row["failed"]) for row in memory.rounds] == [(5, 1)] * 3
    assert memory.told(1)[bad] == "failed"
    assert torch.isfinite(model(simulation)).all()


def test_everybody_failing_leaves_the_model_as_it_is() -> None:
    settings = config(training={"lr": 1e30, "epochs": 3}, rounds={"rounds": 2, "k": 4})
    simulation, memory = run(settings)
    assert [(row["completed"], row["failed"]) for row in memory.rounds] == [(0, 4), (0, 4)]
    start = fresh_module(settings, simulation.population)
    assert_model(named(simulation), start)


def test_huge_but_finite_losses_do_not_break_a_run() -> None:
    settings = config(
        data={"dataset": {"name": "linear-regression", "samples": 200, "test_samples": 50}, "clients": 4},
        model={"name": "python", "factory": "torch.nn:Linear", "options": {"in_features": 10, "out_features": 1}},
        training={"lr": 1e-9}, selector="oort", rounds={"rounds": 2, "k": 2},
    )  # fmt: skip
    population = build(settings)
    for samples in population.samples.values():
        samples.y[:] = 1e11
    for name in ("stacked", "sequential"):
        simulation = Simulation(settings, population=population)
        if name == "sequential":
            simulation.trainer.chain = None
            simulation.trainer.engine.chain = None
        assert simulation.run()["rounds"] == 2


def test_the_end_of_virtual_time_ends_the_run_with_an_evaluation() -> None:
    settings = config(rounds={"rounds": 50, "k": 10, "seconds": 10.0}, evaluation={"every": 40})
    population = scripted(settings, compute=[3.0] * 10)
    simulation, memory = run(settings, population=population)
    assert [row["end"] for row in memory.rounds] == [3, 6, 9, 12]
    result = simulation.result()
    assert (result["status"], result["rounds"], result["time"]) == ("finished", 4, 12.0)
    assert result["accuracy"] is not None, "the model is to be tested after the last round"
    assert memory.rounds[-1]["accuracy"] == result["accuracy"]


def test_evaluation_every_so_many_rounds_and_after_the_last() -> None:
    _, memory = run(config(rounds={"rounds": 5, "k": 2}, evaluation={"every": 2}))
    assert [row["round"] for row in memory.rounds if "accuracy" in row] == [2, 4, 5]


def test_the_target_is_reported_and_may_end_the_run() -> None:
    section = {"every": 1, "target": 0.5}
    settings = config(rounds={"rounds": 25, "k": 10}, training={"epochs": 3}, evaluation=section)
    simulation, memory = run(settings)
    first = next(row for row in memory.rounds if row["accuracy"] >= 0.5)
    result = simulation.result()
    assert (result["rounds_to_target"], result["time_to_target"]) == (first["round"], first["end"])
    stopped, short = run(
        settings.model_copy(update={"evaluation": settings.evaluation.model_copy(update={"stop_at_target": True})})
    )
    assert len(short.rounds) == first["round"] < len(memory.rounds)
    assert stopped.result()["status"] == "finished"


def test_clients_join_and_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    Remembering.register(monkeypatch)
    settings = config(
        selector="remembering",
        data={"clients": 8},
        rounds={"rounds": 5, "k": 8},
        membership={
            "joins": [{"round": 3, "clients": 2}],
            "leaves": [{"round": 2, "clients": [0]}, {"round": 4, "clients": [1, 7]}],
        },
    )
    _, memory = run(settings)
    assert [sorted(memory.told(number)) for number in range(1, 6)] == [
        [0, 1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5, 6, 7],
        [2, 3, 4, 5, 6],
        [2, 3, 4, 5, 6],
    ]


def test_two_groups_may_leave_in_one_round() -> None:
    leaves = [{"round": 2, "clients": [0]}, {"round": 2, "clients": [1]}]
    settings = config(data={"clients": 4}, rounds={"rounds": 2, "k": 4}, membership={"leaves": leaves})
    _, memory = run(settings)
    assert sorted(memory.told(2)) == [2, 3]


def test_membership_is_checked() -> None:
    with pytest.raises(InputError, match="4 clients join later, but there are 4; use fewer"):
        Simulation(config(data={"clients": 4}, membership={"joins": [{"round": 2, "clients": 4}]}))
    with pytest.raises(InputError, match=r"membership\.leaves holds position 9; with 4 clients, 0 to 3 are allowed"):
        Simulation(config(data={"clients": 4}, membership={"leaves": [{"round": 2, "clients": [9]}]}))


def test_a_selector_that_needs_accuracy_needs_validation_samples() -> None:
    with pytest.raises(InputError, match=r"data\.validation is 0; set it, for example to 0\.1"):
        Simulation(config(selector="darts-ucb", data={"validation": 0}))


WORLD: dict[str, Any] = {
    "data": {"clients": 14, "partition": "dirichlet", "speed_correlation": 0.4},
    "devices": {"kind": "phones"},
    "availability": {"kind": "diurnal"},
    "failures": {"crash": 0.2},
    "rounds": {"rounds": 12, "k": 6, "deadline": 400.0},
}


def test_selectors_share_their_luck() -> None:
    """The same (round, client) has the same latency, and the same moment the same clients online."""
    runs = {name: run(config(**WORLD, selector=name)) for name in ("random", "oort", "fedcs")}
    populations = [simulation.population for simulation, _ in runs.values()]
    for population in populations[1:]:
        assert population.offsets.tolist() == populations[0].offsets.tolist()
        assert (population.samples["train"].x == populations[0].samples["train"].x).all()
        assert population.devices.compute.tolist() == populations[0].devices.compute.tolist()
        assert population.devices.bandwidth.tolist() == populations[0].devices.bandwidth.tolist()
        for moment in np.linspace(0, 1e5, 23):
            assert (population.availability.online(moment) == populations[0].availability.online(moment)).all()
    seen: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    crashed: dict[tuple[int, int], set[bool]] = {}
    for _, memory in runs.values():
        for row in memory.participations:
            key = (row["round"], row["client"])
            if row["outcome"] == "completed":
                seen.setdefault(key, []).append((row["download"], row["compute"], row["upload"]))
            if row["outcome"] in ("completed", "failed"):
                crashed.setdefault(key, set()).add(row["outcome"] == "failed")
    assert sum(len(values) > 1 for values in seen.values()) > 5
    assert all(len(set(values)) == 1 for values in seen.values())
    assert all(len(values) == 1 for values in crashed.values())


def test_another_seed_is_another_population() -> None:
    first, second = (build(config(**WORLD, seed=seed)) for seed in (0, 1))
    assert first.offsets.tolist() != second.offsets.tolist()
    assert first.devices.compute.tolist() != second.devices.compute.tolist()


def test_three_hundred_rounds_leave_nothing_behind() -> None:
    settings = config(
        data={"clients": 12},
        model={"name": "logistic"},
        devices={"kind": "phones"},
        availability={"kind": "bernoulli"},
        failures={"crash": 0.1},
        training={"steps": 1},
        rounds={"rounds": 300, "k": 3, "over_commit": 2.0, "late": "merge", "deadline": 60.0, "max_lateness": 4},
        evaluation={"every": 100},
    )
    simulation = Simulation(settings)
    sizes = []
    for _ in range(300):
        simulation.step()
        sizes.append(
            (
                len(simulation.state.queue),
                len(simulation.state.models.slots),
                len(simulation.selector.openings),
                len(simulation.driver.books.open),
                len(simulation.trainer.models.parameters),
                len(simulation.trainer.updates.parameters),
            )
        )
    most = np.array(sizes).max(axis=0)
    assert (most <= [12, 6, 6, 1, 16, 16]).all(), most


@pytest.mark.parametrize("protocol", ["synchronous", "safa"])
def test_workers_do_not_change_a_bit(protocol: str) -> None:
    settings = config(
        data={"clients": 12, "partition": "dirichlet"},
        devices={"kind": "phones"},
        selector="safa" if protocol == "safa" else "oort",
        rounds={"rounds": 4, "k": 4, "over_commit": 1.5, "late": "merge", "protocol": protocol, "deadline": 60.0},
    )
    runs = [run(settings, workers=count) for count in (0, 1, 2, 3)]
    first, remembered = runs[0]
    for simulation, memory in runs[1:]:
        assert torch.equal(model(simulation), model(first))
        assert repr(memory.rounds) == repr(remembered.rounds)
        assert repr(memory.participations) == repr(remembered.participations)


def test_a_clock_too_far_on_to_count_minutes_is_refused() -> None:
    """At 10^18 seconds a minute more is the same number: waiting for a busy client would never end."""
    simulation = Simulation(config(data={"clients": 4}, rounds={"rounds": 1, "k": 2}))
    simulation.state.now = 1e18
    simulation.state.queue.push(Event(math.inf, Kind.LOST, 1, 0))
    simulation.driver.books.ask([0], 1, now=0.0)  # and nothing is heard of it
    simulation.population.availability.online = lambda now: np.arange(4) == 0  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"the virtual time is 1e\+18"):
        simulation._somebody()
    simulation.state.now = 1e14
    available, _ = simulation._somebody()
    assert simulation.now > 1e14 + PATIENCE
    assert available.tolist() == [True, False, False, False]


def test_rounds_done_one_by_one_have_the_single_thread_of_a_run() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Simulation(config(rounds={"rounds": 2, "k": 3})) as simulation:
            assert torch.get_num_threads() == 1
            while not simulation.finished:
                simulation.step()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    alone, _ = run(config(rounds={"rounds": 2, "k": 3}))
    assert alone.accuracy == simulation.accuracy
