"""Validation of arguments: functions that return a checked value or raise an error.

Error texts show scalar settings, which are public. They never show entries of arrays, which may come from rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais._base.numerics import FloatArray
from pais.errors import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")

#: A larger epsilon gives no protection, so it is taken to be a mistake.
LARGEST_EPSILON = 1e6

_LONGEST_TEXT = 400

# Words for the kinds of NumPy types that are not real numbers.
_KINDS = {
    "b": "booleans",
    "c": "complex numbers",
    "O": "objects",
    "S": "bytes",
    "U": "text",
    "M": "dates",
    "m": "durations",
}


def attempt(action: Callable[[], T]) -> T | None:
    """Return the result, or None if `action` fails. The exception is dropped, because its text may quote the data."""
    try:
        return action()
    except MemoryError:
        pass
    except Exception:
        return None
    raise _out_of_memory()


def without_sizes(work: Callable[P, T]) -> Callable[P, T]:
    """Decorator: re-raise MemoryError without NumPy's message, which reveals how many rows there are or were kept."""

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except MemoryError:
            pass
        # Raise outside the except block, which would keep the first error as the context of this one.
        raise _out_of_memory()

    return run


def _out_of_memory() -> MemoryError:
    return MemoryError("memory ran out. Use a smaller sample or fewer columns, or stream the rows from a file.")


def number(
    name: str,
    value: object,
    *,
    rule: str,
    low: float = 0.0,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return a real scalar in an interval as a float, or raise an error that shows it."""
    # Adding zero turns -0.0 into 0.0.
    if type(value) is float and (low < value < high or (value == high and not open_high)):
        return value + 0.0
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, (Real, Decimal)):
        raise ArgumentError(f"{name} must be a number, but its type is {type(value).__name__}. Pass {rule}.")
    result = attempt(lambda: float(value))
    if result is None:
        raise ArgumentError(f"{name} is too large for a float. Pass {rule}.")
    inside = (result > low if open_low else result >= low) and (result < high if open_high else result <= high)
    if math.isnan(result) or not inside:
        raise ArgumentError(f"{name}={result!r} is out of range. Pass {rule}.")
    return result + 0.0


# Numbers of any name: `positive("epsilon", value)`.
positive = partial(number, rule="a finite number > 0", open_low=True, open_high=True)
positive_or_infinite = partial(number, rule="a number > 0, or math.inf", open_low=True)
non_negative = partial(number, rule="a finite number >= 0", open_high=True)
share = partial(number, rule="a number in [0, 1]", high=1.0)

# Numbers that have one name: `radius(value)`. The squares of a radius and of an epsilon neither overflow nor underflow.
radius = partial(
    number, "radius", rule="a number in [1e-100, 1e100]; rescale the data beyond that", low=1e-100, high=1e100
)
quantile = partial(number, "quantile", rule="a number in (0, 1)", high=1.0, open_low=True, open_high=True)
target_epsilon = partial(number, "epsilon", rule="a number > 0, from 1e-150 to 1e150", low=1e-150, high=1e150)
target_delta = partial(number, "delta", rule="a number in [0, 1)", high=1.0, open_high=True)

# The epsilon of a past or planned release may be 0.
price_epsilon = partial(number, "epsilon", rule=f"a number in [0, {LARGEST_EPSILON:g}]", high=LARGEST_EPSILON)
price_delta = target_delta


def instance(name: str, value: object, kind: type, hint: str) -> None:
    """Raise an error if `value` is not an instance of `kind`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ArgumentError(f"{name} must be {article} {kind.__name__}, but its type is {type(value).__name__}. {hint}")


def freeze(*arrays: FloatArray) -> None:
    """Make the arrays of a public, frozen object read-only."""
    for array in arrays:
        array.setflags(write=False)


def broadcast(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    """Broadcast arrays to one shape."""
    broadcasted = attempt(lambda: np.broadcast_arrays(*arrays))
    if broadcasted is None:
        raise ArgumentError("the arrays have different shapes. Pass arrays of one shape, or single numbers.")
    return tuple(broadcasted)


def kept_limit(value: object, *, finite: bool = False) -> float | None:
    """Return a limit on the epsilon of a kept record, or None for the default."""
    if value is None:
        return None
    limit = (positive if finite else positive_or_infinite)("max_epsilon_if_kept", value)
    # Near the largest double, the search for the shift with this epsilon would not end.
    rule = "a number in (0, 1e150]"
    return limit if math.isinf(limit) else number("max_epsilon_if_kept", limit, rule=rule, low=0.0, high=1e150)


def text(name: str, value: object) -> str:
    """Return a short printable text. It is written to files that people read."""
    if not is_text(value):
        raise ArgumentError(
            f"{name} must be a text of 1 to {_LONGEST_TEXT} printable characters. Describe the release in a few words."
        )
    return str(value)


def is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable()


def flag(name: str, value: object) -> bool:
    """Return a bool; other values that Python treats as true or false are refused."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, but its type is {type(value).__name__}. Pass a bool.")
    return value


def stored_fields(value: object) -> None:
    """Check the whole numbers and the numbers of a dataclass that may come from a file, by the types of its fields."""
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # callers are dataclasses
        found = getattr(value, field.name)
        if field.type == "int" and (isinstance(found, bool) or not isinstance(found, (int, np.integer)) or found < 0):
            raise ArgumentError(f"{field.name} is not a whole number from 0 on. Pass an integer.")
        if field.type == "float" and not (isinstance(found, (int, float, np.floating)) and math.isfinite(found)):
            raise ArgumentError(f"{field.name} is not a finite number. Pass one.")


def count(name: str, value: object) -> int:
    """Return an integer from 1 to 1e9."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= 10**9:
        shown = f"={value!r}" if isinstance(value, (int, float, np.number)) else ""
        raise ArgumentError(f"{name}{shown} is not an integer from 1 to 1e9. Pass a positive integer.")
    return int(value)


def real_array(name: str, values: ArrayLike) -> FloatArray:
    """Return numbers as a float64 array. Errors never show entries."""
    array = as_array(values)
    if array is None:
        raise ArgumentError(f"{name} cannot be read as an array of numbers. Pass one number or a flat array.")
    if array.dtype.kind not in "fiu":
        raise ArgumentError(
            f"{name} must contain real numbers, but it contains {kind_of(array)}. Pass floats or integers."
        )
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def flat(name: str, values: object) -> FloatArray:
    """Return a one-dimensional sequence of numbers as an array."""
    array = real_array(name, values)  # type: ignore[arg-type]  # anything a caller may pass
    if array.ndim != 1:
        raise ArgumentError(f"{name} must be a flat sequence of numbers. Pass one number for each column.")
    return array


def as_array(values: object) -> NDArray[np.generic] | None:
    """Return the values as an array, or None on failure. The exception is dropped, because it may quote the values."""
    # NumPy treats masked values as ordinary values, also inside a list.
    rows = values if isinstance(values, (list, tuple)) else [values]
    if any(isinstance(row, np.ma.MaskedArray) for row in rows):
        return None
    return attempt(lambda: np.asarray(values))


def kind_of(array: NDArray[np.generic]) -> str:
    """Name the kind of data in an array, from its dtype only and not from its values."""
    return _KINDS.get(array.dtype.kind, "values of another type")


def losses(
    name: str,
    values: ArrayLike,
    *,
    rule: str = "a finite number >= 0",
    low: float = 0.0,
    high: float = sys.float_info.max,
) -> FloatArray:
    """Return numbers in an interval as a float64 array, or raise an error that does not show them."""
    array = real_array(name, values)
    if not np.all((array >= low) & (array <= high)):
        raise ArgumentError(f"{name} has an entry that is not {rule}. Pass {rule} everywhere.")
    return array


norms = partial(losses, "norm")
weights = partial(losses, "weight", rule="a finite number >= 1", low=1.0)
probabilities = partial(losses, "probability", rule="a number in (0, 1]", low=math.nextafter(0.0, 1.0), high=1.0)


def non_empty(name: str, array: FloatArray) -> FloatArray:
    if array.size == 0:
        raise ArgumentError(f"{name} is empty. Pass at least one value.")
    return array
