"""The script that draws charts is made once for all commands of a user, and never taken from anybody else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import vl_convert

from enlist.report import library as module
from enlist.report.library import NAME, library


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each bundle that is asked of vl-convert, which gives a short one; the state folder is empty."""
    asked: list[str] = []

    def bundle(vl_version: str) -> str:
        asked.append(vl_version)
        return "vegaEmbed('</script>');\r\n"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return asked


def fresh() -> str:
    """As the next command would get it."""
    module.library.cache_clear()
    try:
        return library()
    finally:
        module.library.cache_clear()


def test_it_is_made_once(made: list[str], tmp_path: Path) -> None:
    assert fresh() == fresh() == "vegaEmbed('\\x3c/script>');\n"
    assert made == [module.VEGA_LITE]
    path = tmp_path / "enlist" / NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["cut", "edited", "not text", "link", "open"])
def test_what_is_damaged_or_may_be_somebody_elses_is_made_anew(made: list[str], damage: str, tmp_path: Path) -> None:
    script, path = fresh(), tmp_path / "enlist" / NAME
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-3])
    elif damage == "edited":
        path.write_bytes(content.replace(b"vegaEmbed", b"steal"))
    elif damage == "not text":
        path.write_bytes(b"\xff\xfe")
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.chmod(0o666)
    assert fresh() == script
    assert len(made) == 2
    assert not path.is_symlink()
    assert fresh() == script
    assert len(made) == 2


def test_only_the_present_version_is_kept(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "enlist").mkdir(mode=0o700)
    (tmp_path / "enlist" / "charts-4.0-0.1.js").write_text("old")
    (tmp_path / "enlist" / "key").write_text("stays")
    fresh()
    assert sorted(path.name for path in (tmp_path / "enlist").iterdir()) == [NAME, "key"]


def test_where_nothing_can_be_kept_it_is_made_every_time(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "enlist").write_text("a file where the folder belongs")
    assert fresh() == fresh()
    assert len(made) == 2
