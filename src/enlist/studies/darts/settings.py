"""Settings: the report's numbers, the data that stand in for CIFAR-10, what is compared, and the scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from enlist.data.idx import has_fashion_mnist
from enlist.studies.rules import Arm
from enlist.studies.study import Scale

CLIENTS, K, ALPHA, BATCH, INITIAL = 12, 3, 0.05, 16, 5
REPORT_SAMPLES, CLASSES = 50_000, 10
PLAIN = {"kind": "dirichlet", "alpha": ALPHA, "min_size": 10}
PARTITION = {**PLAIN, "balanced": True}
"""The report's sizes (largest 15 %, four clients just above 1/12) are those of the balanced partition."""

RANDOM, PRINTED = Arm("select/random", "random"), Arm("select/printed", "UCB as printed")
STRETCHED = Arm("select/stretched", "UCB with gains stretched")
DEFAULT = Arm("select/default", "our default")
ROTATION = Arm("select/rotation", "a rotation that ignores rewards")
METHODS = {
    RANDOM: "random",
    PRINTED: "darts-ucb:paper",
    STRETCHED: "darts-ucb:paper-stretched",
    DEFAULT: "darts-ucb",
    ROTATION: "darts-ucb:paper+c=1e18",  # a bonus beside which rewards vanish: who was asked least is next
}
"""The report normalises gains "to [0, 1]": (x + 1) / 2, or stretched to the range observed. Both have its c."""

REPORTED = {PRINTED: {1: 0.8981, 10: 0.53, 20: 0.6105}, RANDOM: {1: 0.7781, 10: 0.7637, 20: 0.4938}}
"""Accuracies of the report's Table 2: one run each."""

NO_EPSILON, NO_START = Arm("ablation/epsilon=0", "without ε"), Arm("ablation/initial=0", "without random start")
NEEDED = {NO_EPSILON: "darts-ucb:paper+epsilon=0", NO_START: "darts-ucb:paper+initial_rounds=0"}
"""Ablations of the printed algorithm that a claim asks for."""
SHOWN = {
    Arm("ablation/epsilon=0.3", "ε = 0.3"): "darts-ucb:paper+epsilon=0.3",
    Arm("ablation/initial=20", "20 random rounds at the start"): "darts-ucb:paper+initial_rounds=20",
    Arm("ablation/c=0.03", "our default, c = 0.03"): "darts-ucb+c=0.03",
    Arm("ablation/c=0.1", "our default, c = 0.1"): "darts-ucb+c=0.1",
    Arm("ablation/c=1", "our default, c = 1"): "darts-ucb+c=1",
}
"""Others, of which there is only a picture."""
AGAIN, OORT = Arm("further/random-again", "random with other draws"), Arm("further/oort", "Oort")
AGAIN_METHOD = "darts-ucb+epsilon=1+initial_rounds=0"
"""Every round is random, but drawn after one more random number."""
NOISY = {arm: Arm(arm.key.replace("select", "further/noisy"), arm.name) for arm in (RANDOM, PRINTED, DEFAULT)}
LABEL_NOISE = {"share": 1 / 3, "low": 1.0, "high": 1.0}

FIRST_SEED = 1_000
"""The verdicts of before had seeds from 0 on, and rules were changed with them in view: these are fresh."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set with the model and learning rate that go with it, and seconds on one core.

    round     of a round in which clients do not measure their accuracy
    profile   of the whole profile

    >>> SOURCES["digits"].config(rounds=3)["model"]
    {'name': 'mlp', 'hidden': [32]}
    """

    dataset: Mapping[str, Any]
    model: Mapping[str, Any]
    lr: float
    round: float
    profile: float

    def config(self, rounds: int, batch: int = BATCH, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of a run; `sections` are merged with what is there."""
        made: dict[str, Any] = {
            "data": {
                "dataset": dict(self.dataset),
                "clients": CLIENTS,
                "partition": dict(PARTITION),
                "validation": 0.1,
            },
            "model": dict(self.model),
            "training": {"batch": batch, "lr": self.lr, "measure": False},
            "rounds": {"rounds": rounds, "k": K},
            "evaluation": {"every": 1},
        }
        return made | {name: {**made.get(name, {}), **section} for name, section in sections.items()}


CIFAR, CIFAR_SEEDS = "cifar10", 6
SOURCES = {
    "digits": Source({"name": "digits"}, {"name": "mlp", "hidden": [32]}, 0.05, 0.012, 0.5),
    "fashion-mnist": Source(
        {"name": "fashion-mnist", "limit": 10_000, "download": False}, {"name": "mlp", "hidden": [100]}, 0.05, 0.07, 8.0
    ),
    CIFAR: Source({"name": CIFAR}, {"name": "cnn", "channels": [8, 16], "kernel": 3, "padding": 1}, 0.02, 2.35, 60.0),
    "paper": Source({"name": CIFAR}, {"name": "resnet18", "norm": "group"}, 0.02, 6.0, 400.0),
}
"""The report's data set is CIFAR-10, and its network is not named."""

SIZES = [8, 16, 32, 64, 128]
SCALES = {
    "smoke": Scale(
        "smoke",
        2,
        {"source": "digits", "rounds": 12, "sizes": [8, 16, 32], "passes": 1, "batch_seeds": 1, "draws": 20}
        | {"server_clients": [CLIENTS, 1_000], "server_rounds": 20},
        "a check that it runs",
    ),
    "laptop": Scale(
        "laptop",
        10,
        {"source": "fashion-mnist", "rounds": 100, "sizes": SIZES, "passes": 3, "batch_seeds": 5, "draws": 400}
        | {"server_clients": [CLIENTS, 1_000, 100_000], "server_rounds": 100},
        "half an hour on two cores",
    ),
    "paper": Scale(
        "paper",
        20,
        {"source": "paper", "rounds": 100, "sizes": SIZES, "passes": 1, "batch_seeds": 3, "draws": 400}
        | {"server_clients": [CLIENTS, 1_000, 100_000], "server_rounds": 100, "device": "auto"},
        "the full setting, for a machine with a GPU",
    ),
}
EXTRAS = {
    CIFAR: f"CIFAR-10 in full and a small convolutional network, {CIFAR_SEEDS} populations (other batch sizes: 1): two "
    "hours on two cores without a GPU, and another hour for further experiments on unclear claims"
}


def source_of(scale: Scale) -> Source:
    """The data of a scale: what it names, CIFAR-10 if asked for, and digits where Debian's Fashion-MNIST is missing.

    >>> source_of(SCALES["smoke"]).dataset, source_of(SCALES["laptop"].chosen(extras=["cifar10"])).dataset
    ({'name': 'digits'}, {'name': 'cifar10'})
    """
    name = scale.settings["source"]
    if CIFAR in scale.extras and name != "paper":
        name = CIFAR
    return SOURCES["digits" if name == "fashion-mnist" and not has_fashion_mnist() else name]


def seeds_of(scale: Scale) -> range:
    """The seeds of a scale, on which its verdicts rest.

    >>> seeds_of(SCALES["smoke"])
    range(1000, 1002)
    """
    return range(FIRST_SEED, FIRST_SEED + scale.seeds)


def is_long(scale: Scale) -> bool:
    """Whether CIFAR-10 is trained without a GPU, where only what claims need is run.

    >>> is_long(SCALES["laptop"])
    False
    """
    return source_of(scale) is SOURCES[CIFAR]
