"""A user's own files and functions, and the registry of all data sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pydantic
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from enlist.data import DATASETS, MNIST, AnyDataset, Digits, FromFile, FromPython
from enlist.errors import InputError
from enlist.options import Options
from enlist.streams import Streams

STREAMS = Streams(9)
X = np.arange(60.0).reshape(20, 3)
Y = np.arange(20) % 4


def saved(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def test_npz_without_a_test_part_is_split_by_class(tmp_path):
    path = saved(tmp_path, x=X, y=Y, users=np.arange(20) // 2)
    dataset = FromFile(path=path, test_share=0.4).load(STREAMS)
    assert (dataset.name, dataset.classes, dataset.shape) == ("file", 4, (3,))
    assert_array_equal(np.bincount(dataset.test.y), [2, 2, 2, 2])
    assert_array_equal(dataset.train.users, dataset.train.x[:, 0] // 6)
    assert dataset.validation is None
    assert len(FromFile(path=path, limit=5).load(STREAMS).train) == 5


def test_npz_with_all_parts(tmp_path):
    path = saved(tmp_path, x=X, y=Y, test_x=X[:2], test_y=[0, 5], validation_x=X[:1], validation_y=[1])
    dataset = FromFile(path=path).load(STREAMS)
    assert_array_equal(dataset.train.x, X)
    assert_array_equal(dataset.test.y, [0, 5])
    assert dataset.classes == 6
    assert len(dataset.validation) == 1


def test_npz_targets_of_a_regression(tmp_path):
    path = saved(tmp_path, x=X, y=X[:, 0] / 7)
    assert FromFile(path=path).load(STREAMS).classes == 0
    path = saved(tmp_path, x=X, y=Y)
    dataset = FromFile(path=path, regression=True).load(STREAMS)
    assert (dataset.classes, dataset.train.y.dtype) == (0, np.float32)


def test_textual_labels_become_classes_in_the_order_of_their_names(tmp_path):
    path = saved(tmp_path, x=X[:4], y=["dog", "cat", "dog", "cow"], test_x=X[:2], test_y=["ant", "cow"])
    dataset = FromFile(path=path).load(STREAMS)
    assert dataset.class_names == ("ant", "cat", "cow", "dog")
    assert_array_equal(dataset.train.y, [3, 1, 3, 2])
    assert_array_equal(dataset.test.y, [0, 2])


def test_inputs_are_folded_and_normalised(tmp_path):
    path = saved(tmp_path, x=np.c_[X, np.full(20, 7.0)], y=Y, test_x=np.zeros((1, 4)), test_y=[0])
    dataset = FromFile(path=path, shape=(1, 2, 2), normalise=True).load(STREAMS)
    assert dataset.shape == (1, 2, 2)
    flat = dataset.train.x.reshape(20, 4)
    assert_allclose(flat.mean(axis=0), 0, atol=1e-6)
    assert_allclose(flat.std(axis=0), [1, 1, 1, 0], atol=1e-6)
    spread = X[:, 0].std()
    assert_allclose(dataset.test.x.ravel(), [-28.5 / spread, -29.5 / spread, -30.5 / spread, -7.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": Y}, "no arrays x and y"),
        ({"x": X}, "has x without y"),
        ({"x": X, "y": Y, "test_x": X}, "has test_x without test_y"),
        ({"x": X, "y": Y[:5]}, "give .n, .... inputs and n labels"),
        ({"x": X, "y": Y, "label": Y}, "unknown array 'label'"),
        ({"x": X, "y": np.array([None] * 20)}, "cannot be read as .npz"),
        ({"x": X, "y": Y, "test_x": X, "test_y": Y / 3}, "whole labels in one part"),
        ({"x": X, "y": Y.astype(str), "test_x": X, "test_y": Y}, "text in all parts"),
        ({"x": np.full((20, 3), np.nan), "y": Y}, "hold NaN"),
        ({"x": X, "y": Y - 1}, "labels go from -1"),
        ({"x": X, "y": Y, "users": Y / 2}, "int or str id"),
    ],
)
def test_npz_files_that_do_not_fit(tmp_path, arrays, words):
    with pytest.raises(InputError, match=words):
        FromFile(path=saved(tmp_path, **arrays)).load(STREAMS)


def test_files_that_are_missing_damaged_or_of_another_kind(tmp_path):
    with pytest.raises(InputError, match=r"none\.npz is no file"):
        FromFile(path=tmp_path / "none.npz").load(STREAMS)
    (tmp_path / "mine.csv").touch()
    with pytest.raises(InputError, match=r"ends in '\.csv'; allowed are \.npz and \.parquet"):
        FromFile(path=tmp_path / "mine.csv").load(STREAMS)
    path = saved(tmp_path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=rf"{path} cannot be read as \.npz"):
        FromFile(path=path).load(STREAMS)
    with pytest.raises(InputError, match=r"does not fold into samples of shape \[2, 2\]"):
        FromFile(path=saved(tmp_path, x=X, y=Y), shape=(2, 2)).load(STREAMS)


def table(folder, **columns):
    path = folder / "mine.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_parquet_columns(tmp_path):
    names = [f"user {k % 3}" for k in range(20)]
    path = table(tmp_path, a=X[:, 0], kind=["b", "a"] * 10, b=Y, c=[True, False] * 10, who=names)
    dataset = FromFile(path=path, label="kind", user="who").load(STREAMS)
    assert (dataset.classes, dataset.class_names, dataset.shape) == (2, ("a", "b"), (3,))
    row = int(dataset.train.x[0, 0]) // 3
    assert_array_equal(dataset.train.x[0], [3 * row, row % 4, row % 2 == 0])
    assert (dataset.train.users[0], dataset.train.y[0]) == (names[row], 1 - row % 2)
    assert FromFile(path=table(tmp_path, a=Y, label=X[:, 0])).load(STREAMS).classes == 0


@pytest.mark.parametrize(
    ("columns", "knobs", "words"),
    [
        ({"a": Y}, {}, "no column 'label', which the key 'label' names; it has a"),
        ({"a": Y, "label": Y}, {"user": "who"}, "no column 'who', which the key 'user' names"),
        ({"label": Y}, {}, "no columns of inputs"),
        ({"a": ["x"] * 20, "label": Y}, {}, "column 'a' holds string, not numbers"),
        ({"a": [None, *range(19)], "label": Y}, {}, "column 'a' has 1 empty cells"),
    ],
)
def test_parquet_files_that_do_not_fit(tmp_path, columns, knobs, words):
    path = table(tmp_path, **columns)
    with pytest.raises(InputError, match=words) as caught:
        FromFile(path=path, **knobs).load(STREAMS)
    assert str(path) in str(caught.value)


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = table(tmp_path, a=Y, label=Y)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=rf"{path} cannot be read as Parquet"):
        FromFile(path=path).load(STREAMS)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = table(tmp_path, a=Y, label=Y)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="needs pyarrow: pip install pyarrow"):
        FromFile(path=path).load(STREAMS)


MODULE = """
import numpy as np
from enlist.data import Dataset, Samples

def dice(streams, sides=6):
    rolled = streams.generator("dice").integers(sides, size=50)
    part = Samples(rolled[:, None], rolled)
    return Dataset("dice", part, part, classes=sides)

def nothing(streams):
    return None

value = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "dice_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "dice_of_mine"
    sys.modules.pop("dice_of_mine", None)


def test_a_function_in_the_current_folder(module):
    dataset = FromPython(factory=f"{module}:dice", arguments={"sides": 3}).load(STREAMS)
    assert (dataset.name, dataset.classes) == ("dice", 3)
    assert_array_equal(dataset.train.y, Streams(9).generator("dice").integers(3, size=50))


@pytest.mark.parametrize(
    ("factory", "arguments", "words"),
    [
        ("{}:dise", {}, "has no function 'dise'. Did you mean 'dice'"),
        ("{}:value", {}, "has no function 'value'"),
        ("{}:nothing", {}, "returned a NoneType; it must return an enlist.data.Dataset"),
        ("{}:dice", {"faces": 3}, r"cannot be called with \(streams, faces=...\)"),
        ("{}_too:dice", {}, "there is no module 'dice_of_mine_too', neither in"),
        ("enlist.none.such:dice", {}, "there is no module 'enlist.none.such'"),
    ],
)
def test_functions_that_do_not_fit(module, factory, arguments, words):
    with pytest.raises(InputError, match=words):
        FromPython(factory=factory.format(module), arguments=arguments).load(STREAMS)


def test_a_module_that_fails_by_itself_shows_its_own_error(module, tmp_path):
    (tmp_path / "dice_of_mine.py").write_text("import surely_not_installed")
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        FromPython(factory=f"{module}:dice").load(STREAMS)


@pytest.mark.parametrize("factory", ["dice", "a.b", "a:b:c", "a b:c", ""])
def test_a_factory_is_a_module_and_a_name(factory):
    with pytest.raises(InputError, match="factory = "):
        FromPython(factory=factory)


def test_importing_the_layer_leaves_heavy_packages_alone():
    code = "import sys, enlist.data; print(*{'sklearn', 'pooch', 'pyarrow', 'torch', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


class Run(Options):
    dataset: AnyDataset = Digits()


def test_a_configuration_names_its_data_set():
    assert Run.parse({"dataset": {"name": "mnist", "limit": 10}}, "run.toml").dataset == MNIST(limit=10)
    with pytest.raises(
        InputError, match=r"dataset\.name = 'minst' is not known\. Did you mean 'mnist'\? Allowed: cifar10"
    ):
        Run.parse({"dataset": {"name": "minst"}}, "run.toml")
    with pytest.raises(InputError, match=r"'dataset\.limt' is no known key\. Did you mean 'limit'"):
        Run.parse({"dataset": {"name": "mnist", "limt": 1}}, "run.toml")


def test_every_data_set_is_registered_described_and_survives_json():
    union = set(pydantic.TypeAdapter(AnyDataset).core_schema["choices"])
    assert set(DATASETS) == union
    needed = {"folder": "here", "path": "here.npz", "factory": "a:b"}
    for name, kind in DATASETS.items():
        options = kind(**{key: value for key, value in needed.items() if kind.model_fields.get(key)})
        assert options.name == name
        assert pydantic.TypeAdapter(AnyDataset).validate_json(options.model_dump_json()) == options
        for field, about in kind.model_fields.items():
            assert field == "name" or (about.description or "").endswith("."), f"{name}.{field}"
