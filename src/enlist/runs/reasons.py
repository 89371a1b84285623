"""Why clients were chosen: the terms of every choice, as reasons.csv keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.records import Selection
from enlist.runs.columns import TABLES

OWN = TABLES["reasons.csv"]
"""Columns that are not terms."""
MOST_ROWS = 500_000
"""Number of choices whose reasons a run without a folder keeps; about as many as fit into the file."""
DIGITS = ".6g"
"""Terms are kept to be read and plotted; with all their digits they would take twice the space."""


def reason_rows(round: int, clients: Sequence[int], terms: Mapping[str, AnyArray]) -> list[dict[str, Any]]:
    """The rows of a round: one for each client, in the order of `terms`; none if there are no terms.

    >>> import numpy as np
    >>> reason_rows(3, [4, 7], {"mean": np.array([1 / 3, np.nan])})
    [{'round': 3, 'client': 4, 'mean': '0.333333'}, {'round': 3, 'client': 7, 'mean': None}]
    """
    columns = [
        [format(value, DIGITS) if value == value else None for value in values.tolist()]  # NaN is not itself
        for values in terms.values()
    ]
    names = [_column(name) for name in terms]
    return [
        {"round": round, "client": client, **dict(zip(names, cells, strict=True))}
        for client, *cells in zip(clients, *columns, strict=True)
        if names
    ]


def reasons_of(selection: Selection) -> dict[str, AnyArray]:
    """Why clients were chosen: the terms of their scores and, if they were drawn, the probabilities.

    >>> import enlist
    >>> selector = enlist.create("clustered", enlist.Clients(num_examples=[30, 10, 10, 10]), seed=1)
    >>> {name: values.round(2).tolist() for name, values in reasons_of(selector.ask(k=2)).items()}
    {'share': [0.5, 0.17], 'probability': [1.0, 0.33]}
    """
    drawn = selection.probabilities
    return {**selection.terms, **({} if drawn is None else {"probability": drawn})}


def reason_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, AnyArray]:
    """Rows as columns of numbers, as reasons.csv is read; the first row names them.

    >>> import numpy as np
    >>> reason_table(reason_rows(3, [4, 7], {"mean": np.array([0.5, np.nan])}))["mean"]
    array([0.5, nan])
    """
    cells = {name: [row.get(name) for row in rows] for name in (rows[0] if rows else ())}
    return {
        name: np.array([np.nan if cell is None else cell for cell in column]).astype(float)
        for name, column in cells.items()
    }


def _column(term: str) -> str:
    """The name of a term as a column: on one line, and different from existing columns."""
    name = " ".join(term.split())
    return f"{name}_term" if name in OWN else name
