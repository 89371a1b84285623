"""What the name of an engine says, and what does not fit it; nothing here needs Ray."""

from __future__ import annotations

import importlib.util

import pytest

from enlist.cli.run import chosen_device
from enlist.engine.choosing import RayOptions, made, ray_options
from enlist.errors import EnlistError, InputError, MissingExtraError


def test_the_name_says_where_and_how_much() -> None:
    assert ray_options("ray") == RayOptions(None)
    assert ray_options("ray?cpus=2&gpus=0.5") == RayOptions(None, 2.0, 0.5)
    assert ray_options("ray://head:10001?gpus=1") == RayOptions("ray://head:10001", None, 1.0)
    assert ray_options("local") is ray_options("ray://") is ray_options(None) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ray?gpu=1", "its options are cpus, gpus and working_dir"),
        ("ray?gpus=1&gpus=2", "its options are cpus, gpus and working_dir"),
        ("ray?gpus", "gpus must be a fraction such as 0.25, or a whole number, and is ''"),
        ("ray?gpus=1.5", "or a whole number, and is '1.5'"),
        ("ray?cpus=-1", "and is '-1'"),
        ("ray?cpus=nan", "and is 'nan'"),
        ("ray?working_dir=/no/such", "working_dir must be a folder"),
        ("rya", "give 'local', 'ray'"),
    ],
)
def test_a_bad_name_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made(name, 1)


@pytest.mark.parametrize("name", ["ray://head:10001", "ray"])
def test_a_client_without_grpc_is_told_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "grpc" else found(name))
    with pytest.raises(MissingExtraError, match=r"'enlist --engine ray://head:10001' needs .*'enlist\[ray\]'"):
        made(name, 1)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ray://head", "it must have a host and a port"),
        ("ray://head:port", "it must have a host and a port"),
        ("ray://head:70000", "it must have a host and a port"),
        ("http://head:8265", "as in ray://head:10001 for a client of the cluster, or head:6379 on a node of it"),
        ("ray://127.0.0.1:1", "nothing answers at ray://127.0.0.1:1; start a Ray cluster there"),
        ("127.0.0.1:1", "nothing answers at 127.0.0.1:1; start a Ray cluster there"),
    ],
)
def test_a_wrong_address_is_refused_before_ray_waits_for_it(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=said):
        made("ray", 1)


def test_on_ray_the_nodes_have_the_gpus() -> None:
    assert chosen_device("auto", "ray?gpus=0.25") == chosen_device("cuda", "ray?gpus=0.25") == "cuda"
    assert chosen_device("cpu", "ray?gpus=0.25") == chosen_device("auto", "ray") == "cpu"
    with pytest.raises(InputError, match=r"no task on the Ray cluster gets a GPU.*ray\?cpus=2&gpus=0.25"):
        chosen_device("cuda", "ray?cpus=2")


def test_a_head_is_lost_after_it_was_silent_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from enlist.engine.head import Head

    now, there = [0.0], [True]
    monkeypatch.setattr(Head, "answers", lambda self: there[0])
    head = Head("10.0.0.1:6379", patience=20.0, clock=lambda: now[0])
    assert head.check()
    there[0] = False
    for now[0] in (1.0, 15.0):
        assert not head.check()
    there[0] = True
    assert head.check()
    there[0] = False
    for now[0] in (30.0, 49.0):
        assert not head.check()
    now[0] = 50.0
    with pytest.raises(EnlistError, match=r"at 10\.0\.0\.1:6379 does not answer any more; start the cluster again"):
        head.check()
    assert head.lost
