"""Columns that look like identifiers of rows or of people, judged by their names alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pais.data.checks import listed, with_article
from pais.data.units import people_word

# Common names of columns with row identifiers; pandas writes "Unnamed: 0" for an index without a name.
_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|key|uuid)|index|unnamed: 0)|.*[a-z]I[dD]")

# Words for people. Alone they may name the people; other names need an ending for ids: "user", "pupil_id", "memberNo".
_PEOPLE = "patient|customer|client|user|person|employee|student"
_OTHERS = (
    "applicant|borrower|citizen|donor|driver|guest|household|insured|learner|member|participant|passenger|player|pupil|"
    "resident|respondent|subject|subscriber|taxpayer|teacher|tenant|visitor|voter|worker"
)
_PERSON = re.compile(rf"({_PEOPLE})|(.*_)?({_PEOPLE}|{_OTHERS})_?(id|key|uuid|hash|no|nr|number|code)|ssn")


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


def people_concern(names: Sequence[str], stated: Collection[str] = ()) -> str | None:
    """Return a warning text if a column looks like the id of people and is not a stated feature, or None.

    For calls that leave out `unit`. The text contains column names only, and no cell of the table decides about it.
    """
    for name in names:
        if name not in stated and is_person(name):
            one = with_article(people_word(name)[0])
            return (
                f"column {name!r} looks like the id of {one}, and unit is left out, so the guarantee is for single "
                f"rows. If {one} may have several rows, pass unit={name!r} to protect all of them together."
            )
    return None


def is_person(name: str) -> bool:
    """Whether a column has a name like those of ids of people."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name).lower()
    return _PERSON.fullmatch(words) is not None
