"""Trace files: CSV, JSON and pickles of FedScale's shape."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.devices import AvailabilityTrace, DeviceTrace
from enlist.errors import InputError
from enlist.streams import Streams

CAPACITY = {2: {"computation": 3.0, "communication": 30.0}, 0: {"computation": 162.0, "communication": 5648.1}}
CAPACITY[1] = {"computation": 153, "communication": 2209.6}
BEHAVIOUR: dict[int, dict[str, Any]] = {
    1: {"duration": 50, "active": [50], "inactive": [100], "finish_time": 100, "model": "phone"},
    0: {"duration": 30, "active": [0, 190], "inactive": [20, 200], "finish_time": 200, "model": "phone"},
    2: {"duration": 0, "active": [], "inactive": [], "finish_time": 518_400, "model": "phone"},
}


def pickled(path: Path, value: object) -> Path:
    path.write_bytes(pickle.dumps(value))
    return path


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_devices_of_all_formats_are_the_same(tmp_path: Path) -> None:
    ids = sorted(CAPACITY, reverse=True)
    rows = [(i, CAPACITY[i]["computation"], CAPACITY[i]["communication"]) for i in ids]
    names = ("client", "compute_ms", "bandwidth_kbps")
    paths = [
        pickled(tmp_path / "client_device_capacity", CAPACITY),
        written(tmp_path / "a.csv", "\n".join(",".join(map(str, row)) for row in [names, *rows])),
        written(tmp_path / "b.json", json.dumps([dict(zip(names, row, strict=True)) for row in rows])),
        written(tmp_path / "c.json", json.dumps(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))),
    ]
    for path in paths:
        devices = DeviceTrace(path=path).draw(5, Streams(1))
        assert devices.compute.tolist() == [162.0, 153.0, 3.0, 162.0, 153.0]
        assert devices.bandwidth.tolist() == [5648.1, 2209.6, 30.0, 5648.1, 2209.6]
        assert devices.compute_noise == devices.bandwidth_noise == 0.0
    table = written(tmp_path / "table.txt", paths[1].read_text())
    assert DeviceTrace(path=table, format="csv").draw(2, Streams(1)).compute.tolist() == [162.0, 153.0]


def test_numbered_clients_are_ordered_as_numbers_and_names_as_names(tmp_path: Path) -> None:
    header = "client,compute_ms,bandwidth_kbps,remark\n"
    numbers = written(tmp_path / "numbers.csv", header + "10,1,1,x\n9,2,1,y\n\n")
    assert DeviceTrace(path=numbers).draw(2, Streams(1)).compute.tolist() == [2.0, 1.0]
    names = written(tmp_path / "names.csv", header + "zoe,1,1,x\nann,2,1,y\n")
    assert DeviceTrace(path=names).draw(2, Streams(1)).compute.tolist() == [2.0, 1.0]


def test_sessions_of_fedscale(tmp_path: Path) -> None:
    path = pickled(tmp_path / "client_behave_trace", BEHAVIOUR)
    table = AvailabilityTrace(path=path).draw(7, Streams(1))
    assert table.online(10.0).tolist() == [True, False, False, True, False, False, True]
    assert table.online(160.0).tolist() == [False, True, False, False, True, False, False]
    assert table.until(np.arange(7), 195.0).tolist() == [220.0, 200.0, 195.0, 220.0, 200.0, 195.0, 220.0]
    assert table.uptime.tolist() == [0.15, 0.5, 0.0, 0.15, 0.5, 0.0, 0.15]
    few = AvailabilityTrace(path=path).draw(2, Streams(1))
    assert few.uptime.tolist() == [0.15, 0.5]


def test_the_published_example_is_available_for_two_fifths(tmp_path: Path) -> None:
    # Eight intervals of 211,625 s together within six days; where they lie was not published.
    ends = np.cumsum(np.full(8, 64_800)) - 1000
    lengths = np.full(8, 26_453)
    lengths[0] += 1
    entry = {
        "duration": int(lengths.sum()),
        "active": (ends - lengths).tolist(),
        "inactive": ends.tolist(),
        "finish_time": 518_400,
    }
    assert entry["duration"] == 211_625
    path = pickled(tmp_path / "trace.pkl", {0: entry})
    assert AvailabilityTrace(path=path).draw(1, Streams(1)).uptime[0] == pytest.approx(0.408, abs=5e-4)


def test_sessions_of_tables(tmp_path: Path) -> None:
    rows = "client,start,end,period\n7,5,9,10\n3,0,4,20\n3,16,20,20\n"
    for name, text in (
        ("a.csv", rows),
        ("a.json", json.dumps({"client": [7, 3, 3], "start": [5, 0, 16], "end": [9, 4, 20], "period": [10, 20, 20]})),
    ):
        table = AvailabilityTrace(path=written(tmp_path / name, text)).draw(3, Streams(1))
        assert table.until(np.arange(3), 18.0).tolist() == [24.0, 19.0, 24.0]
    fixed = AvailabilityTrace(path=tmp_path / "a.csv", period=40.0).draw(2, Streams(1))
    assert fixed.uptime.tolist() == [0.2, 0.1]
    latest = written(tmp_path / "b.csv", "client,start,end\n0,0,4\n1,10,16\n2,3,3\n")
    assert AvailabilityTrace(path=latest).draw(3, Streams(1)).uptime.tolist() == [0.25, 0.375, 0.0]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("code ran",))


def test_code_in_a_pickle_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = pickled(tmp_path / "evil", {0: Evil()})
    for options in (DeviceTrace(path=path), AvailabilityTrace(path=path)):
        with pytest.raises(InputError, match="not allowed"):
            options.draw(1, Streams(1))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("client,compute_ms,bandwidth_kbps\n", "has no rows"),
        ("client,compute_ms\n0,1\n", "has no column 'bandwidth_kbps'"),
        ("client,compute_ms,bandwidth_kbps\n0,1\n", "row 1 has 2 cells"),
        ("client,compute_ms,bandwidth_kbps\n0,fast,1\n", "row 1: 'fast' is not a finite number"),
        ("client,compute_ms,bandwidth_kbps\n0,nan,1\n", "row 1: 'nan' is not a finite number"),
        ("client,compute_ms,bandwidth_kbps\n0,0,1\n", "compute time of 0.0"),
        ("client,compute_ms,bandwidth_kbps\n4,1,1\n0,1,1\n4,1,1\n", "names client '4' twice"),
    ],
)
def test_bad_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeviceTrace(path=written(tmp_path / "bad.csv", text)).draw(2, Streams(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("3", "neither a list of rows"),
        ("[]", "neither a list of rows"),
        ('[{"client": 0}, {"clint": 1}]', "row 2 has other keys"),
        ('{"client": [0], "start": [1], "end": [2, 3]}', "different lengths"),
        ('{"client": [0], "start": [3], "end": [2]}', "a session from 3.0 to 2.0"),
        ('{"client": [0], "start": [[3]], "end": [2]}', "column 'start'"),
        ('{"client": [0], "start": [0], "end": [0]}', "a period of 0.0 seconds"),
        ('{"client": [0, 0], "start": [0, 1], "end": [1, 2], "period": [5, 6]}', "several periods"),
    ],
)
def test_bad_sessions_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AvailabilityTrace(path=written(tmp_path / "bad.json", text)).draw(2, Streams(1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "not a dictionary of dictionaries"),
        ({}, "not a dictionary of dictionaries"),
        (CAPACITY, "is it FedScale's other file"),
        ({0: {"active": [1], "inactive": [], "finish_time": 9}}, "1 starts and 0 ends"),
    ],
)
def test_bad_pickles_are_named(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        AvailabilityTrace(path=pickled(tmp_path / "bad", value)).draw(2, Streams(1))
