"""Assemble the report page and write it in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pais._base import validate
from pais.accounting.words import units_of
from pais.errors import ArgumentError
from pais.mechanisms import KMeansValue
from pais.planning import Fit
from pais.report import sample, sections
from pais.report.header import ReportHeader, header as head
from pais.report.results import Plain, Results, columns_box, verdict_box
from pais.report.segments import Segments
from pais.report.style import style_sheet
from pais.report.text import escaped, price, whole
from pais.report.view import view_of


def report_html(fit: Fit, *, feature_names: Sequence[str] | None = None, header: ReportHeader | None = None) -> str:
    """Render a fit as one self-contained HTML page: no network, no script, no other file.

    Parameters
    ----------
    fit : Fit
        The result of `fit`, or of any other fit. If its value is a `Results`, such as `Coefficients`, the
        page shows that.
    feature_names : sequence of str, optional
        Names of the columns of k-means, public; default "feature 0", "feature 1", ... With a schema, its labels are
        used.
    header : ReportHeader, optional
        Title, name of the data, owner and date, as the user states them.

    Notes
    -----
    Guarantee. The page is a function of the fit, which contains released and public values only. The page forbids the
    browser to load anything: `tests/unit/report/test_report.py`.
    """
    validate.instance("fit", fit, Fit, "Get one from pais.fit, or from fit_ of an estimator.")
    results = _results(fit, feature_names)
    stated = ReportHeader() if header is None else header
    validate.instance("header", stated, ReportHeader, "Pass ReportHeader(title=..., data_name=..., owner=...).")
    title = stated.title if stated.title is not None else results.title
    body = [
        sections.banner(fit, results),
        verdict_box(results),
        columns_box(fit.survey),
        *results.sections(),
        sections.guarantee(fit, results),
        sections.columns(fit, results),
        sections.budget(fit.certificate),
        sections.limits(fit, results),
        sections.APPENDIX,
        results.quality(),
        sample.sampling(fit, results),
        results.noise() or sections.plan_in_words(fit.plan, results),
        sample.curves(fit) if results.by_norm else "",
        sections.certificate_json(fit.certificate),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="generator" content="pais">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>
{style_sheet()}
</style>
</head>
<body>
{head(replace(stated, title=title), fit.certificate, _subtitle(fit, results))}
<main>
{chr(10).join(part for part in body if part)}
</main>
<footer>pais {escaped(fit.certificate.version)}. This page shows public values only: released results, and facts \
that were stated as public.</footer>
</body>
</html>
"""


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
        # Temporary files are readable by their owner only; a report gets the permissions of any new file.
        part.chmod(0o666 & ~_umask())
        os.replace(part, target)  # noqa: PTH105  # os.replace is documented as atomic
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def _umask() -> int:
    """Return the permission mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _results(fit: Fit, feature_names: Sequence[str] | None) -> Results:
    """The part of the page that depends on the kind of value."""
    if isinstance(fit.value, Results):
        return fit.value
    return Segments(fit, view_of(fit, feature_names)) if isinstance(fit.value, KMeansValue) else Plain(fit.value)


def _subtitle(fit: Fit, results: Results) -> str:
    certificate, norms = fit.certificate, fit.plan.norms
    seen = fit.survey is None or fit.survey.above_noise
    rows = ""
    if norms is not None and seen:
        # The last digits of a noisy number are noise.
        n_rows = norms.n_rows if fit.survey is None else float(f"{norms.n_rows:.1e}")
        rows = f" {results.of_rows} about {whole(n_rows)} {escaped(units_of(certificate.neighbours))}"
    cost = f"at epsilon {price(certificate.epsilon)}, delta {price(certificate.delta)}"
    return f"{escaped(results.in_words())}{rows}, {cost}"
