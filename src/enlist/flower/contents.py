"""What is in a reply's records, and whether the strategy may see it: usable arrays, metrics like those of others."""

from __future__ import annotations

import collections
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from enlist.flower import keys
from enlist.flower.trust import RANGES
from enlist.typing import AnyArray

AnyDtype = np.dtype[Any]

Shapes = Mapping[str, tuple[int, ...]]
"""Name of each array -> its shape."""


class Parts(NamedTuple):
    """The records of a reply by kind, found in one go: Flower builds a new table each time it is asked for a kind.

    >>> parts_of(RecordDict({"metrics": MetricRecord({"n": 1})})).metrics
    {'metrics': {'n': 1}}
    """

    arrays: dict[str, ArrayRecord]
    metrics: dict[str, MetricRecord]
    extra: Mapping[str, Any]


def parts_of(content: RecordDict) -> Parts:
    """The records of a reply by kind.

    >>> parts_of(RecordDict()).arrays
    {}
    """
    parts = Parts({}, {}, content.get(keys.RECORD, {}))
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            parts.arrays[name] = record
        elif isinstance(record, MetricRecord):
            parts.metrics[name] = record
    return parts if isinstance(parts.extra, ConfigRecord | dict) else parts._replace(extra={})


def shapes_of(arrays: ArrayRecord) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the arrays that are sent.

    >>> shapes_of(ArrayRecord([np.ones((2, 3))]))
    {'0': (2, 3)}
    """
    return {name: tuple(array.shape) for name, array in arrays.items()}


class Template(NamedTuple):
    """An array as it was sent: the bytes before its values, their type, its shape, and its length in bytes.

    >>> templates_of(ArrayRecord([np.ones((2, 3))]))["0"].shape
    (2, 3)
    """

    prefix: bytes
    dtype: AnyDtype
    shape: tuple[int, ...]
    length: int


def templates_of(arrays: ArrayRecord) -> dict[str, Template]:
    """What arrays look like that are like those sent: with it, a reply's are checked without being decoded.

    >>> list(templates_of(ArrayRecord([np.ones(2)])))
    ['0']
    """
    found = {}
    for name, array in arrays.items():
        file = io.BytesIO(array.data)
        try:
            if np.lib.format.read_magic(file) == (1, 0):
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                found[name] = Template(array.data[: file.tell()], dtype, shape, len(array.data))
        except ValueError:
            continue  # some other way to write arrays: those are decoded
    return found


def examined(parts: Parts, templates: Mapping[str, Template] | None = None) -> tuple[dict[str, tuple[int, ...]], str]:
    """Names and true shapes of the arrays of a reply, and why they cannot be used, if so.

    >>> examined(parts_of(RecordDict({"arrays": ArrayRecord([np.array([1.0, np.nan])])})))
    ({'0': (2,)}, "array '0' holds NaN or infinity")
    """
    if len(parts.arrays) != 1:
        return {}, f"{len(parts.arrays)} ArrayRecords in the reply, not one"
    shapes: dict[str, tuple[int, ...]] = {}
    fault = ""
    for name, array in next(iter(parts.arrays.values())).items():
        known = None if templates is None else templates.get(name)
        if known is not None and len(array.data) == known.length and array.data.startswith(known.prefix):
            values: AnyArray = np.frombuffer(array.data, known.dtype, offset=len(known.prefix))
            shapes[name] = known.shape
        else:
            try:
                values = array.numpy()
            except (ValueError, TypeError, EOFError, OSError, MemoryError) as error:
                return shapes, f"array '{name}' cannot be read ({error!s:.60})"
            shapes[name] = values.shape
        if values.dtype.kind in "fc" and not _finite(values):
            fault = f"array '{name}' holds NaN or infinity"
        elif values.dtype.kind not in "fciub":
            fault = f"array '{name}' holds {values.dtype}"
    return shapes, fault


def _finite(values: AnyArray) -> bool:
    with np.errstate(all="ignore"):  # a sum is quick and needs no memory; only where it is not finite, look closely
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def misshapen(shapes: Shapes, expected: Shapes) -> str:
    """How arrays differ from what is expected.

    >>> misshapen({"w": (2, 3)}, {"w": (3, 2)})
    "array 'w' has shape (2, 3), not (3, 2)"
    """
    for name in {**expected, **shapes}:
        if name not in shapes:
            return f"array '{name}' is missing"
        if name not in expected:
            return f"array '{name}' was not sent"
        if shapes[name] != expected[name]:
            return f"array '{name}' has shape {shapes[name]}, not {expected[name]}"
    return ""


def unweighed(parts: Parts, weight_key: str) -> str:
    """Why a reply has no weight, without which Flower would end the run.

    >>> unweighed(parts_of(RecordDict({"metrics": MetricRecord({"num-examples": 0})})), "num-examples")
    "'num-examples' is 0, not a number above 0"
    """
    if len(parts.metrics) != 1:
        return f"{len(parts.metrics)} MetricRecords in the reply, not one"
    metrics = next(iter(parts.metrics.values()))
    weight = metrics.get(weight_key)
    if not isinstance(weight, int | float) or not 0 < weight <= RANGES["num_examples"][1]:
        return f"'{weight_key}' is {weight}, not a number above 0" if weight_key in metrics else f"no '{weight_key}'"
    return ""


def outliers(replies: Sequence[Parts]) -> list[str]:
    """For each reply, how its metrics differ from those of most; Flower would end the run over a single one.

    >>> same, other = ({"metrics": MetricRecord({"num-examples": 1})}, {"metrics": MetricRecord({"n": 1})})
    >>> outliers([parts_of(RecordDict(each)) for each in (same, other, same)])
    ['', 'the metrics are n, those of most are num-examples', '']
    """
    forms = []
    for parts in replies:
        name, record = next(iter(parts.metrics.items()), ("", {}))
        lengths = tuple((key, len(value) if isinstance(value, list) else 0) for key, value in sorted(record.items()))
        forms.append((name, lengths))
    if not forms:
        return []
    usual = collections.Counter(forms).most_common(1)[0][0]
    return [
        "" if form == usual else f"the metrics are {_listed(form)}, those of most are {_listed(usual)}"
        for form in forms
    ]


def _listed(form: tuple[str, tuple[tuple[str, int], ...]]) -> str:
    return ", ".join(f"{key} ({length})" if length else key for key, length in form[1])
