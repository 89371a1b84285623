"""What of a federation is put into a checkpoint, and taken out of it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result

from enlist.errors import InputError
from enlist.flower import wrapping
from enlist.flower.attributes import unpack_strategy
from enlist.flower.contents import misshapen, shapes_from, shapes_of, shapes_to_save
from enlist.flower.state import LOGGER, saved_model

if TYPE_CHECKING:
    from enlist.flower.strategy import Selecting

METRICS = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")


def restored(selecting: Selecting, initial_arrays: ArrayRecord) -> Result:
    """Bring a federation to where its last checkpoint was made; returns the model and metrics to begin with.

    >>> import tempfile
    >>> import numpy as np
    >>> from enlist.flower import with_selector
    >>> from enlist.flower.fake import FakeGrid
    >>> from flwr.serverapp.strategy import FedAvg
    >>> place, grid = tempfile.mkdtemp(), FakeGrid([11, 12])
    >>> for rounds in (2, 3):
    ...     strategy = with_selector(FedAvg(fraction_evaluate=0.0), k=2, folder=place)
    ...     strategy.clock = grid.clock
    ...     _ = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=rounds)
    >>> strategy.round, len(grid.sent)
    (3, 6)
    """
    saved = selecting.keeper.restore()
    if saved is None:
        if selecting.keeper.decisions is not None:
            selecting.keeper.decisions.cut(None)
        selecting.began_with = shapes_of(initial_arrays)
        return Result(arrays=initial_arrays)
    header = saved.header
    selecting.began_with = shapes_from(header["initial"]) if header.get("initial") else None
    _check_initial(selecting, initial_arrays)
    folder = saved.folder / "selector" if header["selector"] else None
    selecting.federation.restore(header["federation"], saved.arrays, folder)
    selecting.keeper.follow(selecting.federation, header["decisions"])
    unpack_strategy(selecting.strategy, header["strategy"], saved.weights.get("strategy", {}))
    selecting.round, selecting.started, selecting.elapsed = header["round"], header["started"], header["elapsed"]
    selecting.forms = [shapes_from(form) for form in header["forms"]]
    selecting.configs.restore(header.get("configs"))
    LOGGER.info("enlist: continuing after round %d of %s", selecting.round, selecting.terms.folder)
    metrics = {name: _metrics(rounds) for name, rounds in json.loads(header["metrics"]).items()}
    return Result(arrays=saved_model(saved), **metrics)


def save(selecting: Selecting, result: Result) -> None:
    """Make a checkpoint after the last finished round.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from enlist.flower import with_selector
    >>> from enlist.flower.fake import FakeGrid
    >>> from flwr.serverapp.strategy import FedAvg
    >>> place, grid = tempfile.mkdtemp(), FakeGrid([11, 12])
    >>> strategy = with_selector(FedAvg(fraction_evaluate=0.0), k=2, folder=place)
    >>> strategy.clock = grid.clock
    >>> _ = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=2)
    >>> from enlist.runs.folder import Checkpoint
    >>> [Checkpoint(path).header["initial"] for path in (Path(place) / "checkpoints").iterdir()]
    [[['0', [2]]]]
    """
    history = {name: {str(number): dict(value) for number, value in getattr(result, name).items()} for name in METRICS}
    began = selecting.began_with
    header = {
        "started": selecting.started,
        "elapsed": selecting.elapsed,
        "forms": [shapes_to_save(form) for form in selecting.forms],
        "initial": None if began is None else shapes_to_save(began),
        "configs": selecting.configs.to_save(),
        "metrics": json.dumps(history),  # as text: storage writes JSON with indents, which is slow
    }
    selecting.keeper.save(
        selecting.round, header, selecting.federation, selecting.strategy, result.arrays, selecting.initial
    )


def _check_initial(selecting: Selecting, arrays: ArrayRecord) -> None:
    """Refuse to go on with another model than the run began with; version 0.1 did not note it."""
    if selecting.began_with is None or wrapping.any_shape(selecting.strategy):
        return
    if other := misshapen(shapes_of(arrays), selecting.began_with):
        raise InputError(
            f"{selecting.terms.folder} holds a run that began with another model: of initial_arrays, {other}; pass "
            "the model that it began with, or name a new folder."
        )


def _metrics(rounds: Mapping[str, Mapping[str, Any]]) -> dict[int, MetricRecord]:
    return {int(number): MetricRecord(dict(values)) for number, values in rounds.items()}
