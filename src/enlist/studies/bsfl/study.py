"""The study as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enlist.studies.bsfl import figures_regret, figures_solving, figures_training, tables
from enlist.studies.bsfl.claims_annealing import ANNEALING
from enlist.studies.bsfl.claims_arena import ARENA
from enlist.studies.bsfl.claims_problem import PROBLEM
from enlist.studies.bsfl.claims_regret import REGRET
from enlist.studies.bsfl.claims_training import TRAINING
from enlist.studies.bsfl.plan import experiments
from enlist.studies.bsfl.settings import EXTRAS, SCALES
from enlist.studies.results import Results
from enlist.studies.study import Figure, Study, Table, possible


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [figure.name for figure in figures(example_results())][:5]
    ['generalisation', 'graphs', 'energies', 'races', 'regret']
    >>> [figure.name for figure in figures(Results({}))]
    ['generalisation']
    """
    makers: list[Callable[[Results], Figure]] = [
        figures_solving.generalisation,
        figures_solving.graphs,
        figures_solving.energies,
        figures_solving.races,
        figures_regret.small,
        figures_regret.fitted,
        figures_regret.large,
        figures_regret.bounds,
        figures_regret.selections,
        figures_training.linear,
        *figures_training.PICTURES,
        figures_regret.sensitivity,
    ]
    return possible(makers, results)


def all_tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [table.name for table in all_tables(example_results())]
    ['degrees', 'edges', 'solvers', 'regret', 'theorem-1', 'linear', 'mlp', 'cnn', 'defaults', 'sensitivity']
    >>> all_tables(Results({}))
    []
    """
    makers: list[Callable[[Results], Table]] = [
        tables.degrees,
        tables.edges,
        tables.solvers,
        tables.regrets,
        tables.theorem,
        *tables.ENDINGS,
        tables.defaults,
        tables.sensitivity,
    ]
    return possible(makers, results)


BSFL = Study(
    name="bsfl",
    title="BSFL: bandit client selection for speed and generalisation",
    reference="Ben Ami, Cohen and Zhao, Client Selection for Generalization in Accelerated Federated Learning: A "
    "Multi-Armed Bandit Approach, 2023",
    about="Its figures have no numbers, and it prints neither alpha, beta, latencies nor data sizes. Here one client "
    "in ten is ten times slower; BSFL is shown as printed (alpha = beta = 1, the full bonus) and with our default "
    "(normalised g, a tenth of the bonus). Claims are judged by what is printed, with our defaults beside it. Seeds "
    "begin at 600: nothing was chosen on them.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=all_tables,
    claims=(*PROBLEM, *ANNEALING, *REGRET, *ARENA, *TRAINING),
    extras=EXTRAS,
    preload="enlist.simulation.comparison",
)
