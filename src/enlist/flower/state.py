"""What outlives the server: model, strategy, selector, table of nodes, round; in a run folder, by checkpoints.

Flower counts rounds from 1 and keeps nothing. A checkpoint is made after every round, and written while the next one
goes on; a server that is killed, at whatever moment, goes on after the last one that is whole, and the rows that came
after it are cut off.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import Strategy

from enlist import storage
from enlist._internal import files
from enlist._internal.text import printable
from enlist._internal.typing import AnyArray
from enlist.contract import Selector
from enlist.errors import InputError, StateFileError
from enlist.flower.attributes import pack_strategy
from enlist.flower.federation import Federation
from enlist.flower.records import FLOWER_TABLES, MOST_EVENTS, Row, clients_table
from enlist.flower.replaying import Decisions
from enlist.runs.background import Background
from enlist.runs.checkpoints import Checkpoint, Saves, Weights
from enlist.runs.federation import note_start
from enlist.runs.folder import RunFolder


class CleanLines(logging.Filter):
    """Names and reasons that clients send cannot move the cursor, or begin a line of the log that looks like ours.

    >>> record = logging.makeLogRecord({"msg": "node %d: %s", "args": (7, "fine\\nenlist round=9 \\x1b[2J")})
    >>> CleanLines().filter(record), record.getMessage()
    (True, 'node 7: fine\\\\nenlist round=9 \\\\x1b[2J')
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean a line; all are let through."""
        record.msg, record.args = printable(record.getMessage(), LONGEST_LINE, keep="\t"), ()
        return True


LONGEST_LINE = 2_000
LOGGER = logging.getLogger("flwr.enlist")
"""Below Flower's own logger, so that lines appear among Flower's."""
LOGGER.addFilter(CleanLines())

CHANGEABLE = (
    "k",
    "deadline",
    "overcommit",
    "late",
    "staleness",
    "patience",
    "min_nodes",
    "min_replies",
    "shadow",
    "clip",
    "most_often",
    "strategy",
)
"""Settings with which a run may be continued though it began with others."""


class Keeper:
    """Writes the run folder; without a folder it does nothing.

    >>> keeper = Keeper(None)
    >>> keeper.restore(), keeper.append("rounds.csv", [{"round": 1}])
    (None, None)
    """

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder = folder
        self.decisions = None if folder is None else Decisions(folder.path / "decisions", folder.accept_changes)
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
    ) -> Keeper:
        """Make the folder or continue in it; `resume` True insists that there is a run, False that there is none."""
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
        if self.folder is None:
            return None
        found = self.folder.load()
        self.events = 0 if found is None else found.header["events"]
        return found

    def reopen(self, done: int, wanted: int) -> bool:
        """Whether there is something left to do: a finished run goes on only if more rounds are wanted."""
        if self.folder is None:
            return True
        if done >= wanted and self.folder.finished():
            return False
        self.folder.reopen()
        return True

    def follow(self, federation: Federation, position: dict[str, Any] | None = None) -> None:
        """Record the selector's decisions, from where a checkpoint left off if there is a position."""
        if self.folder is None or self.decisions is None or federation.books is None:
            return
        with self.folder.writing():
            log = self.decisions.cut(position) or self.decisions.begin(federation.selector)
        federation.record_to(log)

    def append(self, table: str, rows: Sequence[Row]) -> None:
        """Append rows to a table."""
        if table == "events.csv":
            rows = rows[: max(MOST_EVENTS - self.events, 0)]
            self.events += len(rows)
        if self.folder is not None and rows:
            self.folder.append(table, rows)

    def describe(self, federation: Federation, number: int) -> None:
        """Write clients.csv anew, if there is a new client or name in it, and every tenth round."""
        if self.folder is None or (self.described == federation.nodes.changes and number % 10):
            return
        with self.folder.writing():
            storage.replace(self.folder.path / "clients.csv", clients_table(federation).encode())
        self.described = federation.nodes.changes

    def save(
        self, number: int, header: Mapping[str, Any], federation: Federation, strategy: Strategy, arrays: ArrayRecord,
        initial: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Make a checkpoint after round `number`: of this moment, and written while the next round goes on.

        There is one at a time. If the one before is still being written, it is waited for.
        """
        if self.folder is None or self.decisions is None:
            return
        known, own = federation.state()
        moments: dict[str, AnyArray] = {}
        packed, unsaved = pack_strategy(strategy, initial, moments)
        for name in unsaved:
            if name not in self.unsaved:
                LOGGER.warning("enlist: %s cannot be saved, and a run that is continued begins with a new one", name)
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
        write = self.folder.prepared(
            number, content, moved, lambda: _weights(model, moments), _parts(federation), [] if log is None else [log]
        )
        self.background.run(write)
        if self.decisions.full() and federation.books is not None:
            self.background.wait()  # a new segment removes an old one, which the checkpoint before may refer to
            federation.record_to(self.decisions.begin(federation.selector))

    def check(self) -> None:
        """Raise what has gone wrong with the last checkpoint, if it is known by now."""
        self.background.check()

    def note(self, date: float, time: float, number: int, ending: str = "") -> None:
        """Write into starts.csv that rounds begin, or with `ending` how they end, if they had begun."""
        if self.folder is None or bool(ending) != self.announced:
            return
        self.announced = not ending
        again = number > 0 or files.has_file(self.folder.path / "starts.csv")  # version 0.1 wrote none
        with contextlib.suppress(OSError):  # a full disk is told by whoever writes something that is needed
            note_start(self.folder.path, date, time, number, ending or ("continued" if again else "started"))

    def finish(self, result: Mapping[str, Any], federation: Federation) -> None:
        """The run is finished, and its last checkpoint is on disk."""
        self.background.wait()
        if self.folder is not None:
            self.describe(federation, 0)
            self.folder.write_result(result)

    def stop(self, error: BaseException) -> None:
        """The run ends with an error: wait for the last checkpoint, and say if that fails as well."""
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
            if self.folder is not None:
                self.folder.close()


def _weights(model: Mapping[str, Array], moments: Mapping[str, AnyArray]) -> Weights:
    """What goes into files of its own: the model, decoded, and what the strategy has accumulated."""
    weights = {"model": {name: array.numpy().copy(order="C") for name, array in model.items()}}
    return {**weights, "strategy": moments} if moments else weights


def _parts(federation: Federation) -> dict[str, Saves]:
    """The selector as it is now; one with a way of its own to save itself is copied whole."""
    if federation.books is None:
        return {}
    selector = federation.selector
    plain = type(selector).save is Selector.save
    return {"selector": storage.Snapshot(selector) if plain else copy.deepcopy(selector)}


def _continued(saved: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration, but for settings that may change: those stay as they were written down first."""
    if not files.has_file(saved):
        return dict(config)
    with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
        before = dict(json.loads(files.read(saved)))
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


def saved_model(checkpoint: Checkpoint) -> ArrayRecord:
    """The model of a checkpoint, in the order in which the strategy had it.

    >>> import types
    >>> import numpy as np
    >>> model = {"bias": np.zeros(2), "weight": np.ones((2, 3))}
    >>> saved = types.SimpleNamespace(header={"names": ["weight", "bias"]}, weights={"model": model}, folder="run")
    >>> list(saved_model(saved))
    ['weight', 'bias']
    """
    model = checkpoint.weights["model"]
    try:
        return ArrayRecord({name: Array(model[name]) for name in checkpoint.header["names"]})
    except KeyError as error:
        raise StateFileError(f"{checkpoint.folder} lacks array {error}; restore it from a copy.") from None
