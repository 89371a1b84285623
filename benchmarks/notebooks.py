"""The notebooks of docs/notebooks, run without Jupyter:  python -m benchmarks.notebooks [--check]

Every code cell is run in order, in one namespace and an empty folder, and what it prints and shows is written into the
notebook. --check writes nothing, and fails if what comes out has another shape than what is there: the same text, with
other numbers at most.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
LONGEST = 60.0
"""Seconds that a notebook may take."""
Cell = dict[str, Any]


def executed(notebook: Cell, change: Callable[[str], str] = str) -> list[list[Cell]]:
    """The outputs of every code cell; `change` may shorten the source before it is run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as place, _inside(place):
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [_run(change("".join(cell["source"])), number, namespace) for number, cell in enumerate(cells, 1)]


@contextlib.contextmanager
def _inside(place: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def _run(source: str, number: int, namespace: dict[str, Any]) -> list[Cell]:
    name = f"<cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # as IPython does, for errors
    tree, last = ast.parse(source, name), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(tree, name, "exec"), namespace)
        value = None if last is None else eval(compile(last, name, "eval"), namespace)
    found: list[Cell] = []
    if said.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(said.getvalue())})
    if value is not None:
        found.append(
            {"data": _shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        )
    return found


def _shown(value: Any) -> Cell:
    """What a notebook shows of a value: a chart as an image, so that pages without scripts show it too."""
    if type(value).__module__.startswith("altair."):
        import vl_convert

        image = base64.b64encode(vl_convert.vegalite_to_png(value.to_dict(), scale=1.2)).decode()
        return {"image/png": image, "text/plain": [type(value).__name__]}
    shown = {"text/plain": _lines(repr(value))}
    return {"text/html": _lines(value._repr_html_()), **shown} if hasattr(value, "_repr_html_") else shown


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def shape(outputs: list[list[Cell]]) -> str:
    """What is left of outputs when numbers are any numbers, because other machines add up in another order."""
    texts = [
        "".join(output.get("text", output.get("data", {}).get("text/plain", []))) for cell in outputs for output in cell
    ]
    return re.sub(r"[\s-]+", " ", re.sub(r"[-+]?\d+([.,]\d+)*", "0", "\n".join(texts)))


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if anything has changed")
    check = parser.parse_args().check
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook, before = json.loads(path.read_text(encoding="utf-8")), time.monotonic()
        outputs = executed(notebook)
        seconds = time.monotonic() - before
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        print(f"{path.name}: {len(code)} cells, {seconds:.0f} seconds")
        if check and (seconds > LONGEST or shape(outputs) != shape([cell["outputs"] for cell in code])):
            sys.exit(f"{path.name} takes too long, or shows something else now; run python -m benchmarks.notebooks.")
        for number, (cell, found) in enumerate(zip(code, outputs, strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, found
        if not check:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
