"""What tests and doctests share: a browser, a key of their own, and names of selectors that end with the test."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from enlist import selectors

settings.register_profile("enlist", deadline=None)  # a busy machine is no bug
settings.load_profile("enlist")

if TYPE_CHECKING:
    from tests.browser import Browser


@pytest.fixture(autouse=True, scope="session")
def _own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave no key in the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A selector that a test registers is gone when it ends, whichever tests the same process runs next."""
    monkeypatch.setattr(selectors, "_registered", dict(selectors._registered))


@pytest.fixture(autouse=True, scope="session")
def _processes_start_fast() -> None:
    """Whichever test is the first to start a process: those of later tests find PyTorch imported (1.6 s each)."""
    multiprocessing.set_forkserver_preload(["__main__", "enlist.simulation.comparison"])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for each worker of pytest-xdist; a test without it fails with the way to install it."""
    from tests.browser import Browser  # only here: most tests run without it

    opened = Browser()
    yield opened
    opened.close()
