"""The selector passed to `with_selector`: a method in any form, a configured selector, or a function; and its needs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist import selectors, storage
from enlist._internal.importing import source_digest
from enlist._internal.text import function_name
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.clients import Clients
from enlist.contract import Choice, Observation, Request, Selector
from enlist.errors import EnlistError, InputError, MissingColumnError, UnknownNameError
from enlist.flower import keys
from enlist.flower.replies.reply import MEASURED, Reply
from enlist.methods import Method
from enlist.records import RoundMetrics
from enlist.selectors import AnyMethod
from enlist.state import State, column

Function = Callable[[Mapping[str, AnyArray], int], ArrayLike]
"""(table of selectable clients, how many) -> rows of the table, as positions or as a mask."""

LEARNED = ("latency", "num_examples", "loss", "loss_rms", "accuracy", "accuracy_gain")
PROBE = {
    "num_examples": np.arange(1.0, 5.0),
    "features": np.arange(1.0, 9.0).reshape(4, 2),
    "quality": np.ones(4),
    "expected_latency": np.ones(4),
    "expected_upload": np.zeros(4),
    "label_counts": np.arange(1.0, 9.0).reshape(4, 2),
    "energy_per_sample": np.ones(4),
    "energy_per_byte": np.ones(4),
    "battery": np.ones(4),
}
"""Columns of four made-up clients, used to find out which columns a selector needs."""


@dataclasses.dataclass(frozen=True)
class FunctionSettings:
    """function: (table, k) -> rows to select.

    >>> FunctionSettings(len).function is len
    True
    """

    function: Function | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"function is {self.function!r}; pass a function (table, k) -> rows of the table.")


@dataclasses.dataclass
class FunctionState(State):
    """The last values that each client reported.

    >>> FunctionState.create(1).loss
    array([nan])
    """

    latency: FloatArray = column(np.nan)
    num_examples: FloatArray = column(np.nan)
    loss: FloatArray = column(np.nan)
    loss_rms: FloatArray = column(np.nan)
    accuracy: FloatArray = column(np.nan)
    accuracy_gain: FloatArray = column(np.nan)
    last_round: IntArray = column(0, int)


class FunctionSelector(Selector[FunctionSettings, FunctionState]):
    """Selects by a function of a table of clients: name, times selected and observed, last reported values.

    >>> def quickest(table, k):
    ...     return np.argsort(table["latency"])[:k]
    >>> selector = FunctionSelector(Clients(count=3), function=quickest)
    >>> import enlist
    >>> selector.tell(selector.ask(k=3), enlist.Feedback(latency=[9.0, 2.0, 4.0]))
    >>> selector.ask(k=1).clients
    array([1])
    """

    name = "function"
    may_choose_fewer = True
    Settings = FunctionSettings
    State = FunctionState

    naming: Callable[[IntArray], AnyArray] | None = None
    """Position -> name of a client; by default the clients' own ids."""

    def choose(self, request: Request) -> Choice:
        positions = request.available
        naming = self.clients.names if self.naming is None else self.naming
        table: dict[str, AnyArray] = {
            "client": naming(positions),
            "selected": self.counts.selected[positions],
            "observed": self.counts.observed[positions],
            "last_round": self.state.last_round[positions],
            **{name: getattr(self.state, name)[positions] for name in LEARNED},
        }
        function = self.settings.function
        assert function is not None
        rows = np.asarray(function(table, request.k))
        if rows.dtype == bool and rows.shape == positions.shape:
            rows = np.flatnonzero(rows)
        count, k = len(positions), request.k
        whole = rows.ndim == 1 and (not len(rows) or rows.dtype.kind in "iu")
        if not whole or len(rows) > k or len(np.unique(rows)) != len(rows) or ((rows < 0) | (rows >= count)).any():
            raise InputError(
                f"the function chose {rows.tolist()}; it must return at most {k} distinct rows of the table, "
                f"from 0 to {count - 1}, or a mask."
            )
        return request.pick(rows.astype(np.int64))

    def learn(self, told: Observation) -> None:
        done = told.completed
        self.state.last_round[told.clients[done]] = told.selection.round
        for name in LEARNED:
            values, known = told.column(name), done & ~np.isnan(told.column(name))
            getattr(self.state, name)[told.clients[known]] = values[known]

    def amend(self, told: Observation) -> None:
        self.learn(told)


@dataclasses.dataclass(frozen=True, eq=False)
class SelectorSource:
    """Where the selector comes from: created when the first nodes connect, or read from a checkpoint.

    >>> source = SelectorSource.of("oort", settings={"penalty": 1.0}, preset=None, seed=7)
    >>> source.name, sorted(source.needs), source.create(Clients(count=3)).settings.penalty
    ('oort', ['latency', 'loss_rms'], 1.0)
    """

    kind: type[Selector[Any, Any]]
    seed: int
    preset: str | None
    settings: Mapping[str, Any]
    given: Selector[Any, Any] | None
    needs: frozenset[str]

    @classmethod
    def of(
        cls,
        selector: AnyMethod | Selector[Any, Any] | Function,
        settings: Mapping[str, Any] | None,
        preset: str | None,
        seed: int,
    ) -> SelectorSource:
        """Check what a user passed; a wrong name or setting is refused here, not in the first round."""
        if isinstance(selector, Selector):
            if settings or preset:
                raise InputError("settings and preset were given with a configured selector; set them on the selector.")
            fields = dataclasses.fields(selector.settings)
            own = {field.name: getattr(selector.settings, field.name) for field in fields}
            _check_measured(selector.name, selector.needs)
            return cls(type(selector), selector.seed, selector.preset, own, selector, selector.needs)
        if isinstance(selector, str | type | Method | Mapping):
            method = selectors.method(selector)
            kind, given = selectors.get(method.selector), {**method.settings, **(settings or {})}
            preset = preset or method.preset
        elif callable(selector):
            kind, given = FunctionSelector, {"function": selector, **(settings or {})}
        else:
            raise InputError(
                f"selector is {selector!r}; pass a method (a name of enlist.names(), a class, Oort.with_(...)), an "
                "enlist.Selector, or a function (table, k) -> rows of the table."
            )
        needs, seed = _probed(kind, given, preset, seed)
        _check_measured(kind.name, needs)
        return cls(kind, seed, preset, given, None, needs)

    @property
    def name(self) -> str:
        """The selector's name."""
        return self.kind.name

    def create(self, clients: Clients) -> Selector[Any, Any]:
        """The selector in its initial state."""
        if self.given is not None:
            return self.given
        return self.kind(clients, seed=self.seed, preset=self.preset, **self.settings)

    def load(self, folder: str | PathLike[str]) -> Selector[Any, Any]:
        """The saved selector, with the functions passed now."""
        functions = {name: value for name, value in self.settings.items() if callable(value)}
        return storage.load(folder, self.kind, functions)

    def described(self) -> dict[str, Any]:
        """For the recorded configuration; a user's own class includes the digest of its source."""
        values = {name: _plain(value) for name, value in self.settings.items()}
        found = {"name": self.name, "preset": self.preset, "settings": values}
        own = self.kind is not FunctionSelector and selectors.is_code(Method(self.kind).name)
        return {**found, "source": source_digest(self.kind)} if own else found


@dataclasses.dataclass
class Needs:
    """What a selector needs to be told, and which of that has been seen.

    >>> needs = Needs("oort", frozenset({"loss_rms", "latency"}))
    >>> [text.partition(";")[0] for text in needs.lacking(Reply(11, 1, 2.5, client=0))]
    ['loss_rms']
    """

    name: str
    needs: frozenset[str]
    seen: set[str] = dataclasses.field(default_factory=set)

    def lacking(self, reply: Reply) -> list[str]:
        """What a reply lacks that the selector needs and no reply had before, each with the way to send it."""
        unseen = sorted(self.needs & set(keys.CLAIMS) - self.seen)
        return [f"{need}; {keys.way_to_send(need)}" for need in unseen if need not in reply.claims]

    def check_replies(self, done: Sequence[Reply], number: int) -> None:
        """Refuse to continue if no reply of a round has what is needed."""
        for need in sorted(self.needs & set(keys.CLAIMS) - self.seen):
            if not any(need in reply.claims for reply in done):
                raise MissingColumnError(
                    f"selector '{self.name}' needs {need}, and none of the {len(done)} replies of round {number} "
                    f"carries it; {keys.way_to_send(need)}."
                )
            self.seen.add(need)
        for need in sorted(self.needs & MEASURED - self.seen):
            if all(math.isnan(reply.update_norm) for reply in done):
                raise MissingColumnError(
                    f"selector '{self.name}' needs {need}, and none of the {len(done)} replies of round {number} holds "
                    "the arrays that were sent, so there is no update to measure; reply with the whole model, or "
                    "choose a selector that does not need it."
                )
            self.seen.add(need)

    def check_round(self, metrics: RoundMetrics | None, number: int) -> None:
        """Refuse to continue if the first evaluation lacks what is needed."""
        for need in sorted(need for need in self.needs if need.startswith("round.")):
            name = need.removeprefix("round.")
            if getattr(metrics, name, None) is not None:
                self.seen.add(need)
            elif need not in self.seen:
                raise MissingColumnError(
                    f"selector '{self.name}' needs the {name} after every round, and the evaluation of round {number} "
                    f"gave none; return MetricRecord({{'{name}': ...}}) from evaluate_fn, or from the clients' "
                    f"evaluation, or name the app's key: with_selector(..., keys={{'round.{name}': '...'}})."
                )


def _check_measured(name: str, needs: frozenset[str]) -> None:
    if "contribution" in needs:
        raise MissingColumnError(
            f"selector '{name}' needs contribution, the effect of each update on the loss on the server's data, which "
            "is not measured here; choose another selector, or use enlist.simulation, which measures it."
        )
    for need in sorted(need for need in needs if need.startswith("context.") and need != "context.battery"):
        raise MissingColumnError(
            f"selector '{name}' needs {need} with every ask, and the only changing value that Flower's clients report "
            "is the battery (client.reply(..., battery_left=...)); choose another selector, or simulate the federation."
        )


def _probed(
    kind: type[Selector[Any, Any]], settings: Mapping[str, Any], preset: str | None, seed: int
) -> tuple[frozenset[str], int]:
    """What a selector needs, including columns whose absence it refuses only on creation; and the checked seed."""
    names = list(PROBE)
    sets = [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]
    for columns in sets:
        known: dict[str, Any] = {name: PROBE[name] for name in columns}
        try:
            probe = kind(Clients(count=4, **known), seed=seed, preset=preset, **settings)
        except UnknownNameError:
            raise
        except EnlistError:
            if columns == sets[-1]:
                raise
            continue
        return probe.needs | {f"clients.{name}" for name in columns}, probe.seed
    raise AssertionError("the last set of columns is refused or taken")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return function_name(value) if callable(value) else value
