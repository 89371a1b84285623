"""Only what Flower makes public is used, so that its next version does not break apps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import enlist

SOURCE = Path(enlist.__file__).parent
PRIVATE = re.compile(r"flwr\.(proto|supercore|superlink|supernode|common|cli|server\b|simulation)")
PUBLIC = {"flwr.app", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.clientapp"}
FAKE = SOURCE / "flower" / "fake.py"
"""Plays the SuperLink in tests, which gives processes their identity: there is no public way to do that."""


def test_nothing_private_of_flower_is_used() -> None:
    for path in SOURCE.rglob("*.py"):
        found = PRIVATE.findall(path.read_text())
        assert found == (["supercore"] if path == FAKE else []), path


def test_imports_are_from_public_modules() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            private = [name for name in names if name.split(".")[0] == "flwr" and name not in PUBLIC]
            assert private == (["flwr.supercore.task_identity"] if path == FAKE and private else []), path
