"""The bundled table about made-up people."""

from __future__ import annotations

import numpy as np
import pytest

import pais
from pais.data.example import BOUNDS, MISSING, REGIONS


def test_table_has_the_stated_size_and_is_the_same_for_a_seed() -> None:
    table = pais.example_people(500, 6.0, random_state=3)
    assert table.num_rows == 3000
    assert table.equals(pais.example_people(500, 6.0, random_state=3))
    assert not table.equals(pais.example_people(500, 6.0, random_state=4))
    assert len(table.column("customer_id").unique()) == 500


def test_numbers_of_rows_per_person_are_nearly_geometric() -> None:
    table = pais.example_people(5000)
    rows = np.array(table.column("customer_id").value_counts().field("counts").to_pylist())
    assert rows.min() == 1
    assert rows.sum() == 30_000
    assert 0.15 < np.mean(rows == 1) < 0.18
    assert rows.max() > 30


def test_some_cells_are_missing_in_every_feature_and_most_values_are_within_bounds() -> None:
    table = pais.example_people()
    assert table.column("customer_id").null_count == 0
    for name in table.column_names[1:]:
        assert table.column(name).null_count / table.num_rows == pytest.approx(MISSING, abs=0.004)
    for name, (low, high) in BOUNDS.items():
        values = table.column(name).drop_null().to_numpy()
        low, high = np.asarray([low, high]).astype(values.dtype)
        assert np.mean((values < low) | (values > high)) < 0.03, name
    known = [value in REGIONS for value in table.column("region").drop_null().to_pylist()]
    assert 0.98 < np.mean(known) < 1.0


@pytest.mark.parametrize("rows_per_person", [0.5, float("nan")])
def test_too_few_rows_per_person_are_refused(rows_per_person: float) -> None:
    with pytest.raises(pais.ArgumentError, match="rows_per_person"):
        pais.example_people(10, rows_per_person)


def test_one_person_and_one_row_each_are_possible() -> None:
    assert pais.example_people(1, 1.0).num_rows == 1
    assert pais.example_people(7, 1.0).num_rows == 7
