"""A full disk, a folder that may not be written, an output that takes nothing: one sentence, never a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enlist.cli import main
from enlist.cli.console import new_folder, trouble_of, writing_to
from enlist.errors import EnlistError

resource = pytest.importorskip("resource")

CONFIG = """
[data]
clients = 4
partition = "iid"
[model]
name = "mlp"
hidden = [8]
[rounds]
rounds = 2
k = 2
"""
PERSONAL = """
[workers]
dataset = { name = "telecom", rows = 2000 }
[rounds]
rounds = 1
"""
COMMANDS = {
    "describe": ("config.toml",),
    "profile": ("config.toml", "--batch-sizes", "8", "--rounds", "1"),
    "arena": ("--clients", "9", "-k", "2", "--rounds", "20", "--seeds", "1", "--jobs", "1", "--selectors", "random"),
    "run": ("config.toml", "--workers", "0"),
    "personalise": ("personal.toml", "--seeds", "1"),
}


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes: the system then says what it says when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "personal.toml").write_text(PERSONAL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["enlist", command, *COMMANDS[command], "--output", "out"])
    with disk_of(1500), pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.startswith("error: ")
    assert "out" in said
    assert "File too large" in said
    assert "make room" in said
    assert len(said.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [("list", "selectors"), ("--version",)])
def test_an_output_that_takes_nothing_is_one_sentence(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", "from enlist.cli import main; main()", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    sentence = "error: cannot write to standard output: No space left on device; redirect it elsewhere."
    assert (done.returncode, done.stderr.strip()) == (2, sentence)


def test_whoever_reads_no_further_is_not_shouted_at() -> None:
    command = [sys.executable, "-c", "from enlist.cli import main; main()", "list", "selectors"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EIO])
def test_what_the_machine_refuses_has_path_reason_and_way_out(number: int, tmp_path: Path) -> None:
    with pytest.raises(EnlistError) as caught, writing_to(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "x.csv"))
    assert f"{tmp_path / 'x.csv'} cannot be " in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert "try again" in str(caught.value)


@pytest.mark.parametrize("make", [lambda: FileNotFoundError(errno.ENOENT, "x"), lambda: OSError("odd")])
def test_a_mistake_of_ours_is_not_hidden(make: Callable[[], OSError], tmp_path: Path) -> None:
    assert trouble_of(make()) is None
    with pytest.raises(OSError, match=r"odd|x"), new_folder(tmp_path / "new", "test"):
        raise make()
