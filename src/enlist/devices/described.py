"""Devices by their description: a table with named columns that selectors see and that determines durations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.devices.devices import Devices
from enlist.devices.draws import blended
from enlist.devices.generators import TimedOptions
from enlist.devices.tables import numbers, read_columns
from enlist.errors import InputError
from enlist.streams import Streams

CLIENT = "client"
DRAWN = {"cpu flops": 0.8, "cpu cores": 0.5, "memory": 0.6, "gpu flops": 1.0, "gpu count": 0.3, "bandwidth": 1.1}
"""Columns of a generated table, and the standard deviation of each one's logarithm."""
ALIKE = 0.75
"""Correlation of each column except the bandwidth with the overall quality of a phone."""
MEDIAN_BANDWIDTH = 6100.0


class FeatureDevices(TimedOptions):
    """Devices that follow from a table of features: what selectors see of a client says how long it takes.

    Compute time is `compute_median`, times (column / its median) to the power of minus its exponent for every column in
    `speed`. The columns of the table are the features that selectors see, besides the data size; `[features]` then has
    no effect. Client j has row j mod rows, in the order of the file. Without a file the table is generated: lognormal
    columns, with the correlations of good phones.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "phones.csv")
    ...     _ = path.write_text("cpu flops,bandwidth,year\\n1,8000,2019\\n4,8000,2021\\n2,8000,2020\\n")
    ...     devices = FeatureDevices(path=path, speed={"cpu flops": 1.0}).draw(3, Streams(1))
    >>> devices.compute, devices.described[1]
    (array([130. ,  32.5,  65. ]), ('cpu flops', 'bandwidth', 'year'))
    """

    kind: Literal["described"] = "described"
    path: Path | None = pydantic.Field(
        None, description="CSV or JSON with named columns, a row per device; a table is drawn without it."
    )
    speed: dict[str, Annotated[float, pydantic.Field(ge=-10, le=10)]] = pydantic.Field(
        {"cpu flops": 0.5, "cpu cores": 0.25, "gpu flops": 0.25},
        min_length=1,
        description="Columns that make a device fast, with the exponent of each.",
    )
    bandwidth: str = pydantic.Field("bandwidth", description="The column with the download bandwidth, kbit/s.")
    compute_median: float = pydantic.Field(
        65.0, gt=0, description="Inference of a device with the median of every column, milliseconds per sample."
    )

    def draw(self, count: int, streams: Streams) -> Devices:
        """The devices of `count` clients."""
        count = checks.whole("clients", count, minimum=1)
        columns = self._drawn(count, streams) if self.path is None else self._read(self.path)
        for name in (*self.speed, self.bandwidth):
            if name not in columns:
                raise InputError(f"devices.speed and devices.bandwidth name {name!r}; the columns are {list(columns)}.")
            if not (columns[name] > 0).all():
                raise InputError(f"devices have {columns[name].min()} in column {name!r}; all values must be above 0.")
        # Generated columns have a median of 1; that of a sample would depend on the number of clients.
        typical = {name: 1.0 if self.path is None else float(np.median(columns[name])) for name in self.speed}
        logs = [power * np.log(columns[name] / typical[name]) for name, power in self.speed.items()]
        compute = self.compute_median * np.exp(-np.sum(logs, axis=0))
        table = np.column_stack(list(columns.values()))
        entry = np.arange(count) % len(table)
        devices = self._made(compute[entry], columns[self.bandwidth][entry], streams)
        devices.described = table[entry], tuple(columns)
        return devices

    def _read(self, path: Path) -> dict[str, FloatArray]:
        found = read_columns(path, [], "json" if path.suffix == ".json" else "csv")
        return {name: numbers(path, name, values) for name, values in found.items() if name != CLIENT}

    def _drawn(self, count: int, streams: Streams) -> dict[str, FloatArray]:
        common = streams.generator("device table").standard_normal(count)
        columns = {}
        for place, (name, sigma) in enumerate(DRAWN.items()):
            own = streams.generator("device table", 1 + place).standard_normal(count)
            scores = own if name == "bandwidth" else blended(common, own, ALIKE)
            columns[name] = np.exp(sigma * scores) * (MEDIAN_BANDWIDTH if name == "bandwidth" else 1.0)
        return columns
