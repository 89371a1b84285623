"""How a run is judged: when the model is tested, by which metrics, for whom, and when it is good enough to stop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pydantic

from enlist._internal.options import GrownOptions
from enlist._internal.typing import FloatArray, IntArray
from enlist.errors import EnlistError, InputError
from enlist.runs.columns import FAIRNESS, METRIC
from enlist.training.flat import Vectors
from enlist.training.own import Code

if TYPE_CHECKING:
    from torch import Tensor

    from enlist.training.workers import Trainer


class Evaluation(GrownOptions):
    """When the model is tested, what follows from it, and what is kept to understand the run.

    >>> Evaluation(target=0.8).every
    5
    """

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"metrics", "keep_best", "patience", "min_delta", "watch", "lower_is_better", "reasons"}
    )

    every: int = pydantic.Field(5, ge=1, description="Test the model every this many rounds, and after the last.")
    target: float | None = pydantic.Field(
        None, gt=0, description="The accuracy (in a regression, the loss) whose time is reported."
    )
    stop_at_target: bool = pydantic.Field(False, description="Stop the run when the target is reached.")
    metrics: tuple[Code, ...] = pydantic.Field(
        (),
        description="Your own metrics, each 'module:name' or a table, called with the outputs and targets of all test "
        "samples; each gives a number, which goes into the column metric_NAME of rounds.csv.",
    )
    keep_best: bool = pydantic.Field(False, description="Keep the best model beside the last one.")
    patience: int | None = pydantic.Field(
        None, ge=1, description="Stop the run after this many evaluations in a row without improvement."
    )
    min_delta: float = pydantic.Field(0.0, ge=0, description="Smallest improvement that counts for `patience`.")
    watch: str = pydantic.Field(
        "validation",
        description="What `keep_best` and `patience` use: 'validation' or 'test' (accuracy, in a regression the "
        "loss, on these samples), or the name of your own metric.",
    )
    lower_is_better: bool = pydantic.Field(False, description="Whether a lower value of the watched metric is better.")
    reasons: bool = pydantic.Field(
        True, description="Keep why clients were chosen, in reasons.csv, which grows to 50 MB at most."
    )

    @property
    def watching(self) -> bool:
        """Whether the best evaluation is tracked."""
        return self.keep_best or self.patience is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Additional columns of rounds.csv."""
        return tuple(METRIC + code.name for code in self.metrics)

    def code(self) -> tuple[str, ...]:
        """The user's code that evaluations import, as "module:name"."""
        return tuple(code.factory for code in self.metrics)

    @pydantic.field_validator("metrics", mode="before")
    @classmethod
    def _code(cls, given: Any) -> Any:
        if isinstance(given, str) or callable(given):
            given = (given,)
        return tuple(map(Code.taken, given)) if isinstance(given, tuple | list) else given

    @pydantic.model_validator(mode="after")
    def _matters(self) -> Evaluation:
        if self.stop_at_target and self.target is None:
            raise ValueError("stop_at_target needs a target; set one, for example target = 0.8.")
        names = [code.name for code in self.metrics]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"two metrics are called '{twice[0]}'; give each a name of its own.")
        if self.watch not in ("validation", "test", *names):
            raise ValueError(f"watch = '{self.watch:.80}'; allowed are {', '.join(('validation', 'test', *names))}.")
        if self.lower_is_better and self.watch not in names:
            raise ValueError("lower_is_better applies to a metric of your own; name it in watch.")
        if not self.watching and (self.min_delta or self.watch != "validation"):
            raise ValueError("min_delta and watch only apply to keep_best and patience; set one of these.")
        return self


class Evaluator:
    """Measures what a configuration asks for besides loss and accuracy: the user's metrics, accuracies of clients.

    held_out   (N + 1,) where the test samples of each client begin in the part "clients" of the data; None without any

    >>> Evaluator(Evaluation(), None, None).measure(0)
    ({}, None)
    """

    def __init__(self, settings: Evaluation, trainer: Trainer | None, held_out: IntArray | None) -> None:
        self.trainer, self.held_out = trainer, held_out
        self.metrics = [(code, code.called("evaluation.metrics")) for code in settings.metrics]

    def measure(self, slot: int) -> tuple[dict[str, float], FloatArray | None]:
        """Columns of rounds.csv for the model in a slot of the trainer, and the accuracy of each client, if known."""
        found: dict[str, float] = {}
        each: FloatArray | None = None
        if self.held_out is not None:
            outputs, targets = self._answers(slot, "clients")
            right = (outputs.argmax(dim=1) == targets).numpy()
            each = accuracies(right, self.held_out)
            found |= fairness(each)
        if self.metrics:
            outputs, targets = self._answers(slot, "test")
            found |= {METRIC + code.name: _number(code, metric, outputs, targets) for code, metric in self.metrics}
        return found, each

    def _answers(self, slot: int, part: str) -> tuple[Tensor, Tensor]:
        assert self.trainer is not None
        outputs, targets = self.trainer.outputs(slot, part), self.trainer.job.data[part].y
        return (outputs if self.trainer.job.classes else outputs.reshape(targets.shape)), targets


def accuracies(right: Any, offsets: IntArray) -> FloatArray:
    """(N,) share of correct predictions for each client; NaN for a client without test samples.

    >>> accuracies(np.array([True, False, True]), np.array([0, 2, 2, 3]))
    array([0.5, nan, 1. ])
    """
    sums = np.concatenate([[0], np.cumsum(right)])[offsets]
    sizes = np.diff(offsets)
    return np.asarray(np.diff(sums) / np.where(sizes > 0, sizes, np.nan))


def fairness(found: FloatArray) -> dict[str, float]:
    """Mean, mean of the worst tenth (rounded up), and standard deviation over clients of their accuracies.

    >>> fairness(np.array([0.5, 1.0, np.nan, 0.75]))
    {'client_accuracy': 0.75, 'accuracy_worst_tenth': 0.5, 'accuracy_spread': 0.204...}
    """
    known = np.sort(found[np.isfinite(found)])
    worst = known[: math.ceil(len(known) / 10)]
    return dict(zip(FAIRNESS, (float(known.mean()), float(worst.mean()), float(known.std())), strict=True))


class BestModel:
    """The best evaluation so far, its model, and how many evaluations in a row have not improved on it.

    >>> watch = BestModel(Evaluation(patience=2, min_delta=0.1, watch="test"), regression=False)
    >>> for round, accuracy in enumerate((0.5, 0.7, 0.75, 0.76), 1):
    ...     watch.note({"accuracy": accuracy}, round, None)
    >>> watch.round, watch.value, watch.exhausted
    (4, 0.76, True)
    """

    def __init__(self, settings: Evaluation, regression: bool) -> None:
        self.settings = settings
        measure = "loss" if regression else "accuracy"
        names = {"validation": f"validation_{measure}", "test": measure}
        self.column = names.get(settings.watch, METRIC + settings.watch)
        less = settings.lower_is_better if settings.watch not in names else regression
        self.sign = -1.0 if less else 1.0
        self.round, self.value, self.reference, self.without = 0, math.nan, math.nan, 0
        self.model: Vectors | None = None

    @property
    def needs_validation(self) -> bool:
        """Whether the model must be tested on the validation samples."""
        return self.settings.watching and self.settings.watch == "validation"

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        return self.settings.patience is not None and self.without >= self.settings.patience

    def note(self, measured: Mapping[str, float], round: int, model: Vectors | None) -> None:
        """Take an evaluation into account; NaN is never an improvement."""
        if not self.settings.watching:
            return
        value = measured.get(self.column, math.nan)
        if self._better(value, self.value, 0.0):
            self.round, self.value = round, value
            if self.settings.keep_best and model is not None:
                self.model = model.clone()
        better = self._better(value, self.reference, self.settings.min_delta)
        self.reference, self.without = (value, 0) if better else (self.reference, self.without + 1)

    def _better(self, value: float, than: float, by: float) -> bool:
        return math.isfinite(value) and (math.isnan(than) or self.sign * (value - than) > by)

    def result(self) -> dict[str, Any]:
        """Its part of result.json."""
        if not self.settings.watching:
            return {}
        best = {"best_round": self.round or None, f"best_{self.column}": None if math.isnan(self.value) else self.value}
        return best | ({} if self.settings.patience is None else {"stopped_early": self.exhausted})

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint besides the model; empty if nothing is watched."""
        if not self.settings.watching:
            return {}
        numbers = {"value": self.value, "reference": self.reference}
        known = {name: None if math.isnan(number) else number for name, number in numbers.items()}
        return {"watch": {**known, "round": self.round, "without": self.without}}

    def restore(self, header: Mapping[str, Any], model: Vectors | None) -> None:
        """Continue from what `state` returned, and the model."""
        saved = header.get("watch")
        if saved is None:
            return
        self.value, self.reference = (math.nan if saved[key] is None else saved[key] for key in ("value", "reference"))
        self.round, self.without, self.model = saved["round"], saved["without"], model


def check_watch(settings: Evaluation, parts: Mapping[str, Any]) -> None:
    """Refuse to watch validation samples if the server keeps none.

    >>> check_watch(Evaluation(keep_best=True), {"train": 1, "test": 1})
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: evaluation.watch is 'validation', and data.validation is 0; set it, for example to ...
    """
    if settings.watching and settings.watch == "validation" and "validation" not in parts:
        raise InputError(
            "evaluation.watch is 'validation', and data.validation is 0; set it, for example to 0.1, or set "
            "evaluation.watch = 'test'."
        )


def _number(code: Code, metric: Any, outputs: Tensor, targets: Tensor) -> float:
    try:
        found = metric(outputs.clone(), targets.clone())  # which it may change
        return float(found)
    except Exception as error:  # whatever the user's code raises, or returns
        what = f"{type(error).__name__}: {error}"
        raise EnlistError(
            f"evaluation.metrics: {code.factory} fails on outputs {tuple(outputs.shape)} and {len(targets)} targets "
            f"({what:.300}); it must return a number."
        ) from error
