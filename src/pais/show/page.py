"""The report of a fit: one HTML page, from templates, written in one step.

``templates/page.html`` has the sections that all fits share. A model room supplies a `Results` and a template with the
sections of its own. No Python code writes HTML, so Jinja escapes every text.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pais._base import validate
from pais._base.cards import TIMES, number
from pais._base.numerics import FloatArray
from pais.accounting.certificate import ONE_ROW, columns_in_words, person_of, unit_of, units_of
from pais.data.cells import with_article
from pais.errors import ArgumentError
from pais.planning.explain import assumption_lines, record_losses
from pais.planning.plan import Fit, Plan
from pais.show.charts import N_COLOURS, N_STEPS, SHOWN_ON_A_PHONE, Chart
from pais.show.results import Plain, Results
from pais.show.text import PLUS_MINUS, as_sentence, full_sentence, percent, price, whole

if TYPE_CHECKING:
    from jinja2 import Environment

# Points of the curves by norm, and every how many of them are in the table.
_CURVE_POINTS, _TABLE_STEP = 201, 50

# If a survey counts less than this share of the rows that the release counts, it has missed the data. Chosen by eye.
_FOUND_SHARE = 0.5

# From this expected share on, the page says that all rows are used: it would be shown as 100 %.
_ALL_ROWS = 0.9995

# A curve that changes by less than this share of its largest value is said in words: a chart would show a level line.
_FLAT = 1e-3

# The verdict is green from this share of readable values on, and red below the other. Chosen by eye.
_GOOD, _POOR = 0.75, 0.25


@dataclass(frozen=True, kw_only=True)
class ReportHeader:
    """What the head of a report says. The user states all of it; empty texts are left out.

    Attributes
    ----------
    title : str, optional
        Heading of the page; None = one that names the kind of result.
    data_name : str
        Name of the data.
    owner : str
        Who is responsible for the data or for this report.
    date : str
        Date of the report.
    """

    title: str | None = None
    data_name: str = ""
    owner: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "title" or self.title is not None:
                validate.instance(field.name, getattr(self, field.name), str, "Pass text.")


def today() -> str:
    """Return the date of this day, in the time zone of this computer."""
    return datetime.now(timezone.utc).astimezone().date().isoformat()


def report_html(fit: Fit, *, feature_names: Sequence[str] | None = None, header: ReportHeader | None = None) -> str:
    """Render a fit as one self-contained HTML page: no network, no script, no other file.

    Parameters
    ----------
    fit : Fit
        The result of `fit`, or of any other fit. If its value is a `Results`, the page shows that.
    feature_names : sequence of str, optional
        Public names of the columns of k-means without a schema; default "feature 0", "feature 1", ...
    header : ReportHeader, optional
        Title, name of the data, owner and date, as the user states them.

    Notes
    -----
    Guarantee. The page is a function of the fit, which contains released and public values only. The page forbids the
    browser to load anything: `tests/unit/show/test_report.py`.
    """
    validate.instance("fit", fit, Fit, "Get one from pais.fit, or from fit_ of an estimator.")
    results = fit.value if isinstance(fit.value, Results) else fit.results(feature_names) or Plain(fit.value)
    stated = ReportHeader() if header is None else header
    validate.instance("header", stated, ReportHeader, "Pass ReportHeader(title=..., data_name=..., owner=...).")
    page, certificate, plan, survey = templates().get_template("page.html"), fit.certificate, fit.plan, fit.survey
    ball, surveyed = plan.ball, "norms"
    if survey is not None and ball.center == survey.ball.center:
        # A survey offers the edges of its bins as the radius. They do not include the constant coordinate.
        radius = math.sqrt(ball.radius**2 - ball.constant**2)
        if np.isclose(survey.norms.norms, radius, rtol=1e-12).any():
            surveyed = "radius and norms"
    return page.render(
        assumptions=[line for line in assumption_lines(plan) if line],
        best_guess=best_guess(certificate.epsilon, certificate.delta),
        certificate=certificate,
        columns=[] if fit.schema is None else columns_in_words(fit.schema.to_dict()),
        curves=Curves(plan) if results.by_norm else None,
        factor=price(math.exp(certificate.epsilon), 3)
        if certificate.epsilon < 700.0
        else f"e^{price(certificate.epsilon)}",
        header=stated,
        person=person_of(certificate.neighbours),
        plan=plan,
        results=results,
        sample=None if plan.norms is None else Sample(fit, results),
        secure=certificate.secure_randomness and (survey is None or survey.secure_randomness),
        survey=survey,
        surveyed=surveyed,
        title=results.title if stated.title is None else stated.title,
        unit=None if certificate.neighbours == ONE_ROW else unit_of(certificate.neighbours),
        verdict=verdict_of(results),
    )


def write_report(
    path: str | os.PathLike[str],
    fit: Fit,
    *,
    feature_names: Sequence[str] | None = None,
    header: ReportHeader | None = None,
) -> Path:
    """Write `report_html` to a file atomically: an existing file stays until the new one is complete."""
    target = Path(path)
    page = report_html(fit, feature_names=feature_names, header=header).encode("utf-8", "xmlcharrefreplace")
    if not target.parent.is_dir() or target.is_dir():
        raise ArgumentError(f"{target} cannot be written. Pass the path of a file in a directory that exists.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        # Temporary files are readable by their owner only; a report gets the permissions of any new file, which can
        # only be read by setting them.
        mask = os.umask(0o077)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        os.replace(part, target)  # noqa: PTH105  # os.replace is documented as atomic
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


@cache
def templates() -> Environment:
    """The templates of the page: those of this room by their name, those of a model room as "kmeans/page.html"."""
    import jinja2  # It is loaded for a page only.
    from markupsafe import Markup, escape

    def breakable(name: object) -> Markup:
        """Text that may be broken after punctuation, as the names of columns often have no blanks."""
        return Markup(re.sub(r"([_.:/=-]+)(?=\w)", r"\1<wbr>", str(escape(name))))

    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([here / "templates", here.parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": breakable,
        "full_sentence": full_sentence,
        "fixed": lambda value, digits=0: f"{value:.{digits}f}",
        "number": number,
        "percent": percent,
        "price": price,
        "sentence": as_sentence,
        "whole": whole,
        "with_article": with_article,
    }
    environment.globals |= {"n_colours": N_COLOURS, "n_steps": N_STEPS, "phone_columns": SHOWN_ON_A_PHONE}
    environment.globals |= {"pm": PLUS_MINUS, "times": TIMES}
    return environment


def best_guess(epsilon: float, delta: float) -> str:
    """Success of the best test between two equally likely neighbours, rounded up.

    It is (e^epsilon + delta)/(e^epsilon + 1).
    """
    success = (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))
    return f"{min(math.ceil(1000.0 * success - 1e-9) / 10.0, 100.0):.1f}%"


def verdict_of(results: Results) -> dict[str, Any] | None:
    """The answer to the first question of a reader: how much of a result can be read above the noise.

    If there is a concern, its first sentence is the headline.
    """
    if results.verdict is None:
        return None
    share, verdict = results.readable, f"{as_sentence(results.verdict)}."
    mood = "good" if share >= _GOOD else "mixed" if share >= _POOR else "poor"
    if results.concern is None:
        return {"mood": mood, "headline": verdict, "advice": (), "meaning": results.meaning}
    headline, *rest = re.split(r"(?<=\.) (?=[A-Z])", full_sentence(results.concern), maxsplit=1)
    mood = "mixed" if mood == "good" else mood
    return {"mood": mood, "headline": headline, "advice": (*rest, verdict), "meaning": results.meaning}


class Sample:
    """The expected size of the sample, and the noisy or stated number of rows."""

    def __init__(self, fit: Fit, results: Results) -> None:
        plan, norms = fit.plan, fit.plan.norms
        assert norms is not None
        self.n_rows, self.kept = norms.n_rows, norms.expected_size(plan.rule)
        self.share = 1.0 if self.kept >= _ALL_ROWS * self.n_rows else self.kept / self.n_rows
        self.source = "as stated" if fit.survey is None else "noisy, from the survey"
        self.units = units_of(fit.certificate.neighbours)
        rounds = getattr(plan.mechanism, "rounds", None)
        self.each = "The release" if rounds is None else f"Each of the {len(rounds)} rounds"
        # The last digits of a noisy number are noise. If the survey saw nothing, it knows no number.
        self.rounded = self.n_rows if fit.survey is None else float(f"{self.n_rows:.1e}")
        self.is_known = fit.survey is None or fit.survey.above_noise
        counted, full_rows = results.counted, 1 if plan.unit is None else plan.unit.full_rows
        self.missed_rows = counted is not None and self.n_rows * full_rows < _FOUND_SHARE * counted


class Curves:
    """Sampling probability and loss of a record by norm: properties of the plan, not of the rows."""

    def __init__(self, plan: Plan) -> None:
        # A constant coordinate counts in the norm of every row.
        shares = np.linspace(plan.ball.constant / plan.ball.radius, 1.0, _CURVE_POINTS)
        kept = np.asarray(plan.rule.probability(shares * plan.ball.radius))
        losses = record_losses(plan, shares * plan.ball.radius)
        self.kept, self.loss = float(kept.min()), float(losses.max())
        self.samples_by_norm = bool(kept[0] < kept[-1])
        # A chart of a flat curve would show a horizontal line.
        self.kept_is_flat, self.loss_is_flat = (
            bool(np.isfinite(curve).all() and np.ptp(curve) <= _FLAT * curve.max()) for curve in (kept, losses)
        )
        self.all_kept = self.kept >= _ALL_ROWS
        self.is_even = bool(losses.min() > 0.999 * plan.epsilon)
        self.earlier = sum(part.epsilon for part in plan.spent)
        places = range(0, _CURVE_POINTS, _TABLE_STEP)
        self.rows = [(f"{shares[i]:.2f}", number(kept[i]), number(1.0 / kept[i]), price(losses[i])) for i in places]
        ends = (
            f"From {number(kept[0])} at the smallest norm to {number(kept[-1])} at the radius.",
            f"From {price(losses[0])} at the smallest norm to {price(losses[-1])} at the radius, never above "
            f"{price(plan.epsilon)}.",
        )
        limit = {"limit": plan.epsilon, "limit_label": f"certified: {price(plan.epsilon)}"}
        curves: list[tuple[str, str, str, FloatArray, dict[str, Any]]] = []
        if not self.kept_is_flat:
            curves.append(("kept", "Sampling probability", ends[0], kept, {}))
        if not self.loss_is_flat:
            curves.append(("loss", "Loss of a record (epsilon)", ends[1], losses, limit))
        self.charts = [
            Chart(
                name=name,
                title=title,
                description=description,
                x_name="norm / radius",
                x_range=(0.0, 1.0),
                x_ticks=[(tick, f"{tick:g}") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)],
                curve=[point for point in zip(shares.tolist(), y.tolist(), strict=True) if math.isfinite(point[1])],
                **more,
            )
            for name, title, description, y, more in curves
        ]
