"""A module imports only from the layers before its own, as CONTRIBUTING.md lists them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import enlist

# Modules of _internal stand here without that word: they have an order among themselves.
ORDER = ["errors", "typing", "text", "locks", "checks", "aliases", "needs", "settings", "importing", "streams"]
ORDER += ["statistics", "files", "archives", "options", "sending"]
ORDER += ["clients", "privacy", "records", "state", "rounds", "storage", "methods", "contract"]
ORDER += ["bandits", "selectors", "books", "testing", "engine", "arena", "runs", "report"]
ORDER += ["data", "devices", "training", "simulation", "ladder", "personal", "studies", "flower", "ui", "cli"]


def imported(tree: ast.Module) -> set[str]:
    """Names below enlist that a module imports when it runs; imports for type checkers do not count."""
    unchecked = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in unchecked and (node.module or "").startswith("enlist"):
            parts = [part for part in (node.module or "").split(".")[1:] if part != "_internal"]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found & set(ORDER)


def test_layers() -> None:
    root = Path(enlist.__file__).parent
    wrong = []
    for path in root.rglob("*.py"):
        layer = path.relative_to(root).as_posix().removeprefix("_internal/").split("/")[0].removesuffix(".py")
        if layer == "__init__":
            continue
        after = ORDER[ORDER.index(layer) + 1 :]
        used = imported(ast.parse(path.read_text()))
        wrong += [f"{path.relative_to(root)} imports {name}" for name in used if name in after]
    assert not wrong


def test_the_drawing_shows_every_layer_in_its_order() -> None:
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    drawing = text.split("```\n+--")[1].split("```")[0]
    upwards = reversed(re.split(r"^\+-+\+$", drawing, flags=re.M))
    lines = [line for box in upwards for line in box.splitlines()]
    boxes = " ".join(line[14:-1] for line in lines if line.startswith("|") and "+- " not in line)
    named = [word for word in re.findall(r"\w+", boxes.replace("; streams alone is public", "")) if word in ORDER]
    assert named == ORDER


def test_no_two_classes_have_one_name() -> None:
    root = Path(enlist.__file__).parent
    places: dict[str, list[str]] = {}
    for path in root.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(root).as_posix())
    assert not {name: found for name, found in places.items() if len(found) > 1}
