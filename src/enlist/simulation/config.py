"""The configuration of a run: a TOML file, checked on load. docs/configuration.md is generated from this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import pydantic

from enlist import selectors
from enlist._internal.importing import source_digest
from enlist._internal.options import GrownOptions, Options
from enlist.data import FromMemory
from enlist.data.base import DatasetOptions
from enlist.data.memory import AnyData
from enlist.devices import (
    Always,
    AnyAvailability,
    AnyDevices,
    DeviceFailures,
    Energy,
    FeatureKnobs,
    NoDeadline,
    Phones,
)
from enlist.errors import InputError
from enlist.methods import Method
from enlist.runs.columns import ENERGY, FAIRNESS, TABLES
from enlist.simulation.drift import AnyDrift
from enlist.simulation.evaluation import Evaluation
from enlist.simulation.hostile import AnyHostile
from enlist.simulation.keys import KINDS, parted, put
from enlist.simulation.local_noise import LocalNoise
from enlist.simulation.membership import Membership
from enlist.simulation.reading import check_code, read
from enlist.simulation.sections import DataSection, RoundsSection, SelectorSection, ServerSection, checked
from enlist.training.aggregation import Mean
from enlist.training.models import MLP, AnyModel, PythonModel
from enlist.training.own import Training

GROWING = ("rounds.rounds", "rounds.seconds")
"""Keys that may be raised after a run began: it then continues, even if it was finished."""


class Config(GrownOptions):
    """A whole run.

    >>> config = Config(rounds={"rounds": 20, "k": 5}, selector={"name": "oort"})
    >>> config.rounds.k, config.data.dataset.name
    (5, 'digits')
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"hostile", "drift", "energy", "local_noise"})

    seed: int = pydantic.Field(0, ge=0, description="Seed of population, devices, availability, model and training.")
    selector: SelectorSection = pydantic.Field(SelectorSection(), description="The selector.")
    data: DataSection = pydantic.Field(DataSection(), description="Which samples there are, and who holds them.")
    devices: AnyDevices = pydantic.Field(Phones(), description="How fast clients compute and transfer.")
    features: FeatureKnobs = pydantic.Field(FeatureKnobs(), description="What the feature table tells selectors.")
    availability: AnyAvailability = pydantic.Field(Always(), description="When clients are online.")
    failures: DeviceFailures = pydantic.Field(DeviceFailures(), description="Clients that crash.")
    membership: Membership = pydantic.Field(Membership(), description="Clients that come and go.")
    model: AnyModel = pydantic.Field(MLP(), description="The model.")
    training: Training = pydantic.Field(Training(), description="What clients do with it.")
    server: ServerSection = pydantic.Field(ServerSection(), description="What the server does with updates.")
    rounds: RoundsSection = pydantic.Field(RoundsSection(), description="How rounds work.")
    evaluation: Evaluation = pydantic.Field(Evaluation(), description="When the model is tested.")
    hostile: tuple[AnyHostile, ...] = pydantic.Field((), description="Clients that do what they should not.")
    drift: tuple[AnyDrift, ...] = pydantic.Field((), description="Clients that change during the run.")
    energy: Energy | None = pydantic.Field(
        None, description="What taking part costs in joules; if not given, energy is not counted."
    )
    local_noise: LocalNoise | None = pydantic.Field(
        None, description="Noise of the clients on losses and accuracies that they report; none if not given."
    )

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
        return checked(SelectorSection.of, given) if isinstance(given, str | type | Method) else given

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
        """Refuse sections that contradict each other."""
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
        if self.rounds.asynchronous and not chosen.code() and chosen.kind().trains_all:
            raise ValueError(
                f"rounds.protocol is '{self.rounds.protocol}', but selector '{chosen.name}' lets all clients train and "
                'picks among arrivals; set rounds.protocol = "safa", or another selector.'
            )
        if self.rounds.protocol == "async" and (self.server.aggregation != Mean() or self.server.distrust):
            raise ValueError(
                "rounds.protocol 'async' takes every update alone, so there is nothing to aggregate or to compare it "
                "with; leave server.aggregation and server.distrust as they are, or use 'buffered'."
            )
        if self.training.partial < 1 and isinstance(self.rounds.deadline, NoDeadline):
            raise ValueError("training.partial is below 1, but there is no deadline to meet; set rounds.deadline.")

    def no_choice(self, clients: int | None = None) -> str:
        """A warning if every round wants all clients, so that selectors have no choice; else empty.

        Parameters
        ----------
        clients : int, optional
            Number of clients; by default `data.clients`, which is unknown (0) for a natural partition.

        >>> Config(data={"clients": 8}, rounds={"k": 10}).no_choice()
        'rounds.k is 10, but there are 8 clients: all are selected, so methods have no choice.'
        """
        count, k = self.data.clients if clients is None else clients, self.rounds.k
        if not 0 < count < k:
            return ""
        there = "there is 1 client: it is selected" if count == 1 else f"there are {count:,} clients: all are selected"
        return f"rounds.k is {k:,}, but {there}, so methods have no choice."

    def code(self) -> tuple[str, ...]:
        """The code that a run of this configuration imports, as "module:name"; it imports no other."""
        parts = (self.selector, self.data.dataset, self.model, self.training, self.evaluation)
        return tuple(name for part in parts for name in part.code())

    def tables(self) -> dict[str, tuple[str, ...]]:
        """The tables of a run with their columns; some columns of rounds.csv depend on the configuration.

        >>> Config(data={"client_test": 0.2}).tables()["rounds.csv"][-1]
        'accuracy_spread'
        """
        fair = FAIRNESS if self.data.client_test else ()
        joules = () if self.energy is None else (ENERGY,)
        return {
            **TABLES,
            "rounds.csv": (*TABLES["rounds.csv"], *fair, *joules, *self.evaluation.columns),
            "participations.csv": (*TABLES["participations.csv"], *joules),
        }

    def with_method(self, given: selectors.AnyMethod, seed: int | None = None) -> Config:
        """The same run with another method, or another seed.

        If the method uses the configuration's own selector, the configuration's settings stay, unless the method
        overrides them.

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

    def with_protocol(self, name: str) -> Config:
        """The same run under another protocol, with the same number of updates, in all and between evaluations.

        A step of an asynchronous server takes fewer updates than a round, so there are more steps, and more of them
        between two evaluations.

        >>> config = Config(rounds={"rounds": 20, "k": 10, "buffer": 5}, evaluation={"every": 2})
        >>> [config.with_protocol(name).rounds.rounds for name in ("synchronous", "buffered", "async")]
        [20, 40, 200]
        >>> config.with_protocol("async").evaluation.every
        20
        """
        changed = self.replace({"rounds.protocol": name})
        own, other = (each.rounds.per_step if each.rounds.asynchronous else each.rounds.k for each in (self, changed))
        rounds, every = (-(-count * own // other) for count in (self.rounds.rounds, self.evaluation.every))
        return changed.replace({"rounds.rounds": rounds, "evaluation.every": every})

    def with_data(self, given: AnyData) -> Config:
        """The same run on your own data: a data frame, arrays, or a `Dataset`; the options of such data stay.

        This reads or continues a run whose data were an object that its folder does not hold; other data are refused.

        >>> Config(data={"clients": 3}).with_data(([[0.0], [1.0]], [0, 1])).data.dataset.content
        'arrays x (2, 1), y (2,)'
        """
        own = self.data.dataset
        dataset = own.again(given) if isinstance(own, FromMemory) else FromMemory.of(given)
        return self.model_copy(update={"data": self.data.model_copy(update={"dataset": dataset})})

    def without_data(self) -> Config:
        """The same run for a process that has its clients already: data given as an object are left out.

        >>> Config(seed=3).without_data().seed
        3
        """
        if "data.dataset" not in self._held():
            return self
        left = self.data.dataset.model_validate(self.data.dataset.model_dump())
        return self.model_copy(update={"data": self.data.model_copy(update={"dataset": left})})

    def recorded(self) -> Config:
        """As a run folder records it: with digests of the source of the user's selector, function-valued settings,
        loss, optimiser and metrics, all of which are imported.

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
            change of `kind` or `name` resets its table, because the other keys belong to the previous kind.
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
        single = [pair for each in changes for pair in ([parted(each)] if isinstance(each, str) else each.items())]
        single.sort(key=lambda pair: pair[0].rpartition(".")[2] not in KINDS)  # the other keys belong to these
        for path, value in single:
            put(values, path, value, anew=True)
        for path, (part, _) in self._held().items():
            if not any(f"{path}.".startswith(f"{other}.") or other.startswith(f"{path}.") for other, _ in single):
                put(values, path, part)
        changed = parse({**values, **sections}, source)
        if changed.selector.name == self.selector.name and changed.selector._kind is None:
            changed.selector._kind = self.selector._kind  # other settings of the same class
        return changed

    def objects(self) -> list[Any]:
        """Python classes, functions and data that it holds, which a file cannot express.

        >>> Config().objects()
        []
        """
        return [found for _, objects in self._held().values() for found in objects]

    def _held(self) -> dict[str, tuple[Any, list[Any]]]:
        """Parts that hold Python objects, by key, with these objects."""
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
    """The user's code with the digest of its source."""
    return tuple(code.recorded(owner) for code in held) if isinstance(held, tuple) else held and held.recorded(owner)


def parse(values: Mapping[str, Any], source: str) -> Config:
    """A configuration from a mapping; errors begin with `source`.

    >>> parse({"ronds": {"k": 3}}, "my.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: my.toml: 'ronds' is not a known key. Did you mean 'rounds'? Known: ...
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
    allows it with `trust`. `code` names what the caller is going to import; by default, all of it.

    >>> load("missing.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: missing.toml cannot be read: No such file or directory. Examples are in examples/.
    """
    config = parse(read(path, changes), str(Path(path)))
    check_code(path, changes, code(config), trust)
    return config
