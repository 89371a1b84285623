"""Checks of user input. Each error says what was given, what is allowed and how to fix it."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist._internal.text import brief, brief_reason
from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.errors import InputError, did_you_mean

MOST = 1e15
"""The largest number that clients may report or users may set. No loss, latency, sample count or gain comes near it (in
seconds: 30 million years). Whole numbers up to it are exact in float64; squares (1e30) and sums of squares over a
million clients (1e36) are finite even in float32, and so is every product of a dozen such values in float64."""
LEAST = 1e-30
"""A number closer to zero counts as zero, so that inverses and their squares stay finite."""
MOST_FEATURE = 1e30
"""The same for features: a data centre has more than 1e15 FLOPS."""
MOST_WHOLE = 2**63 - 1
"""The largest whole number, so that all fit into 64 bits."""
SHORTEST = 1e-9
"""The shortest deadline, in seconds."""


def whole(name: str, value: Any, minimum: int, maximum: int = MOST_WHOLE) -> int:
    """A whole number of at least `minimum` and at most `maximum`.

    >>> whole("k", 3, minimum=0)
    3
    >>> whole("k", -1, minimum=0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: k is -1; it must be a whole number of at least 0.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {brief(value)}; it must be a whole number of at least {minimum}.") from None
    if number < minimum:
        raise InputError(f"{name} is {brief(number)}; it must be a whole number of at least {minimum}.")
    if number > maximum:
        raise InputError(f"{name} is {brief(number)}; it must be a whole number of at most {maximum}.")
    return number


def finite(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """A finite number within bounds; without an upper bound, at most `MOST` in magnitude.

    >>> finite("epsilon", 1.5, 0.0, 1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: epsilon is 1.5; it must be a number from 0.0 to 1.0.
    """
    number = _number(name, value)
    if not (abs(number) <= (MOST if math.isinf(maximum) else math.inf) and minimum <= number <= maximum):
        if math.isfinite(number) and minimum <= number <= maximum:
            allowed = f"a number of at most {MOST:g} in magnitude"
        elif math.isinf(minimum) and math.isinf(maximum):
            allowed = "a finite number"
        elif math.isinf(maximum):
            allowed = f"a finite number of at least {minimum}"
        else:
            allowed = f"a number from {minimum} to {maximum}"
        raise InputError(f"{name} is {brief(value)}; it must be {allowed}.")
    return number


def above_zero(name: str, value: Any, *, least: float = LEAST) -> float:
    """A finite number above zero, but not so close to it that its inverse is infinite.

    >>> above_zero("ridge", 0.5)
    0.5
    >>> above_zero("ridge", float("inf"))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: ridge is inf; it must be a number above 0, from 1e-30 to 1e+15.
    """
    number = _number(name, value)
    if not least <= number <= MOST:
        raise InputError(f"{name} is {brief(value)}; it must be a number above 0, from {least:g} to {MOST:g}.")
    return number


def seconds(name: str, value: Any) -> float:
    """Seconds above zero; infinity, and anything beyond `MOST`, means no limit.

    >>> seconds("deadline", 60), seconds("deadline", float("inf")), seconds("deadline", 1e300)
    (60.0, inf, inf)
    """
    number = _number(name, value)
    if not number >= SHORTEST:
        raise InputError(f"{name} is {brief(value)}; it must be above 0 (infinity if there is none).")
    return number if number <= MOST else math.inf


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of the names in `allowed`.

    >>> one_of("solver", "exakt", ("exact", "alsa"))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: solver is 'exakt'. Did you mean 'exact'? Allowed: alsa, exact.
    """
    if not isinstance(value, str) or value not in allowed:
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise InputError(f"{name} is {brief(value)}.{hint} Allowed: {', '.join(sorted(allowed))}.")
    return str(value)


def positions(name: str, given: ArrayLike | None, count: int) -> IntArray:
    """Sorted positions from a boolean mask, from positions, or from None (all).

    >>> positions("available", [False, True, True], 3)
    array([1, 2])
    """
    if given is None:
        return np.arange(count)
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"{name} is ragged; pass a boolean mask or a flat list of positions.") from None
    if array.dtype == bool:
        if array.shape != (count,):
            raise InputError(
                f"{name} is a mask of shape {array.shape}; it needs one value for each of {count} clients."
            )
        return np.flatnonzero(array)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise InputError(f"{name} is {array.dtype} of shape {array.shape}; pass a boolean mask or a list of positions.")
    array = array.astype(np.int64)
    if len(array) > 1 and not (array[1:] > array[:-1]).all():
        array = np.sort(array)
        repeated = array[1:][array[1:] == array[:-1]]
        if len(repeated):
            mask = len(array) == count and array[0] >= 0 and array[-1] <= 1
            hint = "for a mask pass booleans (.astype(bool))" if mask else "name each client once"
            raise InputError(f"{name} repeats position {repeated[0]}; {hint}.")
    if len(array) and (array[0] < 0 or array[-1] >= count):
        wrong = array[0] if array[0] < 0 else array[-1]
        raise InputError(f"{name} holds position {wrong}; with {count} clients, 0 to {count - 1} are allowed.")
    return array


def probabilities(name: str, given: ArrayLike, count: int) -> FloatArray:
    """One probability per client, NaN where unknown.

    >>> probabilities("forecast", [0.5, 1.5], 2)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: forecast goes from 0.5 to 1.5; probabilities lie in [0, 1], NaN where unknown.
    """
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} cannot be read as numbers; it needs one probability for each client.") from None
    if array.shape != (count,):
        raise InputError(f"{name} has shape {array.shape}; it needs one probability for each of {count} clients.")
    known = array[~np.isnan(array)]
    if len(known) and not (known.min() >= 0 and known.max() <= 1):
        span = f"{known.min()} to {known.max()}"
        raise InputError(f"{name} goes from {span}; probabilities lie in [0, 1], NaN where unknown.")
    return array


def as_array(owner: str, name: str, values: ArrayLike, dtype: type | None) -> AnyArray:
    """`values` as an array of this type.

    >>> as_array("Feedback", "latency", ["soon"], float)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: Feedback.latency cannot be read as an array of float values: ...
    """
    try:
        array: AnyArray = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kind = "values" if dtype is None else dtype.__name__ + " values"
        raise InputError(f"{owner}.{name} cannot be read as an array of {kind}: {brief_reason(error)}") from None
    return array


def bounded(array: FloatArray, most: float = MOST) -> FloatArray:
    """Finite numbers (or NaN), clipped to [-most, most], and zero where they are almost zero.

    This is the one place where absurd values are clipped, so that sums, squares and ratios stay finite for all other
    clients. An array without such values is returned as it is.

    >>> bounded(np.array([0.5, -1e300, np.nan, 5e-324]))
    array([ 5.e-01, -1.e+15,     nan,  0.e+00])
    """
    size = np.abs(array)
    if (size > most).any():
        array = np.clip(array, -most, most)
    faint = size < LEAST
    if faint.any():
        array = np.where(faint & (size > 0), 0.0, array)
    return array


def number_column(owner: str, name: str, values: ArrayLike, count: int, *, missing: bool = False) -> FloatArray:
    """One number for each of `count` clients, clipped by `bounded`; NaN marks an unknown one where allowed.

    >>> number_column("Feedback", "loss", [0.5, float("nan")], 2, missing=True)
    array([0.5, nan])
    """
    array = as_array(owner, name, values, float)
    if array.ndim != 1 or len(array) != count:
        raise InputError(f"{owner}.{name} has shape {array.shape}; it needs one number for each of {count} clients.")
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        allowed = "finite numbers, or NaN where unknown" if missing else "finite numbers"
        raise InputError(f"{owner}.{name}[{where}] is {array[where]}; allowed are {allowed}.")
    return bounded(array)


def not_negative(owner: str, name: str, array: FloatArray) -> FloatArray:
    """The array itself, if no value is negative.

    >>> not_negative("Clients", "num_examples", np.array([3.0, -1.0]))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: Clients.num_examples[1] is -1.0; it cannot be negative.
    """
    if (array < 0).any():
        where = int(np.flatnonzero(array < 0)[0])
        raise InputError(f"{owner}.{name}[{where}] is {array[where]}; it cannot be negative.")
    return array


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_ | str) or value is None:
        raise InputError(f"{name} is {brief(value)}; it must be a number.")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{name} is {brief(value)}; it must be a number of at most {MOST:g} in magnitude.") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} is {brief(value)}; it must be a number.") from None
