"""Categories of a model that nobody listed: the coordinates of cells, and which columns have them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais.data.kinds import CATEGORY, Auto, FoundCategories, Names
from pais.data.schema import Schema
from pais.data.sources import source, text_columns, with_categories, with_names


def found(*published: str, with_other: bool = True, **options: Any) -> FoundCategories:
    named = Names(name="ward", **options).listed(published)
    return FoundCategories(name="ward", named=named, with_other=with_other)


def test_a_cell_has_the_coordinate_of_its_name_of_other_or_none() -> None:
    cells = pa.array(["a", "b", "never", None, "", "other"])
    columns = np.stack(found("a", "b").encode(cells)) / CATEGORY
    assert columns.T.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    columns = np.stack(found("a", "b", with_other=False).encode(cells)) / CATEGORY
    assert columns.T.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]


def test_without_names_other_is_the_only_category() -> None:
    for with_other in (True, False):
        column = found(with_other=with_other)
        assert (column.labels, column.is_unlisted) == (("ward=other",), True)
        assert found("a", with_other=with_other).is_unlisted is False


@pytest.mark.parametrize(
    ("cells", "options", "name"),
    [
        (pa.array([17, 3]), {}, "17"),
        (pa.array([True, False]), {}, "true"),
        (pa.array([datetime.date(2024, 5, 31), None]), {"period": "month"}, "2024-05"),
        (pa.array([datetime.datetime(2024, 5, 31, 12), None]), {}, "2024-05-31"),
        (pa.array(["  Nord ", "x"]), {"strip": True, "casefold": True}, "nord"),
        (pa.array(["e\u0301", "x"]), {"unicode_form": "NFC"}, "\u00e9"),
        (pa.array(["012", "12"]), {}, "012"),
    ],
)
def test_names_are_those_of_groups(cells: pa.Array, options: dict[str, Any], name: str) -> None:
    column = found(name, **options)
    assert np.stack(column.encode(cells))[:, 0].tolist() == [CATEGORY, 0.0]


def test_a_schema_with_found_categories_is_stored_and_read() -> None:
    for column in (found(), found("a", "b"), found("a", with_other=False, strip=True)):
        schema = Schema((column, *Schema.of({"age": (0, 1)}).columns))
        assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema((found(),)).may_become(Schema((found("a"),)))
    assert not Schema((found(strip=True),)).may_become(Schema((found("a"),)))


def test_auto_columns_whose_type_is_text_have_names(tmp_path: Any) -> None:
    table = pa.table({"ward": ["a", "b"], "code": pa.array(["x", "y"]).dictionary_encode(), "age": [1.0, 2.0]})
    schema = Schema.of({"ward": "auto", "code": "auto", "age": "auto"})
    typed: list[Any] = [table, pl.from_arrow(table), table.to_pandas(), table.to_batches()]
    for data in typed:
        assert text_columns(data) == {"ward", "code"}, type(data)
        assert [type(column) for column in with_names(schema, data).columns] == [Names, Names, Auto]
        assert [type(column) for column in with_categories(schema, data).columns][:2] == [FoundCategories] * 2
    (tmp_path / "rows.csv").write_text("ward,code,age\na,x,1\n")
    untyped: list[Any] = [tmp_path / "rows.csv", table.to_pandas().astype(object), np.zeros((2, 2))]
    for data in untyped:
        assert with_names(schema, data) == schema
    # What is stated otherwise stays.
    stated = Schema.of({"ward": ["a"], "age": (0, 1)})
    assert with_categories(stated, table) == stated


def test_a_source_alone_finds_no_names() -> None:
    rows = pd.DataFrame({"ward": ["secret place"] * 50})
    with pytest.raises(pais.ArgumentError, match="has a price"):
        pais.source(rows, columns={"ward": pais.names()})
    with pytest.raises(pais.ArgumentError, match="epsilon alone"):
        pais.survey(source(rows, columns=Schema((found(),))), epsilon=1.0)
