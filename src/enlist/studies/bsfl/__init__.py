"""The study of BSFL: bandits for short rounds and even participation, in the arena, in trainings, and its annealing.

settings.py      populations, methods, alpha, scales
experiments.py   what is run; annealing.py the paper's two ways of searching a set
rules.py         the few odd rules; measures.py the numbers that claims compare
claims.py        what the paper says, each with its rule
figures.py       pictures, and tables.py tables
"""

from __future__ import annotations

from enlist.studies.bsfl.claims import CLAIMS
from enlist.studies.bsfl.experiments import experiments
from enlist.studies.bsfl.figures import figures
from enlist.studies.bsfl.settings import ALPHA, EXTRAS, FIRST, LARGE, SCALES, SMALL
from enlist.studies.bsfl.tables import tables
from enlist.studies.study import Study

STUDY = Study(
    name="bsfl",
    title="BSFL: bandit client selection for speed and generalisation",
    reference="Ben Ami, Cohen and Zhao, Client Selection for Generalization in Accelerated Federated Learning: A "
    "Multi-Armed Bandit Approach, 2023",
    about="The paper's figures have no numbers, and it gives neither alpha, beta, latencies nor data sizes. Here one "
    "client in ten is ten times slower, and beta is 1. BSFL as printed has the full bonus, Eqs. 3 and 4 unchanged, and "
    f"alpha = {ALPHA[SMALL]:g} with 5 of 20 clients and {ALPHA[LARGE]:g} with 25 of 500: our choice, made on "
    "development seeds. Our default has a normalised g, targets of at most 1, and a tenth of the bonus. Rivals are as "
    f"printed, and the printed algorithms decide the claims. Seeds begin at {FIRST}: nothing was chosen on them.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=CLAIMS,
    extras=EXTRAS,
    paper={
        "data": "synthetic data for linear regression; Fashion-MNIST and CIFAR-10",
        "clients": "20 (regression and regret); 500 (images); 8 and 500 (annealing)",
        "partition": "iid with the same number of images of each class; non-iid with different amounts and classes",
        "network": "linear regression; a CNN with max-pooling, dense layers and dropout, sizes not given",
        "local training": "not given",
        "clients per round": "5 of 20; 25 of 500; 4 of 8 (Fig. 3)",
        "rounds": "not given; all methods train for the same time",
        "methods": "iid: BSFL, CS-UCB, random; non-iid: BSFL, CS-UCB-Q, random by size; alpha and beta not given",
        "seeds": "not given; thousands of runs (annealing)",
    },
    preload="enlist.simulation.comparison",
)
