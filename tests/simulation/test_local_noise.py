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
from tests.simulation.simulation_helpers import Remembering


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


RANGES = {"loss": (0.0, 2.0), "accuracy": (0.0, 1.0), "accuracy_gain": (-1.0, 1.0)}
"""Of what a client reports if `clip` is 2; the first losses of ten classes are higher."""


def rows(folder: Path) -> list[tuple[float, ...]]:
    """Round, client and what RANGES names, of the participations of a run."""
    with (folder / "participations.csv").open() as file:
        return [tuple(float(row[name]) for name in ("round", "client", *RANGES)) for row in csv.DictReader(file)]


def told() -> list[tuple[float, ...]]:
    """The same, as the selector heard it; it takes the first clients, whatever it is told."""
    heard = [(number, feedback) for number, feedback, _ in Remembering.heard]
    columns = [(feedback.clients, *(getattr(feedback, name) for name in RANGES)) for _, feedback in heard]
    return [
        (number, *row)
        for (number, _), told in zip(heard, columns, strict=True)
        for row in np.column_stack(told).tolist()
    ]


@pytest.mark.parametrize("sigma", [0.2, 50.0])
def test_the_selector_is_told_noisy_values_and_the_model_is_that_of_before(
    sigma: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selector and participations.csv have the same values: all others than without noise, all in their range."""
    heard, final = {}, []
    for name, sections in (("plain", {}), ("noisy", {"local_noise": {"clip": 2.0, "sigma": sigma}})):
        Remembering.register(monkeypatch)
        final.append(simulate(config("remembering", **sections), folder=tmp_path / name).summary["final"])
        heard[name] = told()
        assert heard[name] == rows(tmp_path / name)
    assert final[0] == final[1]
    plain, noisy = (np.array(heard[name]) for name in ("plain", "noisy"))
    assert plain.shape == noisy.shape == (24, 2 + len(RANGES))
    np.testing.assert_array_equal(plain[:, :2], noisy[:, :2])
    assert plain[:, 2].max() > 2.0, "a loss to be cut"
    for before, after, (low, high) in zip(plain.T[2:], noisy.T[2:], RANGES.values(), strict=True):
        assert (before != after).all()
        assert ((low <= after) & (after <= high)).all()
        assert sigma < 1.0 or {low, high} <= set(after.tolist()), "so wide that values are cut on both sides"


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
