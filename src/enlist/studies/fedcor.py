"""The study of FedCor: Fashion-MNIST on 100 equal clients with few classes each, against AFL and Power-of-Choice.

Settings, experiments, figures and claims, in the order in which one reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enlist.studies.claims import Claim
from enlist.studies.further import replicated
from enlist.studies.grids import FIRST, Grid, dataset
from enlist.studies.margins import POINT, Margin, nearly
from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET
from enlist.studies.parts import Parts
from enlist.studies.results import Results
from enlist.studies.rules import Contrast
from enlist.studies.study import Experiment, Figure, Scale, Study

CLIENTS, K = 100, 5
PARTITIONS: dict[str, dict[str, Any]] = {
    "2spc": {"kind": "shards", "per_client": 2},
    "1spc": {"kind": "shards", "per_client": 1},
    "dir": {"kind": "dirichlet-lognormal", "alpha": 0.2, "sigma": 0.0},
}
TITLES = {"2spc": "two shards per client", "1spc": "one shard per client", "dir": "Dirichlet 0.2, equal sizes"}
RIVALS = ("random", "afl", "pow-d")
METHODS = {"random": "random", "afl": "afl:paper", "pow-d": "power-of-choice+d=10", "fedcor": "fedcor:paper"}
LABELS = {"random": "random", "afl": "AFL", "pow-d": "Pow-d", "fedcor": "FedCor"}
COLOURS = {"random": "#8a8a8a", "AFL": "#e69f00", "Pow-d": "#0b6e99", "FedCor": "#7a3b8f"}
GRID = Grid("data", TITLES, METHODS, LABELS, COLOURS)
SOURCE = "Tang et al., FedCor, CVPR 2022"
KEPT_BACK = 0.2
"""Share of a client's samples that the authors' code does not train on."""
WEIGHT_DECAY, DROPOUT = 1e-4, 0.5
"""Defaults of the authors' public code (`--reg`, and the network's dropout), which their commands do not change."""
LEAST, MOST = 1.34, 1.99
"""What the abstract says of Fashion-MNIST: convergence rates better by 34 % to 99 % than the best of the others."""
CLOSE = nearly(LEAST - 1.0, "34 %")
MARGINAL = Margin(LEAST - 1.0, "less than the least improvement that the paper reports of its own method, 34 %")


def config(partition: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The federation of the authors' public commands; the steps of their learning rate are one smooth decay here."""
    return {
        "data": {
            "dataset": dataset(own["dataset"]),
            "clients": CLIENTS,
            "partition": partition,
            "client_test": KEPT_BACK,
        },
        "devices": {"kind": "equal"},
        "model": {"name": "mlp", "hidden": [64, 30], "dropout": DROPOUT},
        "training": {
            "batch": 64,
            "epochs": 3,
            "lr": own["lr"],
            "lr_decay": 0.5 ** (1 / 150),
            "weight_decay": WEIGHT_DECAY,
        },
        "rounds": {"rounds": own["rounds"], "k": K},
        "evaluation": {"every": own["every"]},
    }


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Four methods on three partitions of the samples.

    >>> len(experiments(STUDY.scale("smoke"))), experiments(STUDY.scale("smoke"))[0].key
    (24, '2spc/random')
    """
    own = dict(scale.settings)
    return GRID.experiments(scale, {name: config(each, own) for name, each in PARTITIONS.items()})


def figures(results: Results) -> Sequence[Figure]:
    """Test accuracy and loss over rounds.

    >>> figures(Results({}))
    []
    """
    return GRID.figures(results)


def fastest(place: str) -> Contrast:
    """FedCor needs the fewest rounds to random's target."""
    own, *others = (GRID.arm(place, method) for method in ("fedcor", *RIVALS))
    return Contrast("leads", ROUNDS_TO_TARGET, own, others, CLOSE, baseline=others[0], claimed=LEAST)


def against_random(place: str) -> Contrast:
    """FedCor needs fewer rounds than random selection."""
    own, base = (GRID.arm(place, each) for each in ("fedcor", "random"))
    return Contrast("greater", ROUNDS_TO_TARGET, own, [base], CLOSE, claimed=LEAST)


def like_random(place: str, method: str) -> Contrast:
    """A method needs about as many rounds as random selection."""
    own, base = (GRID.arm(place, each) for each in (method, "random"))
    return Contrast("alike", ROUNDS_TO_TARGET, own, [base], MARGINAL)


def as_accurate(place: str) -> Contrast:
    """FedCor ends no less accurate than random selection."""
    own, base = (GRID.arm(place, each) for each in ("fedcor", "random"))
    return Contrast("no worse", FINAL_ACCURACY, own, [base], POINT)


def claim(key: str, title: str, text: str, source: str, paper: str, rule: Parts) -> Claim:
    """A claim whose rule says itself what it asks for; unclear, it is run again with fresh seeds."""
    return Claim(key, title, text, source, paper, rule, replicated(experiments, GRID.keys, rule))


STUDY = Study(
    name="fedcor",
    title="FedCor on Fashion-MNIST",
    reference=SOURCE,
    about="100 clients of equal size hold samples of few classes (two shards, one shard, or Dirichlet 0.2); 5 are "
    "selected per round. FedCor learns how the losses of clients change together, and selects clients whose losses "
    "say most about those of all others. Clients, data, model, batch, epochs, learning rate and weight decay are those "
    "of the authors' public commands; the number of rounds is ours. Losses that are measured before a choice are those "
    "of the samples that a client trains on; the authors' code measures them on 20 % that it keeps back. The claims "
    "are those of the abstract, because the paper's tables were not available. "
    f"Seeds begin at {FIRST}: nothing was chosen on them.",
    scales={
        "smoke": Scale(
            "smoke", 2, {"dataset": "digits", "rounds": 20, "every": 2, "lr": 0.05, "seconds": 0.5}, "a check"
        ),
        "laptop": Scale(
            "laptop",
            8,
            {"dataset": "fashion-mnist", "rounds": 200, "every": 4, "lr": 0.005, "seconds": 35.0},
            "half an hour on two cores",
        ),
        "paper": Scale(
            "paper",
            10,
            {"dataset": "fashion-mnist", "rounds": 500, "every": 5, "lr": 0.005, "seconds": 88.0},
            "the authors' 500 rounds, twice their seeds",
        ),
    },
    experiments=experiments,
    figures=figures,
    tables=GRID.tables,
    claims=(
        claim(
            "fastest",
            "It converges faster than the best of the others",
            "FedCor improves the convergence rate on Fashion-MNIST by 34 % to 99 % over the best of random selection, "
            "AFL and Power-of-Choice.",
            "abstract",
            f"{LEAST:g} to {MOST:g} times",
            Parts({TITLES[place]: fastest(place) for place in PARTITIONS}),
        ),
        claim(
            "random",
            "It converges faster than random selection",
            "A fortiori: FedCor is faster than random selection, which is among those others.",
            "abstract",
            f"at least {LEAST:g} times",
            Parts({TITLES[place]: against_random(place) for place in PARTITIONS}),
        ),
        claim(
            "marginal",
            "Strategies that ignore correlations gain little",
            "Active strategies that ignore correlations between losses are only marginally better than uniform "
            "selection.",
            "abstract",
            "only marginal improvement",
            Parts(
                {
                    f"{LABELS[method]}, {TITLES[place]}": like_random(place, method)
                    for place in PARTITIONS
                    for method in ("afl", "pow-d")
                }
            ),
        ),
        claim(
            "accuracy",
            "It is faster without losing accuracy",
            "FedCor's final model is at least as accurate as that of random selection.",
            "ours",
            "no number",
            Parts({TITLES[place]: as_accurate(place) for place in PARTITIONS}),
        ),
    ),
    paper={
        "data": "Fashion-MNIST; each client trains on 80 % of its samples and measures its loss on 20 %",
        "clients": "100",
        "partition": "two shards, one shard, or Dirichlet 0.2, sizes as equal as that allows",
        "network": "mlp, hidden 64-30, dropout 0.5",
        "local training": "batch 64, epochs 3, lr 0.005, halved after 150 and 300 rounds, weight_decay 0.0001",
        "clients per round": "5, averaged without weights",
        "rounds": "500",
        "methods": "random; AFL with 0.75, 0.01, 0.1; Pow-d with d = 10; FedCor with 15 random rounds, a fit every 10 "
        "rounds, discount 0.95, memory 0.95",
        "seeds": "5",
    },
    preload="enlist.simulation.comparison",
)
