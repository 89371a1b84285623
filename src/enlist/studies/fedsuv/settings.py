"""The scales: which tasks, which selection process, how many seeds."""

from __future__ import annotations

from enlist.studies.fedsuv.methods import OTHERS
from enlist.studies.fedsuv.tasks import LAPTOP, PAPER, SMOKE
from enlist.studies.study import Scale

FIRST_SEED = 200
"""Seeds begin here: no default of a selector was chosen by looking at them; FedSUV's was on 100 to 109."""
SWEEP = (45.0, 60.0, 90.0)
"""Percent of the clients that meet the deadline, in the further experiment on it."""
NOISES = (0.0, 0.1, 0.5)
"""Standard deviation of the noise on the features in the selection process."""

PROCESS = {"clients": 2500, "rounds": 100, "k": 20, "marks": [3, 10, 30, 100], "seconds": [0.4, 2.0]}
SEEDS = {"more": 5, "fewer": 0}
"""How many more seeds than the scale's FedSUV gets in the selection process, because theorems are about the share of
runs; and how many fewer the other selectors get."""

# `ablated` is the task in which parts of FedSUV are changed and `others` take part, too; `fewer` and `further_fewer`
# are how many seeds less than the scale's these and further experiments get.
SCALES = {
    "smoke": Scale(
        "smoke",
        2,
        {
            "tasks": SMOKE,
            "ablated": "mlp",
            "others": ["cu-cs", "e3cs"],
            "fewer": 1,
            "further_fewer": 1,
            "protocol_rounds": 3,
            "process": {"clients": 80, "rounds": 9, "k": 4, "marks": [3, 5, 7, 9], "seconds": [0.1, 0.1]}
            | {"more": 0, "fewer": 1},
        },
        "digits in place of Fashion-MNIST, 40 clients, 6 rounds",
    ),
    "laptop": Scale(
        "laptop",
        5,
        {
            "tasks": LAPTOP,
            "ablated": "mlp",
            "others": list(OTHERS),
            "fewer": 0,
            "further_fewer": 2,
            "protocol_rounds": 100,
            "process": PROCESS | SEEDS,
        },
        "Fashion-MNIST with an MLP, 300 rounds, 5 seeds, and a CNN, 200 rounds, 3 seeds; synthetic users",
    ),
    "paper": Scale(
        "paper",
        3,
        {
            "tasks": PAPER,
            "ablated": "cifar10-resnet18",
            "others": list(OTHERS),
            "fewer": 0,
            "further_fewer": 0,
            "protocol_rounds": 0,
            "process": {**PROCESS, "more": 17, "fewer": 0},
        },
        "the five tasks of Table 1, 1,000 rounds; for a machine with a GPU",
    ),
}
EXTRAS = {"cifar10": "CIFAR-10 with a small CNN and an MLP, 3,500 clients, 300 rounds, 3 seeds: about an hour more"}
