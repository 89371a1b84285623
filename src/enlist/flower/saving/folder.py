"""What outlives the server: model, strategy, selector, table of nodes and round, in checkpoints of a run folder.

Flower counts rounds from 1 and saves nothing. A checkpoint is taken after every round and written during the next one.
A server that is killed, at whatever moment, resumes from the last complete checkpoint; later rows of the tables are cut
off.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pathspec
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy

from enlist import storage
from enlist._internal import aliases, files
from enlist._internal.typing import AnyArray
from enlist.errors import InputError
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER
from enlist.flower.saving.checkpoint import pack_strategy
from enlist.flower.saving.decisions import Decisions
from enlist.flower.saving.tables import FLOWER_TABLES, MOST_EVENTS, Row, clients_table
from enlist.runs.background import Background
from enlist.runs.checkpoints import Checkpoint, Saves, Weights, snapshot
from enlist.runs.federation import note_start
from enlist.runs.folder import RunFolder

CHANGEABLE = (
    "k",
    "deadline",
    "over_commit",
    "late",
    "staleness",
    "patience",
    "min_nodes",
    "min_replies",
    "shadow",
    "clip",
    "most_often",
    "strategy",
    "concurrency",
    "buffer",
    "max_staleness",
)
"""Settings that may change when a run is resumed."""

PROJECT = "pyproject.toml"
NEVER_PACKED = (
    ".flwr/**",
    "**/__pycache__/**",
    "build/**",
    "eggs/**",
    ".eggs/**",
    "lib/**",
    "lib64/**",
    "parts/**",
    ".venv/**",
    "env/**",
    "venv/**",
    "ENV/**",
    "env.bak/**",
    "venv.bak/**",
)
"""Folders that Flower 1.41 excludes from every app archive, whatever the app's settings."""

TELLING = ("config.json", "decisions/00000001/decisions.jsonl")
"""Files of a run folder, of types that Flower packs."""


class FederationFolder:
    """Writes the run folder; without a folder it does nothing.

    >>> folder = FederationFolder(None)
    >>> folder.restore(), folder.append("rounds.csv", [{"round": 1}])
    (None, None)
    """

    def __init__(self, run: RunFolder | None) -> None:
        self.run = run
        self.decisions = None if run is None else Decisions(run.path / "decisions", run.accept_changes)
        self.events = 0
        self.described = -1
        self.unsaved: set[str] = set()
        self.announced = False
        self.background = Background()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | None,
        config: Mapping[str, Any],
        resume: bool | None,
        accept_changes: bool = False,
    ) -> FederationFolder:
        """Create or continue the folder; `resume` True requires a run in it, False forbids one."""
        if path is None:
            if resume:
                raise InputError("resume=True without a folder; say where the run is: folder='...'.")
            return cls(None)
        saved = Path(path) / "config.json"
        there = files.has_file(saved)
        if resume and not there:
            raise InputError(f"{path} holds no run to resume; name the folder of one, or leave resume out.")
        if resume is False and there:
            raise InputError(f"{path} already holds a run; leave resume out to continue it, or name a new folder.")
        wanted = _continued(saved, config)
        folder = RunFolder.open(path, wanted, resume=True, tables=FLOWER_TABLES, accept_changes=accept_changes)
        try:
            return cls(folder)
        except BaseException:
            folder.close()
            raise

    def restore(self) -> Checkpoint | None:
        """The last checkpoint, with all tables cut back to it."""
        if self.run is None:
            return None
        found = self.run.load()
        self.events = 0 if found is None else found.header["events"]
        return found

    def reopen(self, done: int, wanted: int) -> bool:
        """Whether there is work left: a finished run continues only if more rounds are requested."""
        if self.run is None:
            return True
        if done >= wanted and self.run.finished():
            return False
        self.run.reopen()
        return True

    def follow(self, federation: FlowerFederation, position: dict[str, Any] | None = None) -> None:
        """Record the selector's decisions, from where a checkpoint left off if there is a position."""
        if self.run is None or self.decisions is None or federation.books is None:
            return
        with self.run.writing():
            log = self.decisions.cut(position) or self.decisions.begin(federation.selector)
        federation.record_to(log)

    def append(self, table: str, rows: Sequence[Row]) -> None:
        """Append rows to a table."""
        if table == "events.csv":
            rows = rows[: max(MOST_EVENTS - self.events, 0)]
            self.events += len(rows)
        if self.run is not None and rows:
            self.run.append(table, rows)

    def describe(self, federation: FlowerFederation, number: int) -> None:
        """Rewrite clients.csv if it has a new client or name, and every tenth round."""
        if self.run is None or (self.described == federation.nodes.changes and number % 10):
            return
        with self.run.writing():
            storage.replace(self.run.path / "clients.csv", clients_table(federation).encode())
        self.described = federation.nodes.changes

    def save(
        self,
        number: int,
        header: Mapping[str, Any],
        federation: FlowerFederation,
        strategy: Strategy,
        arrays: ArrayRecord,
        initial: Mapping[str, Any],
    ) -> None:
        """Take a checkpoint after round `number`, which is written during the next round.

        Only one is written at a time. If the previous one is still being written, this one waits.
        """
        if self.run is None or self.decisions is None:
            return
        known, own = federation.state()
        moments: dict[str, AnyArray] = {}
        packed, unsaved = pack_strategy(strategy, initial, moments)
        for name in unsaved:
            if name not in self.unsaved:
                LOGGER.warning("enlist: %s cannot be saved, so a resumed run begins with a new one", name)
        self.unsaved |= set(unsaved)
        content = {
            **header,
            "federation": known,
            "selector": federation.books is not None,
            "strategy": packed,
            "names": list(arrays),
            "decisions": self.decisions.position(),
            "events": self.events,
        }
        model = dict(arrays)
        moved = {name: values.copy() for name, values in own.items()}
        log = self.decisions.log()
        write = self.run.prepared(
            number, content, moved, lambda: _weights(model, moments), _parts(federation), [] if log is None else [log]
        )
        self.background.run(write)
        if self.decisions.full() and federation.books is not None:
            self.background.wait()  # a new segment removes an old one, to which the previous checkpoint may refer
            federation.record_to(self.decisions.begin(federation.selector))

    def check(self) -> None:
        """Raise the error of the last checkpoint, if it has failed by now."""
        self.background.check()

    def note(self, date: float, time: float, number: int, ending: str = "") -> None:
        """Record in starts.csv that rounds begin, or, with `ending`, how they ended if they had begun."""
        if self.run is None or bool(ending) != self.announced:
            return
        self.announced = not ending
        again = number > 0 or files.has_file(self.run.path / "starts.csv")  # version 0.1 wrote none
        with contextlib.suppress(OSError):  # a full disk is reported by the writes that matter
            note_start(self.run.path, date, time, number, ending or ("continued" if again else "started"))

    def finish(self, result: Mapping[str, Any], federation: FlowerFederation) -> None:
        """Finish the run, once its last checkpoint is on disk."""
        self.background.wait()
        if self.run is not None:
            self.describe(federation, 0)
            self.run.write_result(result)

    def stop(self, error: BaseException) -> None:
        """End the run with an error: wait for the last checkpoint, and add if that fails as well."""
        try:
            self.background.wait()
        except Exception as other:
            LOGGER.error("enlist: the last checkpoint is lost as well: %s", other)
            error.add_note(f"The last checkpoint is lost as well: {other}")

    def close(self) -> None:
        """Release the lock."""
        try:
            self.background.close()
        finally:
            if self.run is not None:
                self.run.close()


def _weights(model: Mapping[str, Array], moments: Mapping[str, AnyArray]) -> Weights:
    """What gets files of its own: the decoded model, and the state of the strategy."""
    weights = {"model": {name: array.numpy().copy(order="C") for name, array in model.items()}}
    return {**weights, "strategy": moments} if moments else weights


def _parts(federation: FlowerFederation) -> dict[str, Saves]:
    """The current state of the selector."""
    return {} if federation.books is None else {"selector": snapshot(federation.selector)}


def _continued(saved: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration, except for settings that may change: these stay as first recorded."""
    if not files.has_file(saved):
        return dict(config)
    with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
        before = aliases.present_config(json.loads(files.read(saved)))
        for name in CHANGEABLE:
            if name in before and before[name] != json.loads(json.dumps(config.get(name))):
                LOGGER.warning("enlist: %s is now %r; the run began with %r", name, config.get(name), before[name])
        fixed = {name: value for name, value in config.items() if name not in CHANGEABLE}
        wanted = {**fixed, **{name: before[name] for name in CHANGEABLE if name in before}}
        then, now = before.get("selector"), wanted.get("selector")
        if isinstance(then, dict) and isinstance(now, dict) and "source" not in then:  # version 0.1 wrote none
            wanted["selector"] = {key: value for key, value in now.items() if key != "source"}
        return wanted
    return dict(config)


def refuse_packed(folder: str | PathLike[str]) -> None:
    """Raise an error if Flower would pack files of the run in `folder` with an app; it says what to do instead.

    >>> import tempfile
    >>> app = Path(tempfile.mkdtemp()).resolve()
    >>> _ = (app / PROJECT).write_text("[tool.flwr.app]")
    >>> refuse_packed(app / ".flwr" / "state")
    >>> refuse_packed(app / "state")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: folder is '...state', inside the Flower app ..., so that `flwr run` would pack ...
    """
    place = Path(folder).expanduser().resolve()
    for app in place.parents:
        rules = _rules(app / PROJECT)
        if rules is None or not _packed(app, place.relative_to(app).as_posix(), rules):
            continue
        name = place.relative_to(app).as_posix()
        raise InputError(
            f"folder is '{os.fspath(folder)}', inside the Flower app {app}, so that `flwr run` would pack every "
            f"client's losses and latencies and send them to all nodes; use a folder outside the app, such as "
            f"'~/{place.name}', or one that Flower never packs, '{app / '.flwr' / place.name}', or add the line "
            f"'/{name}/' to the app's .gitignore."
        )


def _rules(project: Path) -> dict[str, Any] | None:
    """The app's settings for its archive; None if there is no app."""
    try:
        found: Any = tomllib.loads(project.read_text(encoding="utf-8"))
        for name in ("tool", "flwr", "app"):
            found = found[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _packed(app: Path, name: str, rules: dict[str, Any]) -> bool:
    """Whether any file of the run remains after .gitignore, the app's patterns and Flower's own."""
    left = [f"{name}/{file}" for file in TELLING]
    if "fab-include" in rules:
        left = list(_spec(rules["fab-include"]).match_files(left))
    for patterns in (_ignored(app), rules.get("fab-exclude", ()), NEVER_PACKED):
        left = list(_spec(patterns).match_files(left, negate=True))
    return bool(left)


def _ignored(app: Path) -> list[str]:
    try:
        return (app / ".gitignore").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _spec(patterns: object) -> pathspec.GitIgnoreSpec:
    listed = patterns if isinstance(patterns, Iterable) and not isinstance(patterns, str) else ()
    return pathspec.GitIgnoreSpec.from_lines([text for text in listed if isinstance(text, str)])
