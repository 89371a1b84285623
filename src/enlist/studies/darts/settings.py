"""Settings of the study: its numbers, the data that stands in for CIFAR-10, and the scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from enlist.data.idx import has_fashion_mnist
from enlist.studies.study import Scale

CLIENTS, K, ALPHA, BATCH, INITIAL = 12, 3, 0.05, 16, 5
LEAST = 10
"""Samples that every client has at least; the report's smallest has 240 of 50,000."""
RANDOM, PRINTED, DEFAULT = "select/random", "select/printed", "select/default"
METHODS = {RANDOM: "random", PRINTED: "darts-ucb:paper", DEFAULT: "darts-ucb"}
LABELS = {RANDOM: "random", PRINTED: "UCB as printed", DEFAULT: "UCB, our default"}
BONUSES = (0.03, 0.1, 0.3, 1.0)
DEFAULT_BONUS = 0.3
TUNING = 100
"""First of the seeds on which the width of the bonus is tuned; all verdicts rest on others."""
ROTATION = "further/rotation"
"""The printed algorithm with a bonus of the width `DROWNING`; a claim needs it, so it is always run."""
DROWNING = 1e18
"""A bonus beside which rewards vanish in rounding: who was asked least is next."""
CIFAR = "cifar10"
CIFAR_SEEDS = 3
NOISY = 1 / 3


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set with the model and learning rate that go with it, and what it costs.

    seconds   of a round on one core, while another experiment runs beside, in which clients measure their accuracy
    alone     seconds of the experiments without a federation: key -> seconds

    >>> SOURCES["digits"].dataset["name"]
    'digits'
    """

    dataset: Mapping[str, Any]
    model: Mapping[str, Any]
    lr: float
    seconds: float
    alone: Mapping[str, float]
    about: str

    def config(self, rounds: int, batch: int = BATCH, **sections: Any) -> dict[str, Any]:
        """The configuration of a run; `sections` are added, or merged with what is there."""
        made: dict[str, Any] = {
            "data": {
                "dataset": dict(self.dataset),
                "clients": CLIENTS,
                "partition": {"kind": "dirichlet", "alpha": ALPHA, "min_size": LEAST},
                "validation": 0.1,
            },
            "model": dict(self.model),
            "training": {"batch": batch, "lr": self.lr, "measure": True},
            "rounds": {"rounds": rounds, "k": K},
            "evaluation": {"every": 1},
        }
        for name, section in sections.items():
            made[name] = {**made.get(name, {}), **section}
        return made


SOURCES = {
    "digits": Source(
        {"name": "digits"},
        {"name": "mlp", "hidden": [32]},
        0.05,
        0.02,
        {"data": 0.4, "profile": 1.5, "minibatches": 0.2, "server": 0.1},
        "the 1,797 digits of scikit-learn, as this is only a check; '--scale laptop' has Fashion-MNIST",
    ),
    "digits instead": Source(
        {"name": "digits"},
        {"name": "mlp", "hidden": [64]},
        0.05,
        0.02,
        {"data": 0.4, "profile": 3.0, "minibatches": 0.6, "server": 0.4},
        "the 1,797 digits of scikit-learn, because Fashion-MNIST (Debian's package dataset-fashion-mnist) is not on "
        "this machine",
    ),
    "fashion-mnist": Source(
        {"name": "fashion-mnist", "limit": 10_000, "download": False},
        {"name": "mlp", "hidden": [100]},
        0.05,
        0.1,
        {"data": 0.4, "profile": 3.0, "minibatches": 1.9, "server": 0.6},
        "10,000 images of Fashion-MNIST instead of CIFAR-10, which takes hours; '--with cifar10' has it",
    ),
    CIFAR: Source(
        {"name": CIFAR},
        {"name": "cnn", "channels": [8, 16], "kernel": 3, "padding": 1},
        0.02,
        4.2,
        {"data": 4.7, "profile": 50.0, "minibatches": 16.0, "server": 12.5},
        "CIFAR-10 in full, as in the report; a small convolutional network, as the report does not name its own",
    ),
    "paper": Source(
        {"name": CIFAR},
        {"name": "resnet18", "norm": "group"},
        0.02,
        10.0,
        {"data": 5.0, "profile": 400.0, "minibatches": 200.0, "server": 50.0},
        "CIFAR-10 in full, as in the report; ResNet-18, as the report does not name its network",
    ),
}
"""The report's data set is CIFAR-10, and its network is not named."""


SCALES = {
    "smoke": Scale(
        "smoke",
        2,
        {
            "source": "digits",
            "rounds": 12,
            "sizes": [8, 16, 32],
            "passes": 2,
            "steps": 10,
            "batch_seeds": 2,
            "tuning_seeds": 1,
            "server_clients": [CLIENTS, 1_000],
            "server_rounds": 30,
        },
        "a check that it runs",
    ),
    "laptop": Scale(
        "laptop",
        10,
        {
            "source": "fashion-mnist",
            "rounds": 100,
            "sizes": [8, 16, 32, 64, 128],
            "passes": 5,
            "steps": 40,
            "batch_seeds": 10,
            "tuning_seeds": 10,
            "profile_limit": 10_000,
            "server_clients": [CLIENTS, 1_000, 100_000],
            "server_rounds": 100,
        },
        "a quarter of an hour on two cores",
    ),
    "paper": Scale(
        "paper",
        10,
        {
            "source": "paper",
            "rounds": 100,
            "sizes": [8, 16, 32, 64, 128],
            "passes": 1,
            "steps": 20,
            "batch_seeds": 3,
            "tuning_seeds": 5,
            "profile_limit": 5_000,
            "server_clients": [CLIENTS, 1_000, 100_000],
            "server_rounds": 100,
            "device": "auto",
        },
        "the full setting, for a machine with a GPU",
    ),
}
EXTRAS = {
    CIFAR: "CIFAR-10 in full and a convolutional network, 3 experiments per setting (other batch sizes: 1): 28 "
    "experiments and some 24 more that unclear claims call for, an hour and a half to two on two cores without a GPU"
}


def source_of(scale: Scale) -> Source:
    """The data of a scale: what it names, CIFAR-10 if asked for, and digits where Debian's Fashion-MNIST is missing.

    >>> source_of(SCALES["smoke"]).dataset, source_of(SCALES["laptop"].chosen(extras=["cifar10"])).dataset
    ({'name': 'digits'}, {'name': 'cifar10'})
    """
    name = scale.settings["source"]
    if CIFAR in scale.extras and name != "paper":
        name = CIFAR
    if name == "fashion-mnist" and not has_fashion_mnist():
        name = "digits instead"
    return SOURCES[name]


def seeds_of(scale: Scale) -> range:
    """The seeds of a scale, on which all verdicts rest.

    >>> seeds_of(SCALES["laptop"])
    range(0, 10)
    """
    return range(scale.seeds)
