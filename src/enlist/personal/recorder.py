"""Personalised learning in a folder, where it can be killed and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from enlist.personal.config import PersonalConfig
from enlist.personal.personalisation import PersonalCallback, Personalisation
from enlist.personal.priors import Estimates
from enlist.personal.tables import PERSONAL_TABLES
from enlist.personal.workers import Workers
from enlist.runs.folder import RunFolder
from enlist.simulation.callbacks import Recorder
from enlist.training.flat import Vectors


def run_in(
    path: str | PathLike[str],
    config: PersonalConfig,
    *,
    workers: Workers | None = None,
    callbacks: Sequence[PersonalCallback] = (),
    resume: bool = False,
    model: Vectors | None = None,
    priors: Sequence[Estimates] = (),
    accept_changes: bool | None = None,
) -> dict[str, Any]:
    """Run a configuration in a folder, from its last checkpoint if `resume`; returns its result.

    `accept_changes` continues with files that were changed in the meantime, which are otherwise refused.

    >>> import tempfile
    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = run_in(folder + "/run", config)
    >>> result["rounds"]
    2
    """
    given: dict[str, Any] = {"workers": workers, "model": model, "priors": priors}
    return complete(config, path, callbacks=callbacks, resume=resume, accept_changes=accept_changes, **given).result()


def complete(
    config: PersonalConfig,
    path: str | PathLike[str] | None = None,
    *,
    resume: bool = False,
    callbacks: Sequence[PersonalCallback] = (),
    accept_changes: bool | None = None,
    **settings: Any,
) -> Personalisation:
    """Run a configuration to the end, in a folder or, without one, in memory; returns the run, with its models.

    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 1})
    >>> complete(config).round
    1
    """
    if path is None:
        run = Personalisation(config, callbacks=callbacks, **settings)
        run.run()
        return run
    values, code = config.model_dump(mode="json"), config.code()
    with RunFolder.open(
        path, values, resume=resume, tables=PERSONAL_TABLES, code=code, accept_changes=accept_changes
    ) as folder:
        recorder = Recorder(folder)
        run = Personalisation(config, callbacks=(recorder, *callbacks), **settings)
        recorder.restore(run)
        run.run()
        return run
