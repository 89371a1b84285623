"""Drawing in several processes: chart specifications become PNG and SVG. It imports little, so that they start soon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vl_convert

from enlist import storage
from enlist.engine import local


def draw(drawings: Sequence[tuple[dict[str, Any], Path]], version: str, jobs: int = 1) -> None:
    """Write every specification (of this version of Vega-Lite) as PNG and SVG; paths have no suffix yet.

    >>> import tempfile
    >>> chart = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "ordinal"}}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw([(chart, Path(folder, "dots"))], "5.20")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['dots.png', 'dots.svg']
    """
    tasks = [(*drawing, version) for drawing in drawings]
    for _ in local(min(jobs, len(drawings))).map(_draw, tasks, role="a process that draws charts"):
        pass


def _draw(specification: dict[str, Any], stem: Path, version: str) -> None:
    drawing = vl_convert.vegalite_to_svg(specification, vl_version=version)
    storage.replace(stem.with_name(f"{stem.name}.svg"), drawing.encode())
    storage.replace(stem.with_name(f"{stem.name}.png"), vl_convert.svg_to_png(drawing, scale=2.0))
