"""The SuperLink, with three SuperNodes, that deployment tests share; and these tests begin first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flower.deployment.harness import Federation

collect_ignore = ["old_app"]  # programs, which tests start with arguments


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They mostly wait, so the earlier they begin, the more of the other tests run beside them."""
    items.sort(key=lambda item: Path(__file__).parent not in item.path.parents)


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """TLS, node authentication, three nodes; everything is stopped at the end.

    One of these for each worker of pytest-xdist that needs it, so all that needs it is one test.
    """
    with Federation(tmp_path_factory.mktemp("federation") / "lab", nodes=3) as federation:
        yield federation
