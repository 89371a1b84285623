"""Signs that show whether machines see the same folders: those of drivers that were killed are removed."""

from __future__ import annotations

import os
from pathlib import Path

from enlist._internal import files
from enlist.runs.elsewhere import YOUNG, signed


def test_only_signs_that_nobody_holds_any_more_are_removed(tmp_path: Path) -> None:
    left, young, other = (tmp_path / f".enlist-{letter * 16}" for letter in "abx")
    for path in (left, young, other):
        path.write_text("7")
    for path in (left, other):
        os.utime(path, (1, os.stat(path).st_mtime - 2 * YOUNG))
    with signed([tmp_path / "runs" / "0"]) as (sign, content):
        assert sign.read_text() == content
        assert files.is_claimed(sign)
        os.utime(sign, (1, os.stat(sign).st_mtime - 2 * YOUNG))
        with signed([tmp_path / "runs" / "1"]):  # another part of the same comparison
            assert sign.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([young.name, other.name])
