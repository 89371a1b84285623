"""A user's own data as Python objects: a data frame, arrays, or a `Dataset`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pydantic

from enlist._internal.text import brief
from enlist._internal.typing import AnyArray
from enlist.data.dataset import Dataset
from enlist.data.own import ARRAYS, PREFIXES, OwnOptions, check_names
from enlist.data.tables import Roles, numbers, words
from enlist.errors import InputError
from enlist.streams import Streams

KEYS = ("x", "y", "users")
FORMS = (
    "a data frame of pandas or polars, arrays as (x, y) or (x, y, users), a dict of arrays x, y, users, test_x and so "
    "on, or an enlist.data.Dataset"
)


class Frame(Protocol):
    """The parts of a pandas or polars data frame that are needed here.

    >>> [name for name in ("columns", "shape") if name in Frame.__dict__]
    ['columns', 'shape']
    """

    @property
    def columns(self) -> Any:
        """Names of the columns."""

    @property
    def shape(self) -> Any:
        """Rows and columns."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: Any, /) -> Any: ...


AnyData = Frame | tuple[Any, ...] | Mapping[str, Any] | Dataset
"""Data as an object."""


class FromMemory(OwnOptions):
    """Your own data as an object: a data frame, arrays, or a `Dataset`.

    A data frame of pandas or polars has one row per sample, like a Parquet file; its index is not an input. Arrays are
    (x, y), (x, y, users), or a dict with the names that an .npz file has. The data are copied once (a `Dataset` is
    used as it is). A run folder holds their digest, and a run continues only with the same data.

    >>> x, y = np.zeros((10, 3)), ["no", "yes"] * 5
    >>> dataset = FromMemory.of((x, y), test_share=0.4).load(Streams(1))
    >>> len(dataset.train), len(dataset.test), dataset.class_names
    (6, 4, ('no', 'yes'))
    """

    LATER: ClassVar[frozenset[str]] = frozenset()

    name: Literal["memory"] = "memory"
    content: str = pydantic.Field("", description="What the object was, in words; written by Enlist.")
    digest: str = pydantic.Field("", description="Digest of the data; written by Enlist.")
    _object: Any = pydantic.PrivateAttr(None)

    @classmethod
    def of(
        cls,
        given: AnyData,
        *,
        label: str = "label",
        user: str | None = None,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        shape: Sequence[int] | None = None,
        regression: bool = False,
        normalise: bool = False,
        test_share: float = 0.2,
        limit: int | None = None,
    ) -> FromMemory:
        """The data set for an object.

        Parameters
        ----------
        given : data frame, tuple, dict or Dataset
            A data frame of pandas or polars, (x, y), (x, y, users), arrays by name, or a data set.
        label : str, default "label"
            Column of a data frame with labels or targets.
        user : str, optional
            Column of a data frame that names the user of a sample.
        columns : sequence of str, optional
            Columns of inputs, in this order; by default all columns without another role.
        drop : sequence of str
            Columns to leave out.
        shape : sequence of int, optional
            Shape of one sample, such as [1, 28, 28], if inputs are to be reshaped.
        regression : bool, default False
            Treat whole numbers as targets of a regression, not as classes.
        normalise : bool, default False
            Scale every input to mean 0 and standard deviation 1 over the training samples.
        test_share : float, default 0.2
            Share of each class kept for testing if there is no test part.
        limit : int, optional
            At most this many training samples, drawn at random.

        >>> FromMemory.of({"x": np.zeros((4, 2)), "y": [0, 1, 0, 1]}).content
        'arrays x (4, 2), y (4,)'
        """
        asked: FromMemory = cls(
            label=label, user=user, columns=columns, drop=drop, shape=shape, regression=regression,
            normalise=normalise, test_share=test_share, limit=limit,
        )  # fmt: skip
        held, content = _held(given, asked)
        made: FromMemory = asked.model_copy(update={"content": content, "digest": held.digest})
        made._object = held
        return made

    def again(self, given: AnyData) -> FromMemory:
        """The same options with an object; if they come from a file, it must be the object that they were made from.

        >>> saved = FromMemory(digest="5e1f", content="arrays x (2, 1), y (2,)")
        >>> saved.again(([[1.0], [2.0]], [0, 1]))
        Traceback (most recent call last):
        ...
        enlist.errors.InputError: data set 'memory': the data are arrays x (2, 1), y (2,), but not those that ...
        """
        made = FromMemory.of(given, **self.model_dump(exclude={"name", "content", "digest"}))
        if self._object is None and self.digest not in ("", made.digest):
            raise InputError(
                f"data set 'memory': the data are {made.content}, but not those that the run was made with "
                f"({self.content}); pass the same data, or begin a new run."
            )
        return made

    @staticmethod
    def fits(given: Any) -> bool:
        """Whether an object is data in one of these forms, rather than options.

        >>> FromMemory.fits(([[1.0]], [0])), FromMemory.fits({"name": "digits"})
        (True, False)
        """
        arrays = isinstance(given, Mapping) and {"x", "y"} <= given.keys()
        frame = all(hasattr(given, name) for name in ("columns", "shape", "__getitem__"))
        return arrays or frame or isinstance(given, tuple | Dataset)

    def load(self, streams: Streams) -> Dataset:
        """Split the data if necessary."""
        if self._object is None:
            raise InputError(
                f"data set 'memory': the data were an object ({self.content or 'of an unknown kind'}), which is not in "
                "a configuration file or run folder. Pass it again from Python: config = load(FILE).with_data(it), and "
                "then simulate(config, folder=FOLDER, resume=True) or read(FOLDER, config)."
            )
        held: _Held = self._object
        return held.whole or self.made(dict(held.arrays), held.names, "the data", streams)


@dataclasses.dataclass(frozen=True)
class _Held:
    """The data: arrays with the names of their inputs, or a whole data set. Equal if their digests are."""

    arrays: dict[str, AnyArray] = dataclasses.field(compare=False)
    names: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    whole: Dataset | None = dataclasses.field(default=None, compare=False)
    digest: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        about = (self.whole.name, self.whole.classes, self.whole.class_names) if self.whole else None
        found = hashlib.sha256(repr((self.names, about)).encode())
        for name, values in self.arrays.items():
            found.update(f"{name} {values.dtype.str} {values.shape}".encode())
            if values.size:
                found.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        object.__setattr__(self, "digest", found.hexdigest())


def _held(given: Any, options: FromMemory) -> tuple[_Held, str]:
    """The data in an object, and a description of the object in words."""
    if isinstance(given, Dataset):
        parts = {
            f"{PREFIXES[part]}{key}": getattr(samples, key) for part, samples in given.parts.items() for key in KEYS
        }
        arrays = {name: values for name, values in parts.items() if values is not None}
        return _Held(arrays, given.input_names, given), f"a Dataset '{given.name}' of {len(given.train):,} samples"
    if isinstance(given, tuple | Mapping):
        options.check_no_columns("the data")
        named = _named(given)
        shapes = ", ".join(f"{name} {values.shape}" for name, values in named.items())
        return _Held(named), f"arrays {shapes}"
    if not FromMemory.fits(given):
        raise InputError(f"data set 'memory': {brief(given)} is a {type(given).__name__}; give {FORMS}.")
    kind = type(given).__module__.partition(".")[0]
    what = f"a data frame of {kind}, {len(given):,} rows and {len(given.columns)} columns"
    return _Held(*_frame(given, options.roles)), what


def _named(given: tuple[Any, ...] | Mapping[str, Any]) -> dict[str, AnyArray]:
    if isinstance(given, tuple):
        if len(given) not in (2, 3):
            raise InputError(f"data set 'memory': a tuple of {len(given)}; give {FORMS}.")
        given = dict(zip(KEYS, given, strict=False))
    check_names("the data", given.keys())
    try:
        found = {name: np.array(given[name]) for name in ARRAYS if given.get(name) is not None}
    except (ValueError, TypeError) as error:
        raise InputError(f"data set 'memory': the arrays cannot be read ({error}); give {FORMS}.") from None
    return {
        name: words("the data", name, values) if values.dtype.kind in "OT" else values for name, values in found.items()
    }


def _frame(frame: Any, roles: Roles) -> tuple[dict[str, AnyArray], tuple[str, ...]]:
    source, columns = "the data frame", {str(name): name for name in frame.columns}
    if len(columns) < len(frame.columns):
        raise InputError(f"{source} has two columns with the same name; rename one of them.")
    inputs = roles.inputs(source, list(columns))
    series = {name: frame[columns[name]] for name in (*inputs, roles.label, *([roles.user] if roles.user else []))}
    parts = [numbers(source, name, _values(source, name, series[name]), str(series[name].dtype)) for name in inputs]
    arrays = {"x": np.stack(parts, axis=1)}
    for key, name in (("y", roles.label), ("users", roles.user)):
        if name is not None:
            arrays[key] = words(source, name, _values(source, name, series[name]))
    return arrays, tuple(inputs)


def _values(source: str, name: str, series: Any) -> AnyArray:
    """A column of pandas or polars; pandas has its own types for numbers that may be missing."""
    empty = int(series.isna().sum()) if hasattr(series, "isna") else int(series.null_count())
    if empty:
        raise InputError(f"{source}: column '{name}' has {empty} empty cells; fill or drop those rows first.")
    plain = getattr(series.dtype, "numpy_dtype", None)
    return np.array(series.to_numpy() if plain is None else series.to_numpy(dtype=plain))
