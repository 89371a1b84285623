"""The study of MAB-FL: personalised learning by choosing a combination of workers with a bandit."""

from __future__ import annotations

from enlist.studies.mabfl.combinations import COMBINATIONS
from enlist.studies.mabfl.counts import COUNTS
from enlist.studies.mabfl.epochs import EPOCH_CLAIMS
from enlist.studies.mabfl.figures import figures
from enlist.studies.mabfl.ideas import IDEAS
from enlist.studies.mabfl.rules import RULES
from enlist.studies.mabfl.settings import SCALES, experiments
from enlist.studies.mabfl.tables import tables
from enlist.studies.mabfl.tuning import TUNING
from enlist.studies.study import Study

MABFL = Study(
    name="mabfl",
    title="Personalisation by combination, reproduced",
    reference='Fredrika Lundahl, "Personalization by Combination" (master thesis 2021:14, Stockholm University)',
    about=(
        "Four workers with 1 % of their data to train on; a bandit learns which pair serves worker 2 best. The "
        "thesis's data are not public: ours are drawn in their shape (`telecom`), so numbers may differ where claims "
        "hold. What it does not print (widths, learning rate, batch size, how alike workers are) was set, on seeds "
        "that the study does not use, so that the best pair reaches about 0.72 and passes its peak within 20 rounds."
    ),
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=(*COMBINATIONS, *EPOCH_CLAIMS, *TUNING, *RULES, *IDEAS, *COUNTS),
    preload="enlist.personal",
)
