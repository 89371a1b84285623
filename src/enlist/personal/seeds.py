"""Personalised learning with several seeds at once, on an engine: each seed is a task with its own folder."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Generator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.engine import AnyEngine, Task, TaskContext, Work, chosen
from enlist.personal.after import every_target
from enlist.personal.config import PersonalConfig, parse
from enlist.personal.personalisation import PersonalCallback, Personalisation
from enlist.personal.tables import PersonalRecord
from enlist.runs import trust
from enlist.runs.elsewhere import Contents, TaskFolder, contents, signed, write_back
from enlist.simulation.callbacks import Result

PULSE = 0.1
"""Minimum seconds between two messages of a seed."""
Progress = Callable[[int, dict[str, Any]], None]
"""Called with a seed and its progress: see `StageSender`."""


def every_seed(
    config: PersonalConfig,
    folder: str | PathLike[str],
    seeds: int,
    engine: AnyEngine = None,
    *,
    targets: Sequence[str] | None = None,
    resume: bool = False,
    accept_changes: bool = False,
    progress: Progress | None = None,
) -> Generator[tuple[int, Exception | None], None, None]:
    """Learn for every seed; yields each as it ends, with the error if it failed. Closing it stops all running seeds.

    Results do not depend on the `engine`: "local", "ray", or "ray://host:10001".

    >>> import tempfile
    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 1})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     list(every_seed(config, place, 1, "local", targets=["2"]))
    [(0, None)]
    """
    configs = [config.model_copy(update={"seed": config.seed + number}) for number in range(seeds)]
    folders = [files.inside(Path(folder), f"seed-{own.seed}") for own in configs]
    with contextlib.ExitStack() as stack:
        where = stack.enter_context(chosen(engine))
        places: list[TaskFolder | None] = [None] * seeds
        if not where.shares_memory:
            whole = [Path(os.path.abspath(each)) for each in folders]
            sign, content = stack.enter_context(signed(whole))
            places = [TaskFolder(each, sign, content, contents(each)) for each in whole]
        tasks = [
            # Workers are created once if all seeds share them.
            Task(own.seed, (own, place, each, targets, resume, accept_changes), shares=number if _own_data(own) else 0)
            for number, (own, place, each) in enumerate(zip(configs, places, folders, strict=True))
        ]
        work = Work(_learn, "a process that personalises", again="continues its seed")
        results = where.run(work, tasks, share=lambda number: configs[number].load_workers(), progress=progress)
        for seed, sent, error in stack.enter_context(contextlib.closing(results)):
            if sent:
                write_back(folders[seed - config.seed], sent)
            if places[seed - config.seed] is not None:
                _vouch(folders[seed - config.seed], config)
            yield seed, error


def _vouch(folder: Path, config: PersonalConfig) -> None:
    """Mark what ran on another machine as this user's here, whoever ran it there, if it names no other code."""
    if not config.code() or not files.has_folder(folder):
        return
    files.check_tree(folder)
    for path in sorted(folder.rglob("config.json")):
        values = json.loads(files.read(path))
        if set(parse(values, str(path)).code()) <= set(config.code()):
            trust.vouch(path.parent, values)


def _own_data(config: PersonalConfig) -> bool:
    return config.data_seed is None


def _learn(context: TaskContext, config: PersonalConfig, place: TaskFolder | None, folder: Path, *how: Any) -> Contents:
    """Run one seed; on a machine without access to the folder, its files are sent back."""
    targets, resume, accept_changes = how
    sender = StageSender(context.report, len(context.shared) if targets is None else len(targets))
    named = {"workers": context.shared, "targets": targets, "resume": resume, "accept_changes": accept_changes}
    named["callbacks"] = sender.companions
    if place is None:
        every_target(config, folder, **named)
        return {}
    with place.opened() as (own, sent):
        every_target(config, own, **named)
    return sent


class StageSender:
    """Sends the progress of a seed from time to time: target, stage and its progress, number of finished stages.

    >>> StageSender(print, targets=2).ended
    0
    """

    def __init__(self, send: Callable[[dict[str, Any]], None], targets: int) -> None:
        self.send, self.targets, self.ended, self.sent = send, targets, 0, 0.0

    def companions(self, target: str, stage: str) -> Sequence[PersonalCallback]:
        """The callbacks of a stage."""
        return (_Stage(self, target, stage),)


class _Stage(PersonalCallback):
    """Reports one stage of one target."""

    def __init__(self, sender: StageSender, target: str, stage: str) -> None:
        self.sender, self.target, self.stage = sender, target, stage

    def on_round(self, simulation: Personalisation, record: PersonalRecord) -> None:
        now = time.monotonic()
        if now - self.sender.sent >= PULSE:
            self.sender.sent = now
            self.sender.send(
                standing(self.target, self.stage, self.sender.targets, self.sender.ended, record, simulation)
            )

    def on_finish(self, simulation: Personalisation, result: Result) -> None:
        self.sender.ended += 1


def standing(
    target: str, stage: str, targets: int, ended: int, record: PersonalRecord, run: Personalisation
) -> dict[str, Any]:
    """The progress of a seed after a round.

    >>> from types import SimpleNamespace as Of
    >>> row = {"round": 5, "best_test": 0.8, "arm": "a+b", "cumulative_communication": 60}
    >>> run = Of(config=Of(rounds=Of(rounds=20)), metric=Of(name="auc"))
    >>> standing("a", "local", 1, 0, Of(row=row), run)["share"]
    0.25
    """
    row = record.row
    return {
        "target": target,
        "stage": stage,
        "targets": targets,
        "ended": ended,
        "share": row["round"] / run.config.rounds.rounds,
        "metric": run.metric.name,
        "score": row["best_test"],
        "arm": row.get("arm"),
        "messages": row["cumulative_communication"],
    }
