"""The name of a cell: a function of this cell and of what the user states."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pais
from pais.data.kinds import OTHER, Names
from pais.data.schema import Schema


def texts(cells: Any, **options: Any) -> list[str | None]:
    array = cells if isinstance(cells, pa.Array) else pa.array(cells)
    found: list[str | None] = Names(name="c", **options).texts(array).to_pylist()
    return found


def test_text_is_published_as_it_is() -> None:
    assert texts([" Ward 1", "ward 1", "Zürich", "東京", "<b>x</b>"]) == [
        " Ward 1",
        "ward 1",
        "Zürich",
        "東京",
        "<b>x</b>",
    ]


def test_blanks_and_case_do_not_count_if_the_user_says_so() -> None:
    cells = [" Ward 1", "WARD 1 ", "ward 1", "\tÉcole\u00a0"]
    assert texts(cells, strip=True, casefold=True) == ["ward 1", "ward 1", "ward 1", "école"]
    assert texts(cells, strip=True)[:2] == ["Ward 1", "WARD 1"]


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_unicode_forms_are_one_name(form: str) -> None:
    composed, decomposed = "é", "e\u0301"
    assert len(set(texts([composed, decomposed], unicode_form=form))) == 1
    assert len(set(texts([composed, decomposed]))) == 2


def test_cells_without_a_name_belong_to_no_group() -> None:
    assert texts(["a", None, "", "  ", "\t"]) == ["a", None, None, None, None]
    assert texts(pa.nulls(3)) == [None] * 3
    assert texts(pa.array([], pa.string())) == []


def test_long_and_unprintable_names_are_other() -> None:
    assert texts(["x" * 200, "x" * 201, "bell\x07", "two\nlines", OTHER]) == ["x" * 200, *([OTHER] * 4)]


def test_numbers_and_truth_values_have_names() -> None:
    assert texts(pa.array([7, -1, None], pa.int32())) == ["7", "-1", None]
    assert texts([True, False, None]) == ["true", "false", None]
    assert texts([1.5, float("nan"), float("inf"), None]) == ["1.5", None, None, None]


def test_dates_are_named_by_day_or_month() -> None:
    days = [datetime.date(2024, 2, 29), None]
    assert texts(days) == texts(days, period="day") == ["2024-02-29", None]
    assert texts(days, period="month") == ["2024-02", None]
    assert texts([datetime.datetime(2024, 2, 29, 23, 59)], period="month") == ["2024-02"]
    assert texts(["2024-02-29", "not a date", ""], period="month") == ["2024-02", None, None]


def test_dictionaries_and_objects_have_the_names_of_their_cells() -> None:
    assert texts(pa.array(["a", None, "b", "a"]).dictionary_encode()) == ["a", None, "b", "a"]
    column = Names(name="c")
    cells = np.array(["a", 7, 2.5, None, float("nan"), datetime.date(2024, 1, 2), object()], dtype=object)
    assert column.texts(column.cells_of_objects(cells)).to_pylist() == ["a", "7", "2.5", None, None, "2024-01-02", None]
    numbers = [7, 10**10, -3]
    typed = [pa.array(numbers), pa.array(numbers, pa.float64()), pa.array([str(number) for number in numbers])]
    objects = [np.array(numbers, dtype=object), np.array([float(number) for number in numbers], dtype=object)]
    found = [texts(array) for array in typed] + [texts(column.cells_of_objects(cells)) for cells in objects]
    assert found[0] == found[2] == found[3]
    assert found[1] == found[4]
    assert texts(column.cells_of_objects(np.array([True, False], dtype=object))) == texts([True, False])


def test_no_cell_changes_the_name_of_another() -> None:
    cells = ["a", " b ", None, "x" * 300, "é", "7", "2024-01-01"]
    for options in ({}, {"strip": True, "casefold": True, "unicode_form": "NFKC"}, {"period": "day"}):
        together = texts(pa.array(cells, pa.string()), **options)
        assert together == [texts(pa.array([cell], pa.string()), **options)[0] for cell in cells]


def test_a_cell_is_the_place_of_its_name() -> None:
    column = Names(name="c").listed(["a", "b"])
    (places,) = column.encode(pa.array(["a", "b", "other", "never seen", None]))
    assert places.tolist() == pytest.approx([-2 / 3, 0.0, 2 / 3, 2 / 3, 2.0])
    assert column.opened() == Names(name="c")
    assert Schema.read(Schema((column,)).to_dict()) == Schema((column,))


@pytest.mark.parametrize("wrong", [{"period": "week"}, {"unicode_form": "utf8"}])
def test_unknown_options_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(pais.ArgumentError, match="is not known"):
        pais.names(**wrong)  # type: ignore[arg-type]


def test_sources_refuse_names_before_a_row_is_read() -> None:
    rows = pd.DataFrame({"ward": ["secret place"] * 50})
    with pytest.raises(pais.ArgumentError, match="needs a list") as refused:
        pais.source(rows, columns={"ward": pais.names()})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("more", ["", "Zürich"], ids=["ASCII", "more"])
def test_text_has_the_places_of_its_names_in_every_form(kind: pa.DataType, more: str) -> None:
    """ASCII text is read by separate code."""
    column = Names(name="c", values=("a", "b", more or "c", OTHER))
    texts_of = ["b", None, " ", "", "x" * 5000, OTHER, more, "a", "b ", "never seen", "a"]
    plain = pa.array(texts_of, pa.string())
    expected = [1, -1, -1, -1, 3, 3, 2 if more else -1, 0, 3, 3, 0]
    assert column.places(plain.cast(kind)).tolist() == expected
    assert column.places(plain.dictionary_encode()).tolist() == expected
    assert column.places(plain.cast(kind).slice(4, 5)).tolist() == expected[4:9]


def test_names_that_differ_in_spelling_alone_are_alike() -> None:
    column, names = Names(name="c"), ["Ward 1", "ward 2", "WARD 1", "ward 3", "Ward 1 ", "école", "e\u0301cole"]
    apart, call = column.alike(names)
    assert apart == ["WARD 1", "Ward 1 ", "e\u0301cole"]
    assert call == "pais.names(strip=True, casefold=True, unicode_form='NFC')"
    assert column.alike(["a", "A", "b"]) == (["A"], "pais.names(casefold=True)")
    assert column.alike(["a", "b"])[0] == []
    assert Names(name="c", casefold=True).alike(["a", "a "]) == (["a "], "pais.names(strip=True, casefold=True)")
