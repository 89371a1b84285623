"""The sections of a configuration: selector, data, server and rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic

from enlist import selectors
from enlist._internal import aliases
from enlist._internal.options import GrownOptions
from enlist._internal.settings import build_settings
from enlist._internal.text import function_name
from enlist.bandits.sketches import MOST_NUMBERS, NUMBERS
from enlist.clients import MOST_CLIENTS
from enlist.data import AnyDataset, AnyPartition, Digits, Dirichlet, FromMemory, LabelNoise
from enlist.devices import (
    AnyDeadline,
    NoDeadline,
)
from enlist.errors import EnlistError
from enlist.methods import Method
from enlist.simulation.discounts import AnyDiscount, Polynomial
from enlist.simulation.keys import spelled_out
from enlist.training.aggregation import AnyAggregation, Mean
from enlist.training.server import AnyServer, FedAvg

MOST_ROUNDS = 10**9
"""Maximum number of rounds, by design: at a millisecond each they take twelve days."""


class SelectorSection(GrownOptions):
    """The selector: any form of a method, as a table.

    >>> SelectorSection(name="oort", settings={"penalty": 1.0}).method().label
    'oort+penalty=1.0'
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"label", "source"})
    name: str = pydantic.Field(
        "random", description="A selector (`enlist list selectors` shows them), or your own class, 'module:Class'."
    )
    preset: str | None = pydantic.Field(None, description="A named set of settings, such as 'paper'.")
    settings: dict[str, Any] = pydantic.Field({}, description="Settings of the selector, by name.")
    label: str | None = pydantic.Field(
        None, description="What tables and charts call it; by default its name with its settings."
    )
    source: str | None = pydantic.Field(
        None,
        description="Digest of the source of your own class; a run continues only with the same.",
    )
    _kind: Any = pydantic.PrivateAttr(None)

    @pydantic.field_serializer("settings", when_used="json")
    def _plain(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {name: function_name(value) if callable(value) else value for name, value in settings.items()}

    @classmethod
    def of(cls, given: selectors.AnyMethod) -> SelectorSection:
        """A section from any form of a method.

        >>> SelectorSection.of("bsfl:paper").preset
        'paper'
        """
        method = selectors.method(given)
        settings = {
            name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in method.settings.items()
        }
        values = {"name": method.name, "preset": method.preset, "settings": settings}
        section: SelectorSection = cls.parse({**values, "label": method.given_label}, f"method '{method.label}'")
        if isinstance(method.selector, type) and selectors.is_code(method.name):
            section._kind = method.selector
            section = section.model_copy(update={"label": method.label})
        return section

    def method(self) -> Method[Any]:
        """The method that it describes."""
        return Method(self._kind or self.name, preset=self.preset, settings=self.settings, label=self.label)

    @property
    def title(self) -> str:
        """Its name in tables and charts."""
        return self.method().label

    def kind(self) -> selectors.AnySelector:
        """The class, which is imported if it is the user's own; its settings are checked."""
        found: selectors.AnySelector = self._kind or selectors.get(self.name)
        build_settings(found, self.preset, self.settings)
        return found

    @property
    def needs(self) -> frozenset[str]:
        """What the selector needs with these settings."""
        return self.kind().needs_with(self.preset, **self.settings)

    def code(self) -> tuple[str, ...]:
        """The user's code that it names, as "module:Class"."""
        return (self.name,) if selectors.is_code(self.name) else ()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _as_table(cls, given: Any) -> Any:
        """The name may be written with preset and settings, as anywhere else; keys of the table take precedence."""
        name = given.get("name") if isinstance(given, Mapping) else None
        if not isinstance(name, str) or not set(name) & set(":+="):
            return given
        try:
            method = selectors.method(name)
        except EnlistError as error:
            raise ValueError(str(error)) from None
        preset, label = given.get("preset") or method.preset, given.get("label") or method.given_label
        settings = given.get("settings", {})
        both = {**method.settings, **settings} if isinstance(settings, Mapping) else settings
        return {**given, "name": method.name, "preset": preset, "settings": both, "label": label}

    @pydantic.model_validator(mode="after")
    def _known(self) -> SelectorSection:
        if self.code():  # imported and trusted when it is needed
            return self
        try:
            build_settings(selectors.get(self.name), self.preset, self.settings)
        except EnlistError as error:
            raise ValueError(str(error)) from None
        return self


class DataSection(GrownOptions):
    """Which samples there are, and who holds them.

    >>> DataSection(dataset="digits", partition="iid").partition.kind
    'iid'
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"client_test", "slow_classes"})

    dataset: AnyDataset = pydantic.Field(Digits(), description="The data set: a name, or a table with its options.")
    clients: int = pydantic.Field(
        100, ge=0, le=MOST_CLIENTS, description="Clients in the population; 0 takes every user of a natural partition."
    )
    partition: AnyPartition = pydantic.Field(Dirichlet(), description="Who holds what: a kind, or a table.")
    validation: float = pydantic.Field(
        0.1,
        ge=0,
        lt=1,
        description="Share of the training samples that the server keeps; selectors are told the accuracy on it.",
    )
    label_noise: LabelNoise = pydantic.Field(LabelNoise(), description="Wrong labels per client; seen as quality.")
    speed_correlation: float = pydantic.Field(
        0.0, ge=-1, le=1, description="Rank correlation between a client's speed and its number of samples."
    )
    client_test: float = pydantic.Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of its samples that each client keeps for testing. Above 0, rounds.csv has the accuracy of "
        "clients on samples of their own: mean, worst tenth, spread.",
    )
    slow_classes: tuple[int, ...] = pydantic.Field(
        (), description="Classes that slow clients hold: the larger its share of them, the slower a client."
    )

    @pydantic.field_validator("dataset", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if FromMemory.fits(given):
            return checked(FromMemory.of, given)
        return {"name": given} if isinstance(given, str) else given

    @pydantic.field_validator("partition", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @pydantic.model_validator(mode="after")
    def _one_order(self) -> DataSection:
        if self.slow_classes and self.speed_correlation:
            raise ValueError("slow_classes and speed_correlation both say who gets which device; give one of them.")
        return self


class ServerSection(GrownOptions):
    """What the server does with updates.

    >>> ServerSection().optimiser.kind
    'fedavg'
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"norm_bound", "distrust", "exclude", "sketch"})

    optimiser: AnyServer = pydantic.Field(FedAvg(), description="How the mean update changes the model.")
    aggregation: AnyAggregation = pydantic.Field(Mean(), description="How updates become one.")
    norm_bound: float = pydantic.Field(
        1e4,
        ge=0,
        description="Updates longer than this many times the running median of lengths are refused; 0 refuses none. "
        "From 1000 on, updates are checked one by one only when a sum of several looks wrong; below 1000, always.",
    )
    distrust: float = pydantic.Field(
        0.0,
        ge=0,
        description="Clients whose update lies farther from the aggregate than this many times the running median of "
        "distances count as failed, and the selector learns nothing else about them; 0 trusts all clients. The "
        "selector is told about a late update when it arrives, before it is compared with others.",
    )
    exclude: int = pydantic.Field(
        0,
        ge=0,
        description="Rounds for which a client is not selected after its second refused or distrusted update in a row, "
        "twice as long the next time; 0 excludes no client.",
    )
    sketch: int = pydantic.Field(
        NUMBERS,
        ge=1,
        le=MOST_NUMBERS,
        description="Numbers of the sketch of an update, for selectors that need one. Inner products of sketches are "
        "those of updates up to sqrt(2 / sketch) of their lengths.",
    )

    @pydantic.field_validator("optimiser", "aggregation", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @pydantic.model_validator(mode="after")
    def _bounds(self) -> ServerSection:
        for name in ("norm_bound", "distrust"):
            if 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} would refuse more than half; use 0, or at least 1.")
        if self.distrust and self.aggregation.start(1).streaming:
            raise ValueError(
                f"distrust needs the updates of a round side by side, and '{self.aggregation.kind}' adds them up; use "
                "another aggregation, or norm_bound."
            )
        return self


class RoundsSection(GrownOptions):
    """How rounds work.

    >>> RoundsSection(k=10, over_commit=1.3).asked
    13
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"concurrency", "buffer", "max_staleness", "discount", "mixing"})

    rounds: int = pydantic.Field(100, ge=1, le=MOST_ROUNDS, description="Rounds to run.")
    seconds: float | None = pydantic.Field(None, gt=0, description="Stop when this much virtual time has passed.")
    k: int = pydantic.Field(10, ge=1, le=MOST_CLIENTS, description="Updates wanted per round.")
    over_commit: float = pydantic.Field(
        1.0, ge=1, le=1000, description="Select this many times k clients and use the first k replies."
    )
    deadline: AnyDeadline = pydantic.Field(NoDeadline(), description="When the server stops waiting.")
    protocol: Literal["synchronous", "safa", "buffered", "async"] = pydantic.Field(
        "synchronous",
        description="'safa': all clients train, the server picks among arrivals and keeps a cache. 'buffered' and "
        "'async' replace a client when it finishes, and a round is a step of the server: after every `buffer` updates "
        "('buffered', FedBuff), or after each update ('async', FedAsync).",
    )
    late: Literal["drop", "learn", "merge"] | None = pydantic.Field(
        None,
        description="Late updates: discarded, told to the selector when they arrive, or merged as well (as REFL does). "
        "If not given, they are discarded, except that SAFA merges them.",
    )
    staleness: Literal["equal", "dynsgd", "adasgd", "refl"] = pydantic.Field(
        "refl", description="Weight of an update that came late."
    )
    max_lateness: int = pydantic.Field(5, ge=1, le=99, description="Rounds after which a late update is discarded.")
    adaptive_target: bool = pydantic.Field(
        False, description="Select fewer clients when late ones will arrive within the round (REFL)."
    )
    lag_tolerance: int = pydantic.Field(
        5, ge=0, description="SAFA: rounds that a client may lag behind and still keep its own model."
    )
    forecast: float | None = pydantic.Field(
        None, ge=0, le=1, description="Tell selectors which clients will be online next, correct with this probability."
    )
    concurrency: int | None = pydantic.Field(
        None,
        ge=1,
        le=MOST_CLIENTS,
        description="Asynchronous: clients at work at once, at most; k times over_commit if not given.",
    )
    buffer: int | None = pydantic.Field(
        None, ge=1, le=MOST_CLIENTS, description="'buffered': updates per step of the server; k if not given."
    )
    max_staleness: int | None = pydantic.Field(
        None,
        ge=0,
        description="Asynchronous: an update is discarded if the server has made more steps than this since its client "
        "was selected; no limit if not given.",
    )
    discount: AnyDiscount = pydantic.Field(
        Polynomial(), description="Asynchronous: what an update counts by its staleness: a kind, or a table."
    )
    mixing: float = pydantic.Field(
        0.6, gt=0, le=1, description="'async': how far the model moves to that of a client, times the discount (alpha)."
    )

    @property
    def asynchronous(self) -> bool:
        """Whether clients are replaced as they finish, and a round is a step of the server."""
        return self.protocol in ("buffered", "async")

    @property
    def at_work(self) -> int:
        """Maximum number of clients that work at once in an asynchronous run."""
        return self.asked if self.concurrency is None else self.concurrency

    @property
    def per_step(self) -> int:
        """Updates that make a step of an asynchronous server."""
        return 1 if self.protocol == "async" else (self.k if self.buffer is None else self.buffer)

    @property
    def late_rule(self) -> str:
        """What is done with updates that come too late: "drop", "learn" or "merge"."""
        if self.asynchronous:  # no update is late there, only stale
            return "drop"
        return self.late or ("merge" if self.protocol == "safa" else "drop")

    @property
    def asked(self) -> int:
        """How many clients to select."""
        return self.asked_for(self.k)

    def asked_for(self, updates: int) -> int:
        """How many clients to select if this many updates are wanted."""
        return math.ceil(round(updates * self.over_commit, 9))

    @pydantic.model_validator(mode="after")
    def _matters(self) -> RoundsSection:
        if self.adaptive_target and self.late_rule != "merge" and not self.asynchronous:
            raise ValueError('adaptive_target counts late updates that will be merged; set late = "merge".')
        if self.protocol == "safa" and self.late == "learn":
            raise ValueError('SAFA keeps late updates in its cache or ignores them; set late = "merge" or "drop".')
        return self

    @pydantic.field_validator("deadline", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        number = isinstance(given, int | float) and not isinstance(given, bool)
        return spelled_out("deadline", given) if number or isinstance(given, str) else given

    @pydantic.field_validator("late", mode="before")
    @classmethod
    def _late(cls, given: Any) -> Any:
        return aliases.present_late(given, "rounds.late")

    @pydantic.field_validator("discount", mode="before")
    @classmethod
    def _discount(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given


def checked(make: Callable[[Any], Any], given: Any) -> Any:
    """Build a section from an object; errors read like any other error in a configuration.

    >>> checked(SelectorSection.of, "bsfl:paper").preset
    'paper'
    """
    try:
        return make(given)
    except EnlistError as error:
        raise ValueError(str(error)) from None
