"""The study of FedSUV: validity and utility by two models, in trainings, in the paper's model world, and its theorems.

settings.py      what the paper prints, methods, tasks, regimes, scales
experiments.py   what is run; process.py the paper's selection process and the bounds of its theorems
rules.py         the numbers that claims compare, and one odd rule
claims.py        what the paper says, each with its rule
figures.py       pictures and tables
"""

from __future__ import annotations

from enlist.studies.fedsuv.claims import CLAIMS
from enlist.studies.fedsuv.experiments import experiments
from enlist.studies.fedsuv.figures import figures, tables
from enlist.studies.fedsuv.settings import EXTRAS, FIRST, SCALES
from enlist.studies.study import Study

STUDY = Study(
    name="fedsuv",
    title="FedSUV: selection by validity and utility",
    reference='"FedSUV: Validity and Utility-guided Client Selection for Federated Learning" (manuscript, 2024)',
    about="A linear model predicts who is in time (validity), a Gaussian process how much a client contributes "
    "(utility); clients that are certainly worse are removed. The paper's phones and splits are not public: here a "
    "table of features is drawn, durations follow from it, and phones are online by day and night. Small models "
    "replace its networks where there is no GPU. Oort is as printed; SAFA selects before training; REFL uses late "
    "updates. Six more settings, with averaging and four seeds each, were tried to reach its largest speed-up over "
    "random selection; others may exist. "
    f"The printed algorithms decide the claims. Seeds begin at {FIRST}: nothing was chosen on them.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=CLAIMS,
    extras=EXTRAS,
    paper={
        "data": "CIFAR-10, CIFAR-100, FEMNIST, GoogleSpeech; a unit square of clients (process)",
        "clients": "3,500 (2,618 on GoogleSpeech); 2,500 (process)",
        "partition": "not given (FEMNIST and GoogleSpeech: by user)",
        "network": "ResNet-18, MobileNet, ShuffleNet, ResNet-34",
        "local training": "lr 0.01 to 0.05, 1 epoch (FEMNIST: 5), batch 10 to 20",
        "clients per round": "20, rounds of at most 100 s",
        "rounds": "1,000; 100 (process)",
        "methods": "FedAvg, SAFA, Oort, REFL, FedSUV with ρ = 0.4",
        "seeds": "probably one run",
    },
    preload="enlist.simulation.comparison",
)
