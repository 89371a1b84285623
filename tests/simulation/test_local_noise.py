"""Local noise: what it does to values, what it leaves alone, and that runs with it can be stopped."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.simulation import Config, Simulation, simulate
from enlist.simulation.local_noise import LocalNoise
from enlist.streams import Streams
from enlist.training.local import Report
from tests.resuming import assert_resumes


def config(selector: str = "oort", rounds: dict[str, Any] | None = None, **sections: Any) -> Config:
    return Config(
        data={"clients": 12, "partition": "iid"},
        model={"name": "logistic"},
        rounds={"rounds": 6, "k": 4, **(rounds or {})},
        selector=selector,
        **sections,
    )


def test_the_noise_has_the_stated_width_and_values_stay_in_their_range() -> None:
    noise = LocalNoise(clip=4.0, sigma=0.1)
    said = [noise.report(Report(loss=2.0, accuracy_gain=0.0), Streams(3), 1, client) for client in range(4000)]
    losses, gains = np.array([report.loss for report in said]), np.array([report.accuracy_gain for report in said])
    assert losses.mean() == pytest.approx(2.0, abs=0.03)  # standard error: 0.4 / sqrt(4000) = 0.006
    assert losses.std() == pytest.approx(0.4, rel=0.06)  # 0.1 of [0, 4]; standard error of it: 1.1 %
    assert gains.std() == pytest.approx(0.2, rel=0.06)  # 0.1 of [-1, 1]
    assert abs(np.corrcoef(losses, gains)[0, 1]) < 0.06
    wide = LocalNoise(clip=4.0, sigma=5.0)
    said = [wide.report(Report(loss=9.0, accuracy=0.5), Streams(3), 1, client) for client in range(200)]
    assert {0.0, 4.0} <= {report.loss for report in said}
    assert all(0.0 <= report.loss <= 4.0 and 0.0 <= report.accuracy <= 1.0 for report in said)


def test_what_was_not_measured_is_not_said_and_the_rest_stays() -> None:
    said = LocalNoise(sigma=1.0).report(Report(loss=1.0, num_examples=20.0, update_norm=3.0), Streams(1), 2, 5)
    assert math.isnan(said.accuracy)
    assert (said.num_examples, said.update_norm) == (20.0, 3.0)


def losses(folder: Path) -> list[tuple[str, str, float]]:
    with (folder / "participations.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["loss"]]
    return [(row["round"], row["client"], float(row["loss"])) for row in rows]


def test_the_selector_is_told_noisy_values_and_the_model_is_that_of_before(tmp_path: Path) -> None:
    noise = {"clip": 3.0, "sigma": 0.2}
    plain = simulate(config("random"), folder=tmp_path / "plain")
    noisy = simulate(config("random", local_noise=noise), folder=tmp_path / "noisy")
    assert plain.summary["final"] == noisy.summary["final"]
    pairs = list(zip(losses(tmp_path / "plain"), losses(tmp_path / "noisy"), strict=True))
    assert all(one[:2] == other[:2] for one, other in pairs)
    assert all(one[2] != other[2] for one, other in pairs)
    with Simulation(config("oort", local_noise={"clip": 3.0, "sigma": 50.0})) as simulation:
        simulation.step()
        told = simulation.selector.state.utility[simulation.selector.counts.observed > 0]
    assert len(told) == 4


def test_losses_that_are_asked_for_beforehand_are_noisy_too() -> None:
    with Simulation(config("power-of-choice", local_noise={"clip": 3.0, "sigma": 0.5})) as simulation:
        clients = np.arange(12)
        said = simulation.clients.losses(np.full(12, 1.5), clients, 1)
        again = simulation.clients.losses(np.full(12, 1.5), clients, 2)
    assert len(set(said.tolist())) > 6
    assert (said != again).any()


@pytest.mark.parametrize("rounds", [{"over_commit": 1.5, "late": "merge"}, {"protocol": "buffered"}])
def test_it_is_the_same_after_stops_with_other_workers(rounds: dict[str, Any], tmp_path: Path) -> None:
    if "late" in rounds:
        rounds = {**rounds, "deadline": {"kind": "percentile"}}
    chosen = config(rounds=rounds, failures={"crash": 0.2}, local_noise={"clip": 3.0, "sigma": 0.3})
    assert_resumes(tmp_path, chosen, stops=[3])


def test_bad_values_are_refused() -> None:
    with pytest.raises(InputError, match="clip"):
        config(local_noise={"clip": 0.0})
    with pytest.raises(InputError, match="sigma"):
        config(local_noise={"sigma": -1.0})
