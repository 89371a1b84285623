"""The contents of a checkpoint: a federation after a round, the state of its strategy, its configurations."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedXgbBagging,
    FedYogi,
    QFedAvg,
    Result,
    Strategy,
)

from enlist._internal.typing import AnyArray
from enlist.errors import InputError, StateFileError
from enlist.flower import strategies
from enlist.flower.grid import LOGGER
from enlist.flower.replies.arrays import misshapen, shapes_from, shapes_of, shapes_to_save
from enlist.runs.checkpoints import Checkpoint

if TYPE_CHECKING:
    from enlist.flower.selecting import Selecting

BYTES = "base64"
METRICS = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")

COPIES: dict[type[Strategy], str] = {
    FedAdagrad: "current_arrays",
    FedAdam: "current_arrays",
    FedYogi: "current_arrays",
    QFedAvg: "current_arrays",
    DifferentialPrivacyServerSideFixedClipping: "current_arrays",
    DifferentialPrivacyServerSideAdaptiveClipping: "current_arrays",
    FedXgbBagging: "current_bst",
}
"""Attributes in which Flower's own configure_train stores the model at the beginning of every round."""


def restored(selecting: Selecting, initial_arrays: ArrayRecord) -> Result:
    """Restore a federation from its last checkpoint; returns the model and metrics to begin with.

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
    saved = selecting.run_folder.restore()
    if saved is None:
        if selecting.run_folder.decisions is not None:
            selecting.run_folder.decisions.cut(None)
        selecting.began_with = shapes_of(initial_arrays)
        return Result(arrays=initial_arrays)
    header = saved.header
    selecting.began_with = shapes_from(header["initial"]) if header.get("initial") else None
    _check_initial(selecting, initial_arrays)
    folder = saved.folder / "selector" if header["selector"] else None
    selecting.federation.restore(header["federation"], saved.arrays, folder)
    selecting.run_folder.follow(selecting.federation, header["decisions"])
    unpack_strategy(selecting.strategy, header["strategy"], saved.weights.get("strategy", {}))
    selecting.round, selecting.started, selecting.elapsed = header["round"], header["started"], header["elapsed"]
    selecting.training.forms = [shapes_from(form) for form in header["forms"]]
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
        "forms": [shapes_to_save(form) for form in selecting.training.forms],
        "initial": None if began is None else shapes_to_save(began),
        "configs": selecting.configs.to_save(),
        "metrics": json.dumps(history),  # as text: storage writes JSON with indents, which is slow
    }
    selecting.run_folder.save(
        selecting.round, header, selecting.federation, selecting.strategy, result.arrays, selecting.initial
    )


def _check_initial(selecting: Selecting, arrays: ArrayRecord) -> None:
    """Refuse to continue with another model than the run began with; version 0.1 did not record it."""
    if selecting.began_with is None or strategies.any_shape(selecting.strategy):
        return
    if other := misshapen(shapes_of(arrays), selecting.began_with):
        raise InputError(
            f"{selecting.terms.folder} holds a run that began with another model: of initial_arrays, {other}; pass "
            "the model that it began with, or name a new folder."
        )


def _metrics(rounds: Mapping[str, Mapping[str, Any]]) -> dict[int, MetricRecord]:
    return {int(number): MetricRecord(dict(values)) for number, values in rounds.items()}


def saved_model(checkpoint: Checkpoint) -> ArrayRecord:
    """The model of a checkpoint, with its arrays in the strategy's order.

    >>> import types
    >>> import numpy as np
    >>> model = {"bias": np.zeros(2), "weight": np.ones((2, 3))}
    >>> saved = types.SimpleNamespace(header={"names": ["weight", "bias"]}, weights={"model": model}, folder="run")
    >>> list(saved_model(saved))
    ['weight', 'bias']
    """
    model = checkpoint.weights["model"]
    try:
        return ArrayRecord({name: Array(model[name]) for name in checkpoint.header["names"]})
    except KeyError as error:
        raise StateFileError(f"{checkpoint.folder} lacks array {error}; restore it from a copy.") from None


def plain_settings(strategy: Strategy) -> dict[str, Any]:
    """The plain-valued attributes of a strategy, as they are when it is wrapped.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> plain_settings(FedAvg())["weighted_by_key"]
    'num-examples'
    """
    found = {name: value for name, value in _attributes(strategy).items() if _is_plain(value)}
    held = strategies.held_by(strategy)
    return {**found, "strategy": plain_settings(getattr(strategy, held))} if held else found


def pack_strategy(
    strategy: Strategy, initial: Mapping[str, Any], arrays: dict[str, AnyArray]
) -> tuple[dict[str, Any], list[str]]:
    """The state of a strategy: attributes that hold arrays, or differ from their initial values.

    Returns them for JSON, with arrays moved into `arrays`, and the names of those that cannot be saved.

    >>> from flwr.serverapp.strategy import FedAdam
    >>> strategy, arrays = FedAdam(), {}
    >>> initial = plain_settings(strategy)
    >>> strategy.m_t = {"w": np.ones(2)}
    >>> pack_strategy(strategy, initial, arrays)
    ({'m_t': {'dict': [['w', {'array': 'm_t/w'}]]}}, [])
    """
    found: dict[str, Any] = {}
    unsaved: list[str] = []
    for name, value in _attributes(strategy).items():
        if _is_plain(value) and name in initial and initial[name] == value:
            continue
        parts: dict[str, AnyArray] = {}
        try:
            found[name] = _packed(value, name, parts)
            arrays |= parts
        except TypeError:
            unsaved.append(f"{type(strategy).__name__}.{name}")
    if held := strategies.held_by(strategy):
        own: dict[str, AnyArray] = {}
        packed, lost = pack_strategy(getattr(strategy, held), initial.get("strategy", {}), own)
        found["strategy"] = {"inner": packed, "outer": type(strategy).__name__}
        arrays |= {f"strategy/{name}": value for name, value in own.items()}
        unsaved += lost
    return found, unsaved


def unpack_strategy(strategy: Strategy, packed: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Restore the state of a strategy.

    >>> from flwr.serverapp.strategy import FedAdam
    >>> strategy = FedAdam()
    >>> unpack_strategy(strategy, {"m_t": {"dict": [["w", {"array": "m_t/w"}]]}}, {"m_t/w": np.ones(2)})
    >>> strategy.m_t
    {'w': array([1., 1.])}
    """
    name, inside = strategies.held_by(strategy), packed.get("strategy", {})
    if "inner" not in inside:  # saved by a strategy that held no other, so it belongs to the innermost one
        strategy = strategies.innermost(strategy)
    elif name is not None:
        own = {path.removeprefix("strategy/"): array for path, array in arrays.items()}
        unpack_strategy(getattr(strategy, name), inside["inner"], own)
    else:
        outer, now = inside.get("outer", "a wrapper"), type(strategy).__name__
        raise InputError(
            f"the run was saved with {outer}, which holds another strategy, and {now} holds none; continue it with "
            f"{outer}, or name a new folder."
        )
    for name, value in packed.items():
        if "inner" not in value:
            setattr(strategy, name, _unpacked(value, arrays))


def _attributes(strategy: Strategy) -> dict[str, Any]:
    """The attributes that may hold a strategy's state, including private ones, except copies of the model."""
    kinds = [kind for kind in COPIES if isinstance(strategy, kind)]
    copies = {COPIES[kind] for kind in kinds if type(strategy).configure_train is kind.configure_train}
    ignored = logging.Logger | type(threading.Lock()) | type(threading.RLock())
    return {
        name: value
        for name, value in vars(strategy).items()
        if name not in copies
        and not callable(value)
        and not strategies.is_strategy(value)
        and not isinstance(value, ignored)
    }


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _packed(value: Any, path: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    if _is_plain(value):
        return {"value": value}
    if isinstance(value, np.generic):
        return {"value": value.item()}
    if isinstance(value, bytes):
        arrays[path] = np.frombuffer(value, dtype=np.uint8)
        return {"bytes": path}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays[path] = value.copy(order="C")
        return {"array": path}
    if isinstance(value, ArrayRecord):
        names = list(value)
        return {"record": [[name, _packed(value[name].numpy(), f"{path}/{name}", arrays)] for name in names]}
    if isinstance(value, Mapping) and all(map(_is_plain, value)):
        return {"dict": [[key, _packed(item, f"{path}/{key}", arrays)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_packed(item, f"{path}/{place}", arrays) for place, item in enumerate(value)]}
    raise TypeError(f"{type(value).__name__} cannot be saved")


def _unpacked(packed: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Any:
    if "value" in packed:
        return packed["value"]
    if "array" in packed:
        return arrays[packed["array"]]
    if "bytes" in packed:
        return arrays[packed["bytes"]].tobytes()
    if "record" in packed:
        return ArrayRecord({name: Array(_unpacked(item, arrays)) for name, item in packed["record"]})
    if "dict" in packed:
        return {key: _unpacked(item, arrays) for key, item in packed["dict"]}
    return [_unpacked(item, arrays) for item in packed["list"]]


class Configs:
    """The records of `train_config` and `evaluate_config`, as passed and as changed by the strategy.

    >>> first = Configs(ConfigRecord({"lr": 0.1, "epochs": 2}), ConfigRecord())
    >>> first.train["lr"] = 0.05
    >>> second = Configs(ConfigRecord({"lr": 0.1, "epochs": 3}), ConfigRecord())
    >>> second.restore(first.to_save())
    >>> dict(second.train)
    {'lr': 0.05, 'epochs': 3}
    """

    def __init__(self, train: ConfigRecord, evaluate: ConfigRecord) -> None:
        self.train, self.evaluate = train, evaluate
        self.given = {"train": dict(train), "evaluate": dict(evaluate)}

    def to_save(self) -> str:
        """Both as text: as passed, and as they are now."""
        now = {"train": dict(self.train), "evaluate": dict(self.evaluate)}
        return json.dumps({"given": self.given, "now": now}, default=_bytes)

    def restore(self, saved: str | None) -> None:
        """Apply the saved changes to the records; entries that the user passes with new values keep these."""
        if saved is None:  # written by version 0.1
            return
        found = json.loads(saved, object_hook=_back)
        for record, name in ((self.train, "train"), (self.evaluate, "evaluate")):
            _change(record, found["given"][name], found["now"][name])


def _change(record: ConfigRecord, given: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    absent = object()
    for key in {**given, **now}:
        before, after = given.get(key, absent), now.get(key, absent)
        if before is not after and before != after and record.get(key, absent) == before:
            if after is absent:
                del record[key]
            else:
                record[key] = after


def _bytes(value: bytes) -> dict[str, str]:
    return {BYTES: base64.b64encode(value).decode()}


def _back(found: dict[str, Any]) -> Any:
    """Decode bytes; no other value of a ConfigRecord is a dict."""
    return base64.b64decode(found[BYTES]) if list(found) == [BYTES] else found
