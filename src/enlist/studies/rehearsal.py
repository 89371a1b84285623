"""A rehearsal: the first rounds of one experiment of each kind, before days are spent on all of them.

It shows that data, models and memory are there, and leaves nothing behind.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from enlist._internal import checks
from enlist.engine import local, temporary_folder
from enlist.studies.results import kept
from enlist.studies.running import performed
from enlist.studies.study import Experiment, Settings

PER_ROUND = {"steps": 10, "instances": 5, "populations": 5, "states": 20, "server_rounds": 10}
"""Other amounts of work, and what is left of them for each round that is rehearsed."""


class RehearsalResult(NamedTuple):
    """How the rehearsal of an experiment went: what it trains, the seconds it took, and why it failed.

    >>> RehearsalResult("mlp/averaging/oort", "digits, mlp", 0.4, "").reason
    ''
    """

    key: str
    what: str
    seconds: float
    reason: str


def rehearse(experiments: Sequence[Experiment], rounds: int, jobs: int = 1) -> Iterator[RehearsalResult]:
    """Run the first rounds of one experiment of each kind; yields each as it ends. Two coins are one kind.

    >>> from enlist.studies.example import COINS
    >>> [one.key for one in rehearse(COINS.experiments(COINS.scale("smoke")), rounds=2)]
    ['fair']
    """
    checks.whole("rounds", rounds, minimum=1)
    short = [shortened(each, rounds) for each in kinds(experiments)]
    with temporary_folder("rehearsal") as folder:
        for each, reason in performed(short, folder, local(min(jobs, len(short)))):
            output = kept(folder, each)
            yield RehearsalResult(each.key, _trained(each.settings), output.seconds if output else math.nan, reason)


def kinds(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The first experiment of each kind: another function, data set, model, server or population is another kind.

    >>> from enlist.studies.fedsuv import STUDY
    >>> [each.key for each in kinds(STUDY.experiments(STUDY.scale("paper")))][:2]
    ['train/cifar10-resnet18/averaging/fedavg', 'train/cifar10-resnet18/yogi/fedavg']
    """
    found: dict[str, Experiment] = {}
    for each in experiments:
        found.setdefault(_kind(each), each)
    return list(found.values())


def shortened(experiment: Experiment, rounds: int) -> Experiment:
    """The experiment with so many rounds, and with little of other work.

    >>> long = Experiment("race", 0, {"steps": 5000, "config": {"rounds": {"rounds": 1000, "k": 20}}}, run=print)
    >>> shortened(long, 2).settings
    {'steps': 20, 'config': {'rounds': {'rounds': 2, 'k': 20}}}
    """
    settings = copy.deepcopy(dict(experiment.settings))
    for section in (settings, settings.get("config", {})):
        if isinstance(section.get("rounds"), dict):
            section["rounds"]["rounds"] = min(rounds, section["rounds"]["rounds"])
    if isinstance(settings.get("rounds"), int):
        settings["rounds"] = min(settings["rounds"], max([rounds, *settings.get("marks", [])]))
    for name, amount in PER_ROUND.items():
        if isinstance(settings.get(name), int):
            settings[name] = min(settings[name], amount * rounds)
    if "passes" in settings:  # the profile of batch sizes
        settings |= {"passes": 1, "sizes": settings["sizes"][:1]}
    return dataclasses.replace(experiment, settings=settings)


def _kind(experiment: Experiment) -> str:
    settings = experiment.settings
    config: dict[str, Any] = settings.get("config", {})
    names = ("clients", "k", "scenario", "sizes", "noise")
    told: dict[str, Any] = {name: settings[name] for name in names if name in settings}
    told |= {name: config[name] for name in ("data", "model", "server") if name in config}
    if isinstance(settings.get("workers"), dict):  # personalised learning
        dataset = settings["workers"].get("dataset", {})
        told |= {name: dataset[name] for name in ("name", "factory") if name in dataset}
    told["protocol"] = config.get("rounds", {}).get("protocol")
    run = f"{experiment.run.__module__}.{experiment.run.__qualname__}"
    return f"{run} {json.dumps(told, sort_keys=True)}"


def _trained(settings: Settings) -> str:
    """Data set and model, where there are any."""
    config = settings.get("config", settings)
    sources = [config.get(name) for name in ("data", "workers")]  # simulations, personalised learning
    datasets = [source["dataset"] for source in sources if isinstance(source, dict) and "dataset" in source]
    parts = [*datasets, *([config["model"]] if "model" in config else [])]
    return ", ".join(str(part["name"]) if isinstance(part, dict) else str(part) for part in parts)
