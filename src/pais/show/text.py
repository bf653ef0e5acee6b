"""Numbers, dates and directions as text. Pages, frames, plots and the command line all use these functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from pais._base.cards import number
from pais._base.numerics import FloatArray, raised

PLUS_MINUS = "\u00b1"

#: Values are shown with at most this many decimals.
MOST_DECIMALS = 6

# A column is named for a direction if it has at least this share of the largest weight. Chosen by eye.
_NAMED_FROM = 0.35


def as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def full_sentence(text: str) -> str:
    return as_sentence(text).removesuffix(".") + "."


def whole(value: float) -> str:
    """Format a count, which may be noisy or expected, as a whole number."""
    return f"{round(value):,}" if abs(value) < 1e12 else number(value)


def price(value: float, digits: int = 5) -> str:
    """Format a privacy loss: never below the loss itself, except for the rounding of a double."""
    if not math.isfinite(value) or value <= 0.0:
        return number(value)
    shown = Decimal(raised(value, digits))
    return f"{shown.normalize():,f}" if 1e3 <= shown < 1e12 else number(float(shown), digits)


def percent(share: float) -> str:
    return f"{100.0 * share:.3g}%" if share < 0.9995 else f"{100.0 * share:.4g}%"


def fixed_text(value: float, decimals: int | None) -> str:
    if decimals is None:
        return number(value, 3)
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0.0 else text


def value_text(value: float, error: float) -> str:
    """A value that is rounded like its standard error, which is shown with two digits."""
    size = max(abs(value), error)
    if not 1e-4 <= size < 1e9:
        return number(value, 3)
    decimals = 1 - math.floor(math.log10(max(error, 1e-5 * size)))
    return fixed_text(round(value, decimals), int(np.clip(decimals, 0, MOST_DECIMALS)))


def error_text(error: float) -> str:
    """A standard error with two digits, in full where powers of ten are not needed."""
    if not 1e-4 <= error < 1e9:
        return number(error, 2)
    decimals = 1 - math.floor(math.log10(error))
    rounded = round(error, decimals)
    return f"{rounded:,.0f}" if decimals <= 0 else f"{rounded:.{decimals}f}".rstrip("0").rstrip(".")


def around(error: float) -> str:
    """A standard error with its sign."""
    return f"{PLUS_MINUS}{error_text(error)}"


def date_text(days: float) -> str:
    return str(np.datetime64(0, "D") + np.timedelta64(round(days), "D"))


def direction_in_words(weights: FloatArray, names: Sequence[str], *, dates: Sequence[str] = (), most: int = 3) -> str:
    """The columns with the largest weights of a direction, and whether they rise or fall along it."""
    size = np.abs(weights)
    if size.max(initial=0.0) == 0.0:
        return ""
    order = [j for j in np.argsort(-size, kind="stable")[:most].tolist() if size[j] >= _NAMED_FROM * size.max()]
    pairs = dict.fromkeys(dates, ("later", "earlier"))
    return ", ".join(f"{pairs.get(names[j], ('more', 'less'))[int(weights[j] < 0.0)]} {names[j]}" for j in order)
