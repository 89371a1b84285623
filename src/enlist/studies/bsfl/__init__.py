"""The study of BSFL. Read settings, experiments, claims (with the few odd rules), figures."""

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
    about="Its figures have no numbers, and it prints neither alpha, beta, latencies nor data sizes. Here one client "
    "in ten is ten times slower, and beta is 1. BSFL as printed has the full bonus, Eqs. 3 and 4 as they stand, and "
    f"alpha = {ALPHA[SMALL]:g} with 5 of 20 clients, {ALPHA[LARGE]:g} with 25 of 500, our choice, made on development "
    "seeds; our default has a normalised g, targets of at most 1, and a tenth of the bonus. Rivals are as printed. "
    f"Claims are judged by what is printed. Seeds begin at {FIRST}: nothing was chosen on them.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=CLAIMS,
    extras=EXTRAS,
    preload="enlist.simulation.comparison",
)
