"""What a user states: rows in a file, a center, norms, a survey made earlier."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pais import _validate
from pais._numerics import FloatArray
from pais._version import __version__
from pais.accounting.stores import without_repeats
from pais.domain import Ball
from pais.errors import ArgumentError, BudgetError, MismatchError
from pais.norms import NormDistribution
from pais.release import Spent, what_is_left
from pais.survey import Survey

_SURVEY = "survey"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas (or space) between them; brackets of a JSON list are allowed."""
    parts = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    if not parts or not all(_is_number(part) and math.isfinite(float(part)) for part in parts):
        raise ArgumentError(f"{name} is not a list of finite numbers. Pass numbers with commas between them.")
    return tuple(float(part) for part in parts)


def center_of(text: str | None) -> tuple[float, ...] | None:
    """A center from a list, or from a file that holds one."""
    if text is None:
        return None
    try:
        is_file = Path(text).is_file()
    except OSError:
        # A long list is no valid file name.
        is_file = False
    return numbers("--center", read_text(Path(text)) if is_file else text)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ArgumentError(f"{path} cannot be read as text. Check the path.") from None


def _finite(number: str) -> float:
    """A number of a JSON file. Python would also read NaN, Infinity and 1e999, which pais never writes."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError
    return value


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; no number in it is infinite or NaN, and no name is there twice."""
    try:
        found = json.loads(
            read_text(path), parse_float=_finite, parse_constant=_finite, object_pairs_hook=without_repeats
        )
    except (ValueError, RecursionError):
        # No JSON, a number that is not finite or of thousands of digits, or brackets without end.
        found = None
    if not isinstance(found, dict):
        raise ArgumentError(f"{path} is not a JSON object. Pass a file that pais wrote.")
    return found


def stated(radius: float | None, center: str | None, norms: str | None, n_rows: float | None) -> dict[str, Any]:
    """Radius, center and norms as the settings of k-means take them."""
    return {"radius": radius, "center": center_of(center), "norms": stated_norms(norms, n_rows, radius)}


def stated_norms(norms: str | None, n_rows: float | None, radius: float | None) -> NormDistribution | None:
    """The distribution whose quantiles at even levels are stated; linear in between."""
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
    """Atoms that hold rows, and their masses."""
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
    """The columns that a survey, or a plan made from one, is about; None where that is not said."""
    # Neither stated facts nor files of earlier versions say.
    names = None if path is None else read_json(path).get("columns")
    return [str(name) for name in names] if isinstance(names, list) else None


def require_surveyed_columns(path: Path, names: tuple[str, ...] | None) -> None:
    """Refuse columns in another order than the survey's: its center would belong to others."""
    surveyed_names = surveyed_columns(path)
    if surveyed_names is not None and surveyed_names != list(names or ()):
        raise MismatchError(
            f"{path} was made on other columns, or in another order. Pass --columns {','.join(surveyed_names)}, or "
            "survey again."
        )


def survey_description(found: Survey, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A survey as it is written: everything it released, the columns it is about, and nothing else."""
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
    """A survey from its file. A seeded one serves rehearsals only: a certificate could not vouch for it."""
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
    """The refusal of a value in a file, with the name of the file."""
    return ArgumentError(f"{path} is not a {kind} that pais wrote: {error}")


def text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError
    return value


def require_sound(path: Path, found: Survey, *, rehearsal: bool) -> None:
    """Refuse a survey whose price a certificate could not add up."""
    if not found.epsilon > 0.0:
        raise ArgumentError(f"{path} states no price. Make a survey with `pais survey`.")
    if not found.secure_randomness and not rehearsal:
        raise ArgumentError(f"{path} was made with a seed and is not private. Survey again without --seed.")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Ball, norms and what remains of epsilon once their survey is paid. Public."""

    ball: Ball
    norms: NormDistribution
    epsilon: float
    spent: tuple[Spent, ...]
    survey_name: str = ""

    def survey(self) -> Survey | None:
        """The survey that the facts come from, None where they were stated."""
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
    """Facts of a survey made earlier, with its price taken off epsilon."""
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
    left = what_is_left(_validate.target_epsilon(epsilon), found.epsilon)
    return Facts(ball=found.ball, norms=found.norms, epsilon=left, spent=spent, survey_name=found.name)
