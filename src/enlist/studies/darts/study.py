"""The study as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from enlist.studies.darts import (
    bonus,
    data_figures,
    profile_figures,
    profile_tables,
    selection_figures,
    selection_tables,
)
from enlist.studies.darts.claims import CLAIMS
from enlist.studies.darts.plan import experiments
from enlist.studies.darts.settings import CIFAR, CIFAR_SEEDS, EXTRAS, SCALES
from enlist.studies.results import Results
from enlist.studies.study import Figure, Study, Table, possible


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> from enlist.studies.darts.example import example_results
    >>> len(figures(example_results())), figures(Results({}))
    (24, [])
    """
    makers = [
        data_figures.data_figures,
        profile_figures.profile_figures,
        profile_figures.rounds_figures,
        selection_figures.curve_figures,
        selection_figures.picking_figures,
        selection_figures.cost_figures,
    ]
    return [figure for some in possible(makers, results) for figure in some]


def all_tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run.

    >>> from enlist.studies.darts.example import example_results
    >>> len(all_tables(example_results())), all_tables(Results({}))
    (12, [])
    """
    makers = [
        selection_tables.setting,
        data_figures.distribution,
        profile_tables.batch_sizes,
        profile_tables.weightings,
        profile_tables.profile,
        profile_tables.by_client,
        profile_tables.most_selected,
        selection_tables.at_rounds,
        selection_tables.methods,
        bonus.tuning,
        selection_tables.server_cost,
        selection_tables.curves,
    ]
    return possible(makers, results)


DARTS = Study(
    name="darts",
    title="UCB client selection on skewed data",
    reference="Team Darts, report and slides of June 2025",
    about="12 clients hold very unequal data (Dirichlet 0.05). Mini-batches of several sizes are profiled, and a "
    "bandit that is rewarded with gains in accuracy selects 3 clients a round, against random selection. The report "
    "shows one run; here every number stands for several populations. 'What was run' says which data set was used.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=all_tables,
    claims=CLAIMS,
    extras=EXTRAS,
    extra_seeds={CIFAR: CIFAR_SEEDS},
    preload="enlist.simulation.comparison",
)
