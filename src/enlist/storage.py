"""Saved state: a folder with `state.json` and one npz file. Versioned, checksummed, atomic, and never pickled.

The arrays are written first, under a name that contains their checksum; then `state.json`, which names them, replaces
the old one in a single step. A process killed in between leaves the previous state intact.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from enlist._internal import checks, files
from enlist._internal.archives import read_arrays
from enlist._internal.settings import read_settings, written_settings
from enlist._internal.text import brief, brief_reason
from enlist._internal.typing import AnyArray
from enlist.clients import Clients
from enlist.errors import EnlistError, StateFileError
from enlist.records import ALIGNED, Selection
from enlist.rounds import OpenSelection
from enlist.state import State

if TYPE_CHECKING:
    from enlist.contract import Selector

FORMAT_VERSION = 1
ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.npz")
OURS = re.compile(r"arrays-[0-9a-f]{16}\.npz|\.arrays-[0-9a-f]{16}\.npz\.\d+|\.state\.json\.\d+")
"""Files that an earlier save left in a folder, complete or not; nothing else there is ever removed."""

SelectorT = TypeVar("SelectorT", bound="Selector[Any, Any]")


def write(folder: str | PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write one document, replacing an older one in the same folder atomically.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(folder, "note", {"round": 3}, {"x": np.arange(2)})
    ...     read(folder, "note")
    ({'round': 3}, {'x': array([0, 1])})
    """
    path = Path(folder)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise StateFileError(
                f"'{name}' is an array of Python objects, and those are never saved; use plain numbers."
            )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    payload = buffer.getvalue()
    checksum = hashlib.sha256(payload).hexdigest()
    arrays_name = f"arrays-{checksum[:16]}.npz"
    document = {
        "format": "enlist",
        "kind": kind,
        "version": FORMAT_VERSION,
        "arrays": {"file": arrays_name, "sha256": checksum},
        "content": dict(header),
    }
    document["digest"] = _digest(document)
    try:
        path.mkdir(parents=True, exist_ok=True)
        replace(path / arrays_name, payload)
        replace(path / "state.json", json.dumps(document, indent=1).encode())
        for other in path.iterdir():
            if OURS.fullmatch(other.name) and other.name != arrays_name:
                other.unlink(missing_ok=True)
    except OSError as error:
        raise StateFileError(f"cannot save to {path}: {error.strerror}; an older state there is untouched.") from error


def read(folder: str | PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read what `write` wrote; any damage is an error that says what is wrong.

    >>> read("no/such/folder", "selector")
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: no/such/folder holds no saved state: state.json is missing.
    """
    path = Path(folder)
    if path.is_file():
        raise StateFileError(f"{path} is a file; pass the folder that `save` was given.")
    document = _document(path)
    if document.get("format") != "enlist" or document.get("kind") != kind:
        raise StateFileError(f"{path}/state.json is not a saved {kind}; it says {document.get('kind')!r}.")
    if document.get("version") != FORMAT_VERSION:
        raise StateFileError(
            f"{path}/state.json has format version {document.get('version')!r}, this Enlist reads {FORMAT_VERSION}; "
            "load it with the version of Enlist that wrote it."
        )
    if document.pop("digest", None) != _digest(document):
        raise StateFileError(f"{path}/state.json was altered after it was saved; restore it from a copy.")
    entry = document.get("arrays")
    if not isinstance(entry, dict):
        entry = {}
    name = entry.get("file")
    if not isinstance(name, str) or not ARRAYS.fullmatch(name) or not isinstance(document.get("content"), dict):
        raise StateFileError(f"{path}/state.json names no file of arrays; it was not written by Enlist.")
    try:
        if not (path / name).is_file():  # reading a pipe would never end
            raise OSError
        payload = (path / name).read_bytes()
    except OSError:
        raise StateFileError(f"{path}/{name} is missing or unreadable; restore it from a copy.") from None
    if hashlib.sha256(payload).hexdigest() != entry.get("sha256"):
        raise StateFileError(f"{path}/{name} is truncated or was altered; restore it from a copy.")
    try:
        return document["content"], read_arrays(io.BytesIO(payload))
    except ValueError as error:
        raise StateFileError(f"{path}/{name} cannot be read: {error}") from None


def save(selector: Selector[Any, Any], folder: str | PathLike[str]) -> None:
    """Save a selector; `Selector.save` calls this.

    >>> import enlist, tempfile
    >>> selector = enlist.create("random", enlist.Clients(count=9), seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     selector.save(folder)
    ...     again = enlist.load(folder)
    >>> (again.ask(k=3).clients == selector.ask(k=3).clients).all()
    np.True_
    """
    write(folder, "selector", *_packed(selector))


class Snapshot:
    """A selector as it is now, to be saved later, by another thread if you like, while the selector goes on.

    >>> import enlist, tempfile
    >>> selector = enlist.create("random", enlist.Clients(count=9), seed=1)
    >>> snapshot = Snapshot(selector)
    >>> picked = selector.ask(k=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     snapshot.save(folder)
    ...     again = enlist.load(folder)
    >>> (again.ask(k=3).clients == picked.clients).all()
    np.True_
    """

    def __init__(self, selector: Selector[Any, Any]) -> None:
        self.header, arrays = _packed(selector)
        self.arrays = {name: array.copy() for name, array in arrays.items()}

    def save(self, folder: str | PathLike[str]) -> None:
        """Write what `Selector.save` would have written when the snapshot was taken."""
        write(folder, "selector", self.header, self.arrays)


def _packed(selector: Selector[Any, Any]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    arrays: dict[str, AnyArray] = {f"clients/{name}": value for name, value in selector.clients.columns().items()}
    scalars = split(selector.state, "state/", arrays) | split(selector.counts, "counts/", arrays)
    openings = []
    for number, opening in selector.openings.items():
        selection = opening.selection
        arrays[f"open/{number}/clients"] = selection.clients
        arrays[f"open/{number}/outcome"] = opening.outcome
        arrays[f"open/{number}/credited"] = opening.credited
        arrays |= {f"open/{number}/terms/{name}": values for name, values in selection.terms.items()}
        aligned = [name for name in ALIGNED if getattr(selection, name) is not None]
        arrays |= {f"open/{number}/{name}": getattr(selection, name) for name in aligned}
        openings.append(
            {
                "round": number,
                "deadline": selection.deadline,
                "now": selection.now,
                "terms": list(selection.terms),
                "metrics_told": opening.metrics_told,
                **({"aligned": aligned} if aligned else {}),
            }
        )
    header = {
        "selector": selector.name,
        "seed": selector.seed,
        "preset": selector.preset,
        "max_open": selector.max_open,
        "round": selector.round,
        "last_k": selector.last_k,
        "settings": written_settings(selector.settings, arrays),
        "count": len(selector.clients),
        "feature_names": list(selector.clients.feature_names),
        "generator": selector.rng.bit_generator.state,
        "scalars": scalars,
        "open": openings,
    }
    return header, arrays


def load(
    folder: str | PathLike[str], kind: type[SelectorT], functions: Mapping[str, Callable[..., Any]] | None = None
) -> SelectorT:
    """Load a selector of class `kind`; `Selector.load` and `enlist.load` call this.

    >>> import enlist, tempfile
    >>> from enlist.selectors.random import Random
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Random(enlist.Clients(count=9)).save(folder)
    ...     load(folder, Random)
    Random('random', clients=9, round=0)
    """
    header, arrays = read(folder, "selector")
    if header.get("selector") != kind.name:
        found = brief(header.get("selector"))
        raise StateFileError(f"{folder} holds selector {found}, not '{kind.name}'; use enlist.load.")
    with whole(folder):
        return _selector(folder, kind, header, arrays, functions or {})


def _selector(
    folder: str | PathLike[str],
    kind: type[SelectorT],
    header: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    functions: Mapping[str, Callable[..., Any]],
) -> SelectorT:
    columns: dict[str, Any] = {
        name.removeprefix("clients/"): value for name, value in arrays.items() if name.startswith("clients/")
    }
    if len(arrays["counts/selected"]) != header["count"]:
        raise StateFileError(f"{folder} claims {brief(header['count'])} clients but its counts differ; restore a copy.")
    population = Clients(count=header["count"], feature_names=header["feature_names"], **columns)
    settings = read_settings(folder, header["settings"], arrays, functions)
    selector = kind(population, seed=header["seed"], max_open=header["max_open"], **settings)
    selector.preset = header["preset"]
    restore(selector.state, "state/", arrays, header["scalars"])
    restore(selector.counts, "counts/", arrays, header["scalars"])
    selector.loaded()
    selector.round = checks.whole("round", header["round"], minimum=0)
    selector.last_k = checks.whole("last_k", header["last_k"], minimum=1)
    selector.rng.bit_generator.state = header["generator"]
    for entry in header["open"]:
        number = checks.whole("open round", entry["round"], minimum=1)
        terms = {name: arrays[f"open/{number}/terms/{name}"] for name in entry["terms"]}
        clients = checks.positions("open clients", arrays[f"open/{number}/clients"], len(population))
        outcome, credited = arrays[f"open/{number}/outcome"], arrays[f"open/{number}/credited"]
        aligned = {name: arrays[f"open/{number}/{name}"] for name in ALIGNED if name in entry.get("aligned", ())}
        if any(len(column) != len(clients) for column in (outcome, credited, *terms.values(), *aligned.values())):
            raise StateFileError(f"{folder}: the columns of open round {number} do not fit together; restore a copy.")
        for array in (clients, *terms.values(), *aligned.values()):
            array.setflags(write=False)
        selection = Selection(number, clients, float(entry["deadline"]), float(entry["now"]), terms, **aligned)
        selector.openings[number] = OpenSelection(selection, outcome, credited, bool(entry["metrics_told"]))
    return selector


@contextlib.contextmanager
def whole(folder: str | PathLike[str]) -> Iterator[None]:
    """Report missing or altered entries in one sentence, whatever error they cause.

    >>> with whole("runs/saved"):
    ...     {}["seed"]
    Traceback (most recent call last):
    ...
    enlist.errors.StateFileError: runs/saved is not a complete saved state (KeyError: 'seed'); restore it from a copy.
    """
    try:
        yield
    except EnlistError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        reason = f"{type(error).__name__}: {brief_reason(error)}"
        raise StateFileError(f"{folder} is not a complete saved state ({reason}); restore it from a copy.") from error


def saved_name(folder: str | PathLike[str]) -> str:
    """The registry name of the selector saved in `folder`.

    >>> import enlist, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     enlist.create("random", enlist.Clients(count=9)).save(folder)
    ...     saved_name(folder)
    'random'
    """
    return str(read(folder, "selector")[0].get("selector"))


def split(state: State, prefix: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """A state as numbers for the header, which are returned, and arrays, which are added to `arrays`; both by path.

    >>> import enlist
    >>> state, arrays = enlist.create("random", enlist.Clients(count=2)).counts, {}
    >>> split(state, "counts/", arrays), sorted(arrays)[0]
    ({}, 'counts/observed')
    """
    scalars: dict[str, Any] = {}
    for path, value in state.leaves(prefix):
        if isinstance(value, np.ndarray):
            arrays[path] = value
        else:
            scalars[path] = value.item() if isinstance(value, np.generic) else value
    return scalars


def restore(state: State, prefix: str, arrays: Mapping[str, AnyArray], scalars: Mapping[str, Any]) -> None:
    """Put back into a state what `split` took out of it.

    >>> import enlist
    >>> counts, arrays = enlist.create("random", enlist.Clients(count=2)).counts, {}
    >>> scalars = split(counts, "", arrays)
    >>> restore(counts, "", {**arrays, "selected": np.array([3, 1])}, scalars)
    >>> counts.selected
    array([3, 1])
    """
    state.restore({**arrays, **scalars}, prefix)


def _document(path: Path) -> dict[str, Any]:
    try:
        if (path / "state.json").exists() and not (path / "state.json").is_file():
            raise OSError("it is not a plain file")
        text = (path / "state.json").read_text()
    except FileNotFoundError:
        raise StateFileError(f"{path} holds no saved state: state.json is missing.") from None
    except (OSError, ValueError) as error:
        raise StateFileError(f"{path}/state.json cannot be read: {error}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateFileError(f"{path}/state.json is truncated or not JSON: {brief_reason(error)}") from None
    if not isinstance(document, dict):
        raise StateFileError(f"{path}/state.json is not a saved state.")
    return document


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def replace(path: Path, payload: bytes) -> None:
    """Write a file in one step: a process killed meanwhile leaves the old one. Links are not followed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(Path(folder) / "note", b"kept")
    ...     (Path(folder) / "note").read_bytes()
    b'kept'
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # left by an earlier process with this number, or a link planted there
    with os.fdopen(files.descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
