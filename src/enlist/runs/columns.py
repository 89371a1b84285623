"""The columns of a run's tables: what each means, its type, and which ones readers need.

This is the only place that defines them. `RoundRow` and `Participation` are rows in memory and, from left to right,
the columns of rounds.csv and participations.csv.
"""

from __future__ import annotations

from typing import Required, TypedDict


class RoundRow(TypedDict, total=False):
    """A row of rounds.csv. A value that is unknown or was not measured is missing, or NaN.

    >>> list(RoundRow.__annotations__)[:4]
    ['round', 'start', 'duration', 'end']
    """

    round: Required[int]
    """1, 2, ..."""
    start: float
    """Seconds when it began; later than the last `end` if no client was online."""
    duration: float
    """Seconds that it took."""
    end: float
    """Seconds when it ended."""
    available: int
    """Clients online at the start, including busy ones."""
    selected: int
    """Clients that were selected."""
    completed: int
    """Of these, how many replied in time."""
    late: int
    """How many the server did not wait for."""
    dropped: int
    """How many went offline."""
    failed: int
    """How many crashed, or sent something unusable."""
    arrived: int
    """Late updates of earlier rounds that arrived in this one; with `late = "merge"` they are merged."""
    deadline: float
    """Seconds; infinite without one."""
    accuracy: float
    """On the test set, where evaluated; NaN for a regression."""
    loss: float
    """On the test set, where evaluated; for a regression the mean squared error."""
    validation_accuracy: float
    """What the selector was told, if it needs it."""
    validation_loss: float
    """What the selector was told, if it needs it."""
    train_loss: float
    """Mean loss of the clients' first epochs, by samples."""
    bytes_down: int
    """Models sent to all selected clients."""
    bytes_up: int
    """Models received, including late ones."""
    energy: float
    """Joules spent by selected clients; only if energy is counted."""


class Participation(TypedDict, total=False):
    """A row of participations.csv: a selected client, or a late update that has arrived.

    A value that is unknown or was not measured is missing, or NaN.

    >>> list(Participation.__annotations__)[:4]
    ['round', 'selected_in', 'client', 'outcome']
    """

    round: Required[int]
    """The round in which the selector was told the outcome."""
    selected_in: Required[int]
    """The round in which the client was selected; earlier than `round` for one that arrived."""
    client: Required[int]
    """Its position."""
    outcome: Required[str]
    """completed, late, dropped, failed or arrived; a late update that turns out unusable is failed."""
    latency: float
    """Seconds."""
    censored: bool
    """Whether the server stopped waiting then: the true latency is longer."""
    download: float
    """Part of the latency, if completed."""
    compute: float
    """Part of the latency, if completed."""
    upload: float
    """Part of the latency, if completed."""
    num_examples: float
    """Distinct samples it trained on."""
    loss: float
    """Mean over the samples of the first epoch, each before its step."""
    loss_rms: float
    """Root mean square over the samples of the first epoch, each before its step."""
    loss_after: float
    """Mean loss on its samples after training, if measured."""
    accuracy: float
    """Of the model it was sent, on its samples, if measured."""
    accuracy_gain: float
    """After training minus before, if measured."""
    rounds_late: int
    """For one that arrived."""
    weight: float
    """Its weight in the mean; missing for medians."""
    reason: str | None
    """Why it failed."""
    energy: float
    """Joules that it spent; only if energy is counted."""
    user: str
    """The user whose samples these are; only where every client is a user of the data set."""


class Reason(TypedDict):
    """A row of reasons.csv: the terms by which a client was chosen, one column each, named by the selector.

    >>> list(Reason.__annotations__)
    ['round', 'client']
    """

    round: int
    """The round in which the client was selected."""
    client: int
    """Its position."""


ROUNDS = tuple(name for name in RoundRow.__annotations__ if name != "energy")
FAIRNESS = ("client_accuracy", "accuracy_worst_tenth", "accuracy_spread")
"""Further columns of rounds.csv: mean, worst tenth and deviation of clients' accuracies on samples of their own."""
ENERGY = "energy"
"""A further column of rounds.csv and participations.csv: joules spent by selected clients, if energy is counted."""
METRIC = "metric_"
"""Prefix of the columns of rounds.csv that hold the user's metrics."""
USER = "user"
"""The last column of clients.csv and participations.csv, where clients are users with ids; read as text."""
PARTICIPATIONS = tuple(name for name in Participation.__annotations__ if name not in (USER, ENERGY))
TABLES = {"rounds.csv": ROUNDS, "participations.csv": PARTICIPATIONS, "reasons.csv": tuple(Reason.__annotations__)}
NEEDED = {
    "rounds.csv": (
        "round",
        "start",
        "end",
        "available",
        "selected",
        "completed",
        "late",
        "dropped",
        "failed",
        "accuracy",
        "loss",
    ),
    "participations.csv": ("round", "selected_in", "client", "outcome"),
    "clients.csv": ("client", "num_examples"),
}
"""Columns without which a table cannot be read."""
SCORED = NEEDED["participations.csv"]
"""Columns of participations.csv that suffice for scores and reports of simulations."""
SCORED_FEDERATION = ("latency", "weight", "reason")
"""Further columns that scores and reports of a real federation use."""
NAMES = (USER, "id")
"""Columns of names of clients, in simulations and in real federations: text, though a name may look like a number."""
OPEN = frozenset({"reasons.csv"})
"""Tables with further columns, which their first row names."""
LARGEST = {"reasons.csv": 50_000_000}
"""Bytes after which nothing more is appended to a table."""
