"""docs/design.md walks through a simulated round as the code has it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import enlist.simulation

SECTION = (Path(__file__).parents[2] / "docs" / "design.md").read_text().split("## One Flower round")[0]


def test_the_walk_names_what_there_is() -> None:
    """Every `Class.method` of the section is in the code of the simulator, and so is every function by itself."""
    walked = pkgutil.walk_packages(enlist.simulation.__path__, "enlist.simulation.")
    modules = [importlib.import_module(each.name) for each in walked]
    places = {name: value for module in modules for name, value in vars(module).items()}
    named = re.findall(r"`([A-Z]\w*)\.(\w+)`", SECTION)
    assert len(named) > 15
    for owner, name in named:
        assert hasattr(places[owner], name), f"{owner}.{name}"
    methods = {name for place in places.values() if inspect.isclass(place) for name in vars(place)}
    alone = set(re.findall(r"`(_?[a-z]\w+)`", SECTION))
    assert {"_somebody", "wait", "evaluate", "save", "restore"} <= alone
    assert alone <= {*places, *methods}
    for step in range(1, 11):
        assert f"\n{step}. " in SECTION


def test_every_file_of_the_walk_exists() -> None:
    root = Path(enlist.simulation.__file__).parent
    files = [name for name in re.findall(r"`([\w/]+\.py)`", SECTION) if not name.startswith(("src/", "tests/"))]
    assert len(files) >= 4
    for name in files:
        assert (root / name).exists(), name
