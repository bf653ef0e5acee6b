"""What a result says of groups that nobody listed: how rare a name may be that is not shown, and if none is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pais.data.cells import listed
from pais.data.kinds import OTHER
from pais.data.units import Unit, people_word
from pais.errors import QualityWarning
from pais.planning.facts import Findings
from pais.planning.names import FoundNames
from pais.statistics.table import Caution, Fields
from pais.statistics.uncertainty import rounded_up

# With more groups than this, most of them have few rows and nobody reads them all.
_MANY_GROUPS = 10_000


def names_notes(facts: Findings, unit: Unit | None) -> list[str]:
    """For each column with unlisted names, how many people have to have a name so that it is probably shown."""
    many = "rows" if unit is None else people_word(unit.column)[1]
    return [_note(name, found, many) for name, found in _found(facts).items()]


def _note(name: str, found: FoundNames, many: str) -> str:
    selection = found.selection
    text = (
        f"a name in {name!r} that fewer than about {rounded_up(selection.half_found)} {many} have is probably not "
        f"shown; its rows are in {OTHER!r}"
    )
    if selection.max_names == 1:
        return text
    most = rounded_up(math.sqrt(selection.max_names) * selection.half_found)
    return f"{text}. If these {many} have {selection.max_names} names or more each, it can take about {most} of them"


def names_cautions(facts: Findings, fields: Fields, unit: Unit | None) -> list[Caution]:
    """Say if no name was found, or so many that names were left out or hardly anybody reads the table."""
    columns, many = _found(facts), "rows" if unit is None else people_word(unit.column)[1]
    none = [name for name, found in columns.items() if not found.names]
    left_out = [name for name, found in columns.items() if found.n_left_out]
    n_groups = 1 if fields.groups is None else len(fields.groups)
    texts = []
    if none:
        option = "columns" if none[0] in [field.name for field in fields.columns] else "by"
        texts.append(
            f"no name in {listed([repr(name) for name in none])} was found, so all rows are in {OTHER!r}: too few "
            f"{many} have the same name. Raise epsilon or delta, or list the names: {option}={{{none[0]!r}: [...]}}."
        )
    if left_out:
        names = listed([repr(name) for name in left_out])
        texts.append(
            f"the names in {names} form too many groups. The most frequent names are shown, and the rows of the others "
            f"are in {OTHER!r}. Group by fewer columns, or list the names of one of them."
        )
    elif columns and n_groups > _MANY_GROUPS:
        texts.append(
            f"the names that were found form {n_groups:,} groups, and most of them may have few rows. Group by fewer "
            "columns, or list the names of one of them."
        )
    return [Caution(text, QualityWarning) for text in texts]


def _found(facts: Findings) -> Mapping[str, FoundNames]:
    columns: Mapping[str, FoundNames] = facts.found.get("names", {})
    return columns
