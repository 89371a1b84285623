"""The JSON files of a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enlist import storage
from enlist._internal import files
from enlist.errors import StateFileError


def read_document(path: Path) -> dict[str, Any]:
    """The contents of a JSON file of a run folder.

    >>> read_document(Path("missing.json"))
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: missing.json cannot be read (...); restore it from a copy, or name a new folder.
    """
    try:
        content = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError) as error:
        raise StateFileError(
            f"{path} cannot be read ({error}); restore it from a copy, or name a new folder."
        ) from None
    if not isinstance(content, dict):
        raise StateFileError(f"{path} holds no table; restore it from a copy, or name a new folder.")
    return content


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file in one step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_document(Path(folder) / "result.json", {"rounds": 3})
    ...     read_document(Path(folder) / "result.json")
    {'rounds': 3}
    """
    storage.replace(path, document_bytes(document))


def document_bytes(document: Mapping[str, Any]) -> bytes:
    """The bytes that `write_document` writes.

    >>> document_bytes({})
    b'{}\\n'
    """
    return (json.dumps(document, indent=1) + "\n").encode()
