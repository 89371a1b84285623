"""The script that draws charts in a page: Vega, Vega-Lite and vega-embed in one file, cached between commands.

vl-convert needs three seconds to bundle it, and always gives the same text. It is cached in the user's state folder,
to which no one else may write, under the versions that it was made from. A damaged file is replaced.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import stat
from pathlib import Path

import altair as alt
import vl_convert

from enlist import storage
from enlist._internal import files
from enlist.errors import EnlistError
from enlist.runs.trust import check_private, state_folder

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
"""The version of Vega-Lite that Altair writes, as vl-convert names it."""
NAME = f"charts-{VEGA_LITE}-{vl_convert.__version__}.js"  # type: ignore[attr-defined]


@functools.cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed in one script; text that would end its element early is escaped.

    >>> "vegaEmbed" in library()
    True
    """
    with contextlib.suppress(OSError, RuntimeError):  # a home folder that cannot be found or read
        if kept := _kept(state_folder()):
            return kept
    bundle = str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]
    script = re.sub(r"<(?=/script|!--)", r"\\x3c", bundle.replace("\r\n", "\n"), flags=re.IGNORECASE)
    with contextlib.suppress(OSError, RuntimeError, EnlistError):  # or written: then the script is made every time
        _keep(state_folder(), script)
    return script


def _kept(folder: Path) -> str:
    """The script cached by an earlier command; None if there is none, or if it may not be ours."""
    path = folder / NAME
    try:
        check_private(folder, stat.S_ISDIR, 0o022)
        check_private(path, stat.S_ISREG, 0o022)
        digest, _, script = files.read(path).decode().partition("\n")
    except (OSError, UnicodeDecodeError, EnlistError):
        return ""
    return script if digest == _digest(script) else ""


def _keep(folder: Path, script: str) -> None:
    """Cache the script, and remove those of other versions."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private(folder, stat.S_ISDIR, 0o022)
    storage.replace(folder / NAME, f"{_digest(script)}\n{script}".encode())
    (folder / NAME).chmod(0o600)
    for path in folder.glob("charts-*.js"):
        if path.name != NAME:
            path.unlink(missing_ok=True)


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
