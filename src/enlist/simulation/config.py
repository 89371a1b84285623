"""The configuration of a run: what a TOML file says, checked on load. docs/configuration.md is made from this page."""

from __future__ import annotations

import errno
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pydantic

from enlist import files, selectors
from enlist.clients import MOST_CLIENTS
from enlist.data import AnyDataset, AnyPartition, Digits, Dirichlet, FromMemory, LabelNoise
from enlist.data.base import DatasetOptions
from enlist.data.memory import AnyData
from enlist.devices import (
    Always,
    AnyAvailability,
    AnyDeadline,
    AnyDevices,
    Failures,
    FeatureKnobs,
    NoDeadline,
    Phones,
)
from enlist.errors import EnlistError, InputError
from enlist.importing import source_digest
from enlist.methods import Method, parts_of
from enlist.options import GrownOptions, Options
from enlist.runs.columns import FAIRNESS, TABLES
from enlist.runs.trust import check_trust, folder_of
from enlist.settings import build_settings
from enlist.simulation.drift import AnyDrift
from enlist.simulation.evaluation import Evaluation
from enlist.simulation.hostile import AnyHostile
from enlist.text import brief_reason, function_name
from enlist.training.aggregation import AnyAggregation, Mean
from enlist.training.models import MLP, AnyModel, PythonModel
from enlist.training.own import Training
from enlist.training.server import AnyServer, FedAvg

KINDS = ("kind", "name")
"""Keys that say which other keys their table has."""
GROWING = ("rounds.rounds", "rounds.seconds")
"""Keys that may say more than they did when a run began: it then goes on, also if it was finished."""
MOST_ROUNDS = 10**9
"""Rounds of a run at most, by design: at a millisecond each they take twelve days."""


class SelectorSection(GrownOptions):
    """Who decides: any form of a method, as a table.

    >>> SelectorSection(name="oort", settings={"penalty": 1.0}).method().label
    'oort+penalty=1.0'
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"label", "source"})
    name: str = pydantic.Field(
        "random", description="A selector (`enlist list selectors` shows them), or a class of yours, 'module:Class'."
    )
    preset: str | None = pydantic.Field(None, description="A named set of settings, such as 'paper'.")
    settings: dict[str, Any] = pydantic.Field({}, description="Settings of the selector, by name.")
    label: str | None = pydantic.Field(
        None, description="What tables and charts call it; by default its name with its settings."
    )
    source: str | None = pydantic.Field(
        None,
        description="Digest of the source of a class of yours; a run refuses to go on with another.",
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
        """What tables and charts call it."""
        return self.method().label

    def kind(self) -> selectors.AnySelector:
        """The class, which is imported if it is the user's own; its settings are checked."""
        found: selectors.AnySelector = self._kind or selectors.get(self.name)
        build_settings(found, self.preset, self.settings)
        return found

    def code(self) -> tuple[str, ...]:
        """Code of the user's that it names, as "module:Class"."""
        return (self.name,) if selectors.is_code(self.name) else ()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _as_table(cls, given: Any) -> Any:
        """The name may be written with preset and settings, as anywhere else; keys of the table win."""
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
        if self.code():  # imported when it is needed, and trusted then
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
            return _checked(FromMemory.of, given)
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

    LATER: ClassVar[frozenset[str]] = frozenset({"norm_bound", "distrust", "exclude"})

    optimiser: AnyServer = pydantic.Field(FedAvg(), description="How the mean update changes the model.")
    aggregation: AnyAggregation = pydantic.Field(Mean(), description="How updates become one.")
    norm_bound: float = pydantic.Field(
        1e4,
        ge=0,
        description="Updates longer than this many times the running median of lengths are refused; 0 refuses none. "
        "From 1000 on, updates are looked at one by one only once a sum of some looks wrong; below, always.",
    )
    distrust: float = pydantic.Field(
        0.0,
        ge=0,
        description="Clients whose update lies farther from the aggregate than this many times the running median of "
        "distances count as failed, and the selector learns nothing else of them; 0 trusts everybody. Of a late update "
        "the selector hears when it comes, before it is compared with others.",
    )
    exclude: int = pydantic.Field(
        0,
        ge=0,
        description="Rounds for which a client is not asked after its second refused or distrusted update in a row, "
        "twice as long the next time; 0 asks everybody again.",
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


class RoundsSection(Options):
    """How rounds go.

    >>> RoundsSection(k=10, over_commit=1.3).asked
    13
    """

    rounds: int = pydantic.Field(100, ge=1, le=MOST_ROUNDS, description="Rounds to run.")
    seconds: float | None = pydantic.Field(None, gt=0, description="Stop when this much virtual time has passed.")
    k: int = pydantic.Field(10, ge=1, le=MOST_CLIENTS, description="Updates wanted per round.")
    over_commit: float = pydantic.Field(
        1.0, ge=1, le=1000, description="Ask this many times k clients and go on with the first k replies."
    )
    deadline: AnyDeadline = pydantic.Field(NoDeadline(), description="When the server stops waiting.")
    protocol: Literal["synchronous", "safa"] = pydantic.Field(
        "synchronous", description="'safa': everybody trains, the server picks among arrivals and keeps a cache."
    )
    late: Literal["drop", "use"] | None = pydantic.Field(
        None,
        description="Updates that come too late: thrown away, or used when they come (as REFL does). "
        "If not given, they are thrown away, but SAFA uses them.",
    )
    staleness: Literal["equal", "dynsgd", "adasgd", "refl"] = pydantic.Field(
        "refl", description="Weight of an update that came late."
    )
    max_lateness: int = pydantic.Field(5, ge=1, le=99, description="Rounds after which a late update is thrown away.")
    adaptive_target: bool = pydantic.Field(
        False, description="Ask fewer clients when late ones will arrive within the round (REFL)."
    )
    lag_tolerance: int = pydantic.Field(5, ge=0, description="SAFA: rounds a client may lag behind and go on.")
    forecast: float | None = pydantic.Field(
        None, ge=0, le=1, description="Tell selectors who will be online next, right with this probability."
    )

    @property
    def uses_late(self) -> bool:
        """Whether updates that come too late are used."""
        return self.late == "use" or (self.late is None and self.protocol == "safa")

    @property
    def asked(self) -> int:
        """How many clients are asked for."""
        return self.asked_for(self.k)

    def asked_for(self, updates: int) -> int:
        """How many clients are asked if so many updates are wanted."""
        return math.ceil(round(updates * self.over_commit, 9))

    @pydantic.model_validator(mode="after")
    def _matters(self) -> RoundsSection:
        if self.adaptive_target and not self.uses_late:
            raise ValueError('adaptive_target counts late updates that will be used; set late = "use".')
        return self

    @pydantic.field_validator("deadline", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        number = isinstance(given, int | float) and not isinstance(given, bool)
        return _spelled_out("deadline", given) if number or isinstance(given, str) else given


class Joining(Options):
    """Clients that come later: the last ones of the population.

    >>> Joining(round=5, clients=2).clients
    2
    """

    round: int = pydantic.Field(..., ge=2, description="The round from which on they are there.")
    clients: int = pydantic.Field(..., ge=1, description="How many.")


class Leaving(Options):
    """Clients that go for good.

    >>> Leaving(round=9, clients=(3,)).round
    9
    """

    round: int = pydantic.Field(..., ge=2, description="The round from which on they are gone.")
    clients: tuple[int, ...] = pydantic.Field(..., min_length=1, description="Their positions.")


class Membership(Options):
    """Who comes and goes.

    >>> Membership(joins=[Joining(round=5, clients=2)]).joining
    2
    """

    joins: tuple[Joining, ...] = pydantic.Field((), description="Clients that join in mid-run.")
    leaves: tuple[Leaving, ...] = pydantic.Field((), description="Clients that leave in mid-run.")

    @property
    def joining(self) -> int:
        """How many join in all."""
        return sum(join.clients for join in self.joins)


class Config(GrownOptions):
    """A whole run.

    >>> config = Config(rounds={"rounds": 20, "k": 5}, selector={"name": "oort"})
    >>> config.rounds.k, config.data.dataset.name
    (5, 'digits')
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"hostile", "drift"})

    seed: int = pydantic.Field(0, ge=0, description="Seed of population, devices, availability, model and training.")
    selector: SelectorSection = pydantic.Field(SelectorSection(), description="Who decides.")
    data: DataSection = pydantic.Field(DataSection(), description="Which samples there are, and who holds them.")
    devices: AnyDevices = pydantic.Field(Phones(), description="How fast clients compute and transfer.")
    features: FeatureKnobs = pydantic.Field(FeatureKnobs(), description="What the feature table tells selectors.")
    availability: AnyAvailability = pydantic.Field(Always(), description="When clients are online.")
    failures: Failures = pydantic.Field(Failures(), description="Clients that crash.")
    membership: Membership = pydantic.Field(Membership(), description="Clients that come and go.")
    model: AnyModel = pydantic.Field(MLP(), description="The model.")
    training: Training = pydantic.Field(Training(), description="What clients do with it.")
    server: ServerSection = pydantic.Field(ServerSection(), description="What the server does with updates.")
    rounds: RoundsSection = pydantic.Field(RoundsSection(), description="How rounds go.")
    evaluation: Evaluation = pydantic.Field(Evaluation(), description="When the model is tested.")
    hostile: tuple[AnyHostile, ...] = pydantic.Field((), description="Clients that do what they should not.")
    drift: tuple[AnyDrift, ...] = pydantic.Field((), description="Clients that change in mid-run.")

    @pydantic.field_validator("devices", "availability", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @pydantic.field_validator("model", mode="before")
    @classmethod
    def _model(cls, given: Any) -> Any:
        if isinstance(given, type) or (callable(given) and not isinstance(given, Options)):
            return PythonModel.of(given)
        return {"name": given} if isinstance(given, str) else given

    @pydantic.field_validator("selector", mode="before")
    @classmethod
    def _selector(cls, given: Any) -> Any:
        return _checked(SelectorSection.of, given) if isinstance(given, str | type | Method) else given

    @pydantic.field_validator("data", mode="before")
    @classmethod
    def _data(cls, given: Any) -> Any:
        alone = FromMemory.fits(given) or isinstance(given, DatasetOptions)
        return {"dataset": given} if alone else given

    @pydantic.model_validator(mode="after")
    def _together(self) -> Config:
        self.check_together()
        return self

    def check_together(self) -> None:
        """Refuse sections that do not go together."""
        chosen = self.selector
        if self.rounds.protocol == "safa" and not chosen.code() and not chosen.kind().trains_all:
            raise ValueError(
                f"rounds.protocol is 'safa', but selector '{self.selector.name}' chooses before training; "
                'set selector.name = "safa", or rounds.protocol = "synchronous".'
            )
        if self.rounds.protocol == "safa" and (self.server.aggregation != Mean() or self.rounds.adaptive_target):
            raise ValueError(
                "SAFA averages its cache by numbers of samples; leave server.aggregation and rounds.adaptive_target "
                "as they are."
            )
        if self.training.partial < 1 and isinstance(self.rounds.deadline, NoDeadline):
            raise ValueError("training.partial is below 1, but there is no deadline to meet; set rounds.deadline.")

    def no_choice(self, clients: int | None = None) -> str:
        """A warning if every client is wanted in every round, so that selectors have no choice; else nothing.

        Parameters
        ----------
        clients : int, optional
            How many there are; by default `data.clients`, which is not known (0) of a natural partition.

        >>> Config(data={"clients": 8}, rounds={"k": 10}).no_choice()
        'rounds.k is 10, but there are 8 clients: all of them are asked, and no method has a choice.'
        """
        count, k = self.data.clients if clients is None else clients, self.rounds.k
        if not 0 < count < k:
            return ""
        there = (
            "there is 1 client: it is asked" if count == 1 else f"there are {count:,} clients: all of them are asked"
        )
        return f"rounds.k is {k:,}, but {there}, and no method has a choice."

    def code(self) -> tuple[str, ...]:
        """The code that a run of this configuration imports, as "module:name": all of it is named here."""
        parts = (self.selector, self.data.dataset, self.model, self.training, self.evaluation)
        return tuple(name for part in parts for name in part.code())

    def tables(self) -> dict[str, tuple[str, ...]]:
        """The tables of a run with their columns; of rounds there are more if the configuration asks for them.

        >>> Config(data={"client_test": 0.2}).tables()["rounds.csv"][-1]
        'accuracy_spread'
        """
        fair = FAIRNESS if self.data.client_test else ()
        return {**TABLES, "rounds.csv": (*TABLES["rounds.csv"], *fair, *self.evaluation.columns)}

    def with_method(self, given: selectors.AnyMethod, seed: int | None = None) -> Config:
        """The same run with another method, and another seed.

        If it has the configuration's own selector, the settings that the configuration gives it stay, unless the
        method gives others.

        >>> Config(selector="oort+penalty=1").with_method("oort+clip=0.9").selector.settings
        {'penalty': 1, 'clip': 0.9}
        """
        method = selectors.method(given)
        section, own = SelectorSection.of(method), self.selector
        if section.name == own.name:
            settings = {**own.settings, **section.settings}
            label = section.label or (method.label if settings != section.settings else None)
            section = section.model_copy(
                update={"settings": settings, "preset": section.preset or own.preset, "label": label}
            )
        changed = self.model_copy(update={"selector": section, "seed": self.seed if seed is None else seed})
        try:
            changed.check_together()
        except ValueError as error:
            raise InputError(f"method '{method.label}': {error}") from None
        return changed

    def with_data(self, given: AnyData) -> Config:
        """The same run with data of yours: a data frame, arrays, or a `Dataset`; options of such data stay.

        So a run is read or continued whose data were an object, which its folder does not hold; other data are refused.

        >>> Config(data={"clients": 3}).with_data(([[0.0], [1.0]], [0, 1])).data.dataset.content
        'arrays x (2, 1), y (2,)'
        """
        own = self.data.dataset
        dataset = own.again(given) if isinstance(own, FromMemory) else FromMemory.of(given)
        return self.model_copy(update={"data": self.data.model_copy(update={"dataset": dataset})})

    def without_data(self) -> Config:
        """The same run for a process that has its clients already: data that are an object stay behind.

        >>> Config(seed=3).without_data().seed
        3
        """
        if "data.dataset" not in self._held():
            return self
        left = self.data.dataset.model_validate(self.data.dataset.model_dump())
        return self.model_copy(update={"data": self.data.model_copy(update={"dataset": left})})

    def recorded(self) -> Config:
        """As a run folder records it: with digests of the source of the user's selector, of its settings that are
        functions, of loss, optimiser and metrics, all of which are imported.

        >>> Config(selector="oort").recorded().selector.source is None
        True
        """
        changed: dict[str, Any] = {}
        own = [self.selector.kind()] if self.selector.code() else []
        own += [value for value in self.selector.settings.values() if callable(value)]
        if own:
            changed["selector"] = self.selector.model_copy(update={"source": source_digest(*own)})
        for section, keys in (("training", ("loss", "optimiser")), ("evaluation", ("metrics",))):
            parts = {key: _recorded(getattr(getattr(self, section), key), f"{section}.{key}") for key in keys}
            if any(parts.values()):
                changed[section] = getattr(self, section).model_copy(update=parts)
        return self.model_copy(update=changed)

    def replace(self, *changes: str | Mapping[str, Any], **sections: Any) -> Config:
        """The same run with some keys changed, checked like a file.

        Parameters
        ----------
        *changes : str or mapping
            Single keys, as the command line's --set takes them, "rounds.k=20", or as a mapping, {"rounds.k": 20}. A
            change of `kind` or `name` begins its table anew: the other keys belong to what was there before.
        **sections
            Whole sections or top-level keys: seed=3, model="logistic", selector=Oort.with_(penalty=1.0).

        >>> Config().replace("rounds.k=20", {"data.partition": "iid"}, seed=3).rounds.k
        20
        """
        return self.changed(changes, sections, "Config.replace")

    def changed(self, changes: Sequence[str | Mapping[str, Any]], sections: Mapping[str, Any], source: str) -> Config:
        """What `replace` returns; errors begin with `source`.

        >>> Config().changed([{"devices.kind": "equal"}], {"seed": 3}, "here").devices.kind
        'equal'
        """
        values = self.model_dump(mode="json")
        single = [pair for each in changes for pair in ([_parted(each)] if isinstance(each, str) else each.items())]
        for path, value in sorted(single, key=lambda pair: _last(pair[0]) not in KINDS):  # other keys belong to these
            _put(values, path, value, anew=True)
        for path, (part, _) in self._held().items():
            if not any(f"{path}.".startswith(f"{other}.") or other.startswith(f"{path}.") for other, _ in single):
                _put(values, path, part)
        changed = parse({**values, **sections}, source)
        if changed.selector.name == self.selector.name and changed.selector._kind is None:
            changed.selector._kind = self.selector._kind  # other settings of the same class
        return changed

    def objects(self) -> list[Any]:
        """Classes, functions and data of Python's that it holds, which a file could not say.

        >>> Config().objects()
        []
        """
        return [found for _, objects in self._held().values() for found in objects]

    def _held(self) -> dict[str, tuple[Any, list[Any]]]:
        """Parts that hold objects of Python's, by their key, with these objects."""
        parts: dict[str, Any] = {
            "selector": self.selector,
            "model": self.model,
            "data.dataset": self.data.dataset,
            "training.loss": self.training.loss,
            "training.optimiser": self.training.optimiser,
            "evaluation.metrics": self.evaluation.metrics,
        }
        held = {path: (part, _objects_of(part)) for path, part in parts.items()}
        return {path: pair for path, pair in held.items() if pair[1]}


def _objects_of(part: Any) -> list[Any]:
    parts = part if isinstance(part, tuple) else (part,)
    found = (getattr(each, name, None) for each in parts for name in ("_kind", "_object"))
    return [each for each in found if each is not None]


def _recorded(held: Any, owner: str) -> Any:
    """Code of the user's with the digest of its source."""
    return tuple(code.recorded(owner) for code in held) if isinstance(held, tuple) else held and held.recorded(owner)


def _checked(make: Callable[[Any], Any], given: Any) -> Any:
    """What is made of an object; what is wrong with it is said like everything that is wrong in a configuration."""
    try:
        return make(given)
    except EnlistError as error:
        raise ValueError(str(error)) from None


def parse(values: Mapping[str, Any], source: str) -> Config:
    """A configuration from a mapping; errors begin with `source`.

    >>> parse({"ronds": {"k": 3}}, "my.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: my.toml: 'ronds' is no known key. Did you mean 'rounds'? Known: ...
    """
    config: Config = Config.parse(values, source)
    return config


def load(
    path: str | PathLike[str],
    changes: Sequence[str] = (),
    *,
    trust: bool = False,
    code: Callable[[Config], tuple[str, ...]] = Config.code,
) -> Config:
    """A configuration from a TOML file (or the config.json of a run), with `a.b=c` changes applied.

    Code that a run folder's own config.json names is refused, unless this user made the folder on this machine, or
    says that it may run: `trust`. `code` tells which of it the caller is going to import, all if not given.

    >>> load("missing.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: missing.toml cannot be read: No such file or directory. Examples are in examples/.
    """
    config = parse(read(path, changes), str(Path(path)))
    check_code(path, changes, code(config), trust)
    return config


def check_code(path: str | PathLike[str], changes: Sequence[str], names: Sequence[str], trust: bool) -> None:
    """Refuse the code that a run folder's own configuration names, if it is not this user's; what is typed may run.

    >>> check_code("quickstart.toml", [], ["mynet:Net"], trust=False)
    >>> check_code("received/config.json", ["model.factory=mynet:Net"], ["mynet:Net"], trust=False)
    """
    typed = [change.partition("=")[2].strip() for change in changes]
    named = [name for name in names if not any(_names(text, name) or f'"{name}"' in text for text in typed)]
    folder = folder_of(path) if named and not trust else None
    if folder is not None:
        check_trust(folder, read(path), named)


def _names(text: str, name: str) -> bool:
    """Whether a text is this name, or a method with it."""
    try:
        return name in (text, parts_of(text)[1])
    except InputError:
        return False


def read(path: str | PathLike[str], changes: Sequence[str] = ()) -> dict[str, Any]:
    """What a TOML or JSON file holds, with `a.b=c` changes applied; nothing is checked yet.

    >>> read("missing.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: missing.toml cannot be read: No such file or directory. Examples are in examples/.
    """
    file = Path(path)
    try:
        if file.exists() and not file.is_file() and not file.is_dir():  # a pipe or a device might never end
            raise OSError(errno.EINVAL, "it is no plain file")
        text = file.read_text(encoding="utf-8") if folder_of(file) is None else files.read(file, follow=True).decode()
        values = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Examples are in examples/.") from None
    except RecursionError:
        raise InputError(f"{file} nests values too deeply; a key holds a value or a table.") from None
    except ValueError as error:  # whatever the parsers raise, and Python of numbers with thousands of digits
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise InputError(f"{file} is not valid {kind}: {brief_reason(error)}") from None
    if not isinstance(values, dict):
        raise InputError(f"{file} holds a {type(values).__name__}; a configuration is a table of sections.")
    for change in changes:
        _apply(values, change)
    return values


def _spelled_out(key: str, short: Any) -> dict[str, Any]:
    """The table that a short form stands for."""
    if isinstance(short, int | float):
        return {"kind": "fixed", "seconds": short}
    return {"name" if key in ("dataset", "model", "selector") else "kind": short}


def _apply(values: dict[str, Any], change: str) -> None:
    _put(values, *_parted(change))


def _parted(change: str) -> tuple[str, Any]:
    """Key and value of a change as it is written on the command line."""
    path, equals, text = change.partition("=")
    if not equals or not path:
        raise InputError(f"--set got '{change}'; write key.key=value, for example rounds.k=20.")
    return path.strip(), value_of(path, text)


def value_of(path: str, text: str) -> Any:
    """A value as it is written on the command line or in a table: a number, a list, a bare word.

    >>> value_of("model.hidden", "[32, 16]"), value_of("data.partition", "iid")
    ([32, 16], 'iid')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word is a string
    except (ValueError, RecursionError) as error:
        raise InputError(f"--set {path} cannot be read: {brief_reason(error)}") from None


def _put(values: dict[str, Any], path: str, value: Any, anew: bool = False) -> None:
    """Change a key; `anew`: where it says of which kind its table is, the others of the table go."""
    table = values
    *parents, last = path.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            inner = table[parent] = _spelled_out(parent, inner)
        table = inner
    if anew and last in KINDS and parents and table.get(last) != value:
        table.clear()
    table[last] = value


def _last(path: str) -> str:
    return path.rpartition(".")[2]
