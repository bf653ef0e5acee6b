"""Everything this package raises on purpose.

An error names the argument, what is true of it, and what to do. It shows public
values only: never a row, a norm of a row, a probability of a row, or a count of rows.
"""

from __future__ import annotations

import functools


class PaisError(Exception):
    """Base of all errors raised by this package."""


class ArgumentError(PaisError, ValueError):
    """An argument is outside what the function accepts."""


class DataError(PaisError, ValueError):
    """The rows cannot be read as numbers; columns are named, values never."""


class UnreachableError(PaisError, ValueError):
    """A target that no setting of the free quantity meets.

    Attributes
    ----------
    reachable : float
        The nearest value of the refused quantity that can be met (a public number).
    """

    def __init__(self, message: str, *, reachable: float) -> None:
        super().__init__(message)
        self.reachable = reachable

    def __reduce__(self) -> tuple[object, ...]:
        # As for BudgetError.
        return functools.partial(type(self), reachable=self.reachable), self.args


class BudgetError(PaisError, ValueError):
    """A release that would cost more than it was allowed; nothing was released.

    Attributes
    ----------
    cost : float
        The epsilon it would have cost (a public number).
    """

    def __init__(self, message: str, *, cost: float) -> None:
        super().__init__(message)
        self.cost = cost

    def __reduce__(self) -> tuple[object, ...]:
        # An error of a worker process comes back in a pickle, which knows positional arguments only.
        return functools.partial(type(self), cost=self.cost), self.args


class AssumptionError(PaisError, ValueError):
    """A theorem was asked for where its assumptions do not hold."""


class MismatchError(PaisError, ValueError):
    """Two parts that were made for different balls, norms or kinds of guarantee."""


class SpentError(PaisError, RuntimeError):
    """A weighted sample was offered to a second mechanism."""


class SurveyWarning(UserWarning):
    """A survey found nothing above its noise: what was planned from it rests on assumptions."""


class PrivacyWarning(UserWarning):
    """A guarantee that promises little, or losses that nobody adds up."""


class ConvergenceError(PaisError, ArithmeticError):
    """A solver did not reach its tolerance; no number is returned in its place."""
