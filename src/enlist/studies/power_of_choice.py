"""The study of Power-of-Choice: Fashion-MNIST on 100 clients, mildly and strongly skewed labels.

Settings, experiments, figures and claims, in the order in which one reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enlist.studies.claims import Claim
from enlist.studies.further import replicated
from enlist.studies.grids import Grid, dataset
from enlist.studies.margins import PERCENT_5, POINT, Margin, beyond_one, nearly
from enlist.studies.measures import FINAL_ACCURACY, ROUNDS_TO_TARGET, Measure
from enlist.studies.parts import Largest, Parts
from enlist.studies.results import Results
from enlist.studies.rules import Contrast
from enlist.studies.study import Experiment, Figure, Scale, Study

SKEWS = {"mild": 2.0, "strong": 0.3}
"""Dirichlet's alpha of each client's labels."""
CANDIDATES = (6, 9, 15)
CLIENTS, K = 100, 3
METHODS = {"random": "size-proportional"} | {f"pow-{d}": f"power-of-choice+d={d}" for d in CANDIDATES}
LABELS = {"random": "random"} | {f"pow-{d}": f"d = {d}" for d in CANDIDATES}
COLOURS = {"random": "#8a8a8a", "d = 6": "#e69f00", "d = 9": "#0b6e99", "d = 15": "#7a3b8f"}
GRID = Grid(
    "skew", {skew: f"{skew} skew (alpha = {alpha:g})" for skew, alpha in SKEWS.items()}, METHODS, LABELS, COLOURS
)
SOURCE = "Cho, Wang and Joshi, AISTATS 2022"
FIRST = 1300
"""First seed. The study began at 1200 before its setting was that of the authors' code; those seeds are used up."""
WEIGHT_DECAY, DROPOUT = 1e-4, 0.5
"""Of the authors' public code, which the paper does not mention."""


def config(alpha: float, own: dict[str, Any]) -> dict[str, Any]:
    """The federation of the authors' public code; the steps of their learning rate are one smooth decay here."""
    return {
        "data": {
            "dataset": dataset(own["dataset"]),
            "clients": CLIENTS,
            "partition": {"kind": "dirichlet", "alpha": alpha, "balanced": True, "min_size": 10},
        },
        "devices": {"kind": "equal"},
        "model": {"name": "mlp", "hidden": [64, 30], "dropout": DROPOUT},
        "training": {
            "batch": 64,
            "steps": 30,
            "lr": own["lr"],
            "lr_decay": 0.5 ** (1 / 150),
            "weight_decay": WEIGHT_DECAY,
        },
        "server": {"aggregation": {"kind": "mean", "weights": "uniform"}},
        "rounds": {"rounds": own["rounds"], "k": K},
        "evaluation": {"every": own["every"]},
    }


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Random and three numbers of candidates, on both skews; a seed is a population that all of them share.

    >>> sorted({each.key for each in experiments(STUDY.scale("smoke"))})[:2]
    ['mild/pow-15', 'mild/pow-6']
    """
    own = dict(scale.settings)
    return GRID.experiments(scale, {skew: config(alpha, own) for skew, alpha in SKEWS.items()}, FIRST)


def figures(results: Results) -> Sequence[Figure]:
    """Figure 4 of the paper: test accuracy and loss over rounds.

    >>> figures(Results({}))
    []
    """
    return GRID.figures(results, "Fig. 4")


def up_to(measure: Measure, claimed: float, least: Margin) -> Largest:
    """The most that any d gains on random selection with either skew."""
    margin = beyond_one(least) if measure.ratio else least
    parts = {
        f"{skew} skew, d = {d}": Contrast(
            "greater", measure, GRID.arm(skew, f"pow-{d}"), [GRID.arm(skew, "random")], margin, claimed=claimed
        )
        for skew in SKEWS
        for d in CANDIDATES
    }
    return Largest(parts, least)


def more_candidates(skew: str) -> Contrast:
    """Fifteen candidates against six: rounds to random's target."""
    return Contrast(
        "greater",
        ROUNDS_TO_TARGET,
        GRID.arm(skew, "pow-15"),
        [GRID.arm(skew, "pow-6")],
        PERCENT_5,
        baseline=GRID.arm(skew, "random"),
    )


def claim(key: str, title: str, text: str, source: str, paper: str, rule: Contrast | Largest | Parts) -> Claim:
    """A claim whose rule says itself what it asks for; unclear, it is run again with fresh seeds."""
    return Claim(key, title, text, source, paper, rule, replicated(experiments, GRID.keys, rule))


STUDY = Study(
    name="power-of-choice",
    title="Power-of-Choice on Fashion-MNIST",
    reference=SOURCE,
    about="100 clients hold samples with labels of their own mixture (Dirichlet 2 and 0.3); 3 are asked in a round. "
    "Pow-d draws d candidates in proportion to their samples, measures the present loss of each, and takes "
    "those with the largest. Random selection draws in proportion to samples, too; all updates weigh the same. "
    "Partition, network with dropout, batch, steps, learning rate and weight decay are those of the authors' public "
    f"code. Seeds begin at {FIRST}: nothing was chosen on them.",
    scales={
        "smoke": Scale(
            "smoke", 2, {"dataset": "digits", "rounds": 8, "every": 1, "lr": 0.05, "seconds": 0.3}, "a check"
        ),
        "laptop": Scale(
            "laptop",
            10,
            {"dataset": "fashion-mnist", "rounds": 300, "every": 5, "lr": 0.005, "seconds": 14.0},
            "ten minutes on two cores",
        ),
        "paper": Scale(
            "paper",
            20,
            {"dataset": "fashion-mnist", "rounds": 1000, "every": 5, "lr": 0.005, "seconds": 45.0},
            "longer runs, more populations",
        ),
    },
    experiments=experiments,
    figures=figures,
    tables=GRID.tables,
    claims=(
        claim(
            "faster",
            "It converges up to three times as fast",
            "Power-of-Choice reaches a given accuracy in up to a third of the rounds of random selection.",
            "abstract; Fig. 4",
            "up to 3 times",
            up_to(ROUNDS_TO_TARGET, 3.0, nearly(3.0, "3 times")),
        ),
        claim(
            "accuracy",
            "It ends up to ten points more accurate",
            "The model of Power-of-Choice is up to ten points more accurate in the end than that of random selection.",
            "abstract; Fig. 4",
            "up to 10 points",
            up_to(FINAL_ACCURACY, 0.1, nearly(0.1, "10 points")),
        ),
        claim(
            "candidates",
            "More candidates converge faster",
            "The larger d, the stronger the bias to high losses, and the faster the convergence.",
            "section 4; Fig. 4",
            "no number",
            Parts({f"{skew} skew": more_candidates(skew) for skew in SKEWS}),
        ),
        claim(
            "skew",
            "It does not lose where labels are mildly skewed",
            "With mild skew, Power-of-Choice is as accurate as random selection or better.",
            "Fig. 4a",
            "above random",
            Contrast("no worse", FINAL_ACCURACY, GRID.arm("mild", "pow-6"), [GRID.arm("mild", "random")], POINT),
        ),
    ),
    paper={
        "data": "Fashion-MNIST",
        "clients": "100",
        "partition": "Dirichlet 2 and 0.3, each class divided among those who have less than their share",
        "network": "mlp, hidden 64-30, dropout 0.5",
        "local training": "batch 64, steps 30, lr 0.005, halved after 150 and 300 rounds, weight_decay 0.0001",
        "clients per round": "3, averaged without weights",
        "rounds": "300",
        "methods": "random; pow-d with d = 6, 9, 15",
    },
    preload="enlist.simulation.comparison",
)
