"""A made-up run of personalised learning: tables as it leaves them, without any training. For examples and tests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from enlist.runs.example import write_tables
from enlist.runs.personal import PersonalTables
from enlist.streams import Streams

MEANS = {"1+2": 0.015, "2+3": 0.05, "2+4": -0.03}
CODES = {"1+2": "1100", "2+3": "0110", "2+4": "0101"}
LEVELS = {"personalised": 0.72, "local": 0.64, "fedavg": 0.66}


def example_personal(seed: int = 0, rounds: int = 15) -> PersonalTables:
    """A made-up run for worker 2 of four: pairs, of which 2+3 is the best and 2+4 poisonous.

    >>> run = example_personal()
    >>> run.result["combination"], len(run.rounds["round"]), len(run.arms["round"])
    ('2+3', 15, 45)
    """
    luck = Streams(seed).generator("example")
    seen: dict[str, list[float]] = {label: [] for label in MEANS}
    rows, details, spent, best = [], [], 5, (-math.inf, math.nan)
    for number in range(1, rounds + 1):
        unseen = [label for label in MEANS if not seen[label]]
        arm = unseen[0] if unseen else max(MEANS, key=lambda label: float(np.mean(seen[label])))
        arm = {5: "2+4", 8: "1+2", 12: "1+2"}.get(number, arm)
        increase = MEANS[arm] + luck.normal(0.0, 0.01)
        seen[arm].append(increase)
        spent += 6
        test = _curve(number, LEVELS["personalised"]) + luck.normal(0.0, 0.006)
        best = max(best, (test + luck.normal(0.0, 0.003), test))
        scores = {"local": test - increase, "validation": best[0], "test": test, "best_test": best[1]}
        rows.append(
            {"round": number, "arm": arm, "code": CODES[arm], "extreme": 0, "epochs": 6, **scores}
            | {"communication": 6, "cumulative_communication": spent, "available": 4, "skipped": ""}
        )
        details += [
            {
                "round": number,
                "arm": label,
                "code": CODES[label],
                "increase": increase if label == arm else math.nan,
                "reward": increase if label == arm else math.nan,
                "credited": float(label == arm),
                "estimate": float(np.mean(seen[label] or [0.05])),
                "count": len(seen[label]),
                "removed": 0,
            }
            for label in MEANS
        ]
    baselines: dict[str, list[dict[str, Any]]] = {
        name: [
            {"round": number, "test": _curve(number, LEVELS[name]) + luck.normal(0.0, 0.006)}
            | {"cumulative_communication": 8 * number * (name == "fedavg"), "skipped": ""}
            for number in range(1, rounds + 1)
        ]
        for name in ("local", "fedavg")
    }
    result: dict[str, Any] = {
        "status": "finished",
        "rounds": rounds,
        "target": "2",
        "metric": "auc",
        "combination": "2+3",
    }
    result |= {
        "metric": "auc",
        "test": best[1],
        "communication": spent,
        "total_communication": spent,
        "model": "personalised",
    }
    result |= {"stages": ["personalised", *baselines], "personalised": {"test": best[1], "communication": spent}}
    for name, curve in baselines.items():
        gain = best[1] - max(row["test"] for row in curve)
        result[name] = {"test": best[1] - gain, "communication": curve[-1]["cumulative_communication"]}
        result[f"gain_over_{name}"] = {"mean": gain, "low": gain - 0.02, "high": gain + 0.02}
    workers = {"worker": np.array(["1", "2", "3", "4"]), "num_examples": np.full(4, 100.0)}
    return PersonalTables(
        target="2",
        seed=seed,
        config={"seed": seed, "target": "2", "rule": {"kind": "ucb"}, "rounds": {"rounds": rounds}},
        rounds=_columns(rows),
        arms=_columns(details),
        workers=workers | {"poison": np.array(["", "", "", "label-flip"])},
        baselines={name: _columns(curve) for name, curve in baselines.items()},
        result=result,
    )


def write_personal(tables: PersonalTables, folder: Path) -> Path:
    """Write tables the way personalised learning does; returns the folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_personal(example_personal(), Path(folder)).iterdir())
    ['after', 'arms.csv', 'clients.csv', 'config.json', 'result.json', 'rounds.csv']
    """
    for name, table in tables.baselines.items():
        write_tables(folder / "after" / name, {"rounds": table}, {})
    files = {"rounds": tables.rounds, "arms": tables.arms, "clients": tables.workers}
    return write_tables(folder, files, {"config": tables.config, "result": tables.result})


def _curve(number: int, peak: float) -> float:
    return peak - 0.14 * math.exp(-number / 4.0) - 0.0008 * max(number - 12, 0)


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
