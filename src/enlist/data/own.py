"""A user's own data: an .npz, Parquet or CSV file, or a Python function that returns a `Dataset`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic

from enlist._internal.archives import read_arrays
from enlist._internal.importing import imported
from enlist._internal.options import GrownOptions
from enlist._internal.typing import AnyArray
from enlist.data.base import DatasetOptions, FileOptions, divided
from enlist.data.csv_file import read_csv
from enlist.data.dataset import Dataset, Samples
from enlist.data.parquet import read_parquet
from enlist.data.tables import Roles
from enlist.errors import InputError
from enlist.streams import Streams

PREFIXES = {"train": "", "validation": "validation_", "test": "test_"}
ARRAYS = tuple(prefix + key for prefix in PREFIXES.values() for key in ("x", "y", "users"))
"""The arrays that a data set may hold."""


def read_npz(path: Path) -> dict[str, AnyArray]:
    """The arrays of an .npz file that a data set may hold: x, y and users, also as test_x, validation_x and so on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "mine.npz"), x=np.zeros((2, 1)), z=[0, 1])
    ...     read_npz(Path(folder, "mine.npz"))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ...mine.npz holds the unknown array 'z'; known are x, y, users, also with test_ or ...
    """
    try:
        arrays = read_arrays(path)
    except ValueError as error:
        raise InputError(f"{path} cannot be read as .npz: {error}.") from None
    check_names(str(path), arrays)
    return arrays


def check_names(source: str, arrays: Collection[str]) -> None:
    """Refuse arrays with unknown names.

    >>> check_names("mine.npz", ["x", "y", "test_x", "test_y"])
    """
    for key in sorted(set(arrays) - set(ARRAYS)):
        raise InputError(
            f"{source} holds the unknown array '{key}'; known are x, y, users, also with test_ or validation_ before."
        )


READERS: dict[str, Callable[[Path, Roles], tuple[dict[str, AnyArray], tuple[str, ...]]]] = {
    ".npz": lambda path, roles: (read_npz(path), ()),
    ".parquet": read_parquet,
    ".csv": read_csv,
}
"""Ending of a file name -> its reader, which returns arrays and the names of inputs."""


class OwnOptions(GrownOptions, FileOptions):
    """What all data of the user's own share: the roles of columns, and how arrays become a data set.

    >>> OwnOptions.LATER >= {"columns", "drop"}
    True
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"columns", "drop"})

    label: str = pydantic.Field("label", description="Column of labels or targets (of a table).")
    user: str | None = pydantic.Field(None, description="Column that names the user of a sample (of a table).")
    shape: tuple[int, ...] | None = pydantic.Field(
        None, description="Shape of one sample, such as [1, 28, 28], if inputs are to be reshaped."
    )
    regression: bool = pydantic.Field(False, description="Take whole numbers for targets of a regression, not classes.")
    normalise: bool = pydantic.Field(
        False, description="Scale every input to mean 0 and standard deviation 1 over the training samples."
    )
    test_share: float = pydantic.Field(
        0.2, gt=0, lt=1, description="Share of each class kept for testing if there is no test part."
    )
    columns: tuple[str, ...] | None = pydantic.Field(
        None, description="Columns of inputs, in this order (of a table); if not given, all other columns."
    )
    drop: tuple[str, ...] = pydantic.Field((), description="Columns to leave out (of a table).")

    @property
    def roles(self) -> Roles:
        """The role of each column of a table."""
        return Roles(self.label, self.user, self.columns, self.drop)

    def check_no_columns(self, source: str) -> None:
        """Refuse column names where there are arrays."""
        for key in ("columns", "drop"):
            if getattr(self, key):
                raise InputError(f"{source} holds arrays, which have no columns to name; leave the key '{key}' out.")

    def made(self, arrays: dict[str, AnyArray], input_names: tuple[str, ...], source: str, streams: Streams) -> Dataset:
        """The data set that these arrays make up: x, y and users, also with the prefixes test_ and validation_."""
        names = self._encode(arrays, source)
        parts = {part: self._part(arrays, at, source) for part, at in PREFIXES.items() if f"{at}x" in arrays}
        if "train" not in parts:
            raise InputError(f"{source} has no arrays x and y; these are the training samples.")
        train = parts["train"]
        whole = train.y.dtype.kind == "i"
        classes = _classes(parts, source) if whole else 0
        if "test" not in parts:
            groups = train.y if whole else np.zeros(len(train))
            rest, taken = divided(groups, self.test_share, streams.generator("data test"))
            parts |= {"train": train.take(rest), "test": train.take(taken)}
        parts["train"] = parts["train"].take(self.drawn(len(parts["train"]), streams))
        if self.normalise:
            parts = _normalised(parts)
        return Dataset(self.name, classes=classes, class_names=names, input_names=input_names, **parts)

    def _encode(self, arrays: dict[str, AnyArray], source: str) -> tuple[str, ...]:
        """Replace textual labels by numbers, in the order of their names, which are returned."""
        keys = [f"{prefix}y" for prefix in PREFIXES.values() if f"{prefix}y" in arrays]
        kinds = {arrays[key].dtype.kind for key in keys}
        if kinds <= set("biuf"):
            if self.regression:
                arrays |= {key: arrays[key].astype(np.float32) for key in keys}
            elif len({kind == "f" for kind in kinds}) > 1:
                raise InputError(f"{source} has whole labels in one part and fractions in another; use one kind.")
            return ()
        if kinds != {"U"} or self.regression:
            raise InputError(
                f"{source} has labels that are {' and '.join(sorted(str(arrays[key].dtype) for key in keys))}; "
                "give numbers, or text in all parts (not for a regression)."
            )
        names, codes = np.unique(np.concatenate([arrays[key].ravel() for key in keys]), return_inverse=True)
        for key in keys:
            arrays[key], codes = codes[: arrays[key].size].reshape(arrays[key].shape), codes[arrays[key].size :]
        return tuple(map(str, names))

    def _part(self, arrays: dict[str, AnyArray], prefix: str, source: str) -> Samples:
        x, y, users = (arrays.get(prefix + key) for key in ("x", "y", "users"))
        if x is None or y is None:
            raise InputError(f"{source} has {prefix}x without {prefix}y; give both.")
        if self.shape is not None:
            try:
                x = x.reshape(len(x), *self.shape)
            except ValueError:
                raise InputError(
                    f"{source}: {prefix}x of shape {x.shape} does not fold into samples of shape {list(self.shape)}."
                ) from None
        try:
            return Samples(x, y, users)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None


class FromFile(OwnOptions):
    """Your own data in a file.

    An .npz file holds x (n, ...) and y (n,), and optionally users (n,) and the same three again with the prefixes
    test_ and validation_. A Parquet or CSV file has one row per sample: the column `label`, perhaps a column of users,
    and inputs in all others, except for the index of a data frame. Labels of a whole-number type or text are classes,
    those of a float type targets of a regression. Without a test part, `test_share` of each class is kept for
    testing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.npz")
    ...     np.savez(path, x=np.zeros((10, 3)), y=["no", "yes"] * 5)
    ...     dataset = FromFile(path=path).load(Streams(1))
    >>> len(dataset.train), len(dataset.test), dataset.class_names
    (8, 2, ('no', 'yes'))
    """

    name: Literal["file"] = "file"
    path: Path = pydantic.Field(description="The file; its name ends in .npz, .parquet or .csv.")

    def load(self, streams: Streams) -> Dataset:
        """Read the file and split it if necessary."""
        path = self.path.expanduser()
        if not path.is_file():
            raise InputError(f"data set 'file': {path} is not a file; give the path of an .npz, .parquet or .csv file.")
        if path.suffix not in READERS:
            raise InputError(f"data set 'file': {path} ends in '{path.suffix}'; allowed are {', '.join(READERS)}.")
        if path.suffix == ".npz":
            self.check_no_columns(str(path))
        arrays, names = READERS[path.suffix](path, self.roles)
        return self.made(arrays, names, str(path), streams)


def _classes(parts: dict[str, Samples], source: str) -> int:
    """Number of classes of labels 0..C-1; labels that are something else, such as dates, are refused."""
    labels = np.unique(np.concatenate([part.y.ravel() for part in parts.values()]))
    if not len(labels):
        return 1
    low, high = int(labels[0]), int(labels[-1])
    if high >= max(10 * len(labels), 1000):
        raise InputError(
            f"{source} has whole labels from {low} to {high}, {len(labels)} different ones; labels are classes and "
            "must be 0, 1, ... C-1. Number the classes from 0, give them as text, or set regression = true for amounts."
        )
    return high + 1


def _normalised(parts: dict[str, Samples]) -> dict[str, Samples]:
    mean = parts["train"].x.mean(axis=0, dtype=np.float64)
    spread = parts["train"].x.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1.0
    return {name: Samples((part.x - mean) / spread, part.y, part.users) for name, part in parts.items()}


class FromPython(DatasetOptions):
    """Your own data from a Python function: it gets the random streams of the run and returns a `Dataset`.

    Modules are searched for on Python's path and in the current folder.

    >>> FromPython(factory="enlist.data.digits:Digits").load(Streams(1))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'python': enlist.data.digits:Digits cannot be called with (streams): ...
    """

    name: Literal["python"] = "python"
    factory: str = pydantic.Field(
        pattern=r"^[\w.]+:\w+$",
        description="The function, as 'package.module:function'; called with the run's streams.",
    )
    arguments: dict[str, Any] = pydantic.Field(
        default_factory=dict, description="Further arguments of the function, by name."
    )

    def code(self) -> tuple[str, ...]:
        """The function."""
        return (self.factory,)

    def load(self, streams: Streams) -> Dataset:
        """Imports and calls the function."""
        function = imported(self.factory, "data set 'python'", "function")
        try:
            inspect.signature(function).bind(streams, **self.arguments)
        except (TypeError, ValueError) as error:
            given = ", ".join(["streams", *(f"{key}=..." for key in self.arguments)])
            raise InputError(f"data set 'python': {self.factory} cannot be called with ({given}): {error}.") from None
        dataset = function(streams, **self.arguments)
        if not isinstance(dataset, Dataset):
            raise InputError(
                f"data set 'python': {self.factory} returned a {type(dataset).__name__}; it must return an "
                "enlist.data.Dataset."
            )
        return dataset
