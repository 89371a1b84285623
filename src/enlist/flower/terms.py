"""The terms of a federation: how many nodes, how long to wait, what to do with late replies, where to save the run.

A deadline is a number of seconds, or a policy: a function of the round and of recent latencies. A policy has no state;
its caller keeps and saves the latencies. Any function will do:

    deadline=lambda number, recent: 300.0 if number <= 3 else 60.0
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal import aliases, checks
from enlist._internal.text import function_name
from enlist._internal.typing import FloatArray
from enlist.bandits.sketches import MOST_NUMBERS, NUMBERS
from enlist.errors import InputError, unknown
from enlist.flower import keys
from enlist.flower.grid import SHORTEST_POLL
from enlist.flower.replies.updates import Weighting, checked_weighting

OWN_KEYS = (*keys.CLAIMS, "seconds", "battery_left", "round.accuracy", "round.loss")

Policy = Callable[[int, Sequence[FloatArray]], float]
"""(number of the round, latencies of recent rounds, newest last) -> seconds. A late node counts as the time waited."""

RECENT_ROUNDS = 50


@dataclasses.dataclass(frozen=True)
class Percentile:
    """`factor` times a percentile of the latencies in the last `window` rounds; `start` until there are any.

    Late nodes count as the time that the server waited for them, so a deadline that is too short grows by itself.

    >>> policy = Percentile(percentile=50.0, factor=2.0, start=300.0)
    >>> policy(1, []), policy(2, [np.array([5.0, 6.0, 30.0])])
    (300.0, 12.0)
    """

    percentile: float = 90.0
    factor: float = 1.5
    start: float = 600.0
    least: float = 1.0
    window: int = 20

    def __post_init__(self) -> None:
        checks.finite("percentile", self.percentile, 0.0, 100.0)
        checks.above_zero("factor", self.factor)
        checks.seconds("start", self.start)
        checks.seconds("least", self.least)
        checks.whole("window", self.window, minimum=1)

    def __call__(self, number: int, recent: Sequence[FloatArray]) -> float:
        """Seconds that round `number` waits."""
        known = np.concatenate([np.zeros(0), *recent[-self.window :]])
        if not len(known):
            return self.start
        return max(self.factor * float(np.percentile(known, self.percentile)), self.least)


@dataclasses.dataclass(frozen=True)
class MovingAverage:
    """`factor` times a moving average of a percentile of each round's latencies, which enters with weight `alpha`.

    >>> policy = MovingAverage(factor=2.0, alpha=0.5, percentile=50.0, start=20.0)
    >>> policy(1, []), policy(2, [np.array([5.0, 6.0, 30.0])])
    (20.0, 16.0)
    """

    factor: float = 2.0
    percentile: float = 50.0
    alpha: float = 0.25
    start: float = 600.0
    least: float = 1.0

    def __post_init__(self) -> None:
        checks.above_zero("factor", self.factor)
        checks.finite("percentile", self.percentile, 0.0, 100.0)
        checks.finite("alpha", self.alpha, 0.0, 1.0)
        checks.seconds("start", self.start)
        checks.seconds("least", self.least)

    def __call__(self, number: int, recent: Sequence[FloatArray]) -> float:
        """Seconds that round `number` waits."""
        average = self.start / self.factor
        for latencies in recent:
            if len(latencies):
                average += self.alpha * (float(np.percentile(latencies, self.percentile)) - average)
        return max(self.factor * average, self.least)


def deadline_seconds(policy: float | Policy | None, number: int, recent: Sequence[FloatArray], longest: float) -> float:
    """The checked deadline of a round, never more than `longest`.

    >>> deadline_seconds(90.0, 1, [], longest=60.0), deadline_seconds(None, 1, [], longest=60.0)
    (60.0, 60.0)
    >>> deadline_seconds(lambda number, recent: -1.0, 4, [], longest=60.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: the deadline policy gave -1.0 for round 4; it must give seconds above 0.
    """
    if policy is None:
        return longest
    if not callable(policy):
        return min(policy, longest)
    given = policy(number, recent)
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not float(given) > 0:
        raise InputError(f"the deadline policy gave {given!r} for round {number}; it must give seconds above 0.")
    return min(float(given), longest)


def checked_deadline(policy: float | Policy | None) -> float | Policy | None:
    """Check a deadline passed by the user: seconds or a function.

    >>> checked_deadline(60), checked_deadline(None)
    (60.0, None)
    """
    if policy is None or callable(policy):
        return policy
    return checks.seconds("deadline", policy)


def described_deadline(policy: float | Policy | None) -> float | str | None:
    """A deadline for the recorded configuration.

    >>> described_deadline(Percentile(start=60.0))
    'Percentile(percentile=90.0, factor=1.5, start=60.0, least=1.0, window=20)'
    """
    if policy is None or isinstance(policy, float):
        return None if policy is None or math.isinf(policy) else policy
    return repr(policy) if dataclasses.is_dataclass(policy) else function_name(policy)


@dataclasses.dataclass(frozen=True, eq=False)
class Terms:
    """The checked arguments of `with_selector`; see there.

    >>> Terms(k=10, over_commit=1.3, deadline=60).deadline
    60.0
    >>> Terms(k=10, late="mrege")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: late is 'mrege'. Did you mean 'merge'? Allowed: drop, learn, merge.
    """

    k: int
    deadline: float | Policy | None = None
    over_commit: float = 1.0
    late: str = "learn"
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
    secure_aggregation: bool = False
    sketch: int = NUMBERS

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "k", checks.whole("k", self.k, minimum=1))
        put(self, "deadline", checked_deadline(self.deadline))
        put(self, "over_commit", checks.finite("over_commit", self.over_commit, 1.0))
        put(self, "late", aliases.late(self.late))
        checks.one_of("mode", self.mode, ("synchronous", "buffered"))
        put(self, "staleness", checked_weighting(self.weighting))
        self._check_mode()
        if self.min_nodes is not None:
            checks.whole("min_nodes", self.min_nodes, minimum=1)
        checks.whole("min_replies", self.min_replies, minimum=1)
        if self.min_replies > self.number_to_ask:
            raise InputError(
                f"min_replies is {self.min_replies}, and {self.number_to_ask} nodes are asked in a round; lower it, or "
                "ask more (k, over_commit)."
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
        checks.whole("sketch", self.sketch, minimum=1, maximum=MOST_NUMBERS)
        put(self, "poll", checks.finite("poll", self.poll, SHORTEST_POLL, 60.0))
        if self.on_round is not None and not callable(self.on_round):
            raise InputError(f"on_round is {self.on_round!r}; pass a function of one RoundResult, or leave it out.")
        for name in self.keys or {}:
            if name not in OWN_KEYS:
                raise unknown("key", name, OWN_KEYS, owner="keys")
        if self.shadow and (self.late == "merge" or self.over_commit != 1.0 or self.min_replies > 1):
            raise InputError(
                "shadow leaves everything to Flower; late='merge', over_commit and min_replies cannot be combined with "
                "it."
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
                "mode='buffered' merges every update by its staleness; it cannot be combined with shadow, "
                "late='merge', min_replies or staleness='refl'."
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
        """Most nodes at work at once in buffered mode.

        >>> Terms(k=10, mode="buffered", concurrency=20).at_work, Terms(k=10, mode="buffered").at_work
        (20, 10)
        """
        return self.number_to_ask if self.concurrency is None else self.concurrency

    @property
    def per_step(self) -> int:
        """Updates per step of a buffered server."""
        return min(self.k, self.at_work) if self.buffer is None else self.buffer

    @property
    def weighting(self) -> Weighting:
        """How late or stale updates are weighted."""
        usual = "polynomial" if self.buffered else "dynsgd"
        return usual if self.staleness is None else self.staleness

    def too_stale(self, steps: int) -> bool:
        """Whether an update is discarded because the server made this many steps since its node was selected.

        >>> Terms(k=1, mode="buffered", max_staleness=2).too_stale(3)
        True
        """
        return self.max_staleness is not None and steps > self.max_staleness

    @property
    def number_to_ask(self) -> int:
        """How many nodes are selected so that k reply.

        >>> Terms(k=10, over_commit=1.3).number_to_ask, Terms(k=3).number_to_ask
        (13, 3)
        """
        return math.ceil(self.k * self.over_commit - 1e-9)

    def described(self) -> dict[str, Any]:
        """For the recorded configuration."""
        buffered = {"mode": self.mode, "concurrency": self.at_work, "buffer": self.per_step}
        return {
            **({**buffered, "max_staleness": self.max_staleness} if self.buffered else {}),
            "k": self.k,
            "deadline": described_deadline(self.deadline),
            "over_commit": self.over_commit,
            "late": self.late,
            "staleness": function_name(self.staleness) if callable(self.staleness) else self.staleness,
            "patience": self.patience,
            "min_nodes": self.min_nodes,
            "min_replies": self.min_replies,
            "shadow": self.shadow,
            "clip": self.clip,
            "most_often": self.most_often,
            **({} if self.sketch == NUMBERS else {"sketch": self.sketch}),
        }

    def own(self, name: str, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Keys under which an evaluation is looked up: the app's own, if given, else the usual ones."""
        given = (self.keys or {}).get(name)
        return usual if given is None else (given,)
