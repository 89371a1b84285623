"""BSFL (Ben Ami, Cohen and Zhao 2023): bandit scheduling for federated learning, and its annealing."""

from __future__ import annotations

from collections.abc import Sequence

from enlist.studies.bsfl import figures_regret, figures_solving, figures_training
from enlist.studies.bsfl.claims_annealing import ANNEALING
from enlist.studies.bsfl.claims_arena import ARENA
from enlist.studies.bsfl.claims_problem import PROBLEM
from enlist.studies.bsfl.claims_regret import REGRET
from enlist.studies.bsfl.claims_training import TRAINING
from enlist.studies.bsfl.plan import experiments
from enlist.studies.bsfl.settings import EXTRAS, SCALES
from enlist.studies.bsfl.tables import all_tables
from enlist.studies.results import Results
from enlist.studies.study import Figure, Study


def figures(results: Results) -> Sequence[Figure]:
    """Every figure.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [figure.name for figure in figures(example_results())][:5]
    ['generalisation', 'graphs', 'energies', 'races', 'regret']
    """
    found = [
        figures_solving.generalisation(),
        figures_solving.graphs(results),
        figures_solving.energies(results),
        figures_solving.races(results),
        figures_regret.small(results),
        figures_regret.fitted(results),
        figures_regret.large(results),
        figures_regret.selections(results),
        *figures_training.all_figures(results),
        figures_regret.sensitivity(results),
    ]
    return [figure for figure in found if figure is not None]


BSFL = Study(
    name="bsfl",
    title="BSFL: bandit client selection for speed and generalisation",
    reference="Ben Ami, Cohen and Zhao, Client Selection for Generalization in Accelerated Federated Learning: A "
    "Multi-Armed Bandit Approach, 2023",
    about="Its figures have no numbers, and it prints neither alpha, beta, latencies nor data sizes: BSFL is shown as "
    "printed (alpha = beta = 1, the full bonus) and with our default (normalised g, a tenth of the bonus), with one "
    "client in ten ten times slower.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=all_tables,
    claims=(*PROBLEM, *ANNEALING, *REGRET, *ARENA, *TRAINING),
    extras=EXTRAS,
)
