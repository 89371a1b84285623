"""The items in the given folders: runs of all kinds and the groups they belong to, each with an id for its address."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from enlist._internal import files
from enlist.errors import EnlistError, InputError
from enlist.runs.kinds import held
from enlist.runs.tables import natural, read_json

RUNS = ("run", "federation", "personal")
"""Kinds of items that have rounds."""
GROUPS = {"sweep.json": "sweep", "ladder.json": "ladder", "comparison.json": "comparison"}
"""The file that reveals the kind of a group's folder."""
KINDS = (*RUNS, *GROUPS.values(), "study")
SKIPPED = ("__pycache__", "node_modules")
"""Folders that hold no runs."""
EXPERIMENTS = "experiments"
"""The folder in which a study keeps its experiments."""
MOST_FOLDERS = 50_000
"""Most folders to search."""
MOST_ITEMS = 5_000
"""Most items to show."""
DEEPEST = 12
"""Most levels below a given folder."""


@dataclasses.dataclass(frozen=True)
class Item:
    """A run, or a group of runs.

    >>> Item("demo/runs/oort/0", "run", Path("demo/runs/oort/0"), Path("demo"), "demo").name
    '0'
    """

    id: str
    kind: str
    folder: Path
    root: Path
    parent: str | None = None

    @property
    def name(self) -> str:
        """The last part of its id."""
        return self.id.rpartition("/")[2]

    def check(self) -> None:
        """Refuse a folder that has become a link to another place since it was found."""
        try:
            place = self.folder.resolve(strict=True)
        except OSError as error:
            raise InputError(f"{self.id} is gone ({error.strerror}).") from None
        if not place.is_relative_to(self.root):
            raise InputError(f"{self.id} now leads out of the given folder; it is not shown.")


@dataclasses.dataclass(frozen=True)
class Index:
    """The items found, by id, in natural order.

    >>> import tempfile
    >>> from enlist.runs.example import example_run, write_run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for seed in (10, 9):
    ...         _ = write_run(example_run("oort", seed), Path(place) / "demo" / "runs" / "oort" / str(seed))
    ...     found = Index.of([Path(place) / "demo"])
    >>> list(found.items), found.items["demo/runs/oort/9"].kind
    (['demo/runs/oort/9', 'demo/runs/oort/10'], 'run')
    """

    items: dict[str, Item]
    cut: bool = False
    """Whether there are more items than are shown."""

    @classmethod
    def of(cls, roots: Sequence[Path]) -> Index:
        """Search the given folders."""
        found: dict[str, Item] = {}
        seen: set[Path] = set()
        walker = _Walker()
        for label, root in zip(labels(roots), (root.resolve() for root in roots), strict=True):
            for item in walker.below(root, label):
                if item.folder not in seen and len(found) < MOST_ITEMS:
                    seen.add(item.folder)
                    found[item.id] = item
                walker.full = walker.full or len(found) >= MOST_ITEMS
        ordered = sorted(found.values(), key=lambda item: natural(Path(item.id)))
        return cls({item.id: item for item in ordered}, walker.full)

    def runs_of(self, item: Item) -> list[Item]:
        """The item itself if it is a run, else the runs below it."""
        if item.kind in RUNS:
            return [item]
        inside = f"{item.id}/"
        return [other for other in self.items.values() if other.kind in RUNS and other.id.startswith(inside)]

    def inside(self, item: Item) -> list[Item]:
        """The direct children of an item: the points of a sweep, the rungs of a ladder, the runs of a comparison."""
        return [other for other in self.items.values() if other.parent == item.id]


def labels(roots: Sequence[Path]) -> list[str]:
    """The names of the given folders in ids; of two with the same name, the second gets a number.

    >>> labels([Path("/a/runs"), Path("/b/runs"), Path("/c/lab")])
    ['runs', 'runs-2', 'lab']
    """
    found: list[str] = []
    for root in roots:
        name = segment(root.resolve().name or "root")
        again = (f"{name}-{number}" for number in range(2, len(roots) + 2))
        found.append(name if name not in found else next(each for each in again if each not in found))
    return found


def segment(name: str) -> str:
    """The name of a folder as part of an address: unchanged, unless it could not be typed or read there.

    >>> segment("oort-penalty=1"), segment("bell\\x07")
    ('oort-penalty=1', 'bell-ebac752a')
    """
    if name.isprintable() and name.strip() == name and len(name) <= 120 and "\\" not in name:
        return name
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return f"{''.join(letter for letter in name if letter.isascii() and letter.isalnum())[:40]}-{digest}"


class _Walker:
    def __init__(self) -> None:
        self.left, self.full = MOST_FOLDERS, False

    def below(self, folder: Path, id: str, root: Path | None = None, parent: str | None = None) -> Iterator[Item]:
        """The items in and below a folder; a run's own folders are not searched, and links are not followed."""
        root = root or folder
        self.left -= 1
        if self.left < 0:
            self.full = True
            return
        names, inner = _listed(folder)
        kind = _kind(folder, names, inner)
        if kind:
            yield Item(id, kind, folder, root, parent)
            parent = id
        if kind in (*RUNS, "study") or len(folder.parts) - len(root.parts) >= DEEPEST:
            return
        for name in inner:
            yield from self.below(folder / name, f"{id}/{segment(name)}", root, parent)


def _listed(folder: Path) -> tuple[set[str], list[str]]:
    names, inner = set(), []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner += [] if entry.name.startswith(".") or entry.name in SKIPPED else [entry.name]
                else:
                    names.add(entry.name)
    except OSError:
        return set(), []
    return names, sorted(inner)


def _kind(folder: Path, names: set[str], inner: Sequence[str]) -> str:
    if {"verdict.md", "settings.json"} <= names or (
        {"config.json", "environment.json"} <= names and EXPERIMENTS in inner
    ):
        return "study"  # finished, published, or with a possibly damaged configuration
    if "rounds.csv" in names or {"config.json", "lock"} <= names:
        if "arms.csv" in names:
            return "personal"
        try:
            found = os.lstat(folder / "config.json") if "config.json" in names else None
        except OSError:
            found = None
        return "run" if found is None else _by_config(folder / "config.json", found.st_mtime_ns, found.st_size)
    group = next((kind for name, kind in GROUPS.items() if name in names), "")
    if group or "config.json" not in names:
        return group
    try:
        study = held(folder)
    except (OSError, EnlistError):
        return ""
    return "study" if study is not None and study.what.startswith("the study") else ""


@functools.lru_cache(maxsize=2 * MOST_ITEMS)
def _by_config(path: Path, changed: int, size: int) -> str:
    """The kind of a configuration, cached until it is rewritten."""
    try:
        config = read_json(path) or {}
    except EnlistError:
        return "run"
    if {"study", "scale"} <= config.keys():
        return "study"
    return "federation" if "strategy" in config else "run"


def check_roots(roots: Sequence[Path]) -> None:
    """Refuse paths that are not folders.

    >>> check_roots([Path("no/such/place")])
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: no/such/place does not exist; name folders that hold runs, or will.
    """
    for root in roots:
        if not root.is_dir():
            state = "is a file" if files.has_file(root) else "does not exist"
            raise InputError(f"{root} {state}; name folders that hold runs, or will.")
