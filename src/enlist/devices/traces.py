"""Traces: devices and sessions from files, CSV or JSON tables or FedScale's two pickles.

Client j uses entry j mod len, entries in the order of their ids. FedScale's files are pickles; they are read without
running any code, as plain values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.typing import FloatArray, IntArray
from enlist.data import unpickle
from enlist.devices.availability import AvailabilityOptions
from enlist.devices.devices import Devices
from enlist.devices.generators import TimedOptions
from enlist.devices.intervals import MOST_SESSIONS, Intervals
from enlist.devices.tables import entries, numbers, read_columns
from enlist.errors import InputError
from enlist.streams import Streams

Format = Literal["auto", "csv", "json", "fedscale"]
FORMAT = "How the file is written; auto goes by its name: .csv, .json, anything else is FedScale's pickle."


class DeviceTrace(TimedOptions):
    """Devices from a file: columns client, compute_ms and bandwidth_kbps, or FedScale's client_device_capacity.

    That pickle is a dictionary id -> {'computation': ms per sample, 'communication': kbit/s}. It has no noise; set
    `compute_noise` and `bandwidth_noise` to add some.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "devices.csv")
    ...     _ = path.write_text("client,compute_ms,bandwidth_kbps\\n0,162,5648.1\\n1,153,2209.6\\n")
    ...     DeviceTrace(path=path).draw(3, Streams(1)).compute
    array([162., 153., 162.])
    """

    kind: Literal["trace"] = "trace"
    path: Path = pydantic.Field(description="The file with the devices.")
    format: Format = pydantic.Field("auto", description=FORMAT)
    compute_noise: float = pydantic.Field(
        0.0, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on compute time."
    )
    bandwidth_noise: float = pydantic.Field(
        0.0, ge=0, le=3, description="Round noise: standard deviation of the logarithm of the factor on bandwidth."
    )

    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""
        entry = np.arange(checks.whole("clients", count, minimum=1))
        written = _written(self.path, self.format)
        if written == "fedscale":
            values = _ordered(self.path)
            compute = numbers(self.path, "computation", _field(self.path, values, "computation"))
            bandwidth = numbers(self.path, "communication", _field(self.path, values, "communication"))
        else:
            columns = read_columns(self.path, ("client", "compute_ms", "bandwidth_kbps"), written)
            ids, place = entries(columns["client"])
            if len(ids) != len(place):
                raise InputError(f"{self.path} names client {_repeated(ids, place)!r} twice; give one row per client.")
            order = np.argsort(place)
            compute = numbers(self.path, "compute_ms", columns["compute_ms"])[order]
            bandwidth = numbers(self.path, "bandwidth_kbps", columns["bandwidth_kbps"])[order]
        for name, column in (("compute time", compute), ("bandwidth", bandwidth)):
            if not (column > 0).all():
                raise InputError(f"{self.path} has a {name} of {column.min()}; all must be above 0.")
        entry %= len(compute)
        return self._made(compute[entry], bandwidth[entry], streams)


class AvailabilityTrace(AvailabilityOptions):
    """Sessions from a file: columns client, start, end and, if wanted, period; or FedScale's client_behave_trace.

    Times are seconds. The pickle is a dictionary id -> {'active': [starts], 'inactive': [ends], 'finish_time': period}.
    Every client's time wraps around at its own period. A client without sessions is a row whose start is its end.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "sessions.csv")
    ...     _ = path.write_text("client,start,end\\n0,0,60\\n0,90,100\\n1,50,80\\n")
    ...     sessions = AvailabilityTrace(path=path, period=100.0).draw(3, Streams(1))
    >>> sessions.until(np.array([0, 1, 2]), 95.0)
    array([160.,  95., 160.])
    """

    kind: Literal["trace"] = "trace"
    path: Path = pydantic.Field(description="The file with the sessions.")
    format: Format = pydantic.Field("auto", description=FORMAT)
    period: float | None = pydantic.Field(
        None, gt=0, description="Seconds after which a trace repeats; by default as the file says, else its latest end."
    )

    def draw(self, count: int, streams: Streams) -> Intervals:
        """The availability of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        written = _written(self.path, self.format)
        rows = _fedscale_rows(self.path) if written == "fedscale" else _table_rows(self.path, written)
        place, starts, ends, period = rows
        if self.period is not None:
            period = np.full(len(period), self.period)
        wrong = ~((starts >= 0) & (ends >= starts))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{self.path} has a session from {starts[row]} to {ends[row]}; give 0 <= start <= end.")
        if not (period > 0).all():
            raise InputError(f"{self.path} has a period of {period.min()} seconds; it must be above 0. Set `period`.")
        order = np.argsort(place, kind="stable")
        entry = np.arange(count) % len(period)
        lengths = np.bincount(place, minlength=len(period))
        if (sessions := int(lengths[entry].sum())) > MOST_SESSIONS:
            raise InputError(
                f"{self.path}: {count} clients have {sessions} sessions; at most {MOST_SESSIONS} fit together. Take "
                "fewer clients, or a shorter trace."
            )
        clients, index = _dealt_rows(lengths, entry)
        return Intervals(clients, starts[order][index], ends[order][index], period[entry])


def _dealt_rows(lengths: IntArray, entry: IntArray) -> tuple[IntArray, IntArray]:
    """For clients that use these entries: the client and the row of all their rows; rows are sorted by entry."""
    first = np.cumsum(lengths) - lengths
    each = lengths[entry]
    clients = np.repeat(np.arange(len(entry)), each)
    within = np.arange(len(clients)) - np.repeat(np.cumsum(each) - each, each)
    return clients, first[entry][clients] + within


def _table_rows(path: Path, written: str) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    columns = read_columns(path, ("client", "start", "end"), written)
    ids, place = entries(columns["client"])
    starts, ends = numbers(path, "start", columns["start"]), numbers(path, "end", columns["end"])
    if "period" not in columns:
        return place, starts, ends, np.full(len(ids), ends.max())
    given = numbers(path, "period", columns["period"])
    period = np.zeros(len(ids))
    period[place] = given
    if (period[place] != given).any():
        row = int(np.flatnonzero(period[place] != given)[0])
        raise InputError(f"{path} gives client {ids[place[row]]!s} several periods; give one per client.")
    return place, starts, ends, period


def _fedscale_rows(path: Path) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    values = _ordered(path)
    period = numbers(path, "finish_time", _field(path, values, "finish_time"))
    active, inactive = (_field(path, values, name, list) for name in ("active", "inactive"))
    for number, (begun, ended) in enumerate(zip(active, inactive, strict=True)):
        if len(begun) != len(ended):
            raise InputError(f"{path}, entry {number} has {len(begun)} starts and {len(ended)} ends; give one each.")
    place = np.repeat(np.arange(len(values)), [len(begun) for begun in active])
    starts = numbers(path, "active", list(itertools.chain.from_iterable(active)))
    return place, starts, numbers(path, "inactive", list(itertools.chain.from_iterable(inactive))), period


def _written(path: Path, format: Format) -> str:
    if format != "auto":
        return format
    return {".csv": "csv", ".json": "json"}.get(path.suffix.lower(), "fedscale")


def _ordered(path: Path) -> list[Mapping[str, Any]]:
    """The entries of one of FedScale's pickles, in the order of their ids."""
    value = unpickle.load(path, {}, "latin1")
    if not isinstance(value, dict) or not value or not all(isinstance(entry, dict) for entry in value.values()):
        raise InputError(f"{path} is not a dictionary of dictionaries; FedScale's files map an id to its values.")
    ids = list(value)
    _, place = entries(ids)
    return [value[ids[index]] for index in np.argsort(place, kind="stable")]


def _field(
    path: Path, values: Sequence[Mapping[str, Any]], name: str, kind: type | tuple[type, ...] = (int, float)
) -> list[Any]:
    for number, entry in enumerate(values):
        if not isinstance(entry.get(name), kind):
            raise InputError(f"{path}, entry {number} has {name} = {entry.get(name)!r}; is it FedScale's other file?")
    return [entry[name] for entry in values]


def _repeated(ids: Any, place: IntArray) -> str:
    return str(ids[np.argmax(np.bincount(place))])
