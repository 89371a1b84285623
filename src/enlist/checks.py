"""Checks of what a user passes in. Each says what was given, what is allowed and the way out."""

from __future__ import annotations

import difflib
import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from enlist.errors import InputError
from enlist.typing import AnyArray, FloatArray, IntArray


def whole(name: str, value: Any, minimum: int) -> int:
    """A whole number of at least `minimum`.

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
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {minimum}.") from None
    if number < minimum:
        raise InputError(f"{name} is {number}; it must be a whole number of at least {minimum}.")
    return number


def finite(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """A finite number within bounds.

    >>> finite("epsilon", 1.5, 0.0, 1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: epsilon is 1.5; it must be a number from 0.0 to 1.0.
    """
    number = _number(name, value)
    if not (math.isfinite(number) and minimum <= number <= maximum):
        if math.isinf(minimum) and math.isinf(maximum):
            allowed = "a finite number"
        elif math.isinf(maximum):
            allowed = f"a finite number of at least {minimum}"
        else:
            allowed = f"a number from {minimum} to {maximum}"
        raise InputError(f"{name} is {value!r}; it must be {allowed}.")
    return number


def above_zero(name: str, value: Any) -> float:
    """A number above zero; infinity is allowed.

    >>> above_zero("deadline", float("inf"))
    inf
    """
    number = _number(name, value)
    if not number > 0:
        raise InputError(f"{name} is {value!r}; it must be above 0 (infinity if there is none).")
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """One of the names in `allowed`.

    >>> one_of("solver", "exakt", ("exact", "alsa"))
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: solver is 'exakt'. Did you mean 'exact'? Allowed: alsa, exact.
    """
    if value not in allowed:
        nearest = difflib.get_close_matches(str(value), allowed, n=1, cutoff=0.5)
        hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
        raise InputError(f"{name} is {value!r}.{hint} Allowed: {', '.join(sorted(allowed))}.")
    return str(value)


def positions(name: str, given: ArrayLike | None, count: int) -> IntArray:
    """Sorted positions from a boolean mask, from positions, or from None (everybody).

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
        raise InputError(f"{name} holds position {wrong}; with {count} clients allowed are 0 to {count - 1}.")
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
    except (TypeError, ValueError):
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
    except (TypeError, ValueError) as error:
        kind = "values" if dtype is None else dtype.__name__ + " values"
        raise InputError(f"{owner}.{name} cannot be read as an array of {kind}: {error}") from None
    return array


def number_column(owner: str, name: str, values: ArrayLike, count: int, *, missing: bool = False) -> FloatArray:
    """One number for each of `count` clients; NaN stands for an unknown one if `missing` allows it.

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
    return array


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
        raise InputError(f"{name} is {value!r}; it must be a number.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}; it must be a number.") from None
