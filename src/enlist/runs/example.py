"""Made-up runs: tables as a simulation leaves them, without any training. For examples, documentation and tests."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.runs.tables import RunTables, Table
from enlist.streams import Streams

MODEL_BYTES = 250_000
FAVOUR = {"random": 0.0, "oort": 1.0, "fedcs": 3.0}  # how strongly speed counts when clients are chosen


def example_run(selector: str = "random", seed: int = 0, clients: int = 12, rounds: int = 8, k: int = 4) -> RunTables:
    """A made-up run of `rounds` rounds with `k` clients each, evaluated every other round and in the last.

    Selectors other than random prefer fast clients; accuracy grows with the samples received.

    >>> run = example_run("fedcs", seed=1)
    >>> run.rounds["accuracy"].round(2)
    array([ nan, 0.64,  nan, 0.82,  nan, 0.85,  nan, 0.87])
    """
    streams = Streams(seed)
    table = _clients(clients, streams)
    favour = FAVOUR.get(selector, 0.5)
    weight = (1.0 / table["expected_latency"]) ** favour
    phase = streams.generator("phase").random(clients)
    rows: list[dict[str, float]] = []
    told: list[dict[str, Any]] = []
    now, seen = 0.0, 0.0
    for number in range(1, rounds + 1):
        luck = streams.generator("round", number)
        online = np.sin(2 * np.pi * (now / 86_400 + phase)) > -0.6
        chances = np.where(online, weight, 0.0)
        asked = np.sort(luck.choice(clients, min(k, int(online.sum())), replace=False, p=chances / chances.sum()))
        latency = table["expected_latency"][asked] * luck.lognormal(0.0, 0.2, len(asked))
        deadline = float(np.quantile(table["expected_latency"], 0.9))
        fate = luck.random(len(asked))
        outcome = np.where(latency > deadline, "late", "completed")
        outcome = np.where(fate < 0.06, "dropped", np.where(fate > 0.98, "failed", outcome))
        done = outcome == "completed"
        duration = deadline if not done.all() else float(latency.max())
        seen += float(table["num_examples"][asked[done]].sum()) / table["num_examples"].sum()
        evaluated = number % 2 == 0 or number == rounds
        level = 0.92 - 0.72 * np.exp(-0.9 * seen) + luck.normal(0.0, 0.008)
        counts = {name: float((outcome == name).sum()) for name in ("completed", "late", "dropped", "failed")}
        rows.append(
            {
                "round": number,
                "start": now,
                "duration": duration,
                "end": now + duration,
                "available": float(online.sum()),
                "selected": len(asked),
                **counts,
                "arrived": 0,
                "deadline": deadline,
                "accuracy": float(level) if evaluated else np.nan,
                "loss": float(2.3 * (1.0 - level)) if evaluated else np.nan,
                "bytes_down": float(MODEL_BYTES * len(asked)),
                "bytes_up": float(MODEL_BYTES * done.sum()),
            }
        )
        told += [
            {"round": number, "selected_in": number, "client": client, "outcome": what, "latency": seconds}
            for client, what, seconds in zip(asked, outcome, np.minimum(latency, deadline), strict=True)
        ]
        now += duration + 5.0
    config = {"selector": {"name": selector}, "seed": seed, "clients": clients, "rounds": rounds, "k": k}
    result = {"rounds": rounds, "time": rows[-1]["end"], "accuracy": rows[-1]["accuracy"], "status": "finished"}
    participations = _columns(told)
    kept = None
    if favour:
        asked_for = {name: participations[name].astype(float) for name in ("round", "client")}
        kept = {**asked_for, "speed": 10.0 / table["expected_latency"][participations["client"]]}
    return RunTables(selector, seed, config, _columns(rows), participations, table, result, kept=kept)


def _clients(count: int, streams: Streams, classes: int = 10) -> Table:
    luck = streams.generator("clients")
    shares = luck.dirichlet(np.full(classes, 0.4), size=count)
    samples = np.maximum(luck.lognormal(4.5, 0.7, count).round(), 5.0)
    counts = np.floor(shares * samples[:, None])
    counts[np.arange(count), shares.argmax(axis=1)] += samples - counts.sum(axis=1)
    compute = luck.lognormal(3.0, 1.0, count)
    bandwidth = luck.lognormal(8.5, 0.9, count)
    table: Table = {
        "client": np.arange(count, dtype=float),
        "num_examples": samples,
        "compute_ms": compute,
        "bandwidth_kbps": bandwidth,
        "expected_latency": 3.0 * compute * samples / 1000.0 + 16.0 * MODEL_BYTES / (1000.0 * bandwidth),
        "uptime": np.full(count, 0.7),
    }
    return table | {f"class_{label}": counts[:, label] for label in range(classes)}


def _columns(rows: list[dict[str, Any]]) -> Table:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def write_run(tables: RunTables, folder: Path) -> Path:
    """Write tables the way a simulation does; returns the folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_run(example_run(), Path(folder)).iterdir())
    ['clients.csv', 'config.json', 'participations.csv', 'result.json', 'rounds.csv']
    """
    names = ("rounds", "participations", "clients", *(["reasons"] if tables.kept else []))
    files = {name: getattr(tables, name) for name in names}
    return write_tables(folder, files, {"config": tables.config, "result": tables.result})


def write_tables(folder: Path, tables: Mapping[str, Table], documents: Mapping[str, Any]) -> Path:
    """Write each table as CSV and each document as JSON, under its name; a document that is None is skipped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_tables(Path(folder), {"some": {"x": np.array([1.5, 2.0])}}, {"result": None})
    ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
    [('some.csv', 'x\\n1.5\\n2\\n')]
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            writer.writerows(zip(*map(_cells, table.values()), strict=True))
    for name, content in documents.items():
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return folder


def _cells(column: AnyArray) -> list[Any]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    return ["" if np.isnan(value) else f"{value:.12g}" for value in column.tolist()]
