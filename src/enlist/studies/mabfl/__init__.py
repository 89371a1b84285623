"""The study of MAB-FL: personalised learning by choosing a combination of workers with a bandit.

settings.py      data, training, the grid of Table 3 and what is beyond it, scales
experiments.py   what is run
rules.py         the numbers that claims compare, and the two rules that compare none
claims.py        what the thesis says, each with its rule
figures.py       pictures and tables
"""

from __future__ import annotations

from enlist.studies.mabfl.claims import CLAIMS
from enlist.studies.mabfl.experiments import experiments
from enlist.studies.mabfl.figures import figures, tables
from enlist.studies.mabfl.settings import SCALES
from enlist.studies.study import Study

MABFL = Study(
    name="mabfl",
    title="Personalisation by combination",
    reference='Fredrika Lundahl, "Personalization by Combination" (master thesis 2021:14, Stockholm University)',
    about="Four workers with 1 % of their data to train on; a bandit learns which pair serves worker 2 best. The "
    "thesis's data are not public: ours are drawn in their shape (`telecom`), so numbers may differ where claims "
    "hold. What it does not print was chosen on seeds that no verdict rests on: so that learning curves rise as "
    "in its Figure 8, and that the target alone is ahead with ten times the data. Whether the best pair gains from the "
    "first rounds on (Figure 9) is judged below. Extreme Explore tries every pair in every round, so that its Bayesian "
    "form orders pairs as the binary one does, and gives the same. Figures 12 and 15 of the thesis are schemes.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=CLAIMS,
    paper={
        "data": "40,000 rows of 153 inputs, not public; 1 % to train on, 40 % to validate, 59 % to test",
        "clients": "4, of which worker 2 is the target",
        "network": "four linear layers with three batch norms between them, ReLU; widths are not named",
        "local training": "SGD; learning rate and batch size are not named",
        "epochs per round": "4 and 6, then 6",
        "rounds": "10 to 20",
        "methods": "Table 3: ε-greedy, UCB, Thompson sampling, Extreme Explore",
        "seeds": "10 experiments per setting, all on one data set",
    },
    preload="enlist.personal",
)
