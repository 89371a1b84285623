"""What tests on Ray share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enlist.runs.elsewhere import TaskFolder

# Ray itself leaves files open; Python tells of them when it collects garbage, in whatever test that happens.
LEFT_OPEN = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::FutureWarning:ray")
MARKS = [pytest.mark.verify, *map(pytest.mark.filterwarnings, LEFT_OPEN)]
TABLES = ("rounds.csv", "participations.csv", "clients.csv", "result.json", "model.safetensors")


@pytest.fixture(autouse=True, scope="module")
def _left_open() -> Iterator[None]:
    """Collect what Ray left open after its last test, else pytest itself fails when it ends."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def files(folder: Path) -> dict[str, bytes]:
    """What a run promises to reproduce, of all runs below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for name in TABLES for path in folder.rglob(name)}


def hidden(folder: Path, sign: Path, *others: Any) -> TaskFolder:
    """The place of a run, as on machines that do not see the folder of the driver."""
    return TaskFolder(folder, sign.with_name("elsewhere"), *others)
