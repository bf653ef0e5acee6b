"""The section of the report about the predicted quality of a fit."""

from __future__ import annotations

from pais.planning import Fit
from pais.report.text import TIMES, number, paragraph, percent, section, table

_CAUSES = (
    ("noise", "noise on the centers", "a larger epsilon, fewer clusters, fewer columns, more rows"),
    ("sampling", "rows that are not in the sample", "a larger sample size"),
    ("search", "a local optimum, as without privacy", "another fit, if the budget allows"),
    ("clipping", "rows beyond the radius", "a larger epsilon, more rows, or a larger stated radius"),
)


def quality(fit: Fit) -> str:
    """Render the predicted cost over that of k-means without noise, by cause."""
    predicted = fit.quality
    if predicted is None:
        return ""
    parts = predicted.to_dict()
    rows = [
        (cause, remedy, "not predicted" if parts[name] is None else percent(parts[name]))
        for name, cause, remedy in _CAUSES
    ]
    return section(
        "quality",
        "Predicted quality",
        paragraph(
            "The spread within the segments (the sum of squared distances to their centers) is predicted to be about "
            f"<strong>{number(predicted.ratio, 3)} {TIMES}</strong> that of k-means without noise on all rows."
        ),
        table(
            "Excess by cause",
            ("Cause", "What lowers it", "excess"),
            rows,
            n_text=2,
        ),
        paragraph(
            "This is a rough prediction from public and released values, at no further price. It does not see a few "
            "extreme rows that carry much of the spread. The measured spread is not private, so it is not on this "
            "page.",
            "soft",
        ),
    )
