"""Whose code a run folder names: its configuration runs code only if this user made the folder on this machine.

A configuration may name code ("module:Class"). Whoever types a configuration also types that name; but a run folder can
come from anybody. So a run that names code leaves `origin.json`: an HMAC-SHA256 of its configuration under a random key
that lies in the user's state folder and never leaves it. Nobody else can make one, and an edited configuration no
longer fits. The folder may be moved or copied on this machine: the note depends on the configuration, not the place.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.machinery
import json
import logging
import os
import secrets
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from enlist import storage
from enlist._internal import files
from enlist.errors import StateFileError, TrustError

LOGGER = logging.getLogger("enlist.runs")
ORIGIN = "origin.json"
"""The note in a run folder."""
PURPOSE = b"enlist: this user made a run with this configuration\0"
LENGTH = 32
"""Length of the key in bytes."""


def check_trust(
    folder: str | PathLike[str], config: Mapping[str, Any], names: Sequence[str], trust: bool = False
) -> None:
    """Refuse to run the code that a run folder's own configuration names, unless this user made the folder here.

    folder   the run folder
    config   the contents of its config.json
    names    the code that would be imported, such as ["mynet:Net"]; without any, there is nothing to refuse
    trust    the user says that this code may run: `--trust`

    >>> import tempfile
    >>> from unittest.mock import patch
    >>> with tempfile.TemporaryDirectory() as place, patch.dict(os.environ, XDG_STATE_HOME=place):
    ...     vouch(Path(place), {"seed": 1})
    ...     check_trust(place, {"seed": 1}, ["mynet:Net"])
    ...     check_trust(place, {"seed": 2}, ["mynet:Net"])
    Traceback (most recent call last):
    ...
    enlist.errors.TrustError: the configuration of ... names code to run, mynet:Net, and it was made or changed by ...
    """
    if trust or not names:
        return
    path = Path(folder)
    reason = _doubt(path, config) or _own_code(path, names)
    if reason:
        raise TrustError(
            f"the configuration of {path} names code to run, {', '.join(names)}, and {reason}. Look at that code; if "
            "you trust it, add --trust (in Python trust=True). docs/trust.md says more."
        )


def vouch(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the note that this user made this run on this machine; if no key can be kept, log that there is none.

    >>> import tempfile
    >>> from unittest.mock import patch
    >>> with tempfile.TemporaryDirectory() as place, patch.dict(os.environ, XDG_STATE_HOME=place):
    ...     vouch(Path(place), {"seed": 1})
    ...     sorted(json.loads((Path(place) / ORIGIN).read_text()))
    ['about', 'hmac', 'identity']
    """
    try:
        key = _key(make=True)
    except (OSError, RuntimeError, TrustError) as error:
        LOGGER.warning("%s cannot be marked as yours (%s); to continue it by its folder, add --trust.", folder, error)
        return
    identity = secrets.token_hex(16)
    note = {
        "about": "Shows the user who made this run that it is theirs; see docs/trust.md.",
        "identity": identity,
        "hmac": _signature(key, identity, config),
    }
    storage.replace(folder / ORIGIN, (json.dumps(note, indent=1) + "\n").encode())


def folder_of(path: str | PathLike[str]) -> Path | None:
    """The run folder whose own configuration this file is; None for a file that a user wrote.

    It is one if it is called config.json, as in every run folder, or is a JSON file beside the others of a run.

    >>> folder_of("runs/run-001/config.json").name, folder_of("quickstart.toml")
    ('run-001', None)
    """
    typed = Path(path)
    for file in (Path(os.path.realpath(typed)), typed.absolute()):
        beside = file.suffix.lower() == ".json" and os.path.lexists(file.parent / "environment.json")
        if file.name.lower() == "config.json" or beside:
            return file.parent
    return None


def state_folder() -> Path:
    """The folder of this user's key: $XDG_STATE_HOME/enlist, or ~/.local/state/enlist.

    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, XDG_STATE_HOME="/somewhere"):
    ...     state_folder().as_posix()
    '/somewhere/enlist'
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state") / "enlist"


def _doubt(folder: Path, config: Mapping[str, Any]) -> str:
    """Why the folder cannot be shown to be this user's; empty if it can."""
    try:
        if not files.has_file(folder / ORIGIN):
            return "nothing shows that you made it on this machine"
        note = json.loads(files.read(folder / ORIGIN))
        identity, given = str(note["identity"]), str(note["hmac"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, StateFileError):
        return f"its {ORIGIN} is damaged"
    try:
        key = _key()
    except (OSError, RuntimeError, TrustError) as error:
        return f"your key cannot be used ({error})"
    if not hmac.compare_digest(_signature(key, identity, config), given):
        return "it was made or changed by someone else, or on another machine"
    return ""


def _own_code(folder: Path, names: Sequence[str]) -> str:
    """Whether a module would be found in the folder itself: the note vouches for the name, not for a file."""
    inside = Path(os.path.realpath(folder))
    for name in names:
        top = name.partition(":")[0].partition(".")[0]
        for places in ([str(Path.cwd())], sys.path):
            spec = importlib.machinery.PathFinder.find_spec(top, places)
            found = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
            if any(place and Path(os.path.realpath(place)).is_relative_to(inside) for place in found):
                return f"module '{top}' lies in that folder"
    return ""


def _signature(key: bytes, identity: str, config: Mapping[str, Any]) -> str:
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
    message = PURPOSE + json.dumps([identity, canonical]).encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _key(make: bool = False) -> bytes:
    """The key of this user, which only this user can read; with `make`, a new one if there is none."""
    place = state_folder()
    path = place / "key"
    if make and not os.path.lexists(path):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_private(place, stat.S_ISDIR, 0o022)
        _make_key(path)
    if not os.path.lexists(path):
        raise TrustError(f"there is no {path}")
    check_private(place, stat.S_ISDIR, 0o022)
    check_private(path, stat.S_ISREG, 0o077)
    key = files.read(path)
    if len(key) != LENGTH:
        raise TrustError(f"{path} has {len(key)} bytes instead of {LENGTH}; remove it, and the next run makes another")
    return key


def _make_key(path: Path) -> None:
    """Create the key completely, and once: of several processes that begin together only one makes it."""
    temporary = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(files.descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(LENGTH))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.replace(temporary, path)
    temporary.unlink(missing_ok=True)


def check_private(path: Path, kind: Callable[[int], bool], others: int) -> None:
    """Refuse a file of the state folder that is a link, belongs to somebody else, or is open to others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     (Path(place) / "key").symlink_to("elsewhere")
    ...     check_private(Path(place) / "key", stat.S_ISREG, 0o077)
    Traceback (most recent call last):
    ...
    enlist.errors.TrustError: .../key is not what Enlist made it; remove it, and the next run makes another
    """
    found = os.lstat(path)
    if not kind(found.st_mode):
        raise TrustError(f"{path} is not what Enlist made it; remove it, and the next run makes another")
    if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & others):
        raise TrustError(f"{path} belongs to somebody else or is open to others; remove it, or: chmod go= {path}")
