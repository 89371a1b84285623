"""The configurations that go with messages: a strategy may change them from round to round, and Flower keeps that."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from flwr.app import ConfigRecord

BYTES = "base64"


class Configs:
    """The records of `train_config` and `evaluate_config`, as they were given and as the strategy has changed them.

    >>> first = Configs(ConfigRecord({"lr": 0.1, "epochs": 2}), ConfigRecord())
    >>> first.train["lr"] = 0.05
    >>> second = Configs(ConfigRecord({"lr": 0.1, "epochs": 3}), ConfigRecord())
    >>> second.restore(first.to_save())
    >>> dict(second.train)
    {'lr': 0.05, 'epochs': 3}
    """

    def __init__(self, train: ConfigRecord, evaluate: ConfigRecord) -> None:
        self.train, self.evaluate = train, evaluate
        self.given = {"train": dict(train), "evaluate": dict(evaluate)}

    def to_save(self) -> str:
        """Both as text: what was given, and what it is now."""
        now = {"train": dict(self.train), "evaluate": dict(self.evaluate)}
        return json.dumps({"given": self.given, "now": now}, default=_bytes)

    def restore(self, saved: str | None) -> None:
        """Change what was given as it had been changed; what the user gives otherwise than before is the user's."""
        if saved is None:  # of version 0.1
            return
        found = json.loads(saved, object_hook=_back)
        for record, name in ((self.train, "train"), (self.evaluate, "evaluate")):
            _change(record, found["given"][name], found["now"][name])


def _change(record: ConfigRecord, given: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    absent = object()
    for key in {**given, **now}:
        before, after = given.get(key, absent), now.get(key, absent)
        if before is not after and before != after and record.get(key, absent) == before:
            if after is absent:
                del record[key]
            else:
                record[key] = after


def _bytes(value: bytes) -> dict[str, str]:
    return {BYTES: base64.b64encode(value).decode()}


def _back(found: dict[str, Any]) -> Any:
    """Bytes as they were; no other value of a ConfigRecord is a table."""
    return base64.b64decode(found[BYTES]) if list(found) == [BYTES] else found
