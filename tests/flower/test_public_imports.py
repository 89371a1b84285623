"""Only what Flower makes public is imported, so that its next version does not break apps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import enlist

SOURCE = Path(enlist.__file__).parent
PRIVATE = re.compile(r"flwr\.(proto|supercore|superlink|supernode|common|cli|server\b|simulation)")
PUBLIC = {"flwr.app", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.clientapp"}
OLD = {"flwr.common", "flwr.server", "flwr.server.strategy"}
"""Public in the old API, and imported where an old strategy is wrapped alone."""


def private_names(text: str, allowed: frozenset[str] = frozenset()) -> list[str]:
    """Modules of Flower that are named or imported in a source text though they are not public."""
    found = [match.group() for match in PRIVATE.finditer(text) if not allowed]
    for node in ast.walk(ast.parse(text)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += [name for name in names if name.split(".")[0] == "flwr" and name not in PUBLIC | allowed]
    return found


def test_nothing_private_of_flower_is_imported() -> None:
    paths = list(SOURCE.rglob("*.py"))
    assert SOURCE / "flower" / "fake.py" in paths
    allowed = {path: frozenset(OLD) if path.name == "legacy.py" else frozenset[str]() for path in paths}
    assert {path.name: found for path in paths if (found := private_names(path.read_text(), allowed[path]))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from flwr.supercore.task_identity import TaskIdentity",
        "import flwr.common.logger",
        "from flwr.serverapp.strategy.fedavg import FedAvg",
        "def late() -> None:\n    from flwr.proto import node_pb2",
        "module = 'flwr.server.strategy'",
    ],
)
def test_private_imports_are_found(line: str) -> None:
    assert private_names(line)
