"""Parts of pages that a command computes: they stand between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def between(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines between <!-- name --> and <!-- /name -->."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    text = page.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise ValueError(f"{page} must hold the marks {begin.strip()} and {end}.")
    head, _, rest = text.partition(begin)
    content = "\n".join(lines)
    page.write_text(f"{head}{begin}{content}\n{end}{rest.partition(end)[2]}", encoding="utf-8")
