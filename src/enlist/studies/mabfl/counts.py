"""What is counted instead of measured: messages, pairs and overlaps, against the thesis's formulas."""

from __future__ import annotations

import numpy as np

from enlist.studies.results import Output

PRINTED = {"pairs": "6", "all": "k + 3", "extreme-delayed": "2k"}


def printed_messages(kind: str, workers: int) -> int:
    """Messages per round that the thesis prints for a way of playing.

    >>> printed_messages("pairs", 4), printed_messages("all", 6), printed_messages("extreme-delayed", 6)
    (6, 9, 12)
    """
    return {"pairs": 6, "all": workers + 3, "extreme-delayed": 2 * workers}[kind]


def printed_overlap(others: int) -> float:
    """Equation 12 with k − 1 = `others`: (k−1)/4 − 4^−(k−1).

    >>> printed_overlap(3)
    0.734375
    """
    return float(others / 4 - 4.0**-others)


def right_overlap(others: int) -> float:
    """What conditioning on two different combinations gives: (n/4 − n/2^(n+1)) / (1 − 2^−n).

    >>> round(right_overlap(3), 4)
    0.6429
    """
    return float((others / 4 - others / 2.0 ** (others + 1)) / (1 - 2.0**-others))


def messages_counted(output: Output) -> dict[str, tuple[float, float]]:
    """Messages per round, counted and printed."""
    rows = [row for row in output["rows"] if row["kind"] in PRINTED]
    said = {f"{row['kind']}, {row['workers']} workers": row for row in rows}
    return {name: (row["messages"], printed_messages(row["kind"], row["workers"])) for name, row in said.items()}


def messages_played(output: Output) -> dict[str, tuple[float, float]]:
    """Messages per round after the first of UCB and of Extreme Explore with delayed rewards."""
    played = [float(np.diff(each).mean()) for each in output["messages"]]
    return dict(zip(("pairs", "Extreme Explore, delayed"), zip(played, (6.0, 8.0), strict=True), strict=True))


def pairs_evaluated(output: Output) -> dict[str, tuple[float, float]]:
    """Pairs that Extreme Explore evaluates in a round with 6 workers, beyond one, and as a multiple of it."""
    tried = next(
        row["combinations"] for row in output["rows"] if row["kind"] == "extreme-delayed" and row["workers"] == 6
    )
    return {"more than one": (tried - 1, 5), "times as many": (tried, 5)}
