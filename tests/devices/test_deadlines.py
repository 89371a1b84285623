"""Deadlines: by hand, and resumed bit by bit."""

from __future__ import annotations

import json
import math

import numpy as np
import pydantic
import pytest

from enlist._internal.options import Options
from enlist.devices import (
    AnyDeadline,
    Deadline,
    Fixed,
    ModelScaled,
    MovingAverageOptions,
    NoDeadline,
    PercentileOptions,
)
from enlist.errors import InputError

EXPECTED = np.array([10.0, 20.0, 30.0, 40.0, 50.0])


class Setting(Options):
    deadline: AnyDeadline = pydantic.Field(NoDeadline(), description="Deadline.")


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        (NoDeadline(), math.inf),
        (Fixed(seconds=7.5), 7.5),
        (PercentileOptions(percentile=50.0), 30.0),
        (PercentileOptions(percentile=100.0), 50.0),
        (PercentileOptions(percentile=80.0), 42.0),
        (ModelScaled(base=10.0, per_megabyte=3.0), 16.0),
    ],
)
def test_constant_deadlines(options: NoDeadline | Fixed | PercentileOptions | ModelScaled, seconds: float) -> None:
    deadline = options.start(EXPECTED, 2_000_000)
    assert deadline.seconds == seconds
    deadline.observe(np.array([1.0, 2.0]))
    assert deadline.seconds == seconds
    assert deadline.state() == {}
    deadline.restore({})
    assert deadline.seconds == seconds


def test_moving_average_by_hand() -> None:
    deadline = MovingAverageOptions(factor=1.5, percentile=50.0, alpha=0.25).start(EXPECTED, 0)
    assert deadline.seconds == 45.0
    deadline.observe(np.array([10.0, 14.0, 40.0]))
    assert deadline.average == 0.75 * 30 + 0.25 * 14
    assert deadline.seconds == 1.5 * 26.0
    deadline.observe(np.array([]))
    deadline.observe(np.array([0.0, 0.0]))
    assert deadline.average == 26.0
    latest = MovingAverageOptions(factor=1.0, alpha=1.0, percentile=100.0).start(EXPECTED, 0)
    latest.observe(np.array([3.0, 9.0]))
    assert latest.seconds == 9.0


def test_a_resumed_average_goes_on_bit_by_bit() -> None:
    options = MovingAverageOptions(factor=1.7, percentile=37.0, alpha=0.3)
    rng = np.random.default_rng(1)
    latencies = [rng.lognormal(3, 1, 8) for _ in range(20)]
    whole = options.start(EXPECTED, 0)
    first = options.start(EXPECTED, 0)
    for observed in latencies[:9]:
        whole.observe(observed)
        first.observe(observed)
    second = options.start(EXPECTED, 0)
    second.restore(json.loads(json.dumps(first.state())))
    for observed in latencies[9:]:
        whole.observe(observed)
        second.observe(observed)
        assert second.seconds == whole.seconds


def test_options_are_found_by_kind() -> None:
    found = Setting.parse({"deadline": {"kind": "moving-average", "alpha": 1.0}}, "f.toml").deadline
    assert isinstance(found, MovingAverageOptions)
    with pytest.raises(InputError, match="Did you mean 'model-scaled'"):
        Setting.parse({"deadline": {"kind": "model-scale"}}, "f.toml")


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"seconds = 0.0"):
        Fixed(seconds=0.0)
    with pytest.raises(InputError, match="seconds = inf"):
        Fixed(seconds=math.inf)
    with pytest.raises(InputError, match=r"the deadline is 0.0; it must be above 0"):
        Deadline(0.0)
    with pytest.raises(InputError, match="empty or not finite"):
        PercentileOptions().start(np.array([]), 0)
    with pytest.raises(InputError, match="set a fixed deadline instead"):
        PercentileOptions().start(np.zeros(4), 0)
    average = MovingAverageOptions().start(EXPECTED, 0)
    with pytest.raises(InputError, match="finite and not negative"):
        average.observe(np.array([1.0, np.nan]))
    with pytest.raises(InputError, match=r"state has \[\]; this kind has \['average'\]"):
        average.restore({})
    with pytest.raises(InputError, match="average is nan"):
        average.restore({"average": math.nan})
