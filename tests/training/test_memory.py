"""Shared memory: without names, wherever there is room, and the same numbers everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from enlist.errors import EnlistError
from enlist.training import memory
from enlist.training.memory import shared_copy, shared_zeros

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /dev/shm")


def only(monkeypatch: pytest.MonkeyPatch, **free: int) -> None:
    """A machine without anonymous memory, and with this many free bytes in /dev/shm and in the temporary folder."""
    monkeypatch.setattr(memory, "_anonymous", lambda size: None)
    monkeypatch.setattr(memory, "SAID", set())
    rooms = {memory.SHARED: free["shared"], tempfile.gettempdir(): free["disk"]}
    found: Any = lambda folder: SimpleNamespace(f_bavail=rooms[folder], f_frsize=1)  # noqa: E731
    monkeypatch.setattr(memory.os, "statvfs", found)


def behind(tensor: torch.Tensor) -> str:
    """The file that a shared tensor lies in."""
    start = f"{tensor.data_ptr():x}-"
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line for line in lines if line.startswith(start)).split(maxsplit=5)[5]


def test_memory_has_no_name_and_does_not_need_dev_shm() -> None:
    before = sorted(os.listdir("/dev/shm"))
    tensor = shared_copy(torch.arange(6.0).reshape(2, 3))
    assert tensor.is_shared()
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert behind(tensor) == "/memfd:enlist (deleted)"
    assert [name for name in os.listdir("/dev/shm") if name.startswith("torch_") and name not in before] == []


def test_no_numbers_need_no_memory() -> None:
    assert shared_zeros(3, 0, dtype=torch.int64).shape == (3, 0)


def test_dev_shm_is_used_where_anonymous_memory_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    only(monkeypatch, shared=10**8, disk=10**8)
    tensor = shared_zeros(1000)
    assert behind(tensor).startswith("/dev/shm/")
    assert behind(tensor).endswith("(deleted)")
    assert caplog.text == ""


def test_a_file_takes_the_place_of_shared_memory_that_is_too_small(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    only(monkeypatch, shared=64_000_000, disk=10**9)
    tensors = [shared_zeros(20_000_000), shared_zeros(20_000_000)]
    assert all(behind(tensor).startswith(tempfile.gettempdir()) for tensor in tensors)
    assert all(behind(tensor).endswith("(deleted)") for tensor in tensors)
    assert caplog.text.count("share 80.0 MB, and /dev/shm has 64.0 MB left: a file in") == 1
    assert "docker run --shm-size=2g" in caplog.text


def test_no_room_at_all_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, shared=64_000_000, disk=10_000)
    with pytest.raises(EnlistError, match=r"share 80.0 MB, for which there is no room: .* with --workers 0"):
        shared_zeros(20_000_000)


TINY = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/dev/shm"], check=True)
import numpy as np, torch
from torch import nn
from enlist.data.dataset import Samples
from enlist.training import memory
from enlist.training.engine import TrainingSetup, SharedSamples
from enlist.training.flat import FlatModule, Vectors
from enlist.training.local import LocalTraining, TrainingTask
from enlist.training.workers import Trainer

if sys.argv[1] == "files":
    memory._anonymous = lambda size: None
def found(workers):
    torch.manual_seed(1)
    samples = Samples(np.random.default_rng(0).normal(size=(40, 300)), np.arange(40) % 2)
    data = SharedSamples.of(samples, shared=workers > 0)
    job = TrainingSetup(nn.Linear(300, 2), 2, LocalTraining(lr=0.1), {"train": data}, seed=1)
    tasks = [TrainingTask(client, 4 * client, 4 * client + 4, 2, 1, 0, 0) for client in range(10)]
    with Trainer(job, workers) as trainer:
        trainer.put(0, Vectors.zeros(trainer.layout))
        return torch.stack([update.parameters.clone() for _, update in trainer.train(tasks)])
if __name__ == "__main__":
    assert torch.equal(found(0), found(2))
    print("same", os.listdir("/dev/shm"))
"""


@pytest.mark.parametrize("kind", ["memory", pytest.param("files", marks=pytest.mark.verify)])
def test_a_real_dev_shm_of_64_kilobytes(kind: str, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root can make a file system of its own")
    script = tmp_path / "tiny.py"
    script.write_text(TINY)
    command = ["unshare", "-m", sys.executable, str(script), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr and "permission" in done.stderr.lower():
        pytest.skip("this container may not mount")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "same []"
    assert ("takes its place" in done.stderr) == (kind == "files")
