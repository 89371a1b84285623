"""What personalised learning leaves in its folder, read back, and scores as pure functions of the tables."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import BoolArray, FloatArray
from enlist.bandits import ArmStatistics
from enlist.errors import InputError
from enlist.runs.tables import Table, read_json, read_table

NEEDED = {
    "rounds.csv": ("round", "arm", "code", "validation", "test", "cumulative_communication", "skipped"),
    "arms.csv": ("round", "arm", "code", "increase", "credited", "estimate", "count", "removed"),
    "clients.csv": ("worker", "num_examples", "poison"),
}
TEXT = ("arm", "code", "worker", "poison", "skipped", "failed")
BASELINES = {"local": "local only", "fedavg": "federated averaging"}
PHASE = 1 / 3
"""Share of the rounds that counts as early, and share that counts as late."""


@dataclasses.dataclass(frozen=True, eq=False)
class PersonalTables:
    """What a run for one target and one seed has left; `result` once it is finished.

    `baselines` are the rounds of local-only training and of federated averaging, if they were trained.

    >>> from enlist.runs.personal_example import example_personal
    >>> run = example_personal(seed=1)
    >>> run.target, run.seed, run.workers["worker"].tolist(), run.labels
    ('2', 1, ['1', '2', '3', '4'], ['1+2', '2+3', '2+4'])
    """

    target: str
    seed: int
    config: Mapping[str, Any]
    rounds: Table
    arms: Table
    workers: Table
    baselines: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    folder: Path | None = None

    @property
    def labels(self) -> list[str]:
        """The arms in order of appearance."""
        return list(dict.fromkeys(self.arms["arm"].tolist()))

    @property
    def metric(self) -> str:
        """The measure of scores: auc, accuracy or loss."""
        return str((self.result or {}).get("metric") or self.config.get("metric", "score"))

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is better."""
        return self.metric == "loss"

    @property
    def played(self) -> BoolArray:
        """(rounds,) rounds in which something was learned; in the others the target was away or failed."""
        return np.array([not reason for reason in self.rounds["skipped"]], dtype=bool)

    @functools.cached_property
    def evidence(self) -> ArmStatistics:
        """Mean increase of each arm of `labels`, from the credited ones."""
        found, labels = ArmStatistics.create(len(self.labels)), self.labels
        place = {label: position for position, label in enumerate(labels)}
        credited = (self.arms["credited"] > 0) & ~np.isnan(self.arms["increase"])
        for label, value in zip(self.arms["arm"][credited], self.arms["increase"][credited], strict=True):
            found.add(np.array([place[label]]), np.array([value]))
        return found

    @property
    def alone(self) -> int | None:
        """The arm that consists of the target alone, if there is one."""
        return self.labels.index(self.target) if self.target in self.labels else None


def read_personal(folder: Path | str) -> PersonalTables:
    """The tables of one run of personalised learning; of a run in progress, up to its last complete round.

    >>> import tempfile
    >>> from enlist.runs.personal_example import example_personal, write_personal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_personal(write_personal(example_personal(), Path(folder))).target
    '2'
    """
    folder = Path(folder)
    tables = {}
    for name, needed in NEEDED.items():
        tables[name] = read_table(folder / name, text=TEXT)
        missing = [column for column in needed if column not in tables[name]]
        if missing:
            raise InputError(
                f"{folder / name} has no column '{missing[0]}'; it is not a table of personalised learning."
            )
    rounds, arms = tables["rounds.csv"], tables["arms.csv"]
    told = arms["round"] <= (rounds["round"][-1] if len(rounds["round"]) else -math.inf)
    config = read_json(folder / "config.json")
    if config is None:
        raise InputError(f"{folder / 'config.json'} is missing; name a folder that `enlist personalise` has written.")
    places = {name: folder / "after" / name / "rounds.csv" for name in BASELINES}
    return PersonalTables(
        target=str(config.get("target", "")),
        seed=int(config.get("seed", 0)),
        config=config,
        rounds=rounds,
        arms={name: column[told] for name, column in arms.items()},
        workers=tables["clients.csv"],
        baselines={name: read_table(place, text=TEXT) for name, place in places.items() if place.exists()},
        result=read_json(folder / "result.json"),
        folder=folder.absolute(),
    )


def find_personal(paths: Iterable[Path | str]) -> list[Path]:
    """Folders of personalised learning among and below `paths`, by target and seed; there may be none.

    >>> import tempfile
    >>> from enlist.runs.personal_example import example_personal, write_personal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed in (10, 9):
    ...         _ = write_personal(example_personal(seed), Path(folder) / "2" / str(seed))
    ...     [str(path.relative_to(folder)) for path in find_personal([folder])]
    ['2/9', '2/10']
    """
    found = []
    for path in map(Path, paths):
        for place, inner, files in os.walk(path):
            if "rounds.csv" in files:
                inner.clear()
                found += [Path(place)] if "arms.csv" in files else []
    return sorted(set(found), key=lambda path: [part.zfill(20) if part.isdigit() else part for part in path.parts])


def arm_scores(runs: Sequence[PersonalTables]) -> list[dict[str, Any]]:
    """For each arm of runs for one target: its mean increase, how surely it is the best, and how often it was played.

    named          seeds that name it as the combination learned
    increase       mean of the credited increases; with several seeds the mean over seeds of each one's mean
    low, high      its 95 % interval: over seeds, or within the only run
    probability    that it is the best, averaged over seeds; 0 for a seed in which it is not an arm
    played         share of rounds in which its model was kept
    removed        seeds in which it was eliminated

    >>> from enlist.runs.personal_example import example_personal
    >>> best = max(arm_scores([example_personal(seed) for seed in range(3)]), key=lambda row: row["increase"])
    >>> best["arm"], best["named"], best["probability"] > 0.9
    ('2+3', 3, True)
    """
    labels = list(dict.fromkeys(label for run in runs for label in run.labels))
    rows = []
    for label in labels:
        own = [(run, run.labels.index(label)) for run in runs if label in run.labels]
        seen = [(run, place) for run, place in own if run.evidence.count[place]]
        means = [float(run.evidence.mean[place]) for run, place in seen]
        low, high = _interval(seen, means)
        rows.append(
            {
                "arm": label,
                "named": sum((run.result or {}).get("combination") == label for run in runs),
                "increase": float(np.mean(means)) if means else math.nan,
                "low": low,
                "high": high,
                "probability": sum(float(_probability(run)[place]) for run, place in own) / len(runs),
                "played": float(np.mean([_share(run, label) for run in runs])),
                "removed": sum(bool(_last(run, label, "removed")) for run, _ in own),
            }
        )
    return rows


def _interval(seen: Sequence[tuple[PersonalTables, int]], means: Sequence[float]) -> tuple[float, float]:
    if len(means) > 1:
        summary = Summary.of(means)
        return summary.low, summary.high
    if not seen:
        return math.nan, math.nan
    (run, place) = seen[0]
    lower, upper = run.evidence.bounds(certain=run.alone)
    return float(lower[place]), float(upper[place])


@functools.lru_cache(maxsize=256)
def _probability(run: PersonalTables) -> FloatArray:
    return run.evidence.probability_best(run.alone)


def _share(run: PersonalTables, label: str) -> float:
    kept = run.rounds["arm"][run.played]
    return float(np.mean(kept == label)) if len(kept) else math.nan


def _last(run: PersonalTables, label: str, column: str) -> float:
    return float(run.arms[column][np.flatnonzero(run.arms["arm"] == label)[-1]])


def gain_scores(runs: Sequence[PersonalTables]) -> dict[str, Any]:
    """The test scores of one target's personalised model, next to the baselines of the same seeds.

    Every score is a `Summary`. Over several seeds its interval is Student's, and gains are paired by seed; with one
    seed only gains have one, over the target's test samples. A gain is positive where the personalised model is better,
    also for a loss. Models that were not trained are missing.

    >>> from enlist.runs.personal_example import example_personal
    >>> scores = gain_scores([example_personal(seed) for seed in range(3)])
    >>> sorted(scores)
    ['communication', 'fedavg', 'fedavg_communication', 'fedavg_gain', 'local', 'local_gain', 'personalised', 'seeds']
    >>> scores["local_gain"].low > 0
    True
    """
    results = [run.result for run in runs if run.result is not None and _final(run.result) is not None]
    if not results:
        return {}
    own = np.array([_final(result) for result in results], dtype=float)
    spent = [float(result.get("total_communication", result["communication"])) for result in results]
    scores: dict[str, Any] = {
        "seeds": len(results),
        "personalised": Summary.of(own.tolist()),
        "communication": Summary.of(spent),
    }
    for name in BASELINES:
        if any(name not in result for result in results):
            continue
        other = np.array([result[name]["test"] for result in results], dtype=float)
        better = other - own if runs[0].lower_is_better else own - other
        scores[name], scores[f"{name}_gain"] = Summary.of(other.tolist()), Summary.of(better.tolist())
        within = results[0].get(f"gain_over_{name}")
        if len(results) == 1 and within is not None and within["low"] is not None:
            scores[f"{name}_gain"] = Summary(float(better[0]), float(within["low"]), float(within["high"]))
    if "fedavg" in scores:
        scores["fedavg_communication"] = Summary.of([float(result["fedavg"]["communication"]) for result in results])
    return scores


def _final(result: Mapping[str, Any]) -> float | None:
    """The test score of the model that a run ends with; the stages after the rounds may have changed it."""
    found = result[result["model"]]["test"] if "model" in result else result.get("test")
    return None if found is None else float(found)


def stage_scores(runs: Sequence[PersonalTables]) -> dict[str, Summary]:
    """Test scores of the stages from which the personalised model was chosen, if there is more than one.

    >>> from enlist.runs.personal_example import example_personal
    >>> stage_scores([example_personal()])
    {}
    """
    results = [run.result or {} for run in runs]
    stages = [name for name in results[0].get("stages", []) if name not in BASELINES]
    names = [name for name in stages if all(name in result for result in results)]
    if len(names) < 2:
        return {}
    return {name: Summary.of([float(result[name]["test"]) for result in results]) for name in names}


def partner_scores(runs: Sequence[PersonalTables]) -> list[dict[str, Any]]:
    """For each worker except the target: the share of early and of late rounds in which the kept combination had it.

    Early is the first third of the rounds that were played, late the last third; averaged over seeds.

    >>> from enlist.runs.personal_example import example_personal
    >>> partner_scores([example_personal(rounds=30)])[2]
    {'worker': '4', 'poison': 'label-flip', 'early': 0.2, 'late': 0.0}
    """
    rows = []
    for place, worker in enumerate(runs[0].workers["worker"].tolist()):
        if worker == runs[0].target:
            continue
        shares: dict[str, list[float]] = {"early": [], "late": []}
        for run in runs:
            inside = np.array([code[place] == "1" for code in run.rounds["code"][run.played]], dtype=float)
            if len(inside):
                part = max(int(len(inside) * PHASE), 1)
                shares["early"].append(float(inside[:part].mean()))
                shares["late"].append(float(inside[-part:].mean()))
        means = {phase: float(np.mean(each)) if each else math.nan for phase, each in shares.items()}
        rows.append({"worker": worker, "poison": str(runs[0].workers["poison"][place]), **means})
    return rows
