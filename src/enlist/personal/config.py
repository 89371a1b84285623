"""The configuration of personalised learning: the content of a TOML file, checked on load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import pydantic

from enlist._internal.options import Options
from enlist.personal.decision import ExploreRounds
from enlist.personal.epochs import AnyEpochs, FixedEpochs
from enlist.personal.metrics import MetricName
from enlist.personal.poison import AnyPoison
from enlist.personal.rewards import AnyReward, Increment
from enlist.personal.rules import AnyRule, FixedRule, UCBRule
from enlist.personal.sections import AnyWeights, ArmsSection, SampleWeights, WorkerFailures, WorkersSection
from enlist.personal.stopping import AnyStopping, Never
from enlist.personal.workers import Workers
from enlist.simulation.reading import check_code, read
from enlist.simulation.sections import MOST_ROUNDS
from enlist.streams import Streams
from enlist.training.local import MOST_EPOCHS, LocalTraining
from enlist.training.models import AnyModel, Thesis


class PersonalTraining(LocalTraining):
    """How workers train: SGD. Epochs are set by rounds.

    >>> PersonalTraining(batch=10).lr
    0.3
    """

    lr: float = pydantic.Field(0.3, gt=0, description="Learning rate of the workers.")

    @pydantic.model_validator(mode="after")
    def _matters(self) -> PersonalTraining:
        for name, instead in (("epochs", "set rounds.epochs"), ("steps", "set rounds.epochs")):
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} is not used here; {instead}.")
        if self.partial != 1 or self.measure is not None:
            raise ValueError("partial and measure are for simulations with deadlines; leave them out.")
        return self


class PersonalRoundsSection(Options):
    """How rounds work.

    >>> PersonalRoundsSection(epochs=4).epochs
    FixedEpochs(epochs=4, kind='fixed')
    """

    rounds: int = pydantic.Field(20, ge=1, le=MOST_ROUNDS, description="Maximum number of rounds.")
    epochs: AnyEpochs = pydantic.Field(FixedEpochs(), description="Epochs per round: a number, or a table.")
    pretrain: int = pydantic.Field(
        6, ge=0, le=MOST_EPOCHS, description="Epochs that every worker trains before the first round; 0 for none."
    )
    start: Literal["own", "average", "target"] = pydantic.Field(
        "own",
        description="What the first round starts from after pre-training: each worker's own model, the average of "
        "all, or the target's.",
    )

    @pydantic.field_validator("epochs", mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            return {"kind": "fixed", "epochs": given}
        return {"kind": given} if isinstance(given, str) else given


class Priors(Options):
    """Estimates of an earlier run with which this one begins.

    >>> Priors().weight
    1
    """

    folder: Path | None = pydantic.Field(None, description="Folder of the earlier run, of this target or another.")
    weight: int = pydantic.Field(1, ge=1, le=10**9, description="How many rewards an earlier estimate is worth.")


class Elimination(Options):
    """Stop playing arms that are clearly worse than the best.

    >>> Elimination(confidence=0.99).confidence
    0.99
    """

    confidence: float | None = pydantic.Field(
        None, gt=0, lt=1, description="Confidence of the intervals that must not overlap, such as 0.99; none: never."
    )


class AfterSection(Options):
    """What follows the rounds.

    >>> AfterSection(fine_tune=10).retrain
    False
    """

    baselines: bool = pydantic.Field(True, description="Train local-only and federated averaging for comparison.")
    retrain: bool = pydantic.Field(False, description="Retrain with the best combination fixed.")
    fine_tune: int = pydantic.Field(
        0,
        ge=0,
        le=MOST_ROUNDS,
        description="Most epochs that the target then trains alone from the best model; 0 for none.",
    )
    grow: int = pydantic.Field(
        0, ge=0, description="How many times at most a larger combination, made of good pairs, is tried."
    )


class PersonalConfig(Options):
    """Personalised learning for one target.

    >>> config = PersonalConfig(rule="extreme-explore", rounds={"rounds": 15, "epochs": 4})
    >>> config.rule.kind, config.rounds.epochs.epochs, config.target
    ('extreme-explore', 4, '2')
    """

    seed: int = pydantic.Field(0, ge=0, description="Seed of data, model, training, failures and the rule.")
    data_seed: int | None = pydantic.Field(
        None, ge=0, description="A separate seed for the data, so that many seeds share the same data."
    )
    workers: WorkersSection = pydantic.Field(WorkersSection(), description="The workers and their samples.")
    target: str = pydantic.Field("2", description="Name of the worker that the model is for.")
    metric: MetricName = pydantic.Field(
        "auto", description="Score of a model on the target's samples; auto: auc, accuracy, or loss for a regression."
    )
    model: AnyModel = pydantic.Field(Thesis(), description="The model.")
    training: PersonalTraining = pydantic.Field(PersonalTraining(), description="How workers train it.")
    rounds: PersonalRoundsSection = pydantic.Field(PersonalRoundsSection(), description="How rounds work.")
    arms: ArmsSection = pydantic.Field(ArmsSection(), description="Which combinations may be played.")
    rule: AnyRule = pydantic.Field(UCBRule(), description="How a combination is chosen.")
    explore: ExploreRounds = pydantic.Field(ExploreRounds(), description="Rounds of Extreme Explore mixed in.")
    reward: AnyReward = pydantic.Field(Increment(), description="The reward for an increase of the score.")
    weights: AnyWeights = pydantic.Field(SampleWeights(), description="Weights of models in an aggregate.")
    stopping: AnyStopping = pydantic.Field(Never(), description="When training stops early.")
    elimination: Elimination = pydantic.Field(Elimination(), description="When arms are no longer played.")
    priors: Priors = pydantic.Field(Priors(), description="Estimates to begin with.")
    failures: WorkerFailures = pydantic.Field(WorkerFailures(), description="Workers that are away or do not reply.")
    poison: tuple[AnyPoison, ...] = pydantic.Field((), description="Poisonous workers.")
    after: AfterSection = pydantic.Field(AfterSection(), description="What follows the rounds.")

    @pydantic.field_validator("target", mode="before")
    @classmethod
    def _name(cls, given: Any) -> Any:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @pydantic.field_validator("model", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @pydantic.field_validator("arms", "rule", "reward", "weights", "stopping", mode="before")
    @classmethod
    def _kind(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @pydantic.model_validator(mode="after")
    def _together(self) -> PersonalConfig:
        if self.rule.binary and not self.reward.binary:
            raise ValueError(
                f"rule '{self.rule.kind}' needs rewards that are 0 or 1, and reward.kind is '{self.reward.kind}'; "
                'set reward = "binary" or "quantile".'
            )
        if self.arms.kind == "clusters" and not self.rounds.pretrain and not isinstance(self.rule, FixedRule):
            raise ValueError(
                "arms.kind is 'clusters', which uses the updates of pre-training, and rounds.pretrain is 0; "
                "set it, for example to 6."
            )
        return self

    def code(self) -> tuple[str, ...]:
        """All code that a run of this configuration imports, as "module:name"."""
        return (*(() if self.workers.files else self.workers.dataset.code()), *self.model.code())

    def load_workers(self) -> Workers:
        """The workers of this configuration; many runs may share them."""
        return self.workers.load(Streams(self.seed if self.data_seed is None else self.data_seed), self.poison)


def parse(values: Mapping[str, Any], source: str) -> PersonalConfig:
    """A configuration from a mapping; errors begin with `source`.

    >>> parse({"rul": "ucb"}, "my.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: my.toml: 'rul' is not a known key. Did you mean 'rule'? Known: ...
    """
    config: PersonalConfig = PersonalConfig.parse(values, source)
    return config


def load(path: str | PathLike[str], changes: Sequence[str] = (), *, trust: bool = False) -> PersonalConfig:
    """A configuration from a TOML file (or the config.json of a run), with `a.b=c` changes applied.

    Code named in a run folder's own config.json is refused, unless this user made the folder on this machine, or allows
    it with `trust`.

    >>> load("missing.toml")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: missing.toml cannot be read: No such file or directory. Examples are in examples/.
    """
    config = parse(read(path, changes), str(Path(path)))
    check_code(path, changes, config.code(), trust)
    return config
