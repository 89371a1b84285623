"""Why runs failed: failure.json in the folder of a run that ended with an error, failures.json of a whole comparison.

A run that is killed leaves neither. Continuing a run, or doing the missing runs again, removes them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from enlist import storage
from enlist._internal import files
from enlist.errors import EnlistError
from enlist.runs.tables import read_json

FAILURE, FAILURES = "failure.json", "failures.json"
LONGEST = 4_000
"""Maximum length of a reason in characters."""
LARGEST = 4_000_000
"""Maximum number of bytes read from a file."""


def note_failure(folder: Path, error: BaseException) -> None:
    """Record the error that ended a run; if the disk does not allow it, that is not a second error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     note_failure(Path(folder), ZeroDivisionError("division by zero"))
    ...     failure_of(Path(folder))
    'ZeroDivisionError: division by zero'
    """
    text = str(error) if isinstance(error, EnlistError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError, EnlistError):
        _write(folder / FAILURE, {"why": text[:LONGEST]})


def forget_failure(folder: Path) -> None:
    """Remove the record, because the run continues.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     note_failure(Path(folder), ZeroDivisionError("division by zero"))
    ...     forget_failure(Path(folder))
    ...     list(Path(folder).iterdir())
    []
    """
    with contextlib.suppress(OSError):
        (folder / FAILURE).unlink(missing_ok=True)


def failure_of(folder: Path) -> str:
    """The error that ended a run; empty if there was none.

    >>> failure_of(Path("no/such/run"))
    ''
    """
    return str(_read(folder / FAILURE).get("why", ""))


def note_failures(folder: Path, reasons: Mapping[str, str]) -> None:
    """Record which runs below a folder failed, by the path of each, and why; an empty mapping means that none did.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     note_failures(Path(folder), {"runs/oort/0": "no memory"})
    ...     failures_of(Path(folder)), note_failures(Path(folder), {}), failures_of(Path(folder))
    ({'runs/oort/0': 'no memory'}, None, {})
    """
    with contextlib.suppress(OSError, EnlistError):
        if reasons:
            _write(folder / FAILURES, {name: why[:LONGEST] for name, why in reasons.items()})
        else:
            (folder / FAILURES).unlink(missing_ok=True)


def failures_of(folder: Path) -> dict[str, str]:
    """Runs below a folder that failed, and why; empty if the file cannot be read.

    >>> failures_of(Path("no/such/comparison"))
    {}
    """
    return {str(name): str(why) for name, why in _read(folder / FAILURES).items()}


def _write(path: Path, content: Mapping[str, str]) -> None:
    storage.replace(path, f"{json.dumps(content, indent=1)}\n".encode())


def _read(path: Path) -> dict[str, object]:
    try:
        if not files.has_file(path) or path.stat().st_size > LARGEST:
            return {}
        found = read_json(path)
    except (OSError, EnlistError):
        return {}
    return found if isinstance(found, dict) else {}
