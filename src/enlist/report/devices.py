"""Charts of the devices: how fast they are, how long an update takes, and when they are available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist.report.charts import Row
from enlist.report.kit import BLUE, HEIGHT, WIDTH, evenly, histogram
from enlist.runs.printing import duration, time_unit
from enlist.runs.scores import total
from enlist.runs.tables import RunTables
from enlist.streams import Streams

DOTS = 2_000
POINTS = 300


def device_rows(tables: RunTables, most: int = DOTS) -> list[dict[str, Any]]:
    """Compute time, bandwidth, samples and expected latency of clients: all, or `most` of them drawn at random.

    Clients without a positive, finite compute time and bandwidth have no place on logarithmic axes and are left out.

    >>> from enlist.runs.example import example_run
    >>> rows = device_rows(example_run(clients=50), most=20)
    >>> len(rows), sorted(rows[0])
    (20, ['bandwidth', 'client', 'compute', 'latency', 'samples'])
    """
    wanted = {
        "compute": "compute_ms",
        "bandwidth": "bandwidth_kbps",
        "samples": "num_examples",
        "latency": "expected_latency",
    }
    columns = {name: tables.clients.get(column, np.full(tables.count, np.nan)) for name, column in wanted.items()}
    valid = np.all([np.isfinite(columns[name]) & (columns[name] > 0) for name in ("compute", "bandwidth")], axis=0)
    chosen = np.flatnonzero(valid)
    if len(chosen) > most:
        chosen = np.sort(Streams(0).generator("device dots").choice(chosen, most, replace=False))
    return [
        {"client": int(client), **{name: float(f"{column[client]:.4g}") for name, column in columns.items()}}
        for client in chosen
    ]


def device_chart(rows: Sequence[Row], title: str) -> alt.Chart:
    """A dot per client: compute time and bandwidth on logarithmic axes, samples as size, expected latency as colour.

    >>> from enlist.runs.example import example_run
    >>> type(device_chart(device_rows(example_run()), "Devices")).__name__
    'Chart'
    """
    seconds = [row["latency"] for row in rows if np.isfinite(row["latency"])]
    unit, size = time_unit(float(np.median(seconds)) if seconds else 0.0)
    values = [
        {
            **row,
            "took": row["latency"] / size if np.isfinite(row["latency"]) else None,
            "spent": duration(row["latency"]),
        }
        for row in rows
    ]
    many = len(rows) > 400
    logarithmic = alt.Scale(type="log", nice=False, padding=12)
    ticks = {name: log_ticks([row[name] for row in rows]) for name in ("compute", "bandwidth")}
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_circle(opacity=0.55 if many else 0.75, stroke="white", strokeWidth=0.3)
        .encode(
            x=alt.X(
                "compute:Q",
                title="compute time per sample (ms)",
                scale=logarithmic,
                axis=alt.Axis(grid=False, values=ticks["compute"], format="~g"),
            ),
            y=alt.Y(
                "bandwidth:Q",
                title="bandwidth (kbit/s)",
                scale=logarithmic,
                axis=alt.Axis(values=ticks["bandwidth"], format="~s"),
            ),
            size=alt.Size(
                "samples:Q",
                scale=alt.Scale(range=[4, 110] if many else [12, 320]),
                legend=alt.Legend(title="samples", tickCount=4, symbolFillColor="#888", symbolStrokeWidth=0),
            ),
            color=alt.Color(
                "took:Q",
                scale=alt.Scale(type="log", range=["#e9b03c", "#e07a1f", "#a8321c"]),
                legend=alt.Legend(
                    title=["expected", f"latency ({unit})"], gradientLength=110, tickCount=4, format="~g"
                ),
            ),
            tooltip=[
                "client:O",
                alt.Tooltip("compute:Q", title="ms per sample"),
                alt.Tooltip("bandwidth:Q", title="kbit/s", format=",.0f"),
                alt.Tooltip("samples:Q", format=",.0f"),
                alt.Tooltip("spent:N", title="expected latency"),
            ],
        )
        .properties(title=title, width=WIDTH - 40, height=HEIGHT)
    )
    return chart


def latency_rows(tables: RunTables, bins: int = 36) -> list[dict[str, Any]]:
    """Clients per bin of expected latency; bins grow by a constant factor.

    >>> from enlist.runs.example import example_run
    >>> rows = latency_rows(example_run(), bins=4)
    >>> [row["clients"] for row in rows]
    [3, 5, 3, 1]
    """
    latency = tables.clients.get("expected_latency", np.empty(0))
    latency = latency[np.isfinite(latency) & (latency > 0)]
    if not len(latency):
        return []
    low, high = float(latency.min()), float(latency.max())
    edges = np.geomspace(low, high, bins + 1) if high > 1.001 * low else np.array([0.9 * low, 1.1 * high])
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    heights, _ = np.histogram(latency, edges)
    middle = float(np.median(latency))
    return [
        {"low": float(left), "high": float(right), "clients": int(height), "median": middle}
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True)
    ]


def latency_chart(rows: Sequence[Row], title: str) -> alt.LayerChart:
    """A histogram of expected latencies on a logarithmic axis, with the median marked.

    >>> from enlist.runs.example import example_run
    >>> type(latency_chart(latency_rows(example_run()), "Expected latency")).__name__
    'LayerChart'
    """
    unit, size = time_unit(rows[0]["median"])
    values = [
        {
            "from": row["low"] / size,
            "to": row["high"] / size,
            "clients": row["clients"],
            "span": f"{duration(row['low'])} to {duration(row['high'])}",
        }
        for row in rows
    ]
    ends = [values[0]["from"], values[-1]["to"]]
    x = alt.X(
        "from:Q",
        bin="binned",
        title=f"expected latency ({unit})",
        scale=alt.Scale(type="log", nice=False, domain=ends),
        axis=alt.Axis(grid=False, values=log_ticks(ends), format="~g"),
    )
    middle = rows[0]["median"]
    return histogram(values, title, x, middle / size, f"median {duration(middle)}", "latency")


def availability_rows(runs: Sequence[RunTables]) -> list[dict[str, Any]]:
    """Clients available at the start of each round, in the longest run of each seed.

    Availability does not depend on the selector, so one run stands for all runs of a seed. Long runs are thinned to 300
    rounds.

    >>> from enlist.runs.example import example_run
    >>> availability_rows([example_run()])[0]
    {'seed': 0, 'start': 0.0, 'available': 9.0, 'clients': 12}
    """
    rows = []
    for seed in dict.fromkeys(run.seed for run in runs):
        run = max((run for run in runs if run.seed == seed), key=lambda run: total(run).seconds)
        starts, available = run.rounds["start"], run.rounds["available"]
        kept = evenly(len(starts), POINTS)
        rows += [
            {"seed": seed, "start": float(starts[row]), "available": float(available[row]), "clients": run.count}
            for row in kept
            if np.isfinite(available[row])
        ]
    return rows


def availability_chart(rows: Sequence[Row], title: str, clock: str = "virtual time") -> alt.LayerChart:
    """The number of available clients over time, a line per seed.

    >>> from enlist.runs.example import example_run
    >>> type(availability_chart(availability_rows([example_run()]), "Available clients")).__name__
    'LayerChart'
    """
    unit, size = time_unit(max(row["start"] for row in rows))
    values = [{**row, "at": row["start"] / size, "spent": duration(row["start"])} for row in rows]
    seeds = len({row["seed"] for row in rows})
    line = (
        alt.Chart(alt.InlineData(values=values))
        .mark_line(strokeWidth=2, interpolate="step-after", color=BLUE, opacity=0.9 if seeds == 1 else 0.5)
        .encode(
            x=alt.X(
                "at:Q",
                title=f"{clock} ({unit})",
                scale=alt.Scale(nice=False, domainMin=0),
                axis=alt.Axis(grid=False, tickCount=7),
            ),
            y=alt.Y(
                "available:Q",
                title="clients available",
                scale=alt.Scale(domain=[0, max(row["clients"] for row in rows)], nice=False),
                axis=alt.Axis(tickCount=6, format=",d"),
            ),
            detail="seed:N",
            tooltip=["seed:O", alt.Tooltip("spent:N", title="time"), alt.Tooltip("available:Q", format=",d")],
        )
    )
    layered: alt.LayerChart = alt.LayerChart(layer=[line]).properties(title=title, width=WIDTH, height=HEIGHT)
    return layered


def log_ticks(values: Sequence[float], most: int = 9) -> list[float]:
    """Round numbers (1, 2, 5 times a power of ten, or the powers alone) for a logarithmic axis over these values.

    >>> log_ticks([3.0, 80.0])
    [5.0, 10.0, 20.0, 50.0]
    """
    low, high = min(values), max(values)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1, 2, 5), (1,)):
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            return ticks or [float(f"{low:.2g}")]
    return ticks[:: -(-len(ticks) // most)]
