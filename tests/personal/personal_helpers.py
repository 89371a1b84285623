"""What the tests of personalised learning share: small drawn tasks, configurations, kills and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from enlist.data import Samples
from enlist.personal import PersonalConfig, Personalisation, Workers, parse, run_in
from enlist.personal.poison import PoisonOptions
from enlist.personal.sections import WorkerFailures
from enlist.personal.tables import PERSONAL_TABLES
from enlist.runs import RunFolder
from enlist.simulation import Callback, Recorder
from enlist.streams import Streams

torch.set_num_threads(1)  # as the library does
TABLES = ("rounds.csv", "arms.csv", "clients.csv")
INPUTS = 20


def task(
    likeness: Sequence[float],
    seed: int = 0,
    *,
    train: int | Sequence[int] = 40,
    validation: int = 600,
    test: int = 300,
    noise: float = 0.3,
    classes: int = 2,
    poison: Sequence[PoisonOptions] = (),
) -> Workers:
    """Workers w0, w1, ... with linear rules of their own at these cosines to the target's rule; the target has 1.

    Two classes by the sign of x·w + noise, or x·w + noise itself as a regression.
    """
    streams = Streams(seed)
    rng = streams.generator("rules")
    first = rng.normal(size=INPUTS)
    first /= np.linalg.norm(first)
    sizes = [train] * len(likeness) if isinstance(train, int) else list(train)
    held: dict[str, list[Samples]] = {"train": [], "validation": [], "test": []}
    for worker, cosine in enumerate(likeness):
        other = rng.normal(size=INPUTS)
        other -= (other @ first) * first
        rule = cosine * first + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)
        draws = streams.generator("worker", worker)
        for part, count in (("train", sizes[worker]), ("validation", validation), ("test", test)):
            x = draws.normal(size=(count, INPUTS)).astype(np.float32)
            score = x @ rule + noise * draws.normal(size=count)
            y = score.astype(np.float32) if classes == 0 else (score > 0).astype(np.int64)
            held[part].append(Samples(x, y))
    return Workers.put_together([f"w{worker}" for worker in range(len(likeness))], classes, held, streams, poison)


SMALL: dict[str, Any] = {
    "target": "w0",
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"lr": 0.3, "batch": 10},
    "rounds": {"rounds": 5, "epochs": 2, "pretrain": 2},
}


def config(**sections: Any) -> PersonalConfig:
    """SMALL with some keys changed."""
    values = {name: {**part} if isinstance(part, dict) else part for name, part in SMALL.items()}
    for name, part in sections.items():
        known = values.get(name)
        merge = isinstance(part, dict) and isinstance(known, dict) and "name" not in part and "kind" not in part
        values[name] = {**known, **part} if merge else part
    return parse(values, "test")


class Memory(Callback):
    """Keeps every row."""

    def __init__(self) -> None:
        self.rounds: list[Any] = []
        self.arms: list[Any] = []

    def on_round(self, simulation: Any, record: Any) -> None:
        assert set(record.row) <= set(PERSONAL_TABLES["rounds.csv"])
        self.rounds.append(dict(record.row))
        self.arms += [dict(entry) for entry in record.arms]


def run(settings: PersonalConfig, workers: Workers, **arguments: Any) -> tuple[Personalisation, Memory]:
    """Run to the end."""
    memory = Memory()
    personalisation = Personalisation(settings, workers=workers, callbacks=(memory,), **arguments)
    personalisation.run()
    return personalisation, memory


def continue_run(
    path: Path,
    settings: PersonalConfig,
    workers: Workers,
    *callbacks: Callback,
    first: Sequence[Callback] = (),
    eager: bool = True,
) -> None:
    """Run in a folder from its last checkpoint on; eager: with a checkpoint after every round, else at the end only."""
    with RunFolder.open(path, settings.model_dump(mode="json"), resume=True, tables=PERSONAL_TABLES) as opened:
        recorder = Recorder(opened)
        recorder.SHARE = float("inf") if eager else 1e-300  # type: ignore[misc]
        recorder.cost = 0.0 if eager else 1.0
        personalisation = Personalisation(settings, workers=workers, callbacks=(*first, recorder, *callbacks))
        recorder.restore(personalisation)
        personalisation.run()


def contents(path: Path) -> dict[str, bytes]:
    """Every byte that a run promises to reproduce: tables, result, models, state and decision."""
    (checkpoint,) = (path / "checkpoints").iterdir()
    files = [path / name for name in (*TABLES, "result.json", "config.json")]
    files += sorted(file for file in checkpoint.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def assert_same(path: Path, other: Path) -> None:
    """Two runs left the same bytes."""
    first, second = contents(path), contents(other)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


class Script(WorkerFailures):
    """Who is away and who fails, round by round, as lists of positions."""

    gone: dict[int, list[int]] = {}
    failed: dict[int, list[int]] = {}

    def available(self, round: int, workers: int, target: int, streams: Streams) -> Any:
        mask = np.ones(workers, dtype=bool)
        mask[self.gone.get(round, [])] = False
        return mask

    def failing(self, round: int, workers: int, target: int, streams: Streams) -> Any:
        mask = np.zeros(workers, dtype=bool)
        mask[self.failed.get(round, [])] = True
        return mask


def scripted(settings: PersonalConfig, gone: dict[int, list[int]] | None = None, failed: Any = None) -> PersonalConfig:
    """A configuration in which these workers are away or fail in these rounds."""
    return settings.model_copy(update={"failures": Script(gone=gone or {}, failed=failed or {})})


def run_child(path: str, values: dict[str, Any]) -> None:
    """What a child process does that is to be killed."""
    run_in(path, parse(values, "test"), resume=True)
