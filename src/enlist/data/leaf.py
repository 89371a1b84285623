"""FEMNIST in LEAF's JSON files: handwritten digits and letters, each with its writer."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic

from enlist._internal.typing import AnyArray
from enlist.data.base import FileOptions, divided, standardised
from enlist.data.dataset import Dataset, Samples
from enlist.errors import InputError
from enlist.streams import Streams

NAMES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
MEAN, SPREAD = 0.9637, 0.1591
"""Of the pixels, where paper is 1 and ink 0, as widely used."""


def read_leaf(path: Path, size: int, classes: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Inputs (n, size), labels (n,) and users (n,) of one of LEAF's JSON files.

    The file holds {"users": [u, ...], "num_samples": [n_u, ...], "user_data": {u: {"x": [...], "y": [...]}}}.
    Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "all.json")
    ...     data = {"users": ["f1"], "num_samples": [2], "user_data": {"f1": {"x": [[0.5], [1.0]], "y": [0, 1]}}}
    ...     _ = path.write_text(json.dumps(data))
    ...     read_leaf(path, size=1, classes=2)[2]
    array(['f1', 'f1'], dtype='<U2')
    """
    try:
        with path.open(encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}; it may be truncated: make it again.") from None
    if not isinstance(content, dict) or not {"users", "num_samples", "user_data"} <= content.keys():
        raise InputError(f"{path} is not a LEAF file: it needs the keys users, num_samples and user_data.")
    users, counts, data = content["users"], content["num_samples"], content["user_data"]
    if not isinstance(users, list) or not isinstance(counts, list) or len(users) != len(counts):
        raise InputError(f"{path} needs as many num_samples as users; it is damaged.")
    if not isinstance(data, dict):
        raise InputError(f"{path} needs a table user_data; it is damaged.")
    inputs, labels = [np.zeros((0, size), np.float32)], [np.zeros(0, np.int64)]
    for user, count in zip(users, counts, strict=True):
        x, y = _of_user(path, user, data.get(user), size)
        if len(y) != count:
            raise InputError(f"{path} announces {count} samples of user {user!r} but holds {len(y)}; it is damaged.")
        if len(y) and not 0 <= y.min() <= y.max() < classes:
            raise InputError(
                f"{path}, user {user!r}: labels go from {y.min()} to {y.max()}; allowed are 0 to {classes - 1}."
            )
        inputs.append(x)
        labels.append(y)
    owners = np.repeat(np.array([str(user) for user in users], dtype=str), [len(y) for y in labels[1:]])
    return np.concatenate(inputs), np.concatenate(labels), owners


def _of_user(path: Path, user: str, data: Any, size: int) -> tuple[AnyArray, AnyArray]:
    if not isinstance(data, dict) or "x" not in data or "y" not in data:
        raise InputError(f"{path} has no x and y for user {user!r}; it is damaged.")
    try:
        x = np.asarray(data["x"], dtype=np.float32).reshape(len(data["x"]), -1 if data["x"] else size)
        y = np.asarray(data["y"], dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{path}, user {user!r}: x or y is ragged or holds no numbers; it is damaged.") from None
    if x.shape[1] != size or y.shape != (len(x),):
        raise InputError(f"{path}, user {user!r}: x has shape {x.shape}, y {y.shape}; it needs (n, {size}) and (n,).")
    if not np.isfinite(x).all() or (y != np.floor(y)).any():
        raise InputError(f"{path}, user {user!r}: x holds NaN, or y holds labels that are not whole; it is damaged.")
    return x, y.astype(np.int64)


class FEMNIST(FileOptions):
    """Handwritten digits and letters with their writers as users, (1, 28, 28), 62 classes. Caldas et al. (2018).

    The folder holds LEAF's JSON files in train/ and test/ (LEAF's preprocess.sh writes them), or in itself; in the
    latter case `test_share` of every writer's samples is kept for testing.

    >>> FEMNIST(folder="nowhere").load(Streams(1))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'femnist': nowhere holds no JSON files, nor do train/ and test/ in it. Name ...
    """

    name: Literal["femnist"] = "femnist"
    folder: Path = pydantic.Field(description="Folder with LEAF's JSON files, or with train/ and test/ that hold them.")
    test_share: float = pydantic.Field(
        0.1, gt=0, lt=1, description="Share of every writer's samples that is kept for testing if there is no test/."
    )

    def load(self, streams: Streams) -> Dataset:
        """Reads the JSON files in the order of their names; pixels become (pixel − 0.9637) / 0.1591."""
        folder = self.folder.expanduser()
        parts = [sorted((folder / part).glob("*.json")) for part in ("train", "test")]
        if all(parts):
            train, test = (_samples(files) for files in parts)
        elif not any(parts) and (files := sorted(folder.glob("*.json"))):
            everything = _samples(files)
            writers = np.asarray(everything.users)
            rest, taken = divided(writers, self.test_share, streams.generator("data test"))
            train, test = everything.take(rest), everything.take(taken)
        else:
            raise InputError(
                f"data set 'femnist': {folder} holds no JSON files, nor do train/ and test/ in it. Name the folder "
                "that LEAF's data/femnist/preprocess.sh wrote (https://github.com/TalwalkarLab/leaf)."
            )
        train = train.take(self.drawn(len(train), streams))
        return Dataset(self.name, train, test, classes=len(NAMES), class_names=NAMES)


def _samples(files: list[Path]) -> Samples:
    tables = [read_leaf(path, size=784, classes=len(NAMES)) for path in files]
    inputs, labels, users = (np.concatenate(columns) for columns in zip(*tables, strict=True))
    return Samples(standardised(inputs.reshape(-1, 1, 28, 28), MEAN, SPREAD), labels, users)
