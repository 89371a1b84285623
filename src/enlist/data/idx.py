"""MNIST and Fashion-MNIST: grey images of 28 x 28 pixels in four IDX files, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from enlist._internal.typing import AnyArray
from enlist.data.base import PublishedOptions, standardised
from enlist.data.dataset import Dataset, Samples
from enlist.data.fetch import Published, cache_folder, located
from enlist.errors import InputError
from enlist.streams import Streams

PARTS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
CLASSES = 10


def read_idx(path: Path, dimensions: int) -> AnyArray:
    """The array in an IDX file of unsigned bytes: two zero bytes, 0x08, the number of dimensions, their big-endian
    32-bit sizes, then the values. LeCun, Cortes and Burges, "The MNIST database of handwritten digits".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path, dimensions=1)
    array([7, 2, 1], dtype=uint8)
    """
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    magic, start = bytes([0, 0, 8, dimensions]), 4 + 4 * dimensions
    if content[:4] != magic or len(content) < start:
        raise InputError(
            f"{path} begins with {content[:4].hex(' ') or 'nothing'}; an IDX file of bytes in {dimensions} dimensions "
            f"begins with {magic.hex(' ')}."
        )
    sizes = [int(size) for size in np.frombuffer(content, ">u4", count=dimensions, offset=4)]
    announced, there = int(np.prod(sizes, dtype=object)), len(content) - start
    if announced != there:
        raise InputError(
            f"{path} announces {announced} values ({' x '.join(map(str, sizes))}) but holds {there}; "
            "it is truncated or damaged: get it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


def _file(folder: Path, stem: str) -> Path | None:
    return next((path for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()), None)


def _lacking(folder: Path) -> list[str]:
    return [f"{stem}.gz" for stems in PARTS.values() for stem in stems if _file(folder, stem) is None]


class _IDX(PublishedOptions):
    published: ClassVar[Published]
    mean: ClassVar[float]
    spread: ClassVar[float]
    class_names: ClassVar[tuple[str, ...]]

    def load(self, streams: Streams) -> Dataset:
        """Reads the four files; pixels become (pixel / 255 − mean) / spread with fixed mean and spread."""
        folder = located(self.published, _lacking, self.folder, self.download, self.mirror)
        images, labels = self._part(folder, "train")
        chosen = self.drawn(len(labels), streams)
        train = self._samples(images[chosen], labels[chosen])
        test = self._samples(*self._part(folder, "test"))
        return Dataset(self.name, train, test, CLASSES, class_names=self.class_names)

    def _part(self, folder: Path, part: str) -> tuple[AnyArray, AnyArray]:
        image_file, label_file = (_file(folder, stem) or folder / stem for stem in PARTS[part])
        images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
        if len(images) != len(labels) or not len(labels):
            raise InputError(
                f"{image_file} holds {len(images)} images, {label_file} {len(labels)} labels; they do not match."
            )
        if images.shape[1:] != (28, 28):
            raise InputError(f"{image_file} holds images of {images.shape[1]} x {images.shape[2]} pixels, not 28 x 28.")
        if labels.max() >= CLASSES:
            raise InputError(f"{label_file} holds the label {labels.max()}; allowed are 0 to {CLASSES - 1}.")
        return images, labels

    def _samples(self, images: AnyArray, labels: AnyArray) -> Samples:
        return Samples(standardised(images[:, None], 255 * self.mean, 255 * self.spread), labels)


class MNIST(_IDX):
    """Handwritten digits, 60,000 to train and 10,000 to test, (1, 28, 28). LeCun, Cortes and Burges (1998).

    >>> MNIST(folder="nowhere").load(Streams(1))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: data set 'mnist': folder nowhere does not exist. It should hold train-images-idx3-...
    """

    published = Published(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    )
    mean, spread = 0.1307, 0.3081
    class_names = tuple(map(str, range(10)))

    name: Literal["mnist"] = "mnist"


class FashionMNIST(_IDX):
    """Pictures of clothes, 60,000 to train and 10,000 to test, (1, 28, 28). Xiao, Rasul and Vollgraf (2017).

    >>> FashionMNIST(limit=1000, download=False).limit
    1000
    """

    published = Published(
        "fashion-mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        package="dataset-fashion-mnist",
        packaged=Path("/usr/share/datasets/fashion-mnist"),
    )
    mean, spread = 0.2860, 0.3530
    class_names = (
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    )

    name: Literal["fashion-mnist"] = "fashion-mnist"


def has_fashion_mnist() -> bool:
    """Whether Fashion-MNIST is available without a download: Debian's package, or the cache."""
    published = FashionMNIST.published
    places = [place for place in (published.packaged, cache_folder(published.title)) if place is not None]
    return any(not _lacking(place) for place in places)
