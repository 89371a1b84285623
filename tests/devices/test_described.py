"""Devices by their description: durations follow from the table that selectors see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enlist.devices import FeatureDevices
from enlist.errors import InputError
from enlist.simulation import Config
from enlist.simulation.population import build
from enlist.simulation.running import simulate
from enlist.streams import Streams

TABLE = "client,cpu flops,cpu cores,bandwidth\nb,1,4,1000\na,4,4,2000\nc,16,1,4000\n"


def test_compute_time_by_hand_and_rows_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "phones.csv"
    path.write_text(TABLE)
    devices = FeatureDevices(path=path, speed={"cpu flops": 0.5, "cpu cores": 1.0}, compute_median=10.0).draw(
        4, Streams(1)
    )
    # medians 4 and 4: sqrt(1/4) · 1 = 1/2, 1, and sqrt(16/4) · 1/4 = 1/2 as fast; the fourth client has the first row
    assert devices.compute.tolist() == pytest.approx([20.0, 10.0, 20.0, 20.0])
    assert devices.bandwidth.tolist() == [1000.0, 2000.0, 4000.0, 1000.0]
    assert devices.described is not None
    assert devices.described[1] == ("cpu flops", "cpu cores", "bandwidth")
    dealt = devices.matched(np.array([2, 0, 3, 1])).described
    assert dealt is not None
    assert dealt[0][:, 0].tolist() == [16.0, 1.0, 1.0, 4.0]


def test_a_drawn_table_determines_durations() -> None:
    devices = FeatureDevices(compute_noise=0.0).draw(500, Streams(3))
    assert devices.described is not None
    table, names = devices.described
    logs = np.log(table)
    slopes, left, *_ = np.linalg.lstsq(np.column_stack([logs, np.ones(500)]), np.log(devices.compute), rcond=None)
    assert left.max() < 1e-20
    assert dict(zip(names, slopes.round(6).tolist(), strict=False))["cpu flops"] == -0.5
    first = FeatureDevices().draw(20, Streams(3)).described
    assert first is not None
    assert np.array_equal(first[0], table[:20]), "the first clients of a large population are those of a small one"


def test_selectors_see_the_table_and_the_data_size_whoever_gets_which_device() -> None:
    data = {"clients": 30, "speed_correlation": 1.0}
    population = build(Config(data=data, devices={"kind": "described"}))
    clients = population.clients
    assert clients.feature_names == (
        *("cpu flops", "cpu cores", "memory", "gpu flops", "gpu count", "bandwidth"),
        "data size",
    )
    assert clients.features is not None
    assert clients.features[:, -1].tolist() == population.sizes.tolist()
    assert clients.features[:, 5].tolist() == population.devices.bandwidth.tolist()
    assert np.argmax(population.sizes) == np.argmin(population.devices.compute)


def test_a_run_with_late_clients_and_offline_ones_goes_on(tmp_path: Path) -> None:
    config = Config(
        data={"clients": 20},
        devices={"kind": "described"},
        availability={"kind": "bernoulli"},
        rounds={"rounds": 4, "k": 3, "over_commit": 1.3, "deadline": {"kind": "percentile", "percentile": 50.0}},
    )
    whole = simulate(config, "fedsuv:paper", folder=tmp_path / "whole")
    short = config.model_copy(update={"rounds": config.rounds.model_copy(update={"rounds": 2})})
    simulate(short, "fedsuv:paper", folder=tmp_path / "part")
    simulate(config, "fedsuv:paper", folder=tmp_path / "part", resume=True)
    assert (tmp_path / "part" / "rounds.csv").read_bytes() == (tmp_path / "whole" / "rounds.csv").read_bytes()
    assert whole.rounds["late"].sum() > 0


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TABLE, {"speed": {"flops": 1.0}}, r"name 'flops'; the columns are \['cpu flops', 'cpu cores', 'bandwidth'\]"),
        (TABLE, {"speed": {"cpu flops": 1.0}, "bandwidth": "kbps"}, "name 'kbps'"),
        (
            TABLE.replace("1,4,1000", "0,4,1000"),
            {"speed": {"cpu flops": 1.0}},
            "have 0.0 in column .*; all values must be above 0",
        ),
        (TABLE.replace("1,4,1000", "fast,4,1000"), {}, "'fast' is not a finite number"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, options: dict[str, object], message: str) -> None:
    path = tmp_path / "phones.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        FeatureDevices(path=path, **options).draw(2, Streams(1))  # type: ignore[arg-type]
