"""Tasks to train: data, model, local training, rounds and deadline, as data."""

from __future__ import annotations

from typing import Any

from enlist.studies.fedsuv.methods import MAIN, OURS, PRINTED, RANDOM, READINGS, ZERO
from enlist.studies.fedsuv.paper import AVERAGING, TASKS, YOGI

IN_TIME = 75.0
"""Percent of the clients that meet the deadline in a typical round. Small models would all meet the paper's 100 s."""
PERCENTILE = {"kind": "percentile", "percentile": IN_TIME}
SCALED = {"kind": "model-scaled", "base": 100.0, "per_megabyte": 5.5}
SKEWED = {"kind": "dirichlet-lognormal", "alpha": 3.0, "sigma": 0.8, "min_size": 2}
BOTH = [AVERAGING, YOGI]
LOCAL = {"lr": 0.05, "epochs": 1, "batch": 10}
SMALL_MLP = {"name": "mlp", "hidden": [64]}
SMALL_CNN = {"name": "cnn", "channels": [8, 16], "hidden": [64]}
MODELS = {"MobileNet": "mobilenet-v2", "ShuffleNet": "shufflenet-v2", "ResNet-18": "resnet18", "ResNet-34": "resnet34"}
FOLDERS = {"FEMNIST": ("femnist", "data/femnist"), "GoogleSpeech": ("speech-commands", "data/speech-commands")}
"""Data that is published in parts: the folder in which it is looked for, from where the command runs."""

Task = dict[str, Any]


def task(title: str, data: Task, model: Task, training: Task, **own: Any) -> Task:
    """A task with what all have in common.

    title          for tables and figures
    k, deadline    clients per round, and when the server stops waiting
    every          rounds between two evaluations
    aggregations   averaging, YoGi, or both
    methods        who takes part
    fewer          how many seeds less than the scale's it gets
    seconds        how long a run takes on one core: without, and with FedSUV's posterior

    >>> task("digits, MLP", {}, {}, {}, rounds=6)["k"]
    20
    """
    common = {
        "title": title,
        "data": data,
        "model": model,
        "training": training,
        "k": 20,
        "every": 5,
        "deadline": PERCENTILE,
        "aggregations": [AVERAGING],
        "methods": list(MAIN),
        "fewer": 0,
    }
    return {**common, **own}


def images(dataset: Any, clients: int) -> Task:
    """A data set of pictures, spread over clients of unequal sizes and classes.

    >>> images("digits", 40)["clients"]
    40
    """
    return {"dataset": dataset, "clients": clients, "partition": SKEWED, "validation": 0.05}


def users(count: int) -> Task:
    """Drawn data that comes by user: inputs differ from user to user, sizes are very unequal, one model can serve all.

    >>> users(30)["partition"]
    'natural'
    """
    dataset = {"name": "fedprox-synthetic", "users": count, "one_rule": True, "beta": 1.0}
    return {"dataset": dataset, "clients": 0, "partition": "natural", "validation": 0.05}


LAPTOP = {
    "mlp": task(
        "Fashion-MNIST, MLP",
        images("fashion-mnist", 3500),
        SMALL_MLP,
        LOCAL,
        aggregations=BOTH,
        rounds=300,
        seconds=[5.0, 20.0],
    ),
    "cnn": task(
        "Fashion-MNIST, CNN",
        images("fashion-mnist", 3500),
        SMALL_CNN,
        LOCAL,
        methods=[name for name in MAIN if name != ZERO],
        rounds=200,
        every=10,
        fewer=2,
        seconds=[25.0, 30.0],
    ),
    "users": task(
        "synthetic users, MLP",
        users(200),
        {"name": "mlp", "hidden": [128]},
        {"lr": 0.02, "epochs": 2, "batch": 10},
        rounds=200,
        seconds=[4.0, 5.0],
    ),
}
CIFAR = {
    "cifar10-cnn": task(
        "CIFAR-10, CNN",
        images("cifar10", 3500),
        SMALL_CNN,
        LOCAL,
        rounds=300,
        every=10,
        fewer=2,
        seconds=[90.0, 120.0],
    ),
    "cifar10-mlp": task(
        "CIFAR-10, MLP",
        images("cifar10", 3500),
        SMALL_MLP,
        {"lr": 0.02, "epochs": 1, "batch": 10},
        rounds=300,
        fewer=2,
        seconds=[15.0, 40.0],
    ),
}
_TINY = {"rounds": 6, "every": 2, "k": 4, "seconds": [0.15, 0.15]}
SMOKE = {
    "mlp": {
        **LAPTOP["mlp"],
        **_TINY,
        "title": "digits, MLP",
        "data": images("digits", 40),
        "methods": [RANDOM, "oort", "refl", *READINGS],
    },
    "cnn": {
        **LAPTOP["cnn"],
        **_TINY,
        "title": "digits, CNN",
        "data": images("digits", 40),
        "model": {"name": "cnn", "channels": [4, 4], "hidden": [8]},
        "methods": [RANDOM, "safa", "oort", "bsfl", PRINTED, OURS],
        "fewer": 1,
    },
    "users": {
        **LAPTOP["users"],
        **_TINY,
        "data": users(30),
        "methods": [RANDOM, "oort", PRINTED, OURS],
        "fewer": 1,
    },
}


def paper_task(name: str) -> Task:
    """The full setting of a column of Table 1; FEMNIST comes by writer, GoogleSpeech by speaker.

    The deadline is 100 s and what 25 % of the phones need at most to transfer the model: without the latter, almost
    nobody would be in time with a ResNet.

    >>> paper_task("cifar100-shufflenet")["training"]
    {'lr': 0.04, 'epochs': 1, 'batch': 20}
    """
    printed = TASKS[name]
    data = images(printed.dataset.replace("-", "").lower(), printed.clients)
    if printed.dataset in FOLDERS:
        dataset, folder = FOLDERS[printed.dataset]
        count = printed.clients if printed.dataset == "FEMNIST" else 0  # the speakers that there are
        data |= {"dataset": {"name": dataset, "folder": folder}, "clients": count, "partition": "natural"}
    return task(
        f"{printed.dataset}, {printed.model}",
        data,
        {"name": MODELS[printed.model]},
        {"lr": printed.lr, "epochs": printed.epochs, "batch": printed.batch},
        deadline=SCALED,
        aggregations=BOTH,
        rounds=1000,
        every=10,
        seconds=[3600.0, 3600.0],
        device="auto",
    )


PAPER = {name: paper_task(name) for name in TASKS}
