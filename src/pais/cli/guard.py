"""Failure handling of the commands: print one line without any value of a row, and set an exit code."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import typer

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

_OPTIONS: ContextVar[Mapping[str, str]] = ContextVar("options")

# Names that stay in sentences such as "this costs epsilon=1.0": they are those of the quantities too.
_QUANTITIES = ("epsilon", "delta", "radius")

# The estimators, and the commands that fit them.
_MODELS = {
    "DPKMeans": "kmeans",
    "DPLinearRegression": "regression",
    "DPLogisticRegression": "classification",
    "DPPCA": "pca",
}

_STATISTICS = "mean|sum|count|count_people|top|histogram|quantile|describe|variance|covariance"

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = rf"{_QUOTED}|\{{[^{{}}]*\}}|\[[^\[\]]*\]|[-+]?\d[\w.+-]*\w|\d|None\b"
_CALL = re.compile(r"pais\.(ranges|days|weeks|months|quarters|years|names)\(([^()]*)\)")

# Patterns for the text before and after a name, so that parts of paths, longer names and quoted names do not match.
_BEFORE, _AFTER = r"(?<![\w/.'\"-])", r"(?![\w/'\"=-]|\.\w|\[')"


@contextlib.contextmanager
def spelling(options: Mapping[str, str]) -> Iterator[None]:
    """Translate messages for a command with these options, given by the names of their arguments."""
    token = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def spelled(text: str) -> str:
    """Return a message with the options of the running command in the place of arguments of functions."""
    options = _OPTIONS.get({})
    if not options:
        return text
    names = "|".join(sorted(options, key=len, reverse=True))
    # Options follow each other without commas.
    text = re.sub(
        rf"{_BEFORE}({names})=({_VALUE})(, (?=(?:{names})=))?",
        lambda match: _assigned(options, match) or match[0],
        text,
    )
    text = re.sub(rf"\b({names})\[({_QUOTED})\]", lambda match: f"{options[match[1]]} {_word(match[2])}", text)
    text = re.sub(rf"`({names})`", lambda match: options[match[1]], text)
    # Parts in quotes are values or names of the user.
    parts = re.split(rf"({_QUOTED})", text)
    parts[::2] = [_bare(part, options, is_first=place == 0) for place, part in enumerate(parts[::2])]
    return "".join(parts)


def _bare(text: str, options: Mapping[str, str], *, is_first: bool) -> str:
    """Translate a part of a message without quotes."""
    long = "|".join(name for name in options if "_" in name)
    plain = "|".join(name for name in options if name not in ("epsilon", "delta"))
    several = rf"(?:{plain})(?:(?:,? (?:and|or) |, )(?:{plain}))*"
    patterns = [
        rf"{_BEFORE}(?:{long}){_AFTER}",
        # The word columns is a name in "State it in columns." and a noun in "in columns of text".
        rf"(?:(?<=\bin )|(?<=\bwith ))(?:{plain})(?=[.,:;]|$| and | what )",
        rf"(?:(?<=eave out )|(?<=tate )){several}\b{_AFTER}",
        rf"{_BEFORE}(?:{plain})(?= is left out\b)",
    ]
    if is_first:
        # Only a message that begins with a name begins with a small letter.
        patterns.append(rf"^(?:{'|'.join(options)})(?= (?:is|must|needs|names)\b)")
    for pattern in patterns:
        text = re.sub(pattern, lambda match: re.sub(r"\w+", lambda name: options.get(name[0], name[0]), match[0]), text)
    text = re.sub(r"\((low|0), (high|1)\)", r"\1:\2", text)
    text = re.sub(rf"\b(?:{'|'.join(_MODELS)})\b", lambda match: f"`pais {_MODELS[match[0]]}`", text)
    return re.sub(rf"\bpais\.({_STATISTICS})\b(?!\()", lambda match: f"`pais {match[1].replace('_', '-')}`", text)


def _assigned(options: Mapping[str, str], match: re.Match[str]) -> str | None:
    """Return an argument and its value as they are written on a command line; None if they are a quantity."""
    name, value, more = match.groups()
    if name in _QUANTITIES:
        return None
    if value[0] in "'\"":
        value = _word(value)
    elif value[0] in "{[":
        value = _quoted(_facts(value[1:-1]))
    return f"{options[name]} {value}{' ' if more else ''}"


def _facts(text: str) -> str:
    """Return what is stated about columns as --columns and --by have it: age=18:100,region=[north|south]."""
    text = _CALL.sub(lambda match: f"{match[1]}({_list(match[2], ',')})", text)
    text = re.sub(r"\[([^\[\]]*)\]", lambda match: f"[{_list(match[1], '|')}]", text)
    text = re.sub(r"(?<!\w)\(([^(),]*), ([^(),]*)\)", lambda match: _list(f"{match[1]}, {match[2]}", ":"), text)
    text = re.sub(rf"({_QUOTED}|\w+): ", lambda match: f"{_plain(match[1])}=", text)
    return ",".join(_plain(part) for part in text.split(", "))


def _list(text: str, mark: str) -> str:
    return mark.join(_plain(part) for part in text.split(", "))


def _plain(text: str) -> str:
    """Return a text without its quotes."""
    return str(ast.literal_eval(text)) if re.fullmatch(_QUOTED, text) else text


def _word(literal: str) -> str:
    return _quoted(_plain(literal))


def _quoted(word: str) -> str:
    """Return a word in quotes, unless neither a shell nor a reader needs them to see where it ends."""
    if word == "\t":
        return "tab"
    if re.fullmatch(r"[\w:=-]+", word):
        return word
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else f"'{word}'"


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
