"""The restricted unpickler: plain values come through, names do not, and damage is an InputError."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enlist.data import unpickle
from enlist.errors import InputError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner) | st.sets(scalars)
    ),
    max_leaves=12,
)


class Hostile:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@settings(max_examples=60, deadline=None)
@given(value=plain, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_back_in_every_protocol(value, protocol):
    assert unpickle.loads(pickle.dumps(value, protocol), "x") == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_in_a_pickle_is_named_and_not_run(tmp_path, protocol):
    marker, path = tmp_path / "run", tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps([1, Hostile(str(marker))], protocol))
    with pytest.raises(InputError, match=rf"{path} asks for \w+\.mkdir, which is not allowed") as caught:
        unpickle.load(path)
    assert "only plain values" in str(caught.value)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "open", "bytearray", "object"])
def test_builtins_beyond_plain_values_are_refused(name):
    with pytest.raises(InputError, match=f"builtins.{name}"):
        unpickle.loads(b"cbuiltins\n" + name.encode() + b"\n.", "x")


def test_dotted_names_do_not_reach_inside_what_is_allowed():
    content = b"\x80\x04\x8c\x08builtins\x8c\x0cset.__init__\x93."
    with pytest.raises(InputError, match=r"set\.__init__"):
        unpickle.loads(content, "x")


def test_a_pickle_cannot_change_the_functions_that_it_may_call():
    poison = b"cbuiltins\nset\nN(U\x0c__defaults__((I7\nttd\x86b."
    with contextlib.suppress(InputError):
        unpickle.loads(poison, "poison.pkl")
    assert unpickle.loads(b"cbuiltins\nset\n(tR.", "x") == set()


def test_the_caller_allows_names_and_says_what_stands_for_them(tmp_path):
    path = tmp_path / "ordered.pkl"
    path.write_bytes(pickle.dumps(OrderedDict(a=1), protocol=2))
    assert unpickle.load(path, {("collections", "OrderedDict"): dict}) == {"a": 1}
    with pytest.raises(InputError, match=r"collections\.OrderedDict, which is not allowed \(allowed: x\.y\)"):
        unpickle.load(path, {("x", "y"): dict})


def test_strings_of_python_2_follow_the_encoding():
    content = b"\x80\x02U\x02\xe9a."
    assert unpickle.loads(content, "x", encoding="bytes") == b"\xe9a"
    assert unpickle.loads(content, "x", encoding="latin1") == "éa"
    with pytest.raises(InputError, match="not a readable pickle"):
        unpickle.loads(content, "x")


def test_links_out_of_the_file_are_refused():
    with pytest.raises(InputError, match="outside the file"):
        unpickle.loads(b"P7\n.", "x")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.pkl cannot be read: No such file"):
        unpickle.load(tmp_path / "none.pkl")


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(0, 60), flip=st.integers(0, 60), byte=st.integers(0, 255))
def test_damage_gives_an_input_error_or_a_value(cut, flip, byte):
    content = bytearray(pickle.dumps({"a": [1, 2.5, "text", b"bytes"], "b": {1, 2}}, protocol=2))
    content[flip % len(content)] = byte
    with contextlib.suppress(InputError):
        unpickle.loads(bytes(content[: len(content) - cut % len(content)]), "damaged.pkl")


def test_truncation_is_named():
    with pytest.raises(InputError, match=r"cut\.pkl is not a readable pickle .* truncated"):
        unpickle.loads(pickle.dumps([1, 2])[:-3], "cut.pkl")
