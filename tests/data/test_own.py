"""A user's own files and functions, and the registry of all data sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pydantic
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from enlist._internal.options import Options
from enlist.data import DATASETS, MNIST, AnyDataset, Dataset, Digits, FromFile, FromMemory, FromPython, base, csv_file
from enlist.data.tables import Roles
from enlist.errors import InputError
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
    with pytest.raises(InputError, match=r"none\.npz is not a file"):
        FromFile(path=tmp_path / "none.npz").load(STREAMS)
    (tmp_path / "mine.xls").touch()
    with pytest.raises(InputError, match=r"ends in '\.xls'; allowed are \.npz, \.parquet, \.csv"):
        FromFile(path=tmp_path / "mine.xls").load(STREAMS)
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
        ({"a": [np.nan, *range(19)], "label": Y}, {}, "column 'a' has nan in row 1"),
        ({"a": Y, "label": ["x" * 201] * 20}, {}, "201 characters; labels and users have at most 200"),
        ({"alpha": Y, "label": Y}, {"columns": ["alhpa"]}, "no column 'alhpa', .* did you mean 'alpha'"),
        ({"a": Y, "label": Y}, {"drop": ["b"]}, "no column 'b', which the key 'drop' names"),
        ({"a": Y, "label": Y}, {"drop": ["label"]}, "'label' holds labels or users; take it out of the key 'drop'"),
        ({"a": Y, "label": Y}, {"drop": ["a"]}, "no columns of inputs"),
    ],
)
def test_parquet_files_that_do_not_fit(tmp_path, columns, knobs, words):
    path = table(tmp_path, **columns)
    with pytest.raises(InputError, match=words) as caught:
        FromFile(path=path, **knobs).load(STREAMS)
    assert str(path) in str(caught.value)


def notices(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "enlist.data"]


@pytest.mark.parametrize("name", [None, "row id"])
def test_the_index_of_a_data_frame_is_no_input(tmp_path, caplog, name):
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": Y}).sample(frac=1, random_state=1)
    frame.index.name = name
    path = tmp_path / "mine.parquet"
    frame.to_parquet(path)
    with caplog.at_level("WARNING"):
        dataset = FromFile(path=path).load(STREAMS)
        FromFile(path=path).load(STREAMS)
    assert dataset.input_names == ("a", "b")
    written = name or "__index_level_0__"
    assert [notice.split(" is the index")[0] for notice in notices(caplog)] == [f"{path}: column '{written}'"]
    assert FromFile(path=path, columns=[written, "a"]).load(STREAMS).input_names == (written, "a")
    if name:
        assert FromFile(path=path, user=name).load(STREAMS).train.users.dtype == np.int64


def test_an_index_that_lost_its_description_is_still_known(tmp_path):
    path = table(tmp_path, a=Y, label=Y, __index_level_0__=Y)
    assert FromFile(path=path).load(STREAMS).input_names == ("a",)


def test_columns_choose_and_order_inputs(tmp_path):
    path = table(tmp_path, a=X[:, 0], b=X[:, 1], c=X[:, 2], label=Y)
    chosen = FromFile(path=path, columns=["c", "a"]).load(STREAMS)
    assert chosen.input_names == ("c", "a")
    assert_array_equal(chosen.train.x[:, 0] - chosen.train.x[:, 1], 2.0)
    assert FromFile(path=path, drop=["b"]).load(STREAMS).input_names == ("a", "c")
    assert FromFile(path=path).model_dump().keys().isdisjoint({"columns", "drop"})  # as version 0.1 wrote it
    with pytest.raises(InputError, match="arrays, which have no columns to name; leave the key 'drop' out"):
        FromFile(path=saved(tmp_path, x=X, y=Y), drop=["a"]).load(STREAMS)


@pytest.mark.parametrize(
    "dtype",
    ["object", "str", "string[python]", "string[pyarrow]", "category", pandas.ArrowDtype(pyarrow.large_string())],
)
def test_users_and_labels_of_any_pandas_type_of_text(tmp_path, dtype):
    names = pandas.Series([f"user {k % 3}" for k in range(20)]).astype(dtype)
    frame = pandas.DataFrame({"a": X[:, 0], "label": names.values, "who": names.values})
    frame.to_parquet(tmp_path / "mine.parquet")
    for options in (FromFile(path=tmp_path / "mine.parquet", user="who"), FromMemory.of(frame, user="who")):
        dataset = options.load(STREAMS)
        assert dataset.class_names == ("user 0", "user 1", "user 2")
        assert_array_equal(dataset.train.users, np.array(dataset.class_names)[dataset.train.y])


def test_numbers_of_any_pandas_type(tmp_path):
    frame = pandas.DataFrame({"a": X[:, 0], "label": Y})
    odd = {"a": pandas.array(X[:, 0], dtype="Float64"), "label": pandas.Categorical(Y)}
    want = FromMemory.of(frame).load(STREAMS).train
    pandas.DataFrame(odd).to_parquet(tmp_path / "mine.parquet")
    for options in (FromFile(path=tmp_path / "mine.parquet"), FromMemory.of(pandas.DataFrame(odd))):
        got = options.load(STREAMS).train
        assert_array_equal(got.x, want.x)
        assert_array_equal(got.y, want.y)


def written(folder, text, name="mine.csv"):
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def test_a_csv_file_is_read_like_a_parquet_file(tmp_path):
    names = [f"user {k % 3}" for k in range(20)]
    columns = {"a": X[:, 0] / 7, "kind": ["b", "a"] * 10, "b": Y, "who": names}
    frame = pandas.DataFrame(columns)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    options = {"label": "kind", "user": "who"}
    want = FromFile(path=table(tmp_path, **columns), **options).load(STREAMS)
    got = FromFile(path=tmp_path / "mine.csv", **options).load(STREAMS)
    for part in ("train", "test"):
        for array in ("x", "y", "users"):
            assert_array_equal(getattr(getattr(got, part), array), getattr(getattr(want, part), array))
    assert (got.class_names, got.input_names) == (("a", "b"), ("a", "b"))


def test_the_index_in_a_csv_file_is_no_input(tmp_path, caplog):
    path = tmp_path / "mine.csv"
    pandas.DataFrame({"a": X[:, 0], "label": Y}).to_csv(path)
    with caplog.at_level("WARNING"):
        assert FromFile(path=path).load(STREAMS).input_names == ("a",)
    assert [notice.split(" is the index")[0] for notice in notices(caplog)] == [f"{path}: column 'Unnamed: 0'"]
    pandas.read_csv(path).to_parquet(tmp_path / "again.parquet")  # where it has become a column like others
    assert FromFile(path=tmp_path / "again.parquet").load(STREAMS).input_names == ("a",)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["0", "1"], "i"), (["0.5", "1"], "f"), (["1", "yes"], "U"), (["01", "02"], "U"), (["-1", "2"], "i")],
)
def test_labels_of_a_csv_file(tmp_path, monkeypatch, labels, kind):
    monkeypatch.setattr(csv_file, "BLOCK", 1)  # what the first block is taken for, the second may belie
    path = written(tmp_path, "\ufeffa;label\n" + "".join(f"1;{label}\n\n" for label in labels))
    found, names = csv_file.read_csv(path, Roles("label", None, None, ()))
    assert (found["y"].dtype.kind, found["y"].astype(str).tolist()[-1], names) == (
        kind,
        found["y"].astype(str)[-1],
        ("a",),
    )
    assert found["y"].tolist() == [type(found["y"].tolist()[0])(label) for label in labels]


def test_users_of_a_csv_file_keep_their_zeros(tmp_path):
    path = written(tmp_path, "a,label,who\n1,0,007\n2,1,7\n")
    assert csv_file.read_csv(path, Roles("label", "who", None, ()))[0]["users"].tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; its first line names the columns"),
        ("a,label\n", "no samples"),
        ("a,,label\n1,2,3\n", "column 2 has no name"),
        ("a,a,label\n1,2,3\n", "two columns 'a'"),
        ("a,label\n1,0\n1,2,3\n", "line 3: 3 cells under 2 columns"),
        ("a,label\n1,0\nx,1\n", "line 3: column 'a' holds 'x', not a number"),
        ("a,label\n1_0,0\n", "line 2: column 'a' holds '1_0', not a number"),
        ("a,label\n1e39,0\n", "line 2: column 'a' holds '1e39', not a number"),
        ("a,label\n1,0\n\n,1\n", "line 4: column 'a' is empty"),
        ("a,label\n1,0\n1,\n", "line 3: column 'label' is empty"),
        ('a,label\n1,"x\ny"\nz,1\n', "line 4: column 'a' holds 'z'"),
        ('a,label\n1,"x\n', "line 2: unexpected end of data"),
        (b"a,label\n1,\xff\n", "not UTF-8 text"),
    ],
)
def test_csv_files_that_do_not_fit(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=words) as caught:
        FromFile(path=path).load(STREAMS)
    assert str(path) in str(caught.value)


def test_a_csv_file_is_counted_before_memory_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 2)
    monkeypatch.setattr(base, "MOST_NUMBERS", 3)
    with pytest.raises(InputError, match="would hold 4 samples of 1 numbers"):
        FromFile(path=written(tmp_path, "a,label\n" + "1,0\n" * 5)).load(STREAMS)


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


FRAME = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": ["no", "yes"] * 10})


def test_objects_are_data():
    dataset = FromMemory.of(FRAME).load(STREAMS)
    assert (dataset.input_names, dataset.class_names, len(dataset.test)) == (("a", "b"), ("no", "yes"), 4)
    pair = FromMemory.of((X[:, :2], FRAME["label"].tolist())).load(STREAMS)
    assert_array_equal(pair.train.x, dataset.train.x)
    named = FromMemory.of({"x": X, "y": Y, "users": ["ann", "bob"] * 10, "test_x": X[:2], "test_y": [0, 1]}).load(
        STREAMS
    )
    assert (len(named.train), len(named.test), named.train.users[1]) == (20, 2, "bob")
    assert FromMemory.of(named).load(STREAMS) is named


def test_a_frame_of_polars_is_data_too():
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": ["no", "yes"] * 10})
    frame = frame.with_columns(who=polars.col("label").cast(polars.Categorical))
    dataset, want = FromMemory.of(frame, user="who").load(STREAMS), FromMemory.of(FRAME).load(STREAMS)
    assert_array_equal(dataset.train.x, want.train.x)
    assert (dataset.class_names, dataset.train.users[0]) == (("no", "yes"), dataset.class_names[dataset.train.y[0]])
    with pytest.raises(InputError, match="column 'a' has 20 empty cells"):
        FromMemory.of(frame.with_columns(a=None), user="who")


def test_data_in_memory_are_copied_and_told_apart_by_their_content():
    x = X.copy()
    one = FromMemory.of((x, Y))
    x[0] = 99.0
    assert_array_equal(np.sort(one.load(STREAMS).train.x[:, 0])[-1], X[:, 0].max())
    assert one == FromMemory.of((X, Y))
    assert one.digest != FromMemory.of((x, Y)).digest
    assert FromMemory.of(FRAME).digest != FromMemory.of(FRAME.rename(columns={"a": "c"})).digest
    assert (
        FromMemory.of(Dataset("one", *[one.load(STREAMS).train] * 2, classes=4)).content
        == "a Dataset 'one' of 16 samples"
    )


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("digits", {}, "is a str; give a data frame of pandas or polars"),
        ((X,), {}, "a tuple of 1; give"),
        ({"x": X, "y": Y, "z": Y}, {}, "the unknown array 'z'"),
        (([[1], [1, 2]], Y), {}, "cannot be read"),
        (FRAME.assign(a=None), {}, "column 'a' has 20 empty cells"),
        (FRAME.assign(when=pandas.Timestamp(0)), {}, r"column 'when' holds datetime64\[\w+\], not numbers"),
        (FRAME, {"label": "lable"}, "no column 'lable'"),
        (FRAME.set_axis(["a", "a", "label"], axis=1), {}, "two columns with the same name"),
        ((X, Y), {"columns": ["a"]}, "have no columns to name"),
    ],
)
def test_objects_that_are_no_data(given, options, words):
    with pytest.raises(InputError, match=words):
        FromMemory.of(given, **options).load(STREAMS)


def test_data_that_were_an_object_are_asked_for_again():
    saved = FromMemory.model_validate(FromMemory.of(FRAME, test_share=0.3).model_dump())
    with pytest.raises(
        InputError, match=r"were an object \(a data frame of pandas, 20 rows and 3 columns\), which is not"
    ):
        saved.load(STREAMS)
    assert len(saved.again(FRAME).load(STREAMS).test) == 6
    with pytest.raises(InputError, match="not those that the run was made with"):
        saved.again(FRAME.assign(a=0.0))


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
    with pytest.raises(InputError, match=r"'dataset\.limt' is not a known key\. Did you mean 'limit'"):
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
