"""Importing Enlist is light: nothing but NumPy and SciPy, and quick."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "flwr", "ray", "typer", "rich", "click", "altair", "vl_convert", "sklearn", "pandas", "mabwiser")
HEAVY_TOO = ("matplotlib", "pytest", "hypothesis", "IPython")


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return json.loads(done.stdout)


def loaded(statement):
    # What the interpreter itself brings along (site, .pth files) does not count.
    code = f"import json, sys; before = set(sys.modules); {statement}; new = set(sys.modules) - before"
    code += "; print(json.dumps(sorted(new)))"
    return {name.partition(".")[0] for name in fresh(code)}


@pytest.mark.parametrize("module", ["enlist", "enlist.arena", "enlist.testing", "enlist.bandits", "enlist.cli"])
def test_importing_brings_in_nothing_heavy(module):
    modules = loaded(f"import {module}")
    assert "enlist" in modules
    assert "numpy" in modules or module == "enlist.cli"
    assert modules & {*HEAVY, *HEAVY_TOO} == set()


def test_creating_every_selector_brings_in_nothing_heavy():
    statement = "import enlist.testing as t; [enlist.create(name, t.population(8)) for name in enlist.names()]"
    assert loaded(f"import enlist, {statement.removeprefix('import ')}") & {*HEAVY, *HEAVY_TOO} == set()


def test_importing_takes_well_under_half_a_second():
    code = "import time; start = time.perf_counter(); import enlist; print(time.perf_counter() - start)"
    assert min(fresh(code) for _ in range(5)) < 0.5
