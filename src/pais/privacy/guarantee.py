"""The default delta of a guarantee, and warnings about weak guarantees."""

from __future__ import annotations

import math
import sys
import threading
import warnings
from fractions import Fraction
from typing import NamedTuple

from pais._base import validate
from pais._base.numerics import exact, lowered, raised
from pais.errors import PrivacyWarning

#: Upper limit on the default delta. A customary value: at most a tenth of a row in 100,000 rows.
LARGEST_DEFAULT_DELTA = 1e-6

#: An epsilon above this value protects very little: one row may change a probability 22,000 times. Chosen by eye.
WEAK_EPSILON = 10.0

# If delta times the number of rows is above this, publishing randomly chosen rows would satisfy the guarantee.
_WEAK_DELTA_ROWS = 0.1

STATED = "stated"
PURE_NOISE = "pure noise"
STATED_ROWS = "default for the stated number of rows"
SURVEYED_ROWS = "default for the surveyed number of rows; over all tables delta is at most 1e-06"


class DeltaChoice(NamedTuple):
    """The delta of one release. It is public.

    Attributes
    ----------
    used : float
        The delta for which the noise was calibrated.
    certified : float
        The delta that is certified and charged to the ledger; never below `used`.
    basis : str
        How delta was chosen: "stated", "pure noise", or a default for a stated or surveyed number of rows.
    """

    used: float
    certified: float
    basis: str


def default_delta(n_rows: float) -> float:
    """The smaller of 1e-6 and 1 / (10 n_rows), rounded down; `n_rows` below 1 counts as 1."""
    rows = max(validate.positive("n_rows", n_rows), 1.0)
    limit = 1 / (10 * Fraction(rows))
    delta = min(LARGEST_DEFAULT_DELTA, float(limit))
    # Compare the shortest decimal form of delta, because delta is read and added up in this form.
    while exact(delta) > limit:
        delta = math.nextafter(delta, 0.0)
    return delta


def chosen_delta(delta: float | None, *, gaussian: bool, n_rows: float, surveyed: bool) -> DeltaChoice:
    """Return the delta of a release: the stated value or the default.

    Notes
    -----
    Guarantee. The certified delta holds for every pair of neighbouring tables. If the number of rows was surveyed, the
    survey of a neighbouring table can give another number and thus a larger delta, so the largest default is certified:
    `tests/unit/privacy/test_delta.py`.
    """
    if delta is not None:
        stated = validate.target_delta(delta)
        return DeltaChoice(used=stated, certified=stated, basis=STATED)
    if not gaussian:
        return DeltaChoice(used=0.0, certified=0.0, basis=PURE_NOISE)
    used = default_delta(n_rows)
    if surveyed:
        return DeltaChoice(used=used, certified=LARGEST_DEFAULT_DELTA, basis=SURVEYED_ROWS)  # [note: release-9]
    return DeltaChoice(used=used, certified=used, basis=STATED_ROWS)


def epsilon_concern(epsilon: float) -> str | None:
    """Return a warning text for a large epsilon, or None."""
    epsilon = float(epsilon)
    if epsilon <= WEAK_EPSILON:
        return None
    return (
        f"epsilon={epsilon:g} is a weak guarantee: one row may change the probability of an outcome by a factor of "
        f"e^{epsilon:g}. Pass an epsilon of at most {WEAK_EPSILON:g}; 1 is a strong guarantee."
    )


def delta_concern(delta: float, n_rows: float) -> str | None:
    """Return a warning text for a delta that is too large for a stated or released number of rows, or None."""
    delta = float(delta)
    # The margin covers the rounding of the product, so that a default delta never causes this warning.
    if not delta * n_rows > _WEAK_DELTA_ROWS * (1.0 + 1e-9):
        return None
    largest = lowered(default_delta(n_rows), 3)
    return (
        f"delta={delta:g} is too large for about {n_rows:,.0f} rows: publishing randomly chosen rows could satisfy "
        f"this guarantee. Leave delta out for a default, or pass at most {largest}."
    )


def reuse_concern(shift: float) -> str | None:
    """Return a warning text for a fit from the survey of another fit, whose Gaussian shift it shares, or None."""
    if shift == 0.0:
        return None
    return (
        "these facts come from the Gaussian survey of another fit. The price of a fit from them holds for an epsilon "
        "that you chose before you saw the survey. Otherwise, add the price of the fit that made the survey: charge "
        "both to one ledger."
    )


# The epsilons of the releases without a ledger in this process, which all threads add to.
_without_ledger: list[float] = []
_counting = threading.Lock()


def ledger_concern(epsilon: float) -> str | None:
    """Count a private release without a ledger. Return a warning text at the 2nd, 4th, 8th and so on, else None."""
    with _counting:
        _without_ledger.append(float(epsilon))
        number, total = len(_without_ledger), math.fsum(_without_ledger)
    # Powers of two only, so that a loop of fits does not fill the screen.
    if number < 2 or number & (number - 1):
        return None
    return (
        f"this is private release number {number} of this process without a ledger. Losses on the same rows add up, "
        f"here to epsilon {raised(total)}. To limit their sum, pass ledger=pais.Ledger(epsilon=..., delta=...) or work "
        "inside a `with ledger:` block."
    )


def forget_fits() -> None:
    """Reset the count of fits. Used by tests."""
    with _counting:
        _without_ledger.clear()


def warn(concern: str | None, category: type[Warning] = PrivacyWarning) -> None:
    """Issue a warning that points to the first calling line outside this package."""
    if concern is None:
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pais":
        level, frame = level + 1, frame.f_back
    warnings.warn(concern, category, stacklevel=level)
