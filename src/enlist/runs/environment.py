"""What a run was made with: versions of Python, of the platform and of the packages that matter."""

from __future__ import annotations

import contextlib
import functools
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("enlist", "numpy", "scipy", "torch", "scikit-learn", "pydantic", "safetensors", "flwr")


@functools.cache
def environment() -> dict[str, Any]:
    """What environment.json holds.

    >>> sorted(environment())
    ['packages', 'platform', 'python']
    """
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": found}
