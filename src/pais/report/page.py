"""Assemble the report page and write it in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pais._base import validate
from pais.errors import ArgumentError
from pais.planning import KMeansFit
from pais.report import quality, rounds, sections
from pais.report.style import style_sheet
from pais.report.text import escaped, number, price

DEFAULT_TITLE = "Private k-means"


def report_html(fit: KMeansFit, *, feature_names: Sequence[str] | None = None, title: str = DEFAULT_TITLE) -> str:
    """Render a fit as one self-contained HTML page: no network, no script, no other file.

    Parameters
    ----------
    fit : KMeansFit
        The result of `private_kmeans`.
    feature_names : sequence of str, optional
        Names of the columns, public; default "feature 0", "feature 1", ...
    title : str
        Heading of the page.

    Notes
    -----
    Guarantee. The page is a function of the fit, which contains released and public values only. The page forbids the
    browser to load anything: `tests/unit/report/test_report.py`.
    """
    validate.instance("fit", fit, KMeansFit, "Get one from private_kmeans.")
    names = _names(feature_names, fit.value.centers.shape[1])
    body = [
        sections.banner(fit),
        sections.guarantee(fit),
        sections.centers(fit, names),
        quality.quality(fit),
        sections.budget(fit.certificate),
        sections.curves(fit),
        sections.sampling(fit),
        rounds.noise(fit),
        sections.limits(fit),
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
<header>
<h1>{escaped(title)}</h1>
<p class="soft">{_subtitle(fit)}</p>
</header>
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
    fit: KMeansFit,
    *,
    feature_names: Sequence[str] | None = None,
    title: str = DEFAULT_TITLE,
) -> Path:
    """Write `report_html` to a file atomically: an existing file stays until the new one is complete."""
    target = Path(path)
    page = report_html(fit, feature_names=feature_names, title=title).encode("utf-8", "xmlcharrefreplace")
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


def _names(feature_names: Sequence[str] | None, n_features: int) -> list[str]:
    if feature_names is None:
        return [f"feature {column}" for column in range(n_features)]
    names = [str(name) for name in feature_names]
    if isinstance(feature_names, str) or len(names) != n_features:
        raise ArgumentError(
            f"feature_names has {len(names)} entries, but the centers have {n_features} features. "
            "Pass a list with one name for each column."
        )
    return names


def _subtitle(fit: KMeansFit) -> str:
    k, d = fit.value.centers.shape
    norms = fit.plan.norms
    rows = "" if norms is None else f" of about {number(norms.n_rows)} rows"
    certificate = fit.certificate
    return (
        f"{k} centers in {d} features{rows}, at epsilon {price(certificate.epsilon)}, delta {price(certificate.delta)}"
    )
