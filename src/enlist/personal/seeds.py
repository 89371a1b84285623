"""Personalised learning with several seeds at once, on an engine: a seed is a task, and lies in a folder of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from enlist._internal import files
from enlist.engine import Engine, Task, TaskContext, Work
from enlist.personal.after import every_target
from enlist.personal.config import PersonalConfig
from enlist.runs.elsewhere import Contents, TaskFolder, contents, signed, write_back


def every_seed(
    config: PersonalConfig,
    folder: Path,
    seeds: int,
    engine: Engine,
    *,
    targets: Sequence[str] | None = None,
    resume: bool = False,
    accept_changes: bool = False,
) -> Iterator[tuple[int, Exception | None]]:
    """Learn for every seed; yields each as it ends, with the error if it failed. Results do not depend on the engine.

    >>> import tempfile
    >>> from enlist.engine import local
    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 1})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     list(every_seed(config, Path(place), 1, local(), targets=["2"]))
    [(0, None)]
    """
    configs = [config.model_copy(update={"seed": config.seed + number}) for number in range(seeds)]
    folders = [files.inside(folder, f"seed-{own.seed}") for own in configs]
    with contextlib.ExitStack() as stack:
        places: list[TaskFolder | None] = [None] * seeds
        if not engine.shares_memory:
            whole = [Path(os.path.abspath(each)) for each in folders]
            sign, content = stack.enter_context(signed(whole))
            places = [TaskFolder(each, sign, content, contents(each)) for each in whole]
        tasks = [
            # Workers are made once if all seeds have the same.
            Task(own.seed, (own, place, each, targets, resume, accept_changes), shares=number if _own_data(own) else 0)
            for number, (own, place, each) in enumerate(zip(configs, places, folders, strict=True))
        ]
        work = Work(_learn, "a process that personalises", again="goes on with its seed")
        results = engine.run(work, tasks, share=lambda number: configs[number].load_workers())
        for seed, sent, error in stack.enter_context(contextlib.closing(results)):
            if sent:
                write_back(folders[seed - config.seed], sent)
            yield seed, error


def _own_data(config: PersonalConfig) -> bool:
    return config.data_seed is None


def _learn(context: TaskContext, config: PersonalConfig, place: TaskFolder | None, folder: Path, *how: Any) -> Contents:
    """One seed; on a machine that does not see the folder, its files are sent back."""
    targets, resume, accept_changes = how
    named = {"workers": context.shared, "targets": targets, "resume": resume, "accept_changes": accept_changes}
    if place is None:
        every_target(config, folder, **named)
        return {}
    with place.opened() as (own, sent):
        every_target(config, own, **named)
    return sent
