"""Names of cells: the fast way for plain text, and one name for each distinct cell, change no result."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pais.data.kinds import Names

PLAIN = ["a", "b c", "", "  ", None, " a", "a ", "x" * 1000, "~", "a", "17"]
OTHERS = ["\u00e9", "\u2003", "\u00a0", "a\tb", "a\x00", "\u200b", "\x7f", "\u00e9" * 1000]


@pytest.mark.parametrize("options", [{}, {"strip": True}, {"casefold": True}, {"unicode_form": "NFC"}])
def test_the_name_of_a_cell_does_not_depend_on_its_company(options: dict[str, bool]) -> None:
    """A column of ASCII text takes a fast way, which a single other character closes."""
    column = Names(name="ward", **options)  # type: ignore[arg-type]
    together = column.texts(pa.array([*PLAIN, *OTHERS])).to_pylist()
    assert together[: len(PLAIN)] == column.texts(pa.array(PLAIN)).to_pylist()
    assert together == [column.texts(pa.array([cell], pa.string())).to_pylist()[0] for cell in [*PLAIN, *OTHERS]]


def test_a_part_of_a_column_has_the_names_of_its_cells() -> None:
    cells = pa.array(["\u00e9", *PLAIN, "\u00e9"], pa.large_string())
    column = Names(name="ward")
    assert column.texts(cells[1:-1]).to_pylist() == column.texts(cells).to_pylist()[1:-1]


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_distinct_cells_have_the_names_of_all_cells(as_dictionary: bool) -> None:
    column, cells = Names(name="ward", values=("a", "b c", "other"), strip=True), pa.array([*PLAIN, *OTHERS])
    texts, places = column.distinct(cells.dictionary_encode() if as_dictionary else cells)
    names = [None if place < 0 else texts[int(place)].as_py() for place in places]
    assert names == column.texts(cells).to_pylist()
    coordinates = {None: 2.0, "a": -2 / 3, "b c": 0.0}
    np.testing.assert_allclose(column.encode(cells)[0], [coordinates.get(name, 2 / 3) for name in names])
