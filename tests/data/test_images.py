"""Digits, IDX files and CIFAR in both layouts, on small files in the true formats."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from enlist.data import CIFAR10, CIFAR100, MNIST, Digits, FashionMNIST
from enlist.data.idx import read_idx
from enlist.errors import InputError
from enlist.streams import Streams

STREAMS = Streams(3)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, count=12, packed=False):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", count), ("t10k", 4)):
        arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (size, 28, 28)).astype(np.uint8)
        arrays[f"{part}-labels-idx1-ubyte"] = (np.arange(size) % 10).astype(np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return arrays


def test_digits_are_stratified_standardised_and_repeatable():
    dataset = Digits().load(STREAMS)
    x = np.concatenate([dataset.train.x, dataset.test.x])
    assert x.mean() == pytest.approx(0, abs=1e-4)
    assert x.std() == pytest.approx(1, abs=1e-4)
    everything, tested = np.bincount(np.concatenate([dataset.train.y, dataset.test.y])), np.bincount(dataset.test.y)
    assert everything.sum() == 1797
    assert (abs(tested - 0.2 * everything) < 1).all()
    assert_array_equal(dataset.test.x, Digits().load(Streams(3)).test.x)
    assert not np.array_equal(dataset.test.y, Digits().load(Streams(4)).test.y)
    assert len(Digits(test_share=0.5).load(STREAMS).test) == 899


def test_digits_refuse_a_share_outside_0_1():
    with pytest.raises(InputError, match=r"test_share = 1\.0"):
        Digits(test_share=1.0)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("kind", "mean", "spread"), [(MNIST, 0.1307, 0.3081), (FashionMNIST, 0.2860, 0.3530)])
def test_idx_files_plain_and_packed(tmp_path, packed, kind, mean, spread):
    arrays = write_idx(tmp_path, packed=packed)
    dataset = kind(folder=tmp_path).load(STREAMS)
    assert (dataset.shape, dataset.classes, len(dataset.class_names)) == ((1, 28, 28), 10, 10)
    expected = (arrays["train-images-idx3-ubyte"] / 255 - mean) / spread
    assert_allclose(dataset.train.x[:, 0], expected, atol=1e-5)
    assert_array_equal(dataset.test.y, [0, 1, 2, 3])


def test_a_limit_takes_the_first_of_a_seeded_shuffle(tmp_path):
    write_idx(tmp_path, count=50)
    everything = MNIST(folder=tmp_path).load(STREAMS)
    few, more = (MNIST(folder=tmp_path, limit=n).load(STREAMS).train for n in (5, 20))
    assert (len(few), len(more)) == (5, 20)
    assert_array_equal(few.x, more.x[:5])
    assert not np.array_equal(few.x, everything.train.x[:5])
    assert len(MNIST(folder=tmp_path, limit=500).load(STREAMS).train) == 50
    assert {row.tobytes() for row in more.x} <= {row.tobytes() for row in everything.train.x}


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        (IMAGES, b"", "begins with nothing"),
        (IMAGES, b"\x00\x00\x0d\x03" + bytes(12), "begins with 00 00 0d 03; .* begins with 00 00 08 03"),
        (IMAGES, idx(np.zeros((12, 28, 28), np.uint8))[:-1], r"announces 9408 values .* holds 9407; it is truncated"),
        (IMAGES, idx(np.zeros((12, 28, 28), np.uint8)) + b"x", "announces 9408 values .* holds 9409"),
        (IMAGES, struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "announces 7922816"),
        (IMAGES, gzip.compress(idx(np.zeros((12, 28, 28), np.uint8)), mtime=0)[:-9], "cannot be read"),
        (IMAGES, b"\x1f\x8b\x08\x00" + b"x" * 40, "cannot be read"),
        (IMAGES, idx(np.zeros((12, 32, 32), np.uint8)), "32 x 32 pixels, not 28 x 28"),
        (IMAGES, idx(np.zeros((11, 28, 28), np.uint8)), "11 images, .* 12 labels"),
        (LABELS, idx(np.full(12, 10, np.uint8)), "label 10; allowed are 0 to 9"),
        (LABELS, idx(np.zeros((12, 1), np.uint8)), "begins with 00 00 08 02"),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, file, content, words):
    write_idx(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        MNIST(folder=tmp_path).load(STREAMS)
    assert str(tmp_path / file) in str(caught.value)


@settings(max_examples=80, deadline=None)
@given(content=st.binary(max_size=40))
def test_no_bytes_break_the_idx_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("idx") / "labels"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert read_idx(path, 1).ndim == 1


PIXELS = np.random.default_rng(1).integers(0, 256, (30, 3072)).astype(np.uint8)
NAMES_10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar10_labels(batch):
    return [(batch + k) % 10 for k in range(3)]


def cifar10_binary(folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for batch, file in enumerate(files):
        records = [bytes([label]) + PIXELS[3 * batch + k].tobytes() for k, label in enumerate(cifar10_labels(batch))]
        (folder / file).write_bytes(b"".join(records))
    (folder / "batches.meta.txt").write_text("\n".join(NAMES_10) + "\n\n")


def cifar10_python(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for batch, file in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        content = {
            b"batch_label": b"training batch",
            b"labels": cifar10_labels(batch),
            b"data": PIXELS[3 * batch : 3 * batch + 3],
            b"filenames": [b"x.png"] * 3,
        }
        (folder / file).write_bytes(pickle.dumps(content, protocol=2))
    meta = {b"label_names": [name.encode() for name in NAMES_10], b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))


def cifar100_binary(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for file, first in (("train.bin", 0), ("test.bin", 20)):
        records = [bytes([k % 20, 90 + k]) + PIXELS[first + k].tobytes() for k in range(10)]
        (folder / file).write_bytes(b"".join(records))
    (folder / "fine_label_names.txt").write_text("\n".join(f"fine_{k}" for k in range(100)))
    (folder / "coarse_label_names.txt").write_text("\n".join(f"coarse_{k}" for k in range(20)))


def cifar100_python(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for file, first in (("train", 0), ("test", 20)):
        content = {
            b"fine_labels": [90 + k for k in range(10)],
            b"coarse_labels": [k % 20 for k in range(10)],
            b"data": PIXELS[first : first + 10],
        }
        (folder / file).write_bytes(pickle.dumps(content, protocol=2))
    names = {
        f"{kind}_label_names".encode(): [f"{kind}_{k}".encode() for k in range(n)]
        for kind, n in (("fine", 100), ("coarse", 20))
    }
    (folder / "meta").write_bytes(pickle.dumps(names, protocol=2))


def packed(folder, archive):
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, arcname=folder.name)
    return archive.parent


@pytest.mark.parametrize("layout", ["binary", "binary below", "python", "python below", "archive"])
def test_cifar10_in_every_layout(tmp_path, layout):
    if layout == "archive":
        cifar10_binary(tmp_path / "cifar-10-batches-bin")
        (tmp_path / "down").mkdir()
        folder = packed(tmp_path / "cifar-10-batches-bin", tmp_path / "down" / "cifar-10-binary.tar.gz")
    else:
        write = cifar10_binary if layout.startswith("binary") else cifar10_python
        subfolder = {"binary below": "cifar-10-batches-bin", "python below": "cifar-10-batches-py"}.get(layout, ".")
        write(tmp_path / subfolder)
        folder = tmp_path
    dataset = CIFAR10(folder=folder).load(STREAMS)
    assert (dataset.shape, dataset.classes, list(dataset.class_names)) == ((3, 32, 32), 10, NAMES_10)
    assert_array_equal(dataset.train.y, np.concatenate([cifar10_labels(batch) for batch in range(5)]))
    assert_array_equal(dataset.test.y, cifar10_labels(5))
    mean, spread = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    expected = (PIXELS[:15].reshape(-1, 3, 32, 32) / 255 - mean[:, None, None]) / spread[:, None, None]
    assert_allclose(dataset.train.x, expected, atol=1e-5)
    assert len(CIFAR10(folder=folder, limit=4).load(STREAMS).train) == 4


@pytest.mark.parametrize("write", [cifar100_binary, cifar100_python])
def test_cifar100_fine_and_coarse(tmp_path, write):
    write(tmp_path)
    fine = CIFAR100(folder=tmp_path).load(STREAMS)
    assert (fine.classes, fine.class_names[99], len(fine.class_names)) == (100, "fine_99", 100)
    assert_array_equal(fine.test.y, np.arange(90, 100))
    coarse = CIFAR100(folder=tmp_path, labels="coarse").load(STREAMS)
    assert (coarse.classes, coarse.class_names[0]) == (20, "coarse_0")
    assert_array_equal(coarse.train.y, np.arange(10))


def as_python_2_wrote_it(pixels, labels):
    """The opcodes of the published files: protocol 2, byte strings, NumPy's old module name."""
    out = io.BytesIO()
    out.write(
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R"
    )
    out.write(b"(K\x01M" + struct.pack("<H", len(pixels)) + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R")
    out.write(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", pixels.size))
    out.write(pixels.tobytes() + b"tbU\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eu.")
    return out.getvalue()


def test_batches_as_python_2_wrote_them(tmp_path):
    cifar10_python(tmp_path)
    content = as_python_2_wrote_it(PIXELS[:3], [7, 8, 9])
    assert_array_equal(pickle.loads(content, encoding="bytes")[b"data"], PIXELS[:3])
    (tmp_path / "test_batch").write_bytes(content)
    dataset = CIFAR10(folder=tmp_path).load(STREAMS)
    assert_array_equal(dataset.test.y, [7, 8, 9])
    assert_array_equal(dataset.test.x, dataset.train.x[:3])


class Hostile:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def batch(**changes):
    good = {b"data": PIXELS[:3], b"labels": [0, 1, 2]}
    return pickle.dumps({**good, **{key.encode(): value for key, value in changes.items()}}, protocol=2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (batch(extra=Hostile()), r"asks for __builtin__\.exec, which is not allowed"),
        (batch(labels=np.array([0, 1, 2])), "holds pixels of shape"),
        (batch(labels=[np.int64(0)] * 3), r"multiarray\.scalar, which is not allowed"),
        (batch(labels=[0, 1]), "list of n labels"),
        (batch(labels=[0, 1, 10]), "label 10; allowed are 0 to 9"),
        (batch(labels=[0, 1, -1]), "not whole numbers from 0 to 255"),
        (batch(data=PIXELS[:3].astype(float)), "no plain array of unsigned bytes"),
        (batch(data=PIXELS[:3, :5]), r"pixels of shape \(3, 5\)"),
        (batch(data="text"), "no plain array"),
        (batch()[:-20], "not a readable pickle"),
        (pickle.dumps([1], protocol=2), "holds a list; a batch is a dict"),
        (pickle.dumps({b"data": 1}, protocol=2), "no entry 'labels'"),
        (b"", "not a readable pickle"),
    ],
)
def test_damaged_or_hostile_cifar_pickles_are_named(tmp_path, content, words):
    cifar10_python(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        CIFAR10(folder=tmp_path).load(STREAMS)
    assert str(tmp_path / "data_batch_2") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a multiple of a record of 3073"),
        (bytes(3072), "not a multiple of a record of 3073"),
        (b"\x0a" + bytes(3072), "label 10; allowed are 0 to 9"),
    ],
)
def test_damaged_cifar_records_are_named(tmp_path, content, words):
    cifar10_binary(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        CIFAR10(folder=tmp_path).load(STREAMS)
    assert str(tmp_path / "data_batch_3.bin") in str(caught.value)


def test_a_damaged_archive_is_named(tmp_path):
    cifar10_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "down").mkdir()
    archive = tmp_path / "down" / "cifar-10-binary.tar.gz"
    packed(tmp_path / "cifar-10-batches-bin", archive)
    archive.write_bytes(archive.read_bytes()[:-3000])
    with pytest.raises(InputError, match=rf"{archive} cannot be read"):
        CIFAR10(folder=archive.parent).load(STREAMS)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    packed(tmp_path / "cifar-10-batches-bin", archive)
    with pytest.raises(InputError, match=r"lacks test_batch\.bin; it is not the published archive"):
        CIFAR10(folder=archive.parent).load(STREAMS)


def test_a_folder_that_lacks_a_batch_says_which(tmp_path):
    cifar10_binary(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"lacks cifar-10-batches-bin/data_batch_4\.bin\. "):
        CIFAR10(folder=tmp_path).load(STREAMS)
