"""The log of a selector: every ask and tell as one line of JSON, and its replay.

Arena, simulator and Flower adapter drive selectors through `Books`, which writes the log. Replayed into a bare selector
in the state in which the recording began, it gives the same selections.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.typing import BoolArray, IntArray
from enlist.clients import Clients
from enlist.contract import Selector
from enlist.errors import InputError
from enlist.records import Feedback, RoundMetrics, Selection


def append(log: Path, entry: dict[str, Any]) -> None:
    """Write one line.

    >>> import tempfile
    >>> log = Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> append(log, {"event": "ask", "k": np.int64(3)})
    >>> log.read_text()
    '{"event": "ask", "k": 3}\\n'
    """
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry, default=lambda value: value.item()) + "\n")


def cut(log: Path, round: int, event: str = "tell") -> None:
    """Truncate a log to what was written until a round was told; a run that resumes there writes the rest again.

    In the log of an asynchronous run, the `event` "step" marks a step that was told.

    >>> import enlist, tempfile
    >>> log = Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> books = enlist.Books(enlist.create("random", enlist.Clients(count=6)), log=log)
    >>> for _ in range(4):
    ...     picked = books.ask(k=2)
    ...     books.settle(picked, Feedback())
    >>> cut(log, 3)
    >>> [json.loads(line)["event"] for line in log.read_text().splitlines()]
    ['ask', 'tell', 'ask', 'tell', 'ask', 'tell']
    """
    end = 0
    if round:
        if not log.exists():
            raise InputError(f"{log} does not exist, but the run resumes after round {round}; name its own log.")
        end = next((place for number, place in _told(log, event) if number == round), 0)
        if not end:
            raise InputError(f"{log} does not reach round {round}, after which the run resumes; name its own log.")
    with open(log, "r+b") as file:
        file.truncate(end)


def _told(log: Path, event: str) -> Iterator[tuple[int, int]]:
    """Rounds that were told, late replies included, and where their lines end."""
    place = 0
    with open(log, "rb") as file:
        for line in file:
            place += len(line)
            if not line.endswith(b"\n"):
                return  # cut off when its writer was killed
            entry = _parsed(line.decode("utf-8"), str(log), 0)
            if entry["event"] == event:
                yield entry["round"], place


def replay(log: str | PathLike[str], selector: Selector[Any, Any]) -> Iterator[tuple[Selection, IntArray]]:
    """Replay a recorded log into a fresh selector; yields, per ask, its selection and the clients of the recording.

    >>> import enlist, tempfile, os
    >>> clients = enlist.Clients(count=6)
    >>> log = os.path.join(tempfile.mkdtemp(), "log.jsonl")
    >>> books = enlist.Books(enlist.create("ucb", clients, seed=3), log=log)
    >>> for _ in range(4):
    ...     picked = books.ask(k=2)
    ...     books.settle(picked, Feedback(accuracy_gain=0.1 * picked.clients))
    >>> again = replay(log, enlist.create("ucb", clients, seed=3))
    >>> all((selection.clients == recorded).all() for selection, recorded in again)
    True
    """
    with open(log, encoding="utf-8") as file:
        yield from replay_lines(file, selector, str(log))


def replay_lines(
    lines: Iterable[str], selector: Selector[Any, Any], name: str = "the log"
) -> Iterator[tuple[Selection, IntArray]]:
    """Replay the lines of a log into a selector in the state in which the recording began; see `replay`.

    >>> import enlist
    >>> next(replay_lines(['{"event": '], enlist.create("random", Clients(count=2))))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: the log line 1 is not valid JSON; the log was cut off there.
    """
    asked: dict[int, Selection] = {number: opening.selection for number, opening in selector.openings.items()}
    for number, line in enumerate(lines, start=1):
        entry = _parsed(line, name, number)
        if entry["event"] == "ask":
            selection = _ask_again(selector, entry)
            asked[selection.round] = selection
            recorded = np.array(entry["picked"], dtype=np.int64)
            yield selection, recorded
            if not np.array_equal(selection.clients, recorded):
                raise InputError(
                    f"the replay differs from the log from round {selection.round} on: it selects "
                    f"{selection.clients.tolist()} where the log has {recorded.tolist()}; same selector and seed?"
                )
        elif entry["event"] == "tell":
            metrics = None if entry["metrics"] is None else RoundMetrics(**entry["metrics"])
            selector.tell(asked[entry["round"]], Feedback(**entry["feedback"]), metrics)
        elif entry["event"] == "observe":
            selector.observe(unpacked(entry["available"], len(selector.clients)), entry["now"])
        elif entry["event"] == "join":
            names = entry["feature_names"]
            selector.join(Clients(count=entry["count"], feature_names=names, **entry["columns"]))
        elif entry["event"] == "compact":
            selector.compact(entry["keep"])
        elif entry["event"] == "expire":
            selector.expire(asked[entry["round"]])
        elif entry["event"] == "accept":
            selector.accept(entry["arrivals"], entry["k"])
        for finished in [old for old in asked if old not in selector.openings]:
            del asked[finished]


def _ask_again(selector: Selector[Any, Any], entry: dict[str, Any]) -> Selection:
    fresh = None if entry["fresh"] is None else Feedback(**entry["fresh"])
    available = unpacked(entry["available"], len(selector.clients))
    arguments = {name: entry[name] for name in ("k", "now", "deadline", "forecast", "busy")}
    arguments |= {name: entry.get(name) for name in ("enough", "context")}
    return selector.ask(available, **arguments, fresh=fresh, asynchronous=entry.get("asynchronous", False))


def _parsed(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        where = f"{name} line {number}" if number else f"a line of {name}"
        raise InputError(f"{where} is not valid JSON; the log was cut off there.") from None
    return entry


def packed(positions: IntArray, count: int) -> str:
    """Positions as a short text.

    >>> unpacked(packed(np.array([1, 2]), 4), 4)
    array([False,  True,  True, False])
    """
    mask = np.zeros(count, dtype=bool)
    mask[positions] = True
    return base64.b64encode(np.packbits(mask).tobytes()).decode()


def unpacked(text: str, count: int) -> BoolArray:
    """The mask of the positions that `packed` was given.

    >>> unpacked(packed(np.array([0]), 2), 2)
    array([ True, False])
    """
    bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return np.unpackbits(bits, count=count).astype(bool)


def plain(feedback: Feedback) -> dict[str, Any]:
    """The columns of a feedback, as lists.

    >>> plain(Feedback(latency=[2.0]))
    {'latency': [2.0]}
    """
    fields = ((field.name, getattr(feedback, field.name)) for field in dataclasses.fields(feedback))
    return {name: value.tolist() for name, value in fields if value is not None}
