"""The records of a reply, and whether the strategy may see them: usable arrays, metrics like those of other replies."""

from __future__ import annotations

import collections
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from enlist._internal.typing import AnyArray
from enlist.flower import keys
from enlist.flower.replies.trust import RANGES

AnyDtype = np.dtype[Any]

Shapes = Mapping[str, tuple[int, ...]]
"""Name of each array -> its shape."""

NUMPY = "numpy.ndarray"
"""Flower's name for the array encoding; strategies can read no other."""


class ReplyRecords(NamedTuple):
    """The records of a reply by kind, found in one pass: Flower builds a new table every time a kind is requested.

    >>> records_of(RecordDict({"metrics": MetricRecord({"n": 1})})).metrics
    {'metrics': {'n': 1}}
    """

    arrays: dict[str, ArrayRecord]
    metrics: dict[str, MetricRecord]
    extra: Mapping[str, Any]


def records_of(content: RecordDict) -> ReplyRecords:
    """The records of a reply by kind.

    >>> records_of(RecordDict()).arrays
    {}
    """
    records = ReplyRecords({}, {}, content.get(keys.RECORD, {}))
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            records.arrays[name] = record
        elif isinstance(record, MetricRecord):
            records.metrics[name] = record
    return records if isinstance(records.extra, ConfigRecord | dict) else records._replace(extra={})


def shapes_of(arrays: ArrayRecord) -> dict[str, tuple[int, ...]]:
    """Names and shapes of arrays.

    >>> shapes_of(ArrayRecord([np.ones((2, 3))]))
    {'0': (2, 3)}
    """
    return {name: tuple(array.shape) for name, array in arrays.items()}


def shapes_to_save(shapes: Shapes) -> list[Any]:
    """Shapes for JSON, which has no tuples; `shapes_from` reads them.

    >>> shapes_from(shapes_to_save({"w": (2, 3)}))
    {'w': (2, 3)}
    """
    return [[name, list(shape)] for name, shape in shapes.items()]


def shapes_from(saved: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """Read saved shapes.

    >>> shapes_from([["w", [2, 3]]])
    {'w': (2, 3)}
    """
    return {name: tuple(shape) for name, shape in saved}


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
    """Templates of the arrays that are sent, with which those of a reply can be checked without decoding.

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
            continue  # another encoding: these arrays are decoded
    return found


def examined(
    records: ReplyRecords, templates: Mapping[str, Template] | None = None
) -> tuple[dict[str, tuple[int, ...]], str]:
    """Names and true shapes of the arrays of a reply, and why they cannot be used; "" if they can.

    >>> examined(records_of(RecordDict({"arrays": ArrayRecord([np.array([1.0, np.nan])])})))
    ({'0': (2,)}, "array '0' holds NaN or infinity")
    """
    if len(records.arrays) != 1:
        return {}, f"{len(records.arrays)} ArrayRecords in the reply, not one"
    shapes: dict[str, tuple[int, ...]] = {}
    fault = ""
    for name, array in next(iter(records.arrays.values())).items():
        known = None if templates is None else templates.get(name)
        if known is not None and _alike(array, known):
            values: AnyArray = np.frombuffer(array.data, known.dtype, offset=len(known.prefix))
            shapes[name] = known.shape
        else:
            try:
                values = _decoded(array)
            except Exception as error:  # on malformed bytes, zipfile, tokenize and ast raise errors of their own
                return shapes, f"array '{name}' cannot be read ({error!s:.60})"
            shapes[name] = values.shape
        if values.dtype.kind in "fc" and not _finite(values):
            fault = f"array '{name}' holds NaN or infinity"
        elif values.dtype.kind not in "fciub":
            fault = f"array '{name}' holds {values.dtype}"
        elif known is not None and not averageable(values.dtype, known.dtype):
            fault = f"array '{name}' holds {values.dtype}, not {known.dtype}"
    return shapes, fault


def _decoded(array: Array) -> AnyArray:
    values: Any = array.numpy()
    if not isinstance(values, np.ndarray):  # NumPy opens archives too
        raise TypeError(f"it is a {type(values).__name__}")
    return values


def _alike(array: Array, known: Template) -> bool:
    return array.stype == NUMPY and len(array.data) == known.length and array.data.startswith(known.prefix)


def averageable(found: AnyDtype, sent: AnyDtype) -> bool:
    """Whether values of type `found` can enter an average of the type that was sent, which is at least a float.

    >>> real, whole = np.dtype(np.float32), np.dtype(np.int64)
    >>> averageable(real, whole), averageable(whole, real), averageable(np.dtype(complex), real)
    (True, True, False)
    """
    return sent.kind not in "fiub" or found.kind != "c"


def _finite(values: AnyArray) -> bool:
    with np.errstate(all="ignore"):  # a sum is fast and needs no memory; check every value only if it is not finite
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def misshapen(shapes: Shapes, expected: Shapes) -> str:
    """How arrays differ from the expected ones.

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


def unweighed(records: ReplyRecords, weight_key: str) -> str:
    """Why a reply has no weight, which would make Flower end the run.

    >>> unweighed(records_of(RecordDict({"metrics": MetricRecord({"num-examples": 0})})), "num-examples")
    "'num-examples' is 0, not a number above 0"
    """
    if len(records.metrics) != 1:
        return f"{len(records.metrics)} MetricRecords in the reply, not one"
    metrics = next(iter(records.metrics.values()))
    weight = metrics.get(weight_key)
    if not isinstance(weight, int | float) or not 0 < weight <= RANGES["num_examples"][1]:
        told = f"'{weight_key}' is {weight!s:.40}, not a number above 0"
        return told if weight_key in metrics else f"no '{weight_key}'"
    return ""


def weight_of(records: ReplyRecords, weight_key: str) -> float:
    """The weight claimed by a reply that has one.

    >>> weight_of(records_of(RecordDict({"metrics": MetricRecord({"n": 5})})), "n")
    5.0
    """
    weight = next(iter(records.metrics.values()))[weight_key]
    assert isinstance(weight, int | float)
    return float(weight)


def cut_weight(records: ReplyRecords, weight_key: str, heaviest: float) -> float:
    """Cut the weight that a reply claims, in the reply itself; returns the weight that counts.

    >>> reply = records_of(RecordDict({"metrics": MetricRecord({"n": 10**12})}))
    >>> cut_weight(reply, "n", 100.0), reply.metrics["metrics"]["n"]
    (100.0, 100.0)
    """
    weight = weight_of(records, weight_key)
    if weight > heaviest:
        next(iter(records.metrics.values()))[weight_key] = weight = heaviest
    return weight


class ReplySchema(NamedTuple):
    """What must be equal in all aggregated replies: names of records and arrays, and kinds of metrics.

    >>> form_of(records_of(RecordDict({"metrics": MetricRecord({"n": 1, "losses": [0.5, 0.25]})})))
    ReplySchema(arrays='', names=(), metrics='metrics', lengths=(('losses', 2), ('n', -1)))
    """

    arrays: str
    names: tuple[str, ...]
    metrics: str
    lengths: tuple[tuple[str, int], ...]

    def listed(self) -> str:
        """The metrics, as listed in a reason."""
        return _listed([f"{key:.40}" if length < 0 else f"{key:.40} ({length})" for key, length in self.lengths])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{name:.60}" for name in names)


def form_of(records: ReplyRecords) -> ReplySchema:
    """What a reply must have in common with the others; a single number has length -1.

    >>> form_of(records_of(RecordDict({"arrays": ArrayRecord([np.ones(1)])})))
    ReplySchema(arrays='arrays', names=('0',), metrics='', lengths=())
    """
    name, record = next(iter(records.metrics.items()), ("", {}))
    lengths = tuple((key, len(value) if isinstance(value, list) else -1) for key, value in sorted(record.items()))
    titles, arrays = next(iter(records.arrays.items()), ("", {}))
    return ReplySchema(titles, tuple(sorted(arrays)), name, lengths)


def outliers(replies: Sequence[ReplyRecords], like: ReplyRecords | None = None) -> list[str]:
    """For each reply, how its form differs from that of the majority; one that differs would make Flower end the run.

    If `like` is given, its form is the right one.

    >>> same, other = ({"metrics": MetricRecord({"num-examples": 1})}, {"metrics": MetricRecord({"n": 1})})
    >>> outliers([records_of(RecordDict(each)) for each in (same, other, same)])
    ['', 'the metrics are n, those of most are num-examples', '']
    """
    forms = [form_of(records) for records in replies]
    if not forms:
        return []
    usual = collections.Counter(forms).most_common(1)[0][0] if like is None else form_of(like)
    return [_difference(form, usual) for form in forms]


def _difference(form: ReplySchema, usual: ReplySchema) -> str:
    for kind, found, most in (
        ("ArrayRecord", form.arrays, usual.arrays),
        ("MetricRecord", form.metrics, usual.metrics),
    ):
        if found != most:
            return f"the {kind} is '{found:.40}', that of most is '{most:.40}'"
    if form.names != usual.names:
        return f"the arrays are {_listed(form.names)}, those of most are {_listed(usual.names)}"
    return "" if form == usual else f"the metrics are {form.listed()}, those of most are {usual.listed()}"


def types_agreed(templates: Mapping[str, Template], replies: Iterable[ArrayRecord]) -> dict[str, AnyDtype]:
    """Floating-point types of a new model: those that were sent, or the wider ones that all replies have.

    Some apps send half precision and train in single precision. A single client cannot make every message larger.

    >>> sent = templates_of(ArrayRecord([np.ones(2, np.float16)]))
    >>> single, double = ArrayRecord([np.ones(2, np.float32)]), ArrayRecord([np.ones(2)])
    >>> types_agreed(sent, [single, double])
    {'0': dtype('float32')}
    """
    replies = list(replies)
    agreed = {}
    for name, template in templates.items():
        if template.dtype.kind == "f":
            found = [_floating(record[name].dtype) for record in replies if name in record]
            known = [template.dtype if dtype is None else dtype for dtype in found]
            narrowest = min(known, key=_size, default=template.dtype)
            agreed[name] = max(template.dtype, narrowest, key=_size)
    return agreed


def in_types(arrays: ArrayRecord, types: Mapping[str, AnyDtype]) -> ArrayRecord:
    """A model cast to these floating-point types where its own are wider: some strategies turn everything into float64.

    >>> in_types(ArrayRecord([np.full(2, 0.5)]), {"0": np.dtype(np.float32)})["0"].dtype
    'float32'
    """
    found = {name: _floating(array.dtype) for name, array in arrays.items() if name in types}
    wide = {name for name, dtype in found.items() if dtype is not None and _size(dtype) > _size(types[name])}
    if not wide:
        return arrays
    return ArrayRecord(
        {name: Array(array.numpy().astype(types[name])) if name in wide else array for name, array in arrays.items()}
    )


def _floating(name: str) -> AnyDtype | None:
    """The floating-point type of this name; None if it is another type, or unknown to NumPy."""
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    return dtype if dtype.kind == "f" else None


def _size(dtype: AnyDtype) -> int:
    return dtype.itemsize


def put_in_order(arrays: ArrayRecord, names: Collection[str]) -> None:
    """Sort arrays in the order of `names`, if the names match: some strategies go by position.

    >>> arrays = ArrayRecord({"b": Array(np.ones(1)), "a": Array(np.ones(1))})
    >>> put_in_order(arrays, ["a", "b"])
    >>> list(arrays)
    ['a', 'b']
    """
    if list(arrays) != list(names) and set(arrays) == set(names):
        for name in names:
            arrays[name] = arrays.pop(name)


def record_from(tensors: Iterable[bytes], tensor_type: str) -> ArrayRecord:
    """A model of the old API as arrays; bytes that are not NumPy's, such as trees, are kept as they are.

    >>> record_from([b"ab"], "trees")["0"].numpy()
    array([97, 98], dtype=uint8)
    """
    if tensor_type == NUMPY:
        return ArrayRecord([np.asarray(np.load(io.BytesIO(tensor), allow_pickle=False)) for tensor in tensors])
    return ArrayRecord([np.frombuffer(tensor, dtype=np.uint8) for tensor in tensors])


def tensors_of(arrays: ArrayRecord, tensor_type: str) -> list[bytes]:
    """A model as the old API sends it; `record_from` reads it.

    >>> tensors_of(record_from([b"ab"], "trees"), "trees")
    [b'ab']
    """
    tensors = []
    for array in arrays.values():
        buffer = io.BytesIO()
        if tensor_type == NUMPY:
            np.save(buffer, array.numpy(), allow_pickle=False)
        else:
            buffer.write(array.numpy().tobytes())
        tensors.append(buffer.getvalue())
    return tensors
