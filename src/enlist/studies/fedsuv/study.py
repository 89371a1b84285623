"""The study as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from enlist.studies.fedsuv import plane_figures, process_figures, tables, theory_figures, training_figures
from enlist.studies.fedsuv.claims import CLAIMS
from enlist.studies.fedsuv.plan import experiments
from enlist.studies.fedsuv.settings import EXTRAS, SCALES
from enlist.studies.results import Results
from enlist.studies.study import Figure, Study, Table, possible


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> len(figures(example_results())), figures(Results({}))
    (19, [])
    """
    makers = (*training_figures.FIGURES, *plane_figures.FIGURES, *process_figures.FIGURES, *theory_figures.FIGURES)
    return possible(makers, results)


def all_tables(results: Results) -> Sequence[Table]:
    """Every table whose experiments have been run; what the paper prints needs none.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> len(all_tables(example_results())), len(all_tables(Results({})))
    (9, 2)
    """
    makers = (
        tables.setting,
        tables.rounds_to_target,
        tables.rounds_to_lower_target,
        tables.final_accuracy,
        tables.every_selector,
        tables.process,
        tables.theorems,
        tables.printed_numbers,
        tables.printed_checks,
    )
    return [table for table in possible(makers, results) if table.rows]


FEDSUV = Study(
    name="fedsuv",
    title="Selection by validity and utility (FedSUV), reproduced",
    reference='"FedSUV: Validity and Utility-guided Client Selection for Federated Learning" (manuscript, 2024)',
    about="A linear model predicts who is in time (validity), a Gaussian process how much a client brings (utility); "
    "clients that are certainly worse are removed. Trained against random selection, SAFA, Oort, REFL and BSFL, and "
    "watched in the paper's own model world of 2,500 clients. The paper's phones and data splits are not public: "
    "ours are drawn in their likeness, and small models stand in for its ResNets where no GPU is at hand, so numbers "
    "may differ where claims hold. The deadline is then the one that 75 % of the clients meet.",
    scales=SCALES,
    experiments=experiments,
    figures=figures,
    tables=all_tables,
    claims=CLAIMS,
    extras=EXTRAS,
    preload="enlist.simulation.comparison",
)
