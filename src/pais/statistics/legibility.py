"""Values that noise hides: which ones they are, and a warning that names their columns or groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pais.data.checks import listed
from pais.data.scales import Dates
from pais.errors import QualityWarning
from pais.privacy.guarantee import warn
from pais.statistics.table import Field, Fields


def warn_of_lost(lost: NDArray[np.bool_], fields: Fields) -> None:
    """Warn of columns and groups whose values noise hides. `lost` has shape (groups, columns)."""
    unread = np.all(lost, axis=0)
    if fields.groups is not None and unread.all():
        unread = np.zeros_like(unread)
    names = [
        f"{field.name!r} could be read as {_cell(field)}"
        for field, all_lost in zip(fields.columns, unread, strict=True)
        if all_lost
    ]
    if names:
        warn(
            f"hardly any cell of {listed(names)}, or there are too few rows. Check the type of the column and what was "
            "stated about it.",
            QualityWarning,
        )
    hidden = np.any(lost[:, ~unread], axis=1)
    if fields.groups is not None and hidden.any():
        labels = [text for text, is_hidden in zip(fields.groups.texts(), hidden, strict=True) if is_hidden]
        warn(
            f"values of {len(labels)} of {hidden.size} groups are lost in the noise: {listed(labels)}. They have too "
            "few rows for this epsilon, or are not spelled as in the table. Check the groups and the columns.",
            QualityWarning,
        )


def _cell(field: Field) -> str:
    """What a cell has to be."""
    if field.intervals is not None:
        return f"one of its {field.intervals.kind}"
    if field.is_listed:
        return "one of its categories"
    if field.is_truth:
        return "true or false"
    if isinstance(field.column, Dates):
        low, high = field.column.times(np.array([field.low, field.high])).astype("datetime64[D]")
        return f"a date between {low} and {high}"
    return f"a number between {field.low:.6g} and {field.high:.6g}"
