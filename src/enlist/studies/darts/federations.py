"""One run of the study: the ordinary simulation, and what each client that took part reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from enlist.studies.experiments import simulation
from enlist.studies.study import Settings

REPORTED = ("latency", "loss", "accuracy", "accuracy_gain")


def federation(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A simulation in which everybody who is asked replies, so that each round has k participations.

    Returned is what `studies.experiments.simulation` returns and, of clients (N,): `samples`, `quality` (share of right
    labels); of participations (rounds, k), a row per round: `who` took part, its `local_accuracy` on its own samples
    after training, its `local_loss` while it trained, and its `latency` in virtual seconds.

    >>> import tempfile
    >>> config = {"data": {"clients": 6}, "training": {"measure": True}, "rounds": {"rounds": 4, "k": 2}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = federation({"selector": "random", "config": config}, 1, Path(folder))
    >>> found["who"].shape, found["samples"].shape, bool((found["local_accuracy"] <= 1).all())
    ((4, 2), (6,), True)
    """
    from enlist.runs.columns import SCORED
    from enlist.runs.tables import read_run

    found = simulation(settings, seed, folder)
    tables = read_run(folder / "run", {*SCORED, *REPORTED})
    shape = (len(tables.rounds["round"]), -1)
    reported = {name: tables.participations[name].reshape(shape) for name in REPORTED}
    return {
        **found,
        "who": tables.who.reshape(shape),
        "local_accuracy": np.minimum(reported["accuracy"] + reported["accuracy_gain"], 1.0),
        "local_loss": reported["loss"],
        "latency": reported["latency"],
        "samples": tables.clients["samples"],
        "quality": tables.clients["quality"],
    }
