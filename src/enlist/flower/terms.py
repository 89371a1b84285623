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
    staleness: Weighting | None = None
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
    mode: str = "synchronous"
    concurrency: int | None = None
    buffer: int | None = None
    max_staleness: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "k", checks.whole("k", self.k, minimum=1))
        put(self, "deadline", deadlines.checked(self.deadline))
        put(self, "overcommit", checks.finite("overcommit", self.overcommit, 1.0))
        checks.one_of("late", self.late, ("drop", "feedback", "merge"))
        checks.one_of("mode", self.mode, ("synchronous", "buffered"))
        put(self, "staleness", late.checked(self.weighting))
        self._check_mode()
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

    def _check_mode(self) -> None:
        for name, least in (("concurrency", 1), ("buffer", 1), ("max_staleness", 0)):
            given = getattr(self, name)
            if given is None:
                continue
            checks.whole(name, given, minimum=least)
            if not self.buffered:
                raise InputError(f"{name} is {given}, which belongs to mode='buffered'; leave it out, or set the mode.")
        if not self.buffered:
            return
        if self.shadow or self.late == "merge" or self.min_replies > 1 or self.staleness == "refl":
            raise InputError(
                "mode='buffered' merges every update by its staleness: shadow, late='merge', min_replies and "
                "staleness='refl' do not go with it."
            )
        if self.per_step > self.at_work:
            raise InputError(
                f"buffer is {self.per_step}, and at most {self.at_work} nodes are at work; make concurrency larger."
            )

    @property
    def buffered(self) -> bool:
        """Whether nodes are replaced as they reply, and a round is a step of the server."""
        return self.mode == "buffered"

    @property
    def at_work(self) -> int:
        """Nodes that work at once in buffered mode, at most.

        >>> Terms(k=10, mode="buffered", concurrency=20).at_work, Terms(k=10, mode="buffered").at_work
        (20, 10)
        """
        return self.number_to_ask if self.concurrency is None else self.concurrency

    @property
    def per_step(self) -> int:
        """Updates that make a step of a buffered server."""
        return min(self.k, self.at_work) if self.buffer is None else self.buffer

    @property
    def weighting(self) -> Weighting:
        """What late or stale updates count."""
        usual = "polynomial" if self.buffered else "dynsgd"
        return usual if self.staleness is None else self.staleness

    def too_stale(self, steps: int) -> bool:
        """Whether an update is thrown away because the server has made so many steps since its node was asked.

        >>> Terms(k=1, mode="buffered", max_staleness=2).too_stale(3)
        True
        """
        return self.max_staleness is not None and steps > self.max_staleness

    @property
    def number_to_ask(self) -> int:
        """How many nodes are asked so that k reply.

        >>> Terms(k=10, overcommit=1.3).number_to_ask, Terms(k=3).number_to_ask
        (13, 3)
        """
        return math.ceil(self.k * self.overcommit - 1e-9)

    def described(self) -> dict[str, Any]:
        """For the configuration that a run leaves."""
        buffered = {"mode": self.mode, "concurrency": self.at_work, "buffer": self.per_step}
        return {
            **({**buffered, "max_staleness": self.max_staleness} if self.buffered else {}),
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
