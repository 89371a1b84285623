"""Measures: the numbers of a run, of a profile and of the server that the claims compare."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from enlist._internal.typing import FloatArray, IntArray
from enlist.studies.darts.settings import INITIAL
from enlist.studies.measures import EVENNESS, ROUNDS_TO_TARGET, Measure, Value
from enlist.studies.results import Output

if TYPE_CHECKING:
    from enlist.simulation.profile import Profile


def accuracy_after(number: int) -> Measure:
    """Test accuracy after a round, the first being 1, or after the last if there are fewer.

    >>> run = Output({}, {"accuracy": np.array([0.5, 0.75])}, 1.0)
    >>> accuracy_after(20).of(run, run).number
    0.75
    """

    def of(output: Output, base: Output) -> Value:
        curve = output["accuracy"]
        return Value(float(curve[min(number, len(curve)) - 1]))

    return Measure(f"test accuracy after round {number}", of, unit="points", scale=100.0, digits=1)


def jump(output: Output) -> float:
    """Mean change of the test accuracy from round to round, in either direction.

    >>> jump(Output({}, {"accuracy": np.array([0.5, 0.75, 0.5])}, 1.0))
    0.25
    """
    return float(np.abs(np.diff(output["accuracy"])).mean())


def picks(output: Output) -> IntArray:
    """(clients,) how often each was asked after the initial rounds, which are random.

    >>> picks(Output({}, {"who": np.array([[0, 1]] * 5 + [[1, 2]]), "samples": np.ones(4)}, 1.0))
    array([0, 1, 1, 0])
    """
    return np.bincount(output["who"][INITIAL:].ravel().astype(np.int64), minlength=len(output["samples"]))


def worth(output: Output) -> FloatArray:
    """(clients,) mean change of the test accuracy over the rounds in which a client took part; NaN if in none.

    >>> who, accuracy = np.array([[0], [1], [0]]), np.array([0.2, 0.5, 0.4])
    >>> worth(Output({}, {"who": who, "accuracy": accuracy, "samples": np.ones(3)}, 1.0)).round(2)
    array([-0.1,  0.3,  nan])
    """
    gains, who = np.diff(output["accuracy"]), output["who"][1:]
    rows = [gains[(who == client).any(axis=1)] for client in range(len(output["samples"]))]
    return np.array([row.mean() if len(row) else math.nan for row in rows])


def _agreement(output: Output, base: Output) -> float:
    """Rank correlation of how often clients were asked with what they were worth under random selection, where nobody's
    reward depends on the selector; 0 if all were asked equally often."""
    counts, values = picks(output), worth(base)
    known = np.isfinite(values)
    if min(len(set(column[known].tolist())) for column in (counts, values)) < 2:
        return 0.0
    return float(spearmanr(counts[known], values[known]).statistic)


def _samples_to_target(output: Output, base: Output) -> Value:
    """Samples that clients train on until the target of ROUNDS_TO_TARGET."""
    rounds = ROUNDS_TO_TARGET.of(output, base)
    asked = np.asarray(output["who"][: int(rounds.number)], dtype=np.int64)
    return Value(float(np.asarray(output["samples"])[asked].sum()), rounds.open)


def clean_share(output: Output) -> float:
    """Share of the picks after the initial rounds that went to clients whose labels are right.

    >>> who, quality = np.array([[0]] * 5 + [[1], [0]]), np.array([1.0, 0.0])
    >>> clean_share(Output({}, {"who": who, "samples": np.ones(2), "quality": quality}, 1.0))
    0.5
    """
    counts = picks(output)
    return float(counts[output["quality"] > 0.5].sum() / max(counts.sum(), 1))


def profile_of(outputs: Sequence[Output]) -> Profile:
    """What was measured with one or several seeds as a profile; clients of other seeds are other clients.

    >>> steps = {"batch": [8, 8], "client": [0, 0], "passed": [0, 0], "seconds": [1.0, 3.0], "samples": [12]}
    >>> ends = {"memory": [[9.0]], "accuracy": [[1.0]], "loss": [[0.1]]}
    >>> run = Output({"machine": "mine"}, {name: np.array(own) for name, own in (steps | ends).items()}, 1.0)
    >>> profile_of([run, run]).clients, profile_of([run]).measurements[0].seconds
    ([0, 1], 4.0)
    """
    from enlist.simulation.profile import WEIGHTS, Measurement, Profile

    measured, offset, passes = [], 0, 0
    for output in outputs:
        batch, client, passed = (output[name].astype(np.int64) for name in ("batch", "client", "passed"))
        passes = int(passed.max()) + 1
        for row, size in enumerate(np.unique(batch).tolist()):
            for one, samples in enumerate(output["samples"].tolist()):
                own = (batch == size) & (client == one)
                taken = [float(output["seconds"][own & (passed == number)].sum()) for number in range(passes)]
                numbers = (output[name][row, one] for name in ("memory", "accuracy", "loss"))
                memory, accuracy, loss = map(float, numbers)
                steps = int(own.sum()) // passes
                measured.append(
                    Measurement(
                        size, one + offset, samples, steps, tuple(taken), round(memory), accuracy, loss, math.nan
                    )
                )
        offset += len(output["samples"])
    return Profile(tuple(measured), passes, WEIGHTS, offset, outputs[0]["machine"])


def by_size(output: Output) -> dict[str, FloatArray]:
    """(sizes,) of the profile: mean and deviation of the seconds of single mini-batches, seconds per sample, mean and
    deviation over clients of the memory of a step, and mean accuracy of clients on their own samples.

    >>> steps = {"batch": np.array([8, 8]), "length": np.array([8, 4]), "seconds": np.array([1.0, 3.0])}
    >>> run = Output({}, steps | {"memory": np.ones((1, 2)), "accuracy": np.ones((1, 2))}, 1.0)
    >>> by_size(run)["time deviation"]
    array([1.])
    """
    sizes = np.unique(output["batch"])
    rows = [output["batch"] == size for size in sizes]
    seconds = [output["seconds"][own] for own in rows]
    return {
        "size": sizes,
        "time": np.array([each.mean() for each in seconds]),
        "time deviation": np.array([each.std() for each in seconds]),
        "per sample": np.array(
            [each.sum() / output["length"][own].sum() for each, own in zip(seconds, rows, strict=True)]
        ),
        "memory": output["memory"].mean(axis=1),
        "memory deviation": output["memory"].std(axis=1),
        "accuracy": output["accuracy"].mean(axis=1),
    }


def pass_seconds(output: Output, size: int) -> FloatArray:
    """(clients,) seconds per sample with a batch size, or with the nearest that was profiled.

    >>> steps = {"batch": [16, 16], "client": [0, 0], "length": [16, 4], "seconds": [1.0, 3.0]}
    >>> pass_seconds(Output({}, {name: np.array(own) for name, own in steps.items()}, 1.0), 20)
    array([0.2])
    """
    sizes = np.unique(output["batch"])
    own = output["batch"] == sizes[np.argmin(np.abs(sizes - size))]
    client = output["client"][own].astype(np.int64)
    seconds, samples = (np.bincount(client, output[name][own]) for name in ("seconds", "length"))
    return np.asarray(seconds / samples)


def _growth(name: str) -> Callable[[Output, Output], Value]:
    """A column of `by_size`: its value for the largest batch size over that for the smallest."""

    def of(output: Output, base: Output) -> Value:
        column = by_size(output)[name]
        return Value(float(column[-1] / column[0]))

    return of


def _steepening(output: Output, base: Output) -> Value:
    """Bytes that a further sample takes: between the largest two batch sizes over between the smallest two."""
    found = by_size(output)
    ends = zip(found["size"], found["memory"], strict=True)
    slopes = [(more - less) / (right - left) for (left, less), (right, more) in itertools.pairwise(ends)]
    return Value(float(max(slopes[-1], 1.0) / max(slopes[0], 1.0)))


def _grown(what: str, name: str) -> Measure:
    """The measure of a column's growth."""
    return Measure(f"{what}, with the largest batch size over the smallest", _growth(name), ratio=True)


JUMP = Measure(
    "mean change of the test accuracy from round to round",
    lambda output, base: Value(jump(output)),
    unit="points",
    scale=100.0,
    digits=1,
    less=True,
)
SAMPLES_TO_TARGET = Measure(
    "samples trained on until the mean of five evaluations reaches nine tenths of the baseline's final accuracy",
    _samples_to_target,
    ratio=True,
    less=True,
)
VARIATION = Measure(
    "coefficient of variation of how often clients are asked after the initial rounds",
    lambda output, base: Value(float(picks(output).std() / max(picks(output).mean(), 1e-12))),
)
AGREEMENT = Measure(
    "rank correlation of how often clients are asked with what they were worth under random selection",
    lambda output, base: Value(_agreement(output, base)),
)
CLEAN = Measure("share of picks with right labels", lambda output, base: Value(clean_share(output)))
UNFAIR = dataclasses.replace(EVENNESS, less=True)
SERVER = Measure(
    "milliseconds of the server per round to choose, learn and, for rewards, evaluate",
    lambda output, base: Value(output["choosing"][0] + output["evaluation"]),
    unit="ms",
)
TIME, TIME_DEVIATION = _grown("mean time of a mini-batch", "time"), _grown("its standard deviation", "time deviation")
PER_SAMPLE, MEMORY = _grown("time per sample", "per sample"), _grown("peak memory of a step", "memory")
STEEPENING = Measure(
    "memory of a further sample, between the largest two batch sizes over between the smallest two",
    _steepening,
    ratio=True,
)
