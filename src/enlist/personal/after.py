"""What follows the rounds: a larger combination, retraining, fine-tuning, baselines, and every worker in turn.

    summary = personalise(config, "folder")            # one target
    summaries = every_target(config, "folder")         # each worker in turn

Every stage is a run of the same loop: local-only, federated averaging and retraining play a fixed combination;
fine-tuning plays the target alone, starting from the best model. In a folder, stages are below after/, and a killed run
resumes where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from enlist import storage
from enlist._internal import files
from enlist._internal.text import place_name
from enlist.errors import InputError
from enlist.personal.config import AfterSection, Elimination, PersonalConfig, Priors
from enlist.personal.decision import ExploreRounds
from enlist.personal.metrics import gain
from enlist.personal.personalisation import PersonalCallback, Personalisation, as_arrays
from enlist.personal.priors import Estimates, estimates
from enlist.personal.proposals import grown
from enlist.personal.recorder import complete
from enlist.personal.rules import FixedRule
from enlist.personal.sections import ArmsSection
from enlist.personal.stopping import Patience
from enlist.personal.tables import PERSONAL_TABLES
from enlist.personal.workers import Workers
from enlist.runs.folder import RunFolder
from enlist.simulation.callbacks import Result

Companions = Callable[[str], Sequence[PersonalCallback]]
"""Stage -> its callbacks."""


BASELINES = {"local": "alone", "fedavg": "all"}
"""Stage -> the combination that it plays in every round."""


def nobody(stage: str) -> Sequence[PersonalCallback]:
    """No callbacks.

    >>> nobody("local")
    ()
    """
    return ()


class Stages:
    """Consecutive runs, each in its own folder, or all in memory.

    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 1})
    >>> stages = Stages(config.load_workers())
    >>> stages.run("local", fixed(config, "alone")).decision.arms.labels
    ('2',)
    """

    def __init__(
        self,
        workers: Workers,
        path: Path | None = None,
        callbacks: Companions = nobody,
        accept_changes: bool | None = None,
    ) -> None:
        self.workers, self.path, self.callbacks, self.accept_changes = workers, path, callbacks, accept_changes

    def run(self, name: str, config: PersonalConfig, **settings: Any) -> Personalisation:
        """Run a stage, or resume it."""
        path = None if self.path is None else files.inside(self.path, "after", name)
        along: dict[str, Any] = {"callbacks": self.callbacks(name), "accept_changes": self.accept_changes}
        return complete(config, path, workers=self.workers, resume=True, **along, **settings)


def personalise(
    config: PersonalConfig,
    path: str | PathLike[str] | None = None,
    *,
    workers: Workers | None = None,
    callbacks: Companions = nobody,
    resume: bool = False,
    priors: Sequence[Estimates] = (),
    accept_changes: bool | None = None,
) -> dict[str, Any]:
    """Personalised learning with all stages of the configuration; returns the content of result.json.

    `accept_changes` continues even if files of the folder were changed in the meantime.

    >>> small = {"dataset": {"name": "telecom", "rows": 4000}}
    >>> config = PersonalConfig(workers=small, rounds={"rounds": 3}, after={"retrain": True, "fine_tune": 2})
    >>> summary = personalise(config)
    >>> summary["stages"]
    ['personalised', 'retrained', 'fine_tuned', 'local', 'fedavg']
    """
    folder = None if path is None else Path(path)
    held = config.load_workers() if workers is None else workers
    along: dict[str, Any] = {"callbacks": callbacks("personalised"), "accept_changes": accept_changes}
    first = complete(config, folder, workers=held, resume=resume, priors=priors, **along)
    if not first.finished:
        return first.result()
    stages = Stages(held, folder, callbacks, accept_changes)
    candidates = {"personalised": first} | _grown(config, first, stages)
    if config.after.retrain:
        combination = _names(list(candidates.values())[-1])
        candidates["retrained"] = stages.run("retrained", fixed(config, combination))
    chosen = _best(candidates)
    if config.after.fine_tune:
        tuning = fine_tuning(config)
        candidates["fine_tuned"] = stages.run("fine_tuned", tuning, model=candidates[chosen].best)
        chosen = _best({name: candidates[name] for name in (chosen, "fine_tuned")})
    baselines = {}
    if config.after.baselines:
        baselines = {name: stages.run(name, fixed(config, what)) for name, what in BASELINES.items()}
    if not all(run.finished for run in (candidates | baselines).values()):
        return first.result() | {"status": "stopped"}
    summary = first.result() | _summary(candidates, baselines, chosen)
    if folder is None:
        return summary | _gains(candidates[chosen], baselines)
    final = candidates[chosen]
    named = as_arrays(final.federation.layout.named(final.best))
    with RunFolder.open(folder, config.model_dump(mode="json"), resume=True, tables=PERSONAL_TABLES) as opened:
        with opened.writing():
            storage.replace(folder / "model.safetensors", safetensors.numpy.save(named))
        opened.write_result(summary)  # intervals come last: even if they fail, what was trained is written
        summary |= _gains(final, baselines)
        opened.write_result(summary)
    return summary


def every_target(
    config: PersonalConfig,
    path: str | PathLike[str] | None = None,
    *,
    targets: Sequence[str] | None = None,
    workers: Workers | None = None,
    callbacks: Callable[[str, str], Sequence[PersonalCallback]] | None = None,
    resume: bool = False,
    accept_changes: bool | None = None,
) -> dict[str, dict[str, Any]]:
    """Each worker in turn as the target; later targets start from the estimates of earlier ones.

    In a folder, each target has its own, named after its position and the file-safe part of its name.

    >>> small = {"dataset": {"name": "telecom", "rows": 4000}}
    >>> config = PersonalConfig(workers=small, rounds={"rounds": 2}, after={"baselines": False})
    >>> found = every_target(config, targets=["1", "3"])
    >>> {target: summary["rounds"] for target, summary in found.items()}
    {'1': 2, '3': 2}
    """
    held = config.load_workers() if workers is None else workers
    found: dict[str, dict[str, Any]] = {}
    earlier: list[Estimates] = []
    for target in held.names if targets is None else targets:
        own = config.model_copy(update={"target": target})
        watcher = _Watcher(target, callbacks)
        place = None if path is None else target_folder(Path(path), held, target)
        found[target] = personalise(
            own,
            place,
            workers=held,
            callbacks=watcher.along,
            resume=resume,
            priors=earlier,
            accept_changes=accept_changes,
        )
        if found[target]["status"] == "stopped":
            break
        earlier += watcher.learned
    return found


def target_folder(root: Path, workers: Workers, target: str) -> Path:
    """The folder of a target below `root`; a name that looks like a path is never used as one.

    Version 0.1 used the plain name; such a folder is still found.

    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}})
    >>> target_folder(Path("runs"), config.load_workers(), "2").as_posix()
    'runs/0001-2'
    """
    place = files.inside(root, place_name(workers.position(target), target))
    if place.exists() or target in ("", ".", "..") or os.path.isabs(target) or "\0" in target:
        return place
    before = Path(os.path.normpath(root / target))
    if not before.is_relative_to(os.path.normpath(root)) or _target_of(before) != target:
        return place
    if before.parent == Path(os.path.normpath(root)):
        return files.inside(root, target)
    raise InputError(
        f"{before} holds the run of worker '{target}', written by version 0.1 under a name that is a path; move it to "
        f"{place}, then resume."
    )


def _target_of(folder: Path) -> str | None:
    """The target of the run in a folder, if there is one."""
    try:
        found = json.loads(files.read(folder / "config.json"))
    except (OSError, ValueError, RecursionError):
        return None
    return str(found.get("target")) if isinstance(found, dict) else None


class _Watcher(PersonalCallback):
    """Callback for the stages of one target, which keeps what its first run learned."""

    def __init__(self, target: str, callbacks: Callable[[str, str], Sequence[PersonalCallback]] | None) -> None:
        self.target, self.callbacks = target, callbacks
        self.learned: list[Estimates] = []

    def along(self, stage: str) -> Sequence[PersonalCallback]:
        others = () if self.callbacks is None else self.callbacks(self.target, stage)
        return (self, *others) if stage == "personalised" else others

    def on_finish(self, simulation: Personalisation, result: Result) -> None:
        self.learned = [estimates(simulation.decision)]


def fixed(config: PersonalConfig, combination: str | Sequence[str]) -> PersonalConfig:
    """The same configuration with one combination in every round: "alone", "all", or names.

    >>> fixed(PersonalConfig(rule="extreme-explore"), ["3"]).rule.combination
    ('3',)
    """
    chosen = combination if isinstance(combination, str) else tuple(combination)
    changes = {
        "rule": FixedRule(combination=chosen),
        "arms": ArmsSection(),
        "explore": ExploreRounds(),
        "elimination": Elimination(),
        "priors": Priors(),
        "after": AfterSection(),
    }
    return config.model_copy(update=changes)


def fine_tuning(config: PersonalConfig) -> PersonalConfig:
    """The target alone, epoch by epoch, until its validation score has not improved for five of them.

    >>> fine_tuning(PersonalConfig(after={"fine_tune": 10})).rounds.rounds
    10
    """
    alone = fixed(config, "alone")
    rounds = type(config.rounds)(rounds=config.after.fine_tune, epochs=1, pretrain=0)
    return alone.model_copy(update={"rounds": rounds, "stopping": Patience()})


def _grown(config: PersonalConfig, first: Personalisation, stages: Stages) -> dict[str, Personalisation]:
    """Run again with the union of the two best arms as a further arm, as long as that union is learned."""
    found: dict[str, Personalisation] = {}
    run = first
    for step in range(1, config.after.grow + 1):
        arms = run.decision.arms
        means = np.where(run.decision.removed | (run.decision.count() == 0), -np.inf, run.decision.evidence.mean)
        union = grown(arms, means)
        if union is None:
            break
        more = arms.with_more([union])
        combinations = tuple(tuple(arms.names[worker] for worker in more.of(arm)) for arm in range(len(more)))
        listed = ArmsSection(kind="list", combinations=combinations)
        again = config.model_copy(update={"arms": listed, "after": AfterSection()})
        run = stages.run(f"grown_{step}", again, priors=[estimates(run.decision)])
        if run.decision.arms.of(run.decision.best()).tolist() != list(union):
            break
        found[f"grown_{step}"] = run
    return found


def _names(run: Personalisation) -> list[str]:
    """The workers of the combination that a run learned."""
    return [run.workers.names[worker] for worker in run.decision.arms.of(run.decision.best())]


def _best(candidates: Mapping[str, Personalisation]) -> str:
    """The stage with the best validation score; among equals, the earliest."""
    names = list(candidates)
    best = names[0]
    for name in names[1:]:
        run = candidates[name]
        if run.metric.better(run.stopper.best, candidates[best].stopper.best):
            best = name
    return best


def _summary(
    candidates: Mapping[str, Personalisation], baselines: Mapping[str, Personalisation], chosen: str
) -> dict[str, Any]:
    """The names of all stages with their results, and which one gave the final model."""
    stages = {name: _stage(run) for name, run in {**candidates, **baselines}.items()}
    for name in {"local", "fine_tuned"} & set(stages):
        stages[name]["communication"] = 0  # training alone needs no server
    total = sum(stages[name]["communication"] for name in candidates)
    return {"stages": list(stages), **stages, "model": chosen, "total_communication": total}


def _gains(final: Personalisation, baselines: Mapping[str, Personalisation]) -> dict[str, Any]:
    """The gain of the final model over each baseline."""
    return {f"gain_over_{name}": _gain(final, run) for name, run in baselines.items()}


def _gain(run: Personalisation, other: Personalisation) -> dict[str, float | None]:
    """How much a run's best model beats another's on the target's test samples, with an interval over samples."""
    start, stop = run.workers.span("test", run.target)
    targets = run.federation.data["test"].y[start:stop]
    ours, theirs = (one.federation.outputs(one.best, one.target, "test") for one in (run, other))
    found = gain(run.metric, ours, theirs, targets)
    known = np.isfinite(found.low)
    return {"mean": found.mean, "low": found.low if known else None, "high": found.high if known else None}


def _stage(run: Personalisation) -> dict[str, Any]:
    result = run.result()
    kept = ("combination", "code", "rounds", "best_round", "validation", "test", "communication")
    return {name: result[name] for name in kept}
