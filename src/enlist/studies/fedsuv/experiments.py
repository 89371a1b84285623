"""What the study runs.

train/<task>/<aggregation>/<method>   trainings of the paper's methods, and in the main task ablations of FedSUV
regime/<name>/<method>                the main task with one thing changed
process/<noise>/<method>              the paper's selection process, whose features are noisy
cut/fedsuv                            the first elimination after many observations (Theorem 5.1)
long/fedsuv                           a long process of fewer clients (Theorems 5.4 and 5.5)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import files
from enlist.runs.checkpoints import CHECKPOINTS, written
from enlist.runs.tables import read_run
from enlist.studies.experiments import simulation
from enlist.studies.fedsuv.process import played
from enlist.studies.fedsuv.settings import (
    ABLATIONS,
    AVERAGING,
    CIFAR,
    CIFAR_SEEDS,
    DEFAULT,
    FEDSUV,
    FIRST,
    FIVE,
    LATE_0,
    MAIN,
    METHODS,
    NOISES,
    PARTS,
    PHONES,
    PLAYERS,
    PRINTED,
    RANDOM,
    REGIMES,
    ROUNDS,
    SCALES,
    SERVERS,
    SKEWED,
    TASKS,
    YOGI,
    Workload,
    images_of,
)
from enlist.studies.study import MOST_SEEDS, Experiment, Scale, Settings, over_seeds

KEPT = ("round", "end", "accuracy", "loss", "asked", "completed", "selected")
FOLDERS = {"femnist": "data/femnist", "speech-commands": "data/speech-commands"}
"""Data that is published in parts: the folder in which it is looked for, from where the command runs."""


def trained(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A simulation, of which what the study needs is kept; a checkpoint of FedSUV has 8 n² bytes, so none stays.

    `able` is, round by round, the share of those asked who would meet the deadline in a typical round: with
    over-commitment, who was cut off because enough others had come may have been in time.

    >>> import tempfile
    >>> one = experiments(SCALES["smoke"])[0]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = trained(one.settings, one.seed, Path(place))
    >>> one.key, found["able"].shape, int(found["selected"].sum())
    ('train/small-steps/averaging/fedavg', (6,), 36)
    """
    found = simulation(settings, seed, folder)
    tables = read_run(folder / "run")
    asked = np.unique(np.column_stack([tables.participations["selected_in"], tables.participations["client"]]), axis=0)
    rounds = asked[:, 0].astype(np.int64) - 1
    in_time = tables.clients["expected_latency"][asked[:, 1].astype(np.int64)] <= found["deadline"][rounds]
    count, able = (np.bincount(rounds, weights, len(found["round"])) for weights in (None, in_time.astype(float)))
    for checkpoint in written(files.inside(folder, "run", CHECKPOINTS)):
        files.remove_folder(checkpoint)
    return {**{name: found[name] for name in KEPT}, "able": able / np.maximum(count, 1.0)}


def config(scale: Scale, name: str, aggregation: str = AVERAGING) -> dict[str, Any]:
    """The configuration of a task, whoever selects.

    >>> config(SCALES["laptop"], MAIN)["rounds"]["over_commit"]
    1.3
    """
    task, own = TASKS[name], scale.settings
    dataset: dict[str, Any] = {"name": images_of(scale, task)}
    if dataset["name"] == "fashion-mnist":
        dataset["download"] = False
    if dataset["name"] in FOLDERS:
        dataset["folder"] = FOLDERS[dataset["name"]]
    rounds = {**ROUNDS, "rounds": 1000 if name == CIFAR else own["rounds"]}
    if name in PRINTED:  # without time for its transfer almost nobody would be in time with a ResNet
        rounds["deadline"] = {"kind": "model-scaled", "base": 100.0, "per_megabyte": 5.5}
    if own["clients"] < 1000:
        rounds["k"] = 4
    return {
        "data": {
            "dataset": dataset,
            "clients": _clients(name, task, own["clients"]),
            "partition": "natural" if task.natural else SKEWED,
            "validation": 0.0,
        },
        "model": dict(task.model),
        "training": dict(task.training),
        "server": {"optimiser": {"kind": SERVERS[aggregation]}},
        "devices": PHONES,
        "availability": {"kind": "diurnal"},
        "rounds": rounds,
        "evaluation": {"every": own["every"]},
    }


def _clients(name: str, task: Workload, count: int) -> int:
    """As many as the paper has; of GoogleSpeech's speakers all that there are."""
    return 0 if task.dataset == "speech-commands" else PRINTED[name].clients if name in PRINTED else count


def training(scale: Scale, start: str, method: str, made: Mapping[str, Any], task: Workload, seed: int) -> Experiment:
    """One run; `start` is the key without the method."""
    chosen = METHODS[method]
    own = {**made, "rounds": {**made["rounds"], **chosen.rounds}}
    settings: dict[str, Any] = {"selector": chosen.text, "config": own}
    if "device" in scale.settings:
        settings["device"] = scale.settings["device"]
    each, more = task.seconds
    seconds = own["rounds"]["rounds"] * (each + more * chosen.text.startswith("fedsuv"))
    return Experiment(f"{start}/{method}", seed, settings, trained, seconds)


def trainings(scale: Scale) -> Iterator[Experiment]:
    """Every method of every task, seed by seed, so that methods share a population; ablations in the first task."""
    for name in (*scale.settings["tasks"], *((CIFAR,) if CIFAR in scale.extras else ())):
        for aggregation in (AVERAGING, YOGI):
            first = name == scale.settings["tasks"][0] and aggregation == AVERAGING
            made, start = config(scale, name, aggregation), f"train/{name}/{aggregation}"
            for seed in _seeds(scale, CIFAR_SEEDS if name == CIFAR else SCALES[scale.name].seeds):
                for method in (*FIVE, LATE_0, DEFAULT, *((*ABLATIONS, "oort-default") if first else ())):
                    yield training(scale, start, method, made, TASKS[name], seed)


def regimes(scale: Scale) -> Iterator[Experiment]:
    """The main task with one thing changed, random selection against FedSUV as printed."""
    for name, (_, changed) in REGIMES.items():
        base = config(scale, MAIN)
        made = base | {section: _merged(base[section], own) for section, own in changed.items()}
        for seed in _seeds(scale, scale.settings["regimes"]):
            for method in (RANDOM, FEDSUV, LATE_0):
                yield training(scale, f"regime/{name}", method, made, TASKS[MAIN], seed)


def _merged(section: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A section with other values; one of another kind takes its place."""
    return dict(own) if own.get("kind", section.get("kind")) != section.get("kind") else {**section, **own}


def processes(scale: Scale) -> Iterator[Experiment]:
    """The selection process: FedSUV with every noise, ablations and rivals without; and two for the theorems."""
    for noise in NOISES:
        for method in dict.fromkeys((FEDSUV, *((*PLAYERS, *ABLATIONS) if not noise else ()))):
            seeds = "seeds" if method == FEDSUV and not noise else "players"
            yield from _playing(scale, "process", f"process/{noise:g}/{method}", method, noise, seeds, 3.0)
    yield from _playing(scale, "cut", f"cut/{FEDSUV}", FEDSUV, 0.0, "seeds", 0.5)
    yield from _playing(scale, "long", f"long/{FEDSUV}", FEDSUV, 0.0, "seeds", 4.0)


def _playing(
    scale: Scale, part: str, key: str, method: str, noise: float, seeds: str, seconds: float
) -> Sequence[Experiment]:
    own = scale.settings[part]
    seconds *= own["clients"] / PARTS[part]["clients"]
    settings = {"selector": METHODS[method].text, **{name: own[name] for name in ("clients", "rounds", "k")}}
    return over_seeds(
        key, played, {**settings, "noise": noise, "bounds": part == "long"}, _seeds(scale, own[seeds]), seconds
    )


def experiments(scale: Scale) -> Sequence[Experiment]:
    """All that a scale runs.

    >>> experiments(SCALES["smoke"])[-1].key
    'long/fedsuv'
    """
    return [*trainings(scale), *regimes(scale), *processes(scale)]


def _seeds(scale: Scale, usual: int) -> range:
    """Seeds of a part that usually has so many: more or fewer in proportion if others are asked for."""
    wanted = usual * scale.seeds // SCALES[scale.name].seeds
    return range(FIRST, FIRST + min(max(wanted, 1), MOST_SEEDS))
