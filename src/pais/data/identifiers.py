"""Columns that look like row identifiers, judged by their names alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pais.data.checks import listed

# Common names of columns with row identifiers; pandas writes "Unnamed: 0" for an index without a name.
_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|key|uuid)|index|unnamed: 0)|.*[a-z]I[dD]")


def identifiers(names: Sequence[str]) -> list[str]:
    """Return the columns that look like row identifiers."""
    return [name for name in names if _IDENTIFIER.fullmatch(name)]


def id_concern(names: Sequence[str]) -> str | None:
    """Return a warning text if some features look like ids, or None. It contains column names only."""
    ids = identifiers(names)
    if not ids:
        return None
    return (
        f"column(s) {listed(ids)} look like ids and are used as features. If this is not intended, name the features "
        "with `columns`."
    )
