"""The study of Team Darts: a UCB that is rewarded with gains in accuracy, and a profile of mini-batches.

settings.py      the report's numbers, data, methods, scales
experiments.py   what is run
measures.py      the numbers that claims compare; rules.py the two rules that compare none
claims.py        what the report says, each with its rule
figures.py       pictures, and tables.py tables
"""

from __future__ import annotations

from enlist.studies.darts.claims import CLAIMS
from enlist.studies.darts.experiments import experiments
from enlist.studies.darts.figures import figures
from enlist.studies.darts.settings import CIFAR, CIFAR_SEEDS, EXTRAS, SCALES
from enlist.studies.darts.tables import tables
from enlist.studies.study import Study

DARTS = Study(
    name="darts",
    title="UCB client selection on skewed data",
    reference="Team Darts, report and slides of June 2025",
    about="12 clients hold very unequal data (Dirichlet 0.05). Mini-batches of several sizes are profiled. A bandit "
    "that is rewarded with gains in accuracy selects 3 clients per round, and is compared with random selection. The "
    "report shows one run; here, every number is from several populations.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=CLAIMS,
    extras=EXTRAS,
    extra_seeds={CIFAR: CIFAR_SEEDS},
    paper={
        "data": "CIFAR-10",
        "clients": "12",
        "partition": "Dirichlet 0.05",
        "network": "not given",
        "local training": "batch 16 (profiled: several), the rest is not given",
        "clients per round": "3",
        "rounds": "100 for each batch size, of which 20 are shown",
        "methods": "random; UCB with c = √2, ε = 0.1, 5 random rounds, gains 'normalised to [0, 1]'",
        "seeds": "one run",
    },
    preload="enlist.simulation.comparison",
)
