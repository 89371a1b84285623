"""Protocols answer questions about a round, and change nothing; another protocol is a sibling of those there are."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from enlist._internal.typing import IntArray
from enlist.runs.folder import RunFolder
from enlist.simulation import Config, Simulation
from enlist.simulation import protocols as package
from enlist.simulation.asynchronous import Asynchronous
from enlist.simulation.protocols import (
    PROTOCOLS,
    Arrivals,
    Merge,
    PendingClient,
    Protocol,
    Quota,
    RoundContext,
    Safa,
    SafaMemory,
    Synchronous,
    protocol,
)
from enlist.simulation.protocols.safa import OWN
from enlist.simulation.round.clients import SimulatedClients
from enlist.simulation.round.server import LateUpdate
from enlist.simulation.sections import RoundsSection
from enlist.training.flat import Layout, Vectors
from enlist.training.local import Report
from tests.simulation.simulation_helpers import config, run, scripted

LAYOUT = Layout.of(torch.nn.Linear(1, 1))


def context(**fields: Any) -> RoundContext:
    known: dict[str, Any] = {"round": 4, "now": 100.0, "members": 6, "length": 50.0, "expected": np.full(6, 40.0)}
    return RoundContext(**{**known, **fields})


def vectors(value: float) -> Vectors:
    found = Vectors.zeros(LAYOUT)
    found.parameters.fill_(value)
    return found


def late(client: int, lateness: int, samples: float = 10.0, error: str = "") -> LateUpdate:
    report = Report(num_examples=samples, error=error)
    return LateUpdate(client, 4 - lateness, lateness, report, vectors(1.0), 70.0)


def test_protocols_are_siblings() -> None:
    assert all(kind.__bases__ == (Protocol,) for kind in PROTOCOLS.values())
    assert {type(protocol(RoundsSection(protocol=name))) for name in PROTOCOLS} == set(PROTOCOLS.values())


@pytest.mark.parametrize("path", sorted(Path(package.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_a_protocol_never_sees_the_simulation(path: Path) -> None:
    assert "simulation.simulation" not in path.read_text()


def test_asynchronous_steps_get_parts_and_not_the_simulation() -> None:
    asked = inspect.signature(Asynchronous.__init__).parameters
    assert list(asked) == ["self", "protocol", "driver", "updates", "evaluator"]
    source = Path(inspect.getfile(Asynchronous)).read_text()
    assert "simulation.simulation" not in source
    assert not re.findall(r"(?<!self)\._(?!replace\b)\w+", source)


@pytest.mark.parametrize("protocol", ["synchronous", "buffered"])
def test_nobody_reaches_into_the_clients_of_a_run(protocol: str) -> None:
    with Simulation(Config(data={"clients": 6}, rounds={"protocol": protocol, "k": 2})) as simulation:
        alone = SimulatedClients(simulation.config, simulation.population, simulation.clients.streams)
        simulation.step()
        assert vars(simulation.clients).keys() == vars(alone).keys()
        assert not [name for name, value in vars(simulation.clients).items() if inspect.isfunction(value)]


def test_over_commitment_asks_more_than_it_waits_for() -> None:
    rule = Synchronous(RoundsSection(k=4, over_commit=1.5))
    wanted = rule.wanted(context())
    assert wanted == (6, 4)
    assert [rule.enough(context(), wanted, range(replies), range(9)) for replies in (3, 4, 5)] == [False, True, True]


def test_an_adaptive_target_counts_those_who_are_due_within_a_round() -> None:
    """now 100, length 50: asked at 60 and expected after 40 s is due at once; asked at 120 + 40 - 100 = 60 s is not."""
    rule = Synchronous(RoundsSection(k=4, over_commit=1.5, late="merge", adaptive_target=True))
    coming = [
        PendingClient(0, 3, 60.0),
        PendingClient(1, 3, 110.0),
        PendingClient(2, 3, 120.0),
    ]  # due in 0, 50 and 60 s
    assert rule.wanted(context(under_way=coming)) == (3, 2)
    assert rule.wanted(context(under_way=coming, length=math.nan)) == (6, 4)  # no round has ended yet
    assert rule.wanted(context(under_way=coming * 4)) == (2, 1)


def test_the_average_of_a_synchronous_round_takes_late_updates_at_a_discount() -> None:
    rule = Synchronous(RoundsSection(late="merge", staleness="dynsgd"))
    reports = {1: Report(num_examples=20.0), 2: Report(num_examples=30.0, error="NaN")}
    received = Arrivals(reports, np.array([1, 2]), [late(3, 1), late(4, 3), late(5, 1, error="NaN")], {})
    merge = rule.merge(context(), received)
    assert merge.weights == {1: 20.0}
    assert merge.discounts == [1 / 2, 1 / 4]  # 1 / (1 + rounds late)
    assert merge.late_weights == {3: 5.0, 4: 2.5}
    assert merge.model is None


def test_where_updates_are_not_weighed_their_weight_is_unknown() -> None:
    received = Arrivals({1: Report(num_examples=20.0)}, np.array([1]), [], {}, weight=lambda samples, discount: None)
    assert math.isnan(Synchronous(RoundsSection()).merge(context(), received).weights[1])


def test_models_are_kept_as_long_as_somebody_trains_from_them() -> None:
    rule = Synchronous(RoundsSection())
    assert rule.base(None, client=2, asked_in=4) == 3  # type: ignore[arg-type]
    assert rule.needed(None, {2, 4}) == {1, 3}  # type: ignore[arg-type]


def memory(**fields: Any) -> SafaMemory:
    return dataclasses.replace(SafaMemory.of(6), **fields)


def test_safa_waits_for_clients_that_were_not_picked_before() -> None:
    rule = Safa(RoundsSection(k=2, protocol="safa"))
    there = context(memory=memory(picked=np.array([True, True, False, False, False, False])))
    wanted = rule.wanted(there)
    assert wanted == (6, 2)
    assert [rule.enough(there, wanted, arrivals, []) for arrivals in ([0, 1], [0, 1, 2], [0, 1, 2, 3])] == [
        False,
        False,
        True,
    ]


def test_safa_sends_the_model_to_those_up_to_date_and_to_those_too_far_behind() -> None:
    """Round 4, tolerance 1. The latest model is version 3: client 0 has it, 1 is one behind, 2 is two behind."""
    rule = Safa(RoundsSection(protocol="safa", lag_tolerance=1))
    before = memory(
        lag=np.array([3, 2, 1, 1, 3, 3]),
        received=np.array([OWN, OWN, OWN, 1, 2, 2]),
        cached=np.array([OWN, OWN, OWN, 1, 2, 2]),
        own={client: vectors(client) for client in range(3)},
    )
    found = rule.begun(context(memory=before), np.array([0, 1, 2]), {})
    assert found.received.tolist() == [3, OWN, 3, 1, 2, 2]  # client 3 was not asked
    assert found.cached.tolist() == [OWN, OWN, 3, 3, 2, 2]  # too far behind, whether asked or not
    assert found.lag.tolist() == [3, 2, 3, 1, 3, 3]
    assert rule.base(found, 0, 4) == 3
    assert rule.base(found, 1, 4) is before.own[1]
    assert before.received.tolist() == [OWN, OWN, OWN, 1, 2, 2]  # nothing was changed in place


def test_safa_lets_newcomers_begin_with_the_latest_model_and_takes_in_who_came_before() -> None:
    rule = Safa(RoundsSection(protocol="safa", lag_tolerance=9))
    mine = vectors(7.0)
    found = rule.begun(context(memory=memory(), joined=np.array([4, 5])), np.array([4]), {1: mine})
    assert found.lag.tolist() == [0, 3, 0, 0, 3, 3]
    assert found.received.tolist() == [0, OWN, 0, 0, 3, 3]
    assert found.cached.tolist() == [0, OWN, 0, 0, 3, 3]
    assert found.own == {1: mine}


def test_safa_averages_the_cache_before_the_others_enter_it() -> None:
    """Six clients of 10 samples. 0 is taken with a model of 6, 1 is not; all others have version 0, a model of 0."""
    rule = Safa(RoundsSection(protocol="safa", k=1))
    models = {1: vectors(60.0), 0: vectors(6.0)}
    received = Arrivals(
        {0: Report(num_examples=10.0), 1: Report(num_examples=10.0)},
        np.array([0]),
        [],
        models,
        model={0: vectors(0.0)}.__getitem__,
        sizes=lambda: np.full(6, 10.0),
    )
    before = memory()
    merge = rule.merge(context(memory=before), received)
    assert merge.model is not None
    assert merge.model.parameters.tolist() == pytest.approx([1.0] * LAYOUT.size)
    assert merge.weights == {0: 10.0, 1: 0.0}
    after = merge.memory
    assert isinstance(after, SafaMemory)
    assert after.picked.tolist() == [True] + 5 * [False]
    assert after.cached.tolist() == after.received.tolist() == [OWN, OWN, 0, 0, 0, 0]
    assert after.lag.tolist() == [4, 4, 0, 0, 0, 0]
    assert after.own == models
    assert rule.needed(after, {9}) == {0}
    assert before.own == {}
    assert before.picked.tolist() == 6 * [False]


def test_what_safa_keeps_is_saved_and_restored() -> None:
    before = memory(own={3: vectors(3.0)}, cached=np.array([0, 1, 2, OWN, 0, 0]), lag=np.arange(6))
    arrays, tensors = before.state()
    after = SafaMemory.of(6).restored(arrays, tensors)
    for name in ("lag", "received", "cached", "picked"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
    assert torch.equal(after.own[3].parameters, before.own[3].parameters)


class Buffered(Protocol):
    """A sketch of FedBuff: a fixed number of clients at work; the model changes with every k updates, late or not."""

    def wanted(self, context: RoundContext) -> Quota:
        return Quota(max(self.settings.asked - len(context.under_way), 1), self.settings.k)

    def enough(self, context: RoundContext, wanted: Quota, arrivals: Sequence[int], late: Sequence[int]) -> bool:
        return len(arrivals) + len(late) >= wanted.replies

    def base(self, memory: Any, client: int, asked_in: int) -> int:
        return asked_in - 1

    def taken(self, context: RoundContext, arrivals: IntArray, accept: Callable[[IntArray, int], IntArray]) -> IntArray:
        return arrivals

    def merge(self, context: RoundContext, received: Arrivals) -> Merge:
        discounts = [1.0 / math.sqrt(1.0 + entry.lateness) for entry in received.usable]
        weights = {client: report.num_examples for client, report in received.reports.items()}
        return Merge(context.memory, weights, discounts)

    def needed(self, memory: Any, under_way: Collection[int]) -> set[int]:
        return {asked_in - 1 for asked_in in under_way}


def test_an_asynchronous_protocol_is_a_sibling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at work, clients of 1, 2 and 10 s, one update a step: nobody waits for the slow one, and it counts."""
    monkeypatch.setitem(PROTOCOLS, "synchronous", Buffered)
    settings = config(
        data={"clients": 3}, rounds={"rounds": 12, "k": 1, "over_commit": 3.0, "late": "merge", "max_lateness": 50}
    )
    simulation, found = run(settings, population=scripted(settings, compute=[1.0, 2.0, 10.0]))
    assert found.rounds[0]["selected"] == 3
    assert all(row["completed"] + row["arrived"] >= 1 for row in found.rounds)
    assert max(row["duration"] for row in found.rounds) <= 1.0
    slow = [row for row in found.participations if row["client"] == 2 and row["outcome"] == "arrived"]
    assert [row["latency"] for row in slow] == [10.0]
    assert simulation.state.models.slots.keys() >= {simulation.round}


def test_a_run_is_all_in_its_state(tmp_path: Path) -> None:
    """Whatever `State.save` leaves out would show in the rounds after `restore`."""
    sections: dict[str, Any] = {
        "selector": "oort",
        "data": {"clients": 9, "client_test": 0.2},
        "devices": {"kind": "phones"},
        "failures": {"crash": 0.1},
        "rounds": {"k": 3, "over_commit": 1.7, "late": "merge", "deadline": {"kind": "moving-average"}},
        "server": {"optimiser": "fedadam", "exclude": 2, "norm_bound": 3.0},
        "evaluation": {"every": 1, "keep_best": True},
    }
    settings: Config = config(**sections)
    with Simulation(settings) as whole, Simulation(settings) as second:
        for _ in range(5):
            whole.step()
        with RunFolder.open(tmp_path / "run", settings.model_dump(mode="json"), resume=False) as folder:
            folder.save(whole.round, *whole.saved(), whole.parts())
            checkpoint = folder.load()
        assert checkpoint is not None
        second.restore(checkpoint)
        for field in ("round", "now", "length", "accuracy", "loss", "reached_in", "members", "abandoned"):
            assert getattr(second.state, field) == getattr(whole.state, field)
        for _ in range(5):
            one, other = whole.step(), second.step()
            assert repr(one.row) == repr(other.row)
            assert repr(one.participations) == repr(other.participations)
        assert torch.equal(whole.server.model.parameters, second.server.model.parameters)
        assert np.array_equal(whole.state.client_accuracy, second.state.client_accuracy)  # type: ignore[arg-type]
