"""Hostile clients: who they are, what they do, what the server refuses, whom it distrusts; and that runs stay exact."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from enlist._internal.typing import IntArray
from enlist.errors import InputError
from enlist.records import Outcome
from enlist.runs.tables import read_table
from enlist.selectors import Random
from enlist.simulation import Config, Simulation, build
from enlist.simulation.hostile import Collude, FalseReport, HostileClients, SignFlip
from enlist.simulation.round.exclusion import Exclusion
from enlist.simulation.round.server import LateUpdate, Server
from enlist.simulation.sections import ServerSection
from enlist.streams import Streams
from enlist.training.aggregation import AGGREGATIONS
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report, TrainingTask
from tests.simulation.simulation_helpers import (
    Assassin,
    Kill,
    Remembering,
    assert_same,
    config,
    continue_run,
    model,
    run,
    scripted,
)

FLIP = {"kind": "sign-flip", "share": 0.3, "factor": 10.0}
CLIENTS = [1, 4, 6]


def tasks(*clients: int, round: int = 1) -> list[TrainingTask]:
    return [TrainingTask(client, 0, 20, steps=1, round=round, model_slot=0, update_slot=0) for client in clients]


def ones(given: Sequence[TrainingTask]) -> Iterator[tuple[Report, Vectors]]:
    """Training in which every client's update is its own number."""
    for task in given:
        update = Vectors(torch.full((4,), float(task.client)), torch.zeros(1), torch.zeros(1, dtype=torch.int64))
        yield Report(loss=0.5, loss_rms=0.6, num_examples=20.0), update


def sent(hostility: HostileClients, given: Sequence[TrainingTask]) -> list[tuple[Report, list[float]]]:
    return [(report, update.parameters.tolist()) for report, update in hostility.sent(given, ones)]


def test_who_is_hostile_follows_from_the_seed_and_not_from_the_selector() -> None:
    drawn = [build(config(selector=name, hostile=[FLIP], seed=5)).hostile for name in ("random", "oort")]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] == "sign-flip").sum() == 3
    assert (build(config(hostile=[FLIP], seed=6)).hostile != drawn[0]).any()
    more = build(config(hostile=[{**FLIP, "share": 0.5}], seed=5)).hostile
    assert (more[drawn[0] != ""] == "sign-flip").all()  # the same ones, and more
    assert build(config()).hostile is None


def test_tables_are_about_different_clients_unless_they_are_of_one_group() -> None:
    shares = [{"kind": "sign-flip", "share": 0.3}, {"kind": "sign-flip", "share": 0.3}, {"kind": "nan", "clients": [2]}]
    kinds = build(config(hostile=shares)).hostile
    assert kinds[2] == "nan"
    assert (kinds == "sign-flip").sum() == 6
    both = [{"kind": "label-flip", "share": 0.2, "group": "a"}, {"kind": "lie", "group": "a"}]
    kinds = build(config(hostile=both)).hostile
    assert sorted(set(kinds.tolist())) == ["", "label-flip lie"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([{"kind": "nan"}], "neither share nor clients is given"),
        ([{"kind": "nan", "share": 0.1, "clients": [1]}], "both say which clients it applies to"),
        ([{"kind": "nan", "clients": [10]}], "10"),
        (
            [{"kind": "nan", "share": 0.7}, {"kind": "replay", "share": 0.7}],
            "wants 7 more of 10 clients, but 3 are left",
        ),
        ([{"kind": "nan", "group": "a"}], "group 'a' of .* has no clients"),
        (
            [{"kind": "nan", "group": "a", "share": 0.1}, {"kind": "lie", "group": "a", "share": 0.1}],
            "defines its clients twice",
        ),
        ([{"kind": "nann", "share": 0.1}], "'nann' is not known. Did you mean 'nan'"),
        ([{"kind": "huge", "share": 0.1, "value": math.inf}], "a finite number"),
        ([{"kind": "lie", "share": 0.1, "value": math.nan}], "value"),
    ],
)
def test_tables_that_make_no_sense_are_refused(tables: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(config(hostile=tables))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"kind": "sign-flip", "factor": 10.0}, [-40.0] * 4),
        ({"kind": "scaled", "factor": 3.0}, [12.0] * 4),
        ({"kind": "infinity"}, [math.inf] * 4),
        ({"kind": "huge", "value": -1e30}, [pytest.approx(-1e30)] * 4),
    ],
)
def test_what_is_sent_by_hand(table: Any, expected: list[float]) -> None:
    hostility = HostileClients(config(hostile=[{**table, "clients": [4], "from_round": 2}]).hostile, 10, Streams(1))
    assert sent(hostility, tasks(3, 4, 5))[1][1] == [4.0] * 4  # not yet
    answers = sent(hostility, tasks(3, 4, 5, round=2))
    assert [values for _, values in answers] == [[3.0] * 4, expected, [5.0] * 4]


def test_noise_belongs_to_round_and_client_and_nan_is_nan() -> None:
    hostility = HostileClients(config(hostile=[{"kind": "noise", "clients": [4, 5]}]).hostile, 10, Streams(1))
    first, again = (dict(enumerate(sent(hostility, tasks(*given)))) for given in ((4, 5), (5, 4)))
    assert first[0][1] == again[1][1]
    assert first[1][1] == again[0][1]
    assert sent(hostility, tasks(4, round=2))[0][1] != first[0][1]
    nan = HostileClients(config(hostile=[{"kind": "nan", "clients": [4]}]).hostile, 10, Streams(1))
    assert all(math.isnan(value) for value in sent(nan, tasks(4))[0][1])


def test_the_first_update_is_sent_again() -> None:
    hostility = HostileClients(config(hostile=[{"kind": "replay", "clients": [4]}]).hostile, 10, Streams(1))

    def growing(given: Sequence[TrainingTask]) -> Iterator[tuple[Report, Vectors]]:
        for task in given:
            yield Report(), Vectors(torch.full((1,), float(task.round)), torch.zeros(0), torch.zeros(0))

    found = [next(hostility.sent(tasks(4, round=number), growing))[1].parameters.item() for number in (3, 5, 9)]
    assert found == [3.0, 3.0, 3.0]
    again = HostileClients(hostility.tables, 10, Streams(1))
    again.restore(hostility.state())
    assert next(again.sent(tasks(4, round=11), growing))[1].parameters.item() == 3.0


def test_colluding_clients_send_one_vector() -> None:
    push = HostileClients([Collude(clients=(2, 4, 6), factor=2.0)], 10, Streams(1))
    answers = [values for _, values in sent(push, tasks(1, 2, 4, 5, 6))]
    assert answers == [[1.0] * 4, [-8.0] * 4, [-8.0] * 4, [5.0] * 4, [-8.0] * 4]  # -2 * (2 + 4 + 6) / 3
    little = HostileClients([Collude(clients=(2, 4, 6), how="little", z=1.5)], 10, Streams(1))
    assert sent(little, tasks(2, 4, 6))[0][1] == pytest.approx([4.0 - 1.5 * math.sqrt(8 / 3)] * 4)
    alone = HostileClients([Collude(clients=(2,), how="little")], 10, Streams(1))
    assert sent(alone, tasks(1, 2))[1][1] == [2.0] * 4  # nobody to agree with
    one, other = Collude(clients=(2, 4)), Collude(clients=(5, 6))
    answers = [values[0] for _, values in sent(HostileClients([one, other], 10, Streams(1)), tasks(2, 4, 5, 6))]
    assert answers == [-3.0, -3.0, -5.5, -5.5]  # each group for itself


def test_the_little_that_is_enough_is_the_papers() -> None:
    options = Collude(clients=(1,), how="little")
    assert options.distance(50, 24) == pytest.approx(1.4260, abs=1e-3)  # n = 50, m = 24: s = 2, Φ(z) = 24 / 26
    assert options.distance(10, 6) == 3.0  # a majority needs nobody


def test_labels_are_flipped_from_a_round_on_and_only_theirs() -> None:
    settings = config(hostile=[{"kind": "label-flip", "clients": [3], "from_round": 4}])
    honest, hostile = build(config()), build(settings)
    start, stop = honest.span(3, 1)
    size = stop - start
    assert hostile.span(3, 3) == (start, stop)
    assert hostile.span(3, 4) == (len(honest.samples["train"]), len(honest.samples["train"]) + size)
    assert hostile.span(2, 9) == honest.span(2, 9)
    own, spoiled = honest.samples["train"], hostile.samples["train"]
    assert np.array_equal(spoiled.x[: len(own)], own.x)
    assert np.array_equal(spoiled.y[: len(own)], own.y)
    assert np.array_equal(spoiled.x[len(own) :], own.x[start:stop])
    assert (spoiled.y[len(own) :] != own.y[start:stop]).all()


def test_lies_change_what_is_told_and_not_what_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    Remembering.register(monkeypatch)
    everybody = {"selector": "remembering", "rounds": {"k": 10, "rounds": 2}, "devices": {"kind": "phones"}}
    honest, truth = run(config(**everybody))
    true = {round: feedback for round, feedback, _ in Remembering.heard}
    Remembering.register(monkeypatch)
    lies = [
        {"kind": "lie", "clients": CLIENTS, "group": "a", "about": "loss", "factor": 10.0},
        {"kind": "lie", "group": "a", "about": "latency", "value": 0.5},
        {"kind": "lie", "group": "a", "about": "num_examples", "factor": 3.0, "from_round": 2},
    ]
    _, memory = run(config(**everybody, hostile=lies, server={"norm_bound": 0.0}))
    told = {round: feedback for round, feedback, _ in Remembering.heard}
    liars = np.isin(np.arange(10), CLIENTS)
    for number in (1, 2):
        assert (told[number].latency[liars] == 0.5).all()
        assert (told[number].latency[~liars] == true[number].latency[~liars]).all()
    np.testing.assert_allclose(told[1].loss[liars], 10 * true[1].loss[liars], rtol=1e-6)
    np.testing.assert_allclose(told[1].loss[~liars], true[1].loss[~liars], rtol=1e-6)
    assert (told[1].num_examples == true[1].num_examples).all()
    assert (told[2].num_examples[liars] == 3 * true[2].num_examples[liars]).all()
    assert [row["duration"] for row in memory.rounds] == [row["duration"] for row in truth.rounds]
    weights = {row["client"]: row["weight"] for row in memory.participations if row["round"] == 2}
    sizes = honest.population.sizes
    assert all(weights[client] == (3 if client in CLIENTS else 1) * sizes[client] for client in range(10))


def test_a_lie_about_samples_is_known_up_front_if_it_begins_at_once() -> None:
    lie = {"kind": "lie", "clients": CLIENTS, "about": "num_examples", "factor": 5.0}
    honest, now, later = (build(config(hostile=tables)) for tables in ([], [lie], [{**lie, "from_round": 2}]))
    assert honest.clients.num_examples is not None
    assert now.clients.num_examples is not None
    assert later.clients.num_examples is not None
    assert (now.clients.num_examples[CLIENTS] == 5 * honest.clients.num_examples[CLIENTS]).all()
    assert (later.clients.num_examples == honest.clients.num_examples).all()
    assert (now.sizes == honest.sizes).all()


def test_fresh_losses_are_claims_too() -> None:
    settings = {"selector": "power-of-choice", "rounds": {"rounds": 1, "k": 3}}
    found = []
    for tables in ([], [FalseReport(clients=CLIENTS, factor=7.0)]):
        with Simulation(config(**settings).model_copy(update={"hostile": tuple(tables)})) as simulation:
            simulation.state.round = 1
            found.append(simulation.clients.claimed("loss", simulation.updates.losses(np.arange(10)), np.arange(10), 1))
    factors = np.where(np.isin(np.arange(10), CLIENTS), 7.0, 1.0)
    np.testing.assert_allclose(found[1], factors * found[0])


def test_an_unbelievable_number_of_samples_is_refused() -> None:
    lie = {"kind": "lie", "clients": CLIENTS, "about": "num_examples", "value": 1e20}
    simulation, memory = run(config(hostile=[lie], rounds={"k": 10, "rounds": 2}))
    failed = {row["client"] for row in memory.participations if row["outcome"] == "failed"}
    assert failed == set(CLIENTS)
    assert torch.isfinite(model(simulation)).all()


@pytest.mark.parametrize("kind", ["nan", "infinity", "huge"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_what_cannot_be_an_update_is_refused_by_every_aggregation(kind: str, aggregation: str) -> None:
    tables = [{"kind": kind, "clients": CLIENTS}]
    settings = {"rounds": {"k": 10, "rounds": 2}, "server": {"aggregation": aggregation, "norm_bound": 0.0}}
    simulation, memory = run(config(hostile=tables, **settings))
    failed = {row["client"]: row["reason"] for row in memory.participations if row["outcome"] == "failed"}
    assert set(failed) == set(CLIENTS)
    assert all("not finite" in reason or "long" in reason for reason in failed.values())
    assert torch.isfinite(model(simulation)).all()


def large(client: int, factor: float, **sections: Any) -> tuple[Config, Any]:
    """A configuration and its population, in which the inputs of one client are far too large."""
    settings = config(rounds={"k": 10, "rounds": 4}, **sections)
    population = build(settings)
    samples = population.samples["train"]
    start, stop = population.span(client, 1)
    samples.x[start:stop] *= factor
    return settings, population


@pytest.mark.parametrize("workers", [0, 2])
def test_a_client_that_diverges_is_refused_although_updates_are_summed(workers: int) -> None:
    settings, population = large(3, 1e6)
    _, memory = run(settings, population=population, workers=workers)
    failed = {(row["round"], row["client"]) for row in memory.participations if row["outcome"] == "failed"}
    assert failed == {(number, 3) for number in (1, 2, 3, 4)}
    assert "over norm_bound = 10000 times the running median" in memory.participations[3]["reason"]
    settings, population = large(3, 1e6, server={"norm_bound": 0.0})
    _, without = run(settings, population=population)
    assert memory.rounds[-1]["accuracy"] > without.rounds[-1]["accuracy"] + 0.2


def test_honest_clients_are_summed_as_before() -> None:
    with_bound, without = (run(config(server={"norm_bound": bound}))[0] for bound in (1e4, 0.0))
    assert torch.equal(model(with_bound), model(without))
    assert not with_bound.server.one_by_one
    assert "hostile" not in Config().model_dump()
    assert "norm_bound" not in Config().model_dump(mode="json")["server"]  # a folder of version 0.1 can be resumed
    assert Config(server={"norm_bound": 3.0}).model_dump()["server"]["norm_bound"] == 3.0


def test_a_state_without_bounds_can_be_restored() -> None:
    server = Simulation(config()).server
    _, tensors = server.state()
    server.restore({}, tensors)
    assert isinstance(server, Server)
    assert not server.lengths.values


def test_a_tight_bound_refuses_flipped_signs() -> None:
    flip = config(hostile=[FLIP], server={"norm_bound": 4.0}, rounds={"k": 10, "rounds": 6})
    simulation, memory = run(flip)
    hostile = set(np.flatnonzero(simulation.population.hostile != "").tolist())
    failed = {row["client"] for row in memory.participations if row["outcome"] == "failed"}
    assert failed == hostile
    _, plain = run(flip.model_copy(update={"server": config().server}))
    assert memory.rounds[-1]["accuracy"] > plain.rounds[-1]["accuracy"] + 0.2


def test_whom_the_aggregation_distrusts_has_failed_and_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Remembering.register(monkeypatch)
    settings = config(
        selector="remembering",
        hostile=[{**FLIP, "share": None, "clients": CLIENTS}],
        server={"aggregation": "median", "distrust": 4.0},
        rounds={"k": 10, "rounds": 3},
    )
    _, memory = run(settings)
    for number, feedback, _ in Remembering.heard:
        bad = np.isin(np.arange(10), CLIENTS)
        assert ((feedback.outcome == Outcome.FAILED) == bad).all(), number
        assert np.isnan(feedback.loss[bad]).all()
        assert np.isfinite(feedback.loss[~bad]).all()
    reasons = {row["reason"] for row in memory.participations if row["outcome"] == "failed"}
    assert all(reason.startswith("distrusted: the update is ") for reason in reasons)
    with pytest.raises(InputError, match="distrust needs the updates of a round side by side, and 'mean' adds them up"):
        config(server={"distrust": 3.0})
    with pytest.raises(InputError, match="would refuse more than half"):
        config(server={"norm_bound": 0.5})


def test_honest_clients_of_the_quickstart_are_trusted() -> None:
    quickstart = {
        "data": {"clients": 60, "partition": {"kind": "dirichlet", "alpha": 0.5}},
        "devices": "phones",
        "model": {"name": "mlp", "hidden": [64]},
        "training": {"batch": 10, "epochs": 2},
        "server": {"aggregation": "geometric-median", "norm_bound": 4.0, "distrust": 4.0},
        "rounds": {"rounds": 30, "k": 8},
    }
    _, memory = run(config(**quickstart))
    failed = [row["outcome"] == "failed" for row in memory.participations]
    assert np.mean(failed) < 0.03


def test_who_fails_again_and_again_is_left_alone_for_a_while() -> None:
    exclusion, everybody = Exclusion(5, rounds=3), np.ones(5, dtype=bool)
    exclusion.note([(0, True), (1, True)], round=1)
    assert not exclusion.now(everybody, 2, k=2).any()  # once is no time
    exclusion.note([(0, True), (1, False)], round=2)
    assert exclusion.now(everybody, 3, k=2).tolist() == [True, False, False, False, False]
    assert not exclusion.now(everybody, 6, k=2).any()
    exclusion.note([(0, True)], round=6)
    assert [exclusion.now(everybody, number, k=2)[0] for number in (7, 12, 13)] == [True, True, False]
    assert not exclusion.now(everybody, 7, k=5).any()  # else fewer than k would be left
    free = np.array([True, False, False, True, True])
    assert not exclusion.now(free, 7, k=3).any()
    again = Exclusion(5, rounds=3)
    again.restore(exclusion.state())
    assert again.now(everybody, 7, k=2)[0]
    assert Exclusion(5, rounds=0).state() == {}


def test_a_late_update_and_a_fresh_one_of_the_same_client_are_judged_apart() -> None:
    layout = Layout.of(torch.nn.Linear(1, 1))
    server = Server(ServerSection(aggregation="median", distrust=2.0), layout, Vectors.zeros(layout))

    def update(value: float) -> Vectors:
        found = Vectors.zeros(layout)
        found.parameters.fill_(value)
        return found

    for client in range(6):
        server.add((client, 9), Report(num_examples=1.0), update(1.0 + 0.1 * client))
    server.finish([LateUpdate(2, 8, 1, Report(num_examples=1.0), update(50.0), 3.0)], [1.0])
    assert set(server.distrusted) == {(2, 8)}


def test_an_excluded_client_is_there_but_not_asked() -> None:
    """A selector that learns who is online must not take an excluded client for one that has gone."""
    settings = {"hostile": [FLIP], "rounds": {"k": 5, "rounds": 8}, "server": {"norm_bound": 4.0, "exclude": 100}}
    seen: list[int] = []

    class Watching(Random):
        def watch(self, available: IntArray, now: float) -> None:
            seen.append(len(available))

    simulation, memory = run(config(selector=Watching, **settings))
    everybody = np.ones(len(simulation.population), dtype=bool)
    assert simulation.state.exclusion.now(everybody, simulation.round, 5).any()
    assert set(seen) == {len(everybody)} == {row["available"] for row in memory.rounds}


def test_excluded_clients_are_not_asked() -> None:
    settings = {"hostile": [FLIP], "rounds": {"k": 5, "rounds": 20}, "server": {"norm_bound": 4.0, "exclude": 100}}
    simulation, memory = run(config(**settings))
    hostile = simulation.population.hostile != ""
    asked = [row["client"] for row in memory.participations if row["round"] > 12]
    assert not hostile[asked].any()


ALL_KINDS = [
    {"kind": "sign-flip", "clients": [0, 1], "factor": 5.0},
    {"kind": "replay", "clients": [2, 3]},
    {"kind": "collude", "clients": [4, 5, 6], "how": "little", "z": 2.0},
    {"kind": "noise", "clients": [7], "sigma": 0.05},
    {"kind": "huge", "clients": [8], "from_round": 3},
    {"kind": "label-flip", "clients": [9, 10], "from_round": 2, "group": "liars"},
    {"kind": "lie", "group": "liars", "about": "loss"},
    {"kind": "lie", "clients": [11], "about": "num_examples", "from_round": 3},
    {"kind": "lie", "clients": [12], "about": "latency", "factor": 0.1},
    {"kind": "nan", "clients": [13]},
]


def world(protocol: str) -> Config:
    """Every attack at once, with late replies, crashes, comings and goings, and every memory that a server has."""
    rounds = {"rounds": 7, "k": 4, "over_commit": 1.8, "late": "merge", "deadline": 12.0, "max_lateness": 3}
    server: dict[str, Any] = {
        "aggregation": "centred-clipping", "distrust": 2.0, "norm_bound": 5.0, "exclude": 2,
        "optimiser": {"kind": "fedyogi"},
    }  # fmt: skip
    selector = "oort"
    if protocol == "safa":
        rounds = {"rounds": 6, "k": 6, "protocol": "safa", "deadline": 12.0}
        server, selector = {"norm_bound": 4.0, "exclude": 2}, "safa"
    return config(
        selector=selector,
        data={"clients": 24, "partition": "dirichlet"},
        devices={"kind": "phones"},
        availability={"kind": "diurnal", "sessions_per_day": 1000, "session_median": 20, "night_median": 0},
        failures={"crash": 0.1},
        membership={"joins": [{"round": 3, "clients": 2}], "leaves": [{"round": 5, "clients": [14]}]},
        training={"steps": 3},
        server=server,
        rounds=rounds,
        evaluation={"every": 3},
        hostile=ALL_KINDS,
    )


@pytest.mark.parametrize("protocol", ["refl", "safa"])
def test_every_attack_killed_and_resumed_with_other_workers_ends_the_same(protocol: str, tmp_path: Path) -> None:
    settings = world(protocol)
    continue_run(tmp_path / "whole", settings)
    for number, workers in ((2, 0), (4, 2)):
        with pytest.raises(Kill):
            continue_run(tmp_path / "killed", settings, Assassin(number), workers=workers)
    continue_run(tmp_path / "killed", settings, workers=1)
    assert_same(tmp_path / "whole", tmp_path / "killed")
    outcomes = read_table(tmp_path / "whole" / "participations.csv")["outcome"].tolist()
    assert {"completed", "failed", "late", "arrived", "dropped"} <= set(outcomes)
    kinds = read_table(tmp_path / "whole" / "clients.csv", text=("hostile",))["hostile"].tolist()
    assert kinds[:4] == ["sign-flip", "sign-flip", "replay", "replay"]


def test_late_updates_are_judged_too() -> None:
    settings = world("refl")
    tight = settings.server.model_copy(update={"distrust": 0.0, "norm_bound": 1.5})
    _, memory = run(settings.model_copy(update={"server": tight}))
    late = [row for row in memory.participations if row.get("rounds_late")]
    assert {row["outcome"] for row in late} == {"arrived", "failed"}
    assert any("norm_bound" in row["reason"] for row in late)


def test_options_are_the_thing_itself() -> None:
    assert SignFlip(share=0.5).factor == 1.0
    with pytest.raises(InputError, match="neither share nor clients is given"):
        SignFlip()


@pytest.mark.parametrize("late", ["drop", "merge"])
def test_who_claims_more_time_than_the_deadline_is_told_of_as_late(late: str) -> None:
    """The update came in time and is merged; the selector can only be told what the client says."""
    lie = {"kind": "lie", "clients": [0, 1], "about": "latency", "factor": 50.0}
    settings = config(hostile=[lie], rounds={"rounds": 3, "k": 10, "deadline": 1000.0, "late": late})
    simulation, memory = run(settings, population=scripted(settings, compute=np.full(10, 100.0)))
    assert [row["completed"] for row in memory.rounds] == [10, 10, 10]  # nobody is kept waiting for
    counts = simulation.selector.counts
    assert counts.selected.tolist() == [3] * 10
    assert counts.observed[:2].sum() < counts.observed[2:4].sum()
