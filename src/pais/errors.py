"""The errors and warnings of this package.

An error text names the argument, says what is wrong with it, and says what to do. It shows public values only:
never a row, a norm of a row, a probability of a row, or a count of rows.
"""

from __future__ import annotations

import functools


class PaisError(Exception):
    """Base class of all errors raised by this package."""


class ArgumentError(PaisError, ValueError):
    """The function does not accept the value of an argument."""


class DataError(PaisError, ValueError):
    """The rows cannot be read as numbers. The text may name columns, but never values."""


class UnreachableError(PaisError, ValueError):
    """No value of the quantity that is solved for meets the target.

    Attributes
    ----------
    reachable : float
        The nearest value of the refused quantity that can be met. It is public.
    """

    def __init__(self, message: str, *, reachable: float) -> None:
        super().__init__(message)
        self.reachable = reachable

    def __reduce__(self) -> tuple[object, ...]:
        # See BudgetError.__reduce__.
        return functools.partial(type(self), reachable=self.reachable), self.args


class BudgetError(PaisError, ValueError):
    """A release would cost more than allowed. Nothing was released.

    Attributes
    ----------
    cost : float
        The epsilon that the release would have cost. It is public.
    """

    def __init__(self, message: str, *, cost: float) -> None:
        super().__init__(message)
        self.cost = cost

    def __reduce__(self) -> tuple[object, ...]:
        # Errors from worker processes are pickled, and by default pickle restores only positional arguments.
        return functools.partial(type(self), cost=self.cost), self.args


class AssumptionError(PaisError, ValueError):
    """The assumptions of a theorem do not hold."""


class MismatchError(PaisError, ValueError):
    """Two objects were made for different balls, norms or kinds of guarantee."""


class SpentError(PaisError, RuntimeError):
    """A weighted sample was passed to a second mechanism."""


class NotProtectedError(PaisError, AttributeError):
    """The attribute would show something about single rows, which no noise protects.

    It is an AttributeError, so that `hasattr` is False.
    """


class SurveyWarning(UserWarning):
    """A survey found nothing above its noise, so the plan made from it uses assumptions."""


class PrivacyWarning(UserWarning):
    """A guarantee is weak, or no ledger adds up the losses."""


class QualityWarning(UserWarning):
    """A result may be poor: noise hides the clusters, or a column that looks like an id is used as a feature."""


class ConvergenceError(PaisError, ArithmeticError):
    """A solver did not reach its tolerance. It returns no approximate result."""
