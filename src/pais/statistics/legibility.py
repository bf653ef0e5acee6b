"""Values that noise hides: which ones they are, and cautions that name their columns or groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data.checks import listed
from pais.data.scales import Dates
from pais.errors import QualityWarning
from pais.statistics.table import Field, Fields
from pais.statistics.words import Caution

# A count stands out of the noise if it is above this many standard errors.
_CLEAR = 3.0


def lost_cautions(lost: NDArray[np.bool_], fields: Fields) -> list[Caution]:
    """Name columns and groups whose values noise hides. `lost` has shape (groups, columns)."""
    texts = []
    unread = np.all(lost, axis=0)
    if fields.groups is not None and unread.all():
        unread = np.zeros_like(unread)
    names = [
        f"{field.name!r} could be read as {_cell(field)}"
        for field, all_lost in zip(fields.columns, unread, strict=True)
        if all_lost
    ]
    if names:
        texts.append(
            f"hardly any cell of {listed(names)}, or there are too few rows. Check the type of the column and what was "
            "stated about it."
        )
    hidden = np.any(lost[:, ~unread], axis=1)
    if fields.groups is not None and hidden.any():
        labels = [text for text, is_hidden in zip(fields.groups.texts(), hidden, strict=True) if is_hidden]
        texts.append(
            f"values of {len(labels)} of {hidden.size} groups are lost in the noise: {listed(labels)}. They have too "
            f"few rows for this epsilon, or are not spelled as in {_by(fields)}. Check the groups and the columns."
        )
    return [Caution(text, QualityWarning) for text in texts]


def empty_note(estimates: FloatArray, errors: FloatArray, fields: Fields) -> str:
    """What a count says if noise hides the rows of all groups; nothing if it does not."""
    if fields.groups is None or np.any(estimates > _CLEAR * errors):
        return ""
    return (
        f"no rows of any group stand out of the noise: check how the groups are spelled in {_by(fields)}, and that its "
        "cells can be read as stated"
    )


def _by(fields: Fields) -> str:
    """The columns that form groups."""
    names = [repr(field.name) for field in fields.by]
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


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
