"""The environment of a run: versions of Python, of the platform and of the packages that matter."""

from __future__ import annotations

import contextlib
import datetime
import functools
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("enlist", "numpy", "scipy", "torch", "scikit-learn", "pydantic", "safetensors", "flwr")


def about(changed: Sequence[str] = ()) -> dict[str, Any]:
    """The contents of environment.json for a new run: versions, date, command, and settings that are not defaults.

    >>> sorted(about(["rounds.k"]))[:3]
    ['changed', 'date', 'packages']
    """
    typed = {"command": shlex.join(["enlist", *sys.argv[1:]])} if Path(sys.argv[0]).name == "enlist" else {}
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {**environment(), "date": now, **typed, "changed": list(changed)}


@functools.cache
def environment() -> dict[str, Any]:
    """Versions of everything.

    >>> sorted(environment())
    ['packages', 'platform', 'python']
    """
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": found}
