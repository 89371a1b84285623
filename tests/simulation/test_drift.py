"""Drift: who changes, what holds when, that selectors are not told, and that runs stay exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.runs.tables import read_table
from enlist.simulation import Config, build
from enlist.simulation.drift import DataDrift, Drift, SpeedDrift
from enlist.streams import Streams
from tests.simulation.simulation_helpers import Assassin, Kill, assert_same, config, continue_run, run

EVERYBODY = np.arange(10)
SKEWED = {"partition": {"kind": "dirichlet", "alpha": 0.3, "min_size": 2}}
SLOWER = {"kind": "speed", "clients": [1, 2], "factor": 0.25, "from_round": 3}


def test_speed_changes_from_a_round_and_a_time_on() -> None:
    tables = [SpeedDrift(clients=[1], factor=0.5, from_round=3), SpeedDrift(clients=[1, 4], factor=4.0, from_time=60.0)]
    drift = Drift(tables, 10, Streams(1))
    when = {"before": (2, 59.0), "round": (3, 0.0), "time": (1, 60.0), "both": (9, 99.0)}
    slow = {name: drift.slowness(EVERYBODY, *moment)[[0, 1, 4]].tolist() for name, moment in when.items()}
    assert slow == {"before": [1, 1, 1], "round": [1, 2, 1], "time": [1, 0.25, 0.25], "both": [1, 0.5, 0.25]}


def test_samples_go_round_in_a_circle_and_none_are_lost() -> None:
    drift = Drift([DataDrift(clients=[0, 3, 7], from_round=5)], 10, Streams(1))
    assert drift.shards(EVERYBODY, 4, 0.0).tolist() == EVERYBODY.tolist()
    held = drift.shards(EVERYBODY, 5, 0.0)
    assert sorted(held) == EVERYBODY.tolist()
    assert (held != EVERYBODY).nonzero()[0].tolist() == [0, 3, 7]
    twice = Drift([DataDrift(share=1.0, group="all"), DataDrift(group="all", from_round=2)], 10, Streams(1))
    assert sorted(twice.shards(EVERYBODY, 2, 0.0)) == EVERYBODY.tolist()


def test_who_changes_follows_from_the_seed_and_is_written_down() -> None:
    table = [{"kind": "speed", "share": 0.3}, {"kind": "data", "share": 0.4}]
    drawn = [build(config(selector=name, drift=table)).drift for name in ("random", "oort")]
    assert (drawn[0] == drawn[1]).all()
    assert [(drawn[0] == kind).sum() for kind in ("speed", "data", "")] == [3, 4, 3]
    assert (build(config(drift=table, seed=6)).drift != drawn[0]).any()
    assert build(config()).drift is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "speed"}, "neither share nor clients is given"),
        ({"kind": "speed", "share": 0.2, "factor": 0.0}, "drift.0.speed.factor = 0.0, but"),
        ({"kind": "data", "clients": [4]}, "lets 1 client swap samples"),
        ({"kind": "sped", "share": 0.2}, "Did you mean 'speed'"),
        ({"kind": "data", "clients": [10]}, "drift.clients"),
    ],
)
def test_tables_that_make_no_sense_are_refused(table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(config(drift=[table]))


def test_the_clock_follows_and_nothing_else() -> None:
    plain, changed = (run(config(rounds={"rounds": 4, "k": 10}, drift=drift))[1] for drift in ([], [SLOWER]))
    took = [[(row["client"], row["latency"]) for row in memory.participations if row["outcome"] == "completed"]
            for memory in (plain, changed)]  # fmt: skip
    for number, ((client, before), (_, after)) in enumerate(zip(*took, strict=True)):
        slower = client in (1, 2) and number >= 20  # ten clients a round: from the third round on
        assert after == pytest.approx(4 * before if slower else before)
    assert [row.get("accuracy") for row in plain.rounds] == [row.get("accuracy") for row in changed.rounds]


def test_who_holds_other_samples_trains_on_them_and_says_how_many() -> None:
    settings = config(
        data=SKEWED, rounds={"rounds": 4, "k": 10}, drift=[{"kind": "data", "clients": [0, 5], "from_round": 3}]
    )
    sizes = build(settings).sizes
    assert sizes[0] != sizes[5]
    _, memory = run(settings)
    trained = {(row["round"], row["client"]): row["num_examples"] for row in memory.participations}
    for number in (1, 2, 3, 4):
        first, second = (5, 0) if number >= 3 else (0, 5)
        assert trained[number, 0] == sizes[first]
        assert trained[number, 5] == sizes[second]
        assert trained[number, 1] == sizes[1]


def test_a_configuration_without_drift_is_written_as_before() -> None:
    assert "drift" not in Config().model_dump(mode="json")
    kept = Config.parse(config(drift=[SLOWER]).model_dump(mode="json"), "file")
    assert kept.drift == (SpeedDrift(**SLOWER),)


@pytest.mark.parametrize("protocol", ["synchronous", "safa"])
def test_killed_between_asking_and_arriving_it_ends_the_same(protocol: str, tmp_path: Path) -> None:
    """Late updates are trained on what the client held when it was asked, whoever trains them."""
    settings = config(
        data=SKEWED,
        devices={"kind": "phones"},
        selector={"name": "safa" if protocol == "safa" else "oort"},
        rounds={"rounds": 6, "k": 3, "over_commit": 1.0 if protocol == "safa" else 1.5, "deadline": 4.0,
                "late": "merge", "protocol": protocol},
        failures={"crash": 0.05},
        hostile=[{"kind": "label-flip", "share": 0.3, "from_round": 2}],
        drift=[
            {"kind": "data", "share": 0.6, "from_round": 3, "group": "a"},
            {"kind": "speed", "group": "a", "factor": 0.5, "from_time": 6.0},
        ],
    )  # fmt: skip
    continue_run(tmp_path / "whole", settings)
    for number, workers in ((2, 0), (4, 2)):
        with pytest.raises(Kill):
            continue_run(tmp_path / "killed", settings, Assassin(number), workers=workers)
    continue_run(tmp_path / "killed", settings)
    assert_same(tmp_path / "whole", tmp_path / "killed")
    clients = read_table(tmp_path / "whole" / "clients.csv")
    assert (clients["drift"] == "data speed").sum() == 6
    assert "arrived" in read_table(tmp_path / "whole" / "participations.csv")["outcome"].tolist()
