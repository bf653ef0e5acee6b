"""Parse the facts that a user provides: a center, norms, or the file of an earlier survey."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._version import __version__
from pais.accounting.certificate import Spent, what_is_left
from pais.accounting.stores import without_repeats
from pais.data.ball import Ball
from pais.errors import ArgumentError, BudgetError, MismatchError
from pais.norm_survey import Survey
from pais.privacy.norms import NormDistribution

_SURVEY = "survey"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas or spaces; the brackets of a JSON list are allowed."""
    parts = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    if not parts or not all(_is_number(part) and math.isfinite(float(part)) for part in parts):
        raise ArgumentError(f"{name} is not a list of finite numbers. Pass numbers with commas between them.")
    return tuple(float(part) for part in parts)


def center_of(text: str | None) -> tuple[float, ...] | None:
    """Parse a center from a list of numbers, or from a file that contains one."""
    if text is None:
        return None
    try:
        is_file = Path(text).is_file()
    except OSError:
        # A long list of numbers is not a valid file name.
        is_file = False
    return numbers("--center", read_text(Path(text)) if is_file else text)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ArgumentError(f"{path} cannot be read as text. Check the path.") from None


def _finite(number: str) -> float:
    """Parse a number of a JSON file. Python would also accept NaN, Infinity and 1e999, which pais never writes."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; refuse infinite numbers, NaN and duplicate names."""
    try:
        found = json.loads(
            read_text(path), parse_float=_finite, parse_constant=_finite, object_pairs_hook=without_repeats
        )
    except (ValueError, RecursionError):
        # Not JSON, a number that is not finite or has thousands of digits, or too deeply nested brackets.
        found = None
    if not isinstance(found, dict):
        raise ArgumentError(f"{path} is not a JSON object. Pass a file that pais wrote.")
    return found


def stated(radius: float | None, center: str | None, norms: str | None, n_rows: float | None) -> dict[str, Any]:
    """Radius, center and norms in the form that the k-means settings expect."""
    return {"radius": radius, "center": center_of(center), "norms": stated_norms(norms, n_rows, radius)}


def stated_norms(norms: str | None, n_rows: float | None, radius: float | None) -> NormDistribution | None:
    """Build the norm distribution from quantiles at evenly spaced levels, linear in between."""
    if norms is None and n_rows is None:
        return None
    if norms is None or n_rows is None or radius is None:
        raise ArgumentError("--norms and --n-rows need each other, and --radius. State all three, or pass --survey.")
    values = np.asarray(numbers("--norms", norms))
    if values.size < 2 or np.any(np.diff(values) < 0.0):
        raise ArgumentError("--norms must hold two or more numbers that never fall. Pass quantiles from level 0 to 1.")
    levels = np.linspace(0.0, 1.0, values.size)

    def quantile(level: FloatArray) -> FloatArray:
        return np.asarray(np.interp(level, levels, values))

    return NormDistribution.from_quantiles(quantile, n_rows=n_rows, radius=radius)


def norms_description(norms: NormDistribution) -> dict[str, Any]:
    """Describe the atoms with positive mass, and their masses."""
    held = norms.masses > 0.0
    return {"radius": norms.radius, "norms": norms.norms[held].tolist(), "masses": norms.masses[held].tolist()}


def norms_from(described: dict[str, Any]) -> NormDistribution:
    return NormDistribution(
        norms=np.asarray(described["norms"], dtype=np.float64),
        masses=np.asarray(described["masses"], dtype=np.float64),
        radius=described["radius"],
    )


def ball_from(described: dict[str, Any]) -> Ball:
    center = described["center"]
    order = math.inf if described["order"] == "infinity" else described["order"]
    return Ball(radius=described["radius"], order=order, center=None if center is None else tuple(center))


def surveyed_columns(path: Path | None) -> list[str] | None:
    """Columns of a survey, or of a plan made from one; None if the file does not name them."""
    # Plans from stated facts and files of earlier versions do not name columns.
    names = None if path is None else read_json(path).get("columns")
    return [str(name) for name in names] if isinstance(names, list) else None


def require_surveyed_columns(path: Path, names: tuple[str, ...] | None) -> None:
    """Raise if the columns or their order differ from the survey's: its center would apply to the wrong columns."""
    surveyed_names = surveyed_columns(path)
    if surveyed_names is not None and surveyed_names != list(names or ()):
        raise MismatchError(
            f"{path} was made on other columns, or in another order. Pass --columns {','.join(surveyed_names)}, or "
            "survey again."
        )


def survey_description(found: Survey, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Describe a survey for its file: all released values and the columns, nothing else."""
    return {
        "kind": "survey",
        "columns": None if names is None else list(names),
        "note": "secure randomness" if found.secure_randomness else "seeded, not private",
        "secure_randomness": found.secure_randomness,
        **found.describe(),
        "norms": norms_description(found.norms),
        "name": found.name,
        "version": __version__,
    }


def read_survey(path: Path, *, rehearsal: bool) -> Survey:
    """Read a survey from its file. A seeded survey is accepted for rehearsals only, as it cannot be certified."""
    described = read_json(path)
    try:
        found = Survey(
            ball=ball_from(described["ball"]),
            norms=norms_from(described["norms"]),
            epsilon=described["epsilon"],
            secure_randomness=described["secure_randomness"],
            above_noise=described["above_noise"],
            name=text(described.get("name", "")),
        )
    except ArgumentError as error:
        raise not_written(path, "survey", error) from None
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{path} is not a survey. Make one with `pais survey DATA --out survey.json`.") from None
    require_sound(path, found, rehearsal=rehearsal)
    return found


def not_written(path: Path, kind: str, error: ArgumentError) -> ArgumentError:
    """Build the error for an invalid value in a file, with the name of the file."""
    return ArgumentError(f"{path} is not a {kind} that pais wrote: {error}")


def text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError
    return value


def require_sound(path: Path, found: Survey, *, rehearsal: bool) -> None:
    """Raise if a certificate could not include the survey's price."""
    if not found.epsilon > 0.0:
        raise ArgumentError(f"{path} states no price. Make a survey with `pais survey`.")
    if not found.secure_randomness and not rehearsal:
        raise ArgumentError(f"{path} was made with a seed and is not private. Survey again without --seed.")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Ball, norms, and the epsilon that remains after paying for their survey. Public."""

    ball: Ball
    norms: NormDistribution
    epsilon: float
    spent: tuple[Spent, ...]
    survey_name: str = ""

    def survey(self) -> Survey | None:
        """Return the survey that the facts come from; None if the user stated them."""
        if not self.spent:
            return None
        (part,) = self.spent
        return Survey(
            ball=self.ball,
            norms=self.norms,
            epsilon=part.epsilon,
            secure_randomness=part.secure_randomness,
            above_noise=part.what == _SURVEY,
            name=self.survey_name,
        )


def surveyed(found: Survey, *, epsilon: float, order: float) -> Facts:
    """Facts from an earlier survey, with its price subtracted from epsilon."""
    if found.ball.order != order:
        raise MismatchError(
            f"the survey is in the l{found.ball.order:g} norm and the mechanism in l{order:g}. "
            "Survey with the same --mechanism."
        )
    if not found.epsilon < epsilon:
        raise BudgetError(
            f"the survey cost epsilon={found.epsilon!r}, and all is to cost {epsilon!r}. Raise --epsilon.",
            cost=found.epsilon,
        )
    what = _SURVEY if found.above_noise else f"{_SURVEY} (too few rows for its price)"
    spent = (Spent(what=what, epsilon=found.epsilon, secure_randomness=found.secure_randomness),)
    left = what_is_left(validate.target_epsilon(epsilon), found.epsilon)
    return Facts(ball=found.ball, norms=found.norms, epsilon=left, spent=spent, survey_name=found.name)
