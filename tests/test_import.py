"""Importing Enlist is light: nothing but NumPy and SciPy, and quick."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

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


def test_importing_takes_no_longer_than_importing_numpy_and_scipy():
    code = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    turns = [[fresh(code.format(what)) for what in ("enlist", "numpy, scipy.special")] for _ in range(3)]
    ours, theirs = map(min, zip(*turns, strict=True))
    assert ours < theirs


def test_a_run_imports_neither_statistics_nor_charts_nor_data_frames(tmp_path):
    example = Path(__file__).parents[1] / "examples" / "quickstart.toml"
    words = ["enlist", "run", str(example), "--set", "rounds.rounds=2", "--workers", "1", "--quiet"]
    code = f"import json, sys; sys.argv = {[*words, '--output', str(tmp_path / 'run')]!r}; import enlist.cli as c\n"
    code += "if __name__ == '__main__':\n try: c.main()\n except SystemExit as end: assert not end.code\n"
    code += " print(json.dumps(sorted(sys.modules)))"
    modules = set(fresh(code))
    assert {"torch", "scipy.special", "enlist.training.engine"} <= modules
    needless = {"scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.fft", "scipy.cluster"}
    needless |= {"sklearn", "pandas", "pyarrow", "altair", "vl_convert", "ray", "jsonschema", "enlist.report.charts"}
    assert modules & needless == set()


def test_the_server_that_starts_early_imports_what_workers_need():
    from enlist.cli.run import TRAINING

    pytest.importorskip("torch")
    assert importlib.import_module(TRAINING).PRELOAD == TRAINING
