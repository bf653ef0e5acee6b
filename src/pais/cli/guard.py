"""Failure handling of the commands: print one line without any value of a row, and set an exit code."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

from pais.cli.spelling import spelled
from pais.errors import (
    ArgumentError,
    AssumptionError,
    BudgetError,
    DataError,
    MismatchError,
    PaisError,
    PrivacyWarning,
    QualityWarning,
    SurveyWarning,
    UnreachableError,
)

FAILED, BAD_ARGUMENT, OUT_OF_REACH, INTERRUPTED = 1, 2, 3, 130

# The warnings of this package, which contain public and released values only.
_SHOWN = (PrivacyWarning, QualityWarning, SurveyWarning)

P = ParamSpec("P")
R = TypeVar("R")


def exit_code(error: PaisError) -> int:
    """Return 2 for arguments or rows that cannot be used, 3 for a target or budget that is out of reach."""
    if isinstance(error, (UnreachableError, BudgetError)):
        return OUT_OF_REACH
    if isinstance(error, (ArgumentError, DataError, MismatchError, AssumptionError)):
        return BAD_ARGUMENT
    return FAILED


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that it reports a failure as one line on stderr.

    Errors of this package contain public values only, so their text is printed. Any other exception may quote a value
    of a row, so only its type is printed.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with warnings.catch_warnings():
                # Python would print the file and line of a warning, which say nothing to a user of a command.
                for kind in _SHOWN:
                    warnings.simplefilter("always", kind)
                warnings.showwarning = _show_warning  # type: ignore[assignment]  # takes any arguments
                return command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except PaisError as error:
            code, line = exit_code(error), f"error: {spelled(' '.join(str(error).split()))}"
        except MemoryError:
            # Do not print its message, which reveals how many rows there are or were kept.
            code, line = BAD_ARGUMENT, "error: memory ran out. Choose a smaller sample, or fewer clusters or columns."
        except KeyboardInterrupt:
            code, line = INTERRUPTED, "interrupted: no partial output was written"
        except Exception as error:
            code, line = (
                FAILED,
                f"internal error: {type(error).__name__} (message hidden: it could quote a row)",
            )
        typer.echo(line, err=True)
        raise typer.Exit(code)

    return run


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Print a warning of this package. The text of any other warning may quote a value of a row."""
    from pais.cli.show import warn

    if issubclass(category, _SHOWN):
        warn(str(message))
