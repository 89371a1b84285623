"""CIFAR-10 and CIFAR-100: colour images of 32 x 32 pixels, in the binary or the Python layout, unpacked or in the
published archive. Krizhevsky, "Learning multiple layers of features from tiny images" (2009)."""

from __future__ import annotations

import dataclasses
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic

from enlist._internal.typing import AnyArray
from enlist.data import unpickle
from enlist.data.base import PublishedOptions, standardised
from enlist.data.dataset import Dataset, Samples
from enlist.data.fetch import Published, located
from enlist.data.numpy_pickle import NUMPY, values
from enlist.errors import InputError
from enlist.streams import Streams

PIXELS = 3 * 32 * 32
URL = "https://www.cs.toronto.edu/~kriz"

Batch = tuple[AnyArray, AnyArray]
"""Pixels (n, 3072) and labels (n,), both as bytes."""


@dataclasses.dataclass(frozen=True)
class ArchiveLayout:
    """One of the ways in which the data is published.

    archive    name of the published archive
    folder     name of the folder in it
    train      names of the files with training samples
    test       the same for testing
    names      the file with the names of the classes, which is optional
    read       takes apart the content of a file; gets that content and what to call it in errors

    >>> BINARY_10.test
    ('test_batch.bin',)
    """

    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    read: Callable[[bytes, str, str], Batch]

    @property
    def files(self) -> tuple[str, ...]:
        """All files that must be there."""
        return (*self.train, *self.test)


def read_records(content: bytes, source: str, labels: Sequence[str], wanted: str) -> Batch:
    """Records of the binary layout: one byte for each kind of label, then 3,072 bytes red, green, blue.

    >>> pixels, found = read_records(bytes([4, 7]) + bytes(3072), "train.bin", ["coarse", "fine"], "fine")
    >>> pixels.shape, found
    ((1, 3072), array([7], dtype=uint8))
    """
    size = len(labels) + PIXELS
    if not content or len(content) % size:
        raise InputError(
            f"{source} has {len(content)} bytes, which is not a multiple of a record of {size}; it is truncated or of "
            "another kind."
        )
    table = np.frombuffer(content, np.uint8).reshape(-1, size)
    return table[:, len(labels) :], table[:, labels.index(wanted)]


def read_pickle(content: bytes, source: str, keys: Mapping[str, str], wanted: str) -> Batch:
    """A batch of the Python layout: a pickled dict with `data`, (n, 3072) bytes, and a list of labels.

    >>> import pickle
    >>> content = pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [7]}, protocol=2)
    >>> pixels, found = read_pickle(content, "data_batch_1", {"fine": "labels"}, "fine")
    >>> pixels.shape, found
    ((1, 3072), array([7], dtype=uint8))
    """
    batch = _dictionary(content, source)
    key = keys[wanted]
    for needed in ("data", key):
        if needed not in batch:
            raise InputError(
                f"{source} has no entry '{needed}', only {', '.join(sorted(batch))}; it is not such a batch."
            )
    pixels, labels = values(batch["data"], source), batch[key]
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS or not isinstance(labels, list) or len(labels) != len(pixels):
        raise InputError(
            f"{source} holds pixels of shape {pixels.shape}; it needs (n, {PIXELS}) and a list of n labels."
        )
    if not all(isinstance(label, int) and 0 <= label <= 255 for label in labels):
        raise InputError(f"{source} holds labels that are not whole numbers from 0 to 255; it is damaged.")
    return pixels, np.array(labels, dtype=np.uint8)


def _dictionary(content: bytes, source: str) -> dict[str, Any]:
    batch = unpickle.loads(content, source, NUMPY, encoding="bytes")
    if not isinstance(batch, dict):
        raise InputError(f"{source} holds a {type(batch).__name__}; a batch is a dict.")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in batch.items()}


def _binary(*labels: str) -> Callable[[bytes, str, str], Batch]:
    return lambda content, source, wanted: read_records(content, source, labels, wanted)


def _python(**keys: str) -> Callable[[bytes, str, str], Batch]:
    return lambda content, source, wanted: read_pickle(content, source, keys, wanted)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
BINARY_10 = ArchiveLayout(
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    tuple(f"{batch}.bin" for batch in _BATCHES),
    ("test_batch.bin",),
    "batches.meta.txt",
    _binary("fine"),
)
PYTHON_10 = ArchiveLayout(
    "cifar-10-python.tar.gz", "cifar-10-batches-py", _BATCHES, ("test_batch",), "batches.meta", _python(fine="labels")
)
BINARY_100 = ArchiveLayout(
    "cifar-100-binary.tar.gz",
    "cifar-100-binary",
    ("train.bin",),
    ("test.bin",),
    "{labels}_label_names.txt",
    _binary("coarse", "fine"),
)
PYTHON_100 = ArchiveLayout(
    "cifar-100-python.tar.gz",
    "cifar-100-python",
    ("train",),
    ("test",),
    "meta",
    _python(fine="fine_labels", coarse="coarse_labels"),
)


def _find(folder: Path, layouts: Sequence[ArchiveLayout]) -> tuple[ArchiveLayout, Path] | None:
    """The first layout that is complete, and its folder or archive."""
    for layout in layouts:
        for place in (folder, folder / layout.folder):
            if all((place / file).is_file() for file in layout.files):
                return layout, place
        if (folder / layout.archive).is_file():
            return layout, folder / layout.archive
    return None


def _contents(place: Path, layout: ArchiveLayout, names: str) -> dict[str, bytes]:
    """The content of each file of the layout, and of the file of names if it is there."""
    wanted = (*layout.files, names)
    try:
        if place.is_dir():
            return {file: (place / file).read_bytes() for file in wanted if (place / file).is_file()}
        found = {}
        with tarfile.open(place) as archive:
            for member in archive:
                stream = archive.extractfile(member) if Path(member.name).name in wanted else None
                if stream is not None:
                    found[Path(member.name).name] = stream.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise InputError(f"{place} cannot be read: {error}; it may be truncated: get it again.") from None
    missing = [file for file in layout.files if file not in found]
    if missing:
        raise InputError(f"{place} lacks {', '.join(missing)}; it is not the published archive.")
    return found


class _CIFAR(PublishedOptions):
    published: ClassVar[Published]
    layouts: ClassVar[tuple[ArchiveLayout, ...]]
    mean: ClassVar[tuple[float, float, float]]
    spread: ClassVar[tuple[float, float, float]]

    def _load(self, streams: Streams, labels: str, classes: int) -> Dataset:
        found = _find(located(self.published, self._lacking, self.folder, self.download, self.mirror), self.layouts)
        if found is None:
            raise InputError(f"data set '{self.name}': its files vanished while they were read; try again.")
        layout, place = found
        names_file = layout.names.format(labels=labels)
        contents = _contents(place, layout, names_file)
        parts = []
        for files in (layout.train, layout.test):
            batches = [layout.read(contents[file], f"{place / file}", labels) for file in files]
            for file, (_, found_labels) in zip(files, batches, strict=True):
                if found_labels.max() >= classes:
                    raise InputError(
                        f"{place / file} holds the label {found_labels.max()}; allowed are 0 to {classes - 1}."
                    )
            parts.append(tuple(np.concatenate(columns) for columns in zip(*batches, strict=True)))
        (pixels, targets), test = parts
        chosen = self.drawn(len(targets), streams)
        train = self._samples(pixels[chosen], targets[chosen])
        names = _names(contents[names_file], f"{place / names_file}", labels) if names_file in contents else ()
        return Dataset(self.name, train, self._samples(*test), classes, class_names=names)

    @classmethod
    def _lacking(cls, folder: Path) -> list[str]:
        if _find(folder, cls.layouts):
            return []
        # A folder with some files of a layout is most likely meant to hold that layout.
        for layout in cls.layouts:
            for place in (folder, folder / layout.folder):
                missing = [
                    str((place / file).relative_to(folder)) for file in layout.files if not (place / file).is_file()
                ]
                if len(missing) < len(layout.files):
                    return missing
        return [cls.layouts[0].archive]

    def _samples(self, pixels: AnyArray, labels: AnyArray) -> Samples:
        images = pixels.reshape(-1, 3, 32, 32)
        return Samples(standardised(images, [255 * m for m in self.mean], [255 * s for s in self.spread]), labels)


def _names(content: bytes, source: str, labels: str) -> tuple[str, ...]:
    if source.endswith(".txt"):
        return tuple(content.decode("utf-8", "replace").split())
    meta = _dictionary(content, source)
    names = meta.get(f"{labels}_label_names", meta.get("label_names", ()))
    return tuple(name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names)


class CIFAR10(_CIFAR):
    """Ten kinds of things and animals, 50,000 images to train and 10,000 to test, (3, 32, 32).

    >>> CIFAR10(folder="nowhere").load(Streams(1))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'cifar10': folder nowhere does not exist. It should hold cifar-10-binary.ta...
    """

    published = Published("cifar10", URL, {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"})
    layouts = (BINARY_10, PYTHON_10)
    mean, spread = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

    name: Literal["cifar10"] = "cifar10"

    def load(self, streams: Streams) -> Dataset:
        """Reads the files; pixels become (pixel / 255 − mean) / spread with fixed values for each colour."""
        return self._load(streams, "fine", classes=10)


class CIFAR100(_CIFAR):
    """A hundred kinds of things and animals in twenty groups, 50,000 images to train and 10,000 to test, (3, 32, 32).

    >>> CIFAR100(labels="coarse").labels
    'coarse'
    """

    published = Published("cifar100", URL, {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"})
    layouts = (BINARY_100, PYTHON_100)
    mean, spread = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)

    name: Literal["cifar100"] = "cifar100"
    labels: Literal["fine", "coarse"] = pydantic.Field("fine", description="The 100 classes, or their 20 groups.")

    def load(self, streams: Streams) -> Dataset:
        """Reads the files; pixels become (pixel / 255 − mean) / spread with fixed values for each colour."""
        return self._load(streams, self.labels, classes=100 if self.labels == "fine" else 20)
