"""Workers: who holds what, and how parts that are missing are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from enlist.data import IID, Dataset, Samples, Telecom
from enlist.errors import EnlistError, InputError
from enlist.personal import Workers
from enlist.personal.sections import WorkersSection
from enlist.streams import Streams


def dataset(count: int = 60, **parts: bool) -> Dataset:
    """Users a, b, c in turn; y is 0 or 1; each part carries users if asked to."""
    x = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
    users = np.array(["a", "b", "c"] * (count // 3))
    y = np.arange(count) // 3 % 2
    own = Samples(x, y, users)
    bare = Samples(x, y)
    made = {part: own if parts.get(part) else bare for part in ("validation", "test")}
    return Dataset("mine", own, made["test"], 2, validation=made["validation"] if "validation" in parts else None)


def test_parts_with_users_stay_as_they_are() -> None:
    data = Telecom(rows=4000).load(Streams(1))
    workers = Workers.of(data, Streams(1))
    for part, samples in data.parts.items():
        for worker, name in enumerate(workers.names):
            start, stop = workers.span(part, worker)
            mine = samples.users == int(name)
            assert torch.equal(workers.data[part].x[start:stop], torch.from_numpy(samples.x[mine]))
            assert torch.equal(workers.data[part].y[start:stop], torch.from_numpy(samples.y[mine]))


def test_missing_parts_come_from_the_workers_own_training_samples() -> None:
    workers = Workers.of(dataset(), Streams(1), validation=0.5, test=0.2)
    assert workers.names == ("a", "b", "c")
    assert [np.diff(workers.offsets[part]).tolist() for part in ("train", "validation", "test")] == [[8] * 3] * 2 + [
        [4] * 3
    ]
    for worker in range(3):
        rows = [workers.data[part].x[slice(*workers.span(part, worker)), 0] / 2 for part in workers.data]
        held = torch.cat(rows).int().sort().values.tolist()
        assert held == list(range(worker, 60, 3)), "each sample is in one part of its own worker"


def test_labels_are_shared_out_evenly() -> None:
    workers = Workers.of(dataset(), Streams(1), validation=0.5, test=0.2)
    for part in workers.data:
        for worker in range(3):
            assert workers.data[part].y[slice(*workers.span(part, worker))].double().mean() == 0.5


def test_a_test_part_with_users_is_kept() -> None:
    workers = Workers.of(dataset(test=True), Streams(1), validation=0.25)
    assert np.diff(workers.offsets["test"]).tolist() == [20] * 3
    assert np.diff(workers.offsets["validation"]).tolist() == [5] * 3


def test_samples_of_nobody_are_spread() -> None:
    bare = dataset()
    nobody = Dataset("mine", Samples(bare.train.x, bare.train.y), Samples(bare.test.x[:30], bare.test.y[:30]), 2)
    workers = Workers.spread(nobody, 5, IID(), Streams(1), validation=0.5, test=0.25)
    assert workers.names == ("1", "2", "3", "4", "5")
    assert sum(len(part) for part in workers.data.values()) == 90
    assert Workers.spread(nobody, 10, IID(), Streams(1)).names[:2] == ("01", "02")
    with pytest.raises(InputError, match=r"does not say which user holds a sample; give files.*workers\.count"):
        Workers.of(nobody, Streams(1))


def test_files_with_textual_labels_of_different_sets(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, labels in (("north", ["no", "yes"]), ("south", ["maybe", "yes"])):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(40, 3)), y=np.array(labels * 20))
    section = WorkersSection(files={name: str(tmp_path / f"{name}.npz") for name in ("north", "south")})
    workers = section.load(Streams(1))
    assert (workers.names, workers.classes) == (("north", "south"), 3)
    labels = [set(workers.data["train"].y[slice(*workers.span("train", worker))].tolist()) for worker in (0, 1)]
    assert labels == [{1, 2}, {0, 2}], "maybe, no, yes"


def test_files_with_their_own_parts_and_options(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        arrays = {
            f"{prefix}{key}": rng.normal(size=(count, 4)) if key == "x" else np.arange(count) % 2
            for prefix, count in (("", 20), ("validation_", 12), ("test_", 8))
            for key in ("x", "y")
        }
        np.savez(tmp_path / f"{name}.npz", **arrays)
    path = {"path": str(tmp_path / "b.npz"), "normalise": True}
    workers = WorkersSection(files={"a": str(tmp_path / "a.npz"), "b": path}).load(Streams(1))
    assert [np.diff(workers.offsets[part]).tolist() for part in ("train", "validation", "test")] == [
        [20, 20], [12, 12], [8, 8],
    ]  # fmt: skip
    mine = workers.data["train"].x[20:]
    assert mine.mean(dim=0).abs().max() < 1e-6, "the options of one file"


def test_workers_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((20, 3)), y=[0, 1] * 10)
    np.savez(tmp_path / "b.npz", x=np.zeros((20, 4)), y=[0, 1] * 10)
    np.savez(tmp_path / "c.npz", x=np.zeros((20, 3)), y=["no", "yes"] * 10)
    files = {name: str(tmp_path / f"{name}.npz") for name in "abc"}
    with pytest.raises(InputError, match=r"worker 'b' has samples of shape \(4,\)"):
        WorkersSection(files={"a": files["a"], "b": files["b"]}).load(Streams(1))
    with pytest.raises(InputError, match="the labels of worker 'a' are numbers, those of others text"):
        WorkersSection(files={"a": files["a"], "c": files["c"]}).load(Streams(1))
    with pytest.raises(InputError, match="there is 1 worker; personalised learning needs"):
        WorkersSection(files={"a": files["a"]}).load(Streams(1))


def test_a_worker_without_samples_in_a_part_is_refused() -> None:
    whole = dataset(test=True)
    without = Samples(whole.test.x[::3], whole.test.y[::3], whole.test.users[::3])
    with pytest.raises(InputError, match="worker 'b' has no test samples; give it some, or leave it out"):
        Workers.of(Dataset("mine", whole.train, without, 2), Streams(1))


def test_unknown_names_are_refused_with_the_nearest() -> None:
    workers = Workers.of(dataset(), Streams(1))
    assert workers.position("b") == 1
    with pytest.raises(EnlistError, match="no worker is called 'd'"):
        workers.position("d")


def test_the_same_seed_gives_the_same_workers_and_another_does_not() -> None:
    section = WorkersSection(dataset="digits", count=4, partition="iid")
    first, second, third = (section.load(Streams(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.data["train"].x, second.data["train"].x)
    assert not torch.equal(first.data["train"].y, third.data["train"].y)


def test_a_number_of_workers_takes_the_first_users_and_spreads_nothing() -> None:
    section = WorkersSection(dataset={"name": "telecom", "rows": 4000}, count=3)
    assert section.load(Streams(1)).names == ("1", "2", "3")
