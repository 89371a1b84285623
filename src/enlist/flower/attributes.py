"""What a strategy accumulates in its attributes, for JSON and arrays: moments, counters, whatever has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedXgbBagging,
    FedYogi,
    QFedAvg,
    Strategy,
)

from enlist._internal.typing import AnyArray
from enlist.errors import InputError
from enlist.flower import wrapping

COPIES: dict[type[Strategy], str] = {
    FedAdagrad: "current_arrays",
    FedAdam: "current_arrays",
    FedYogi: "current_arrays",
    QFedAvg: "current_arrays",
    DifferentialPrivacyServerSideFixedClipping: "current_arrays",
    DifferentialPrivacyServerSideAdaptiveClipping: "current_arrays",
    FedXgbBagging: "current_bst",
}
"""Attributes into which Flower's own configure_train puts the model at the beginning of every round."""


def plain_settings(strategy: Strategy) -> dict[str, Any]:
    """The attributes of a strategy that are plain values, as they are when it is wrapped.

    >>> from flwr.serverapp.strategy import FedAvg
    >>> plain_settings(FedAvg())["weighted_by_key"]
    'num-examples'
    """
    found = {name: value for name, value in _attributes(strategy).items() if _is_plain(value)}
    held = wrapping.held_by(strategy)
    return {**found, "strategy": plain_settings(getattr(strategy, held))} if held else found


def pack_strategy(
    strategy: Strategy, initial: Mapping[str, Any], arrays: dict[str, AnyArray]
) -> tuple[dict[str, Any], list[str]]:
    """What a strategy has accumulated: attributes that hold arrays, or differ from what they were at first.

    Returns them for JSON, with arrays put into `arrays`, and the names of those that cannot be saved.

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
    if held := wrapping.held_by(strategy):
        own: dict[str, AnyArray] = {}
        packed, lost = pack_strategy(getattr(strategy, held), initial.get("strategy", {}), own)
        found["strategy"] = {"inner": packed, "outer": type(strategy).__name__}
        arrays |= {f"strategy/{name}": value for name, value in own.items()}
        unsaved += lost
    return found, unsaved


def unpack_strategy(strategy: Strategy, packed: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Give a strategy back what it had accumulated.

    >>> from flwr.serverapp.strategy import FedAdam
    >>> strategy = FedAdam()
    >>> unpack_strategy(strategy, {"m_t": {"dict": [["w", {"array": "m_t/w"}]]}}, {"m_t/w": np.ones(2)})
    >>> strategy.m_t
    {'w': array([1., 1.])}
    """
    name, inside = wrapping.held_by(strategy), packed.get("strategy", {})
    if "inner" not in inside:  # of a strategy that held no other, so it belongs to the innermost
        strategy = wrapping.innermost(strategy)
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
    """The attributes of a strategy in which it may keep something, private ones too, but for copies of the model."""
    kinds = [kind for kind in COPIES if isinstance(strategy, kind)]
    copies = {COPIES[kind] for kind in kinds if type(strategy).configure_train is kind.configure_train}
    ignored = logging.Logger | type(threading.Lock()) | type(threading.RLock())
    return {
        name: value
        for name, value in vars(strategy).items()
        if name not in copies
        and not callable(value)
        and not wrapping.is_strategy(value)
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
