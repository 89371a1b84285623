"""The terms of a federation: how many nodes, how long to wait, what to do with late replies, where to keep things."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from enlist._internal import checks
from enlist._internal.text import function_name
from enlist.errors import InputError, unknown
from enlist.flower import deadlines, keys, late
from enlist.flower.deadlines import Policy
from enlist.flower.grid import SHORTEST_POLL
from enlist.flower.late import Weighting

OWN_KEYS = (*keys.CLAIMS, "seconds", "round.accuracy", "round.loss")


@dataclasses.dataclass(frozen=True, eq=False)
class Terms:
    """What `with_selector` was told, checked; see there.

    >>> Terms(k=10, overcommit=1.3, deadline=60).deadline
    60.0
    >>> Terms(k=10, late="mrege")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: late is 'mrege'. Did you mean 'merge'? Allowed: drop, feedback, merge.
    """

    k: int
    deadline: float | Policy | None = None
    overcommit: float = 1.0
    late: str = "feedback"
    staleness: Weighting = "dynsgd"
    min_nodes: int | None = None
    min_replies: int = 1
    warn_without_update: int = 3
    stop_without_update: int | None = None
    patience: float = 600.0
    identify: str = "auto"
    keys: Mapping[str, str] | None = None
    clip: float | None = 0.9
    most_often: float | None = 3.0
    folder: str | PathLike[str] | None = None
    resume: bool | None = None
    save_every: int = 1
    shadow: bool = False
    poll: float = 1.0
    accept_changes: bool = False
    reasons: bool = True
    on_round: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "k", checks.whole("k", self.k, minimum=1))
        put(self, "deadline", deadlines.checked(self.deadline))
        put(self, "overcommit", checks.finite("overcommit", self.overcommit, 1.0))
        checks.one_of("late", self.late, ("drop", "feedback", "merge"))
        put(self, "staleness", late.checked(self.staleness))
        if self.min_nodes is not None:
            checks.whole("min_nodes", self.min_nodes, minimum=1)
        checks.whole("min_replies", self.min_replies, minimum=1)
        if self.min_replies > self.number_to_ask:
            raise InputError(
                f"min_replies is {self.min_replies}, and {self.number_to_ask} nodes are asked in a round; lower it, or "
                "ask more (k, overcommit)."
            )
        checks.whole("warn_without_update", self.warn_without_update, minimum=1)
        if self.stop_without_update is not None:
            checks.whole("stop_without_update", self.stop_without_update, minimum=1)
        put(self, "patience", checks.finite("patience", self.patience, 0.0))
        checks.one_of("identify", self.identify, ("auto", "always", "never"))
        if self.clip is not None:
            put(self, "clip", checks.finite("clip", self.clip, 0.5, 1.0))
        if self.most_often is not None:
            put(self, "most_often", checks.finite("most_often", self.most_often, 1.0))
        if self.folder is not None:
            put(self, "folder", Path(self.folder).expanduser())
        checks.whole("save_every", self.save_every, minimum=1)
        put(self, "poll", checks.finite("poll", self.poll, SHORTEST_POLL, 60.0))
        if self.on_round is not None and not callable(self.on_round):
            raise InputError(f"on_round is {self.on_round!r}; pass a function of one RoundResult, or leave it out.")
        for name in self.keys or {}:
            if name not in OWN_KEYS:
                raise unknown("key", name, OWN_KEYS, owner="keys")
        if self.shadow and (self.late == "merge" or self.overcommit != 1.0 or self.min_replies > 1):
            raise InputError(
                "shadow leaves everything to Flower: late='merge', overcommit and min_replies do not go with it."
            )

    @property
    def number_to_ask(self) -> int:
        """How many nodes are asked so that k reply.

        >>> Terms(k=10, overcommit=1.3).number_to_ask, Terms(k=3).number_to_ask
        (13, 3)
        """
        return math.ceil(self.k * self.overcommit - 1e-9)

    def described(self) -> dict[str, Any]:
        """For the configuration that a run leaves."""
        return {
            "k": self.k,
            "deadline": deadlines.described(self.deadline),
            "overcommit": self.overcommit,
            "late": self.late,
            "staleness": function_name(self.staleness) if callable(self.staleness) else self.staleness,
            "patience": self.patience,
            "min_nodes": self.min_nodes,
            "min_replies": self.min_replies,
            "shadow": self.shadow,
            "clip": self.clip,
            "most_often": self.most_often,
        }

    def own(self, name: str, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Keys under which an evaluation is looked for: the app's own, if named, else the usual ones."""
        given = (self.keys or {}).get(name)
        return usual if given is None else (given,)
