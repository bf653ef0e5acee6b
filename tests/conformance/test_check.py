"""`pais.check` counts exactly the cells and rows that a release reads, whatever they are stored in."""

from __future__ import annotations

import datetime
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from pais.data.sources import source
from tests.support.commands import pais as command

N = 700
DAY = datetime.date(2024, 1, 1)
COLUMNS: dict[str, Any] = {
    "stay": (0, 50),
    "cost": "auto",
    "day": ("2024-02-01", "2024-12-31"),
    "ward": ["north", "south"],
    "code": [1, 2],
    "again": bool,
}


def table() -> pa.Table:
    rng = np.random.default_rng(3)

    def some(cells: Any) -> list[Any]:
        return [None if gone else cell for cell, gone in zip(cells, rng.random(N) < 0.05, strict=True)]

    return pa.table(
        {
            "person": some(rng.integers(0, 120, N).tolist()),
            "stay": some(rng.normal(20, 20, N).round(2).tolist()),
            "cost": some(rng.lognormal(5, 1, N).round(2).tolist()),
            "day": some([DAY + datetime.timedelta(days=int(days)) for days in rng.integers(0, 400, N)]),
            "ward": some(rng.choice(["north", "south", "wset", "Nroth"], N).tolist()),
            "code": some(rng.integers(1, 4, N).tolist()),
            "again": some((rng.random(N) < 0.3).tolist()),
        }
    )


TABLE = table()


def expected() -> dict[str, dict[str, int]]:
    """The numbers counted cell by cell, in plain Python."""
    cells = TABLE.to_pydict()
    first, last = datetime.date(2024, 2, 1), datetime.date(2024, 12, 31)
    wrong = {
        "below": {"stay": lambda x: x < 0, "day": lambda x: x < first},
        "above": {"stay": lambda x: x > 50, "day": lambda x: x > last},
        "unlisted": {"ward": lambda x: x not in ("north", "south"), "code": lambda x: x not in (1, 2)},
    }
    return {
        name: {
            "missing": sum(cell is None for cell in cells[name]),
            **{
                how: sum(cell is not None and tests.get(name, lambda _: False)(cell) for cell in cells[name])
                for how, tests in wrong.items()
            },
        }
        for name in COLUMNS
    }


def stored(home: Path) -> dict[str, Any]:
    pq.write_table(TABLE, home / "rows.parquet", row_group_size=97)
    frame = TABLE.to_pandas()
    for name in ("person", "code"):
        frame[name] = frame[name].astype("Int64")
    frame.to_csv(home / "rows.csv", index=False)
    frame.to_csv(home / "rows.txt", index=False, sep="|", date_format="%Y-%m-%d")
    german = frame.assign(day=pd.to_datetime(frame["day"]).dt.strftime("%d.%m.%Y"))
    german.to_csv(home / "german.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    return {
        "pandas": TABLE.to_pandas(),
        "objects": frame.astype(object).where(frame.notna(), None),
        "arrow": TABLE,
        "polars": pl.from_arrow(TABLE),
        "batches": lambda: iter(TABLE.to_batches(max_chunksize=100)),
        "parquet": home / "rows.parquet",
        "csv": home / "rows.csv",
        "bars": str(home / "rows.txt"),
        "german": pais.CSVFile(home / "german.csv", decimal=",", date_format="%d.%m.%Y", encoding="cp1252"),
    }


KINDS = ["pandas", "objects", "arrow", "polars", "batches", "parquet", "csv", "bars", "german"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_is_counted_once_whatever_it_is_stored_in(kind: str, tmp_path: Path) -> None:
    data = stored(tmp_path)[kind]
    found = pais.check(data, COLUMNS, unit="person", target="again")
    for column in found.columns:
        counts = expected()[column.name]
        assert {name: getattr(column, name) for name in counts} == counts
        assert column.unreadable == 0
        assert column.n_cells == N
    people = [person for person in TABLE.column("person").to_pylist() if person is not None]
    assert found.people is not None
    assert found.people.n_people == len(set(people))
    assert found.people.without_id == N - len(people)
    assert found.people.most_rows == max(people.count(person) for person in set(people))
    # As many rows as the engine keeps, and as many people.
    numbers = {name: COLUMNS[name] for name in ("stay", "cost", "day", "again")}
    rows = source(data, columns=numbers)
    ball, rule = pais.Ball(radius=1e9), pais.UniformRule(rate=1.0)
    without = pais.check(data, numbers)
    assert len(pais.sample(rows, ball=ball, rule=rule).spend("a test").rows) == without.n_kept
    assert found.n_kept <= without.n_kept
    assert "Nroth" in str(found)


def test_the_target_decides_which_rows_a_classification_keeps() -> None:
    features = {"stay": (0, 50), "ward": ["north", "south"]}
    listed = sum(
        c in ("north", "south") and s is not None
        for c, s in zip(*(TABLE[n].to_pylist() for n in ("ward", "stay")), strict=True)
    )
    assert pais.check(TABLE, features, target="ward").n_kept == listed
    assert pais.check(TABLE, features).n_kept == N - TABLE["stay"].null_count
    with pytest.raises(pais.ArgumentError, match="target"):
        pais.check(TABLE, features, target="other")


@pytest.mark.parametrize("target", [None, "ward", "stay", "again"])
@pytest.mark.parametrize("kind", ["objects", "parquet", "german"])
def test_rows_without_an_id_are_not_among_those_that_are_used(kind: str, target: str | None, tmp_path: Path) -> None:
    cells, data = TABLE.to_pydict(), stored(tmp_path)[kind]
    found = pais.check(data, COLUMNS, unit="person", target=target)
    listed = {"ward": ("north", "south"), "code": (1, 2)}
    known = {
        name: [cell is not None and (name not in listed or cell in listed[name]) for cell in cells[name]]
        for name in COLUMNS
    }
    with_id = [person is not None for person in cells["person"]]
    without = with_id.count(False)
    for column in found.columns:
        assert column.n_used == sum(a and b for a, b in zip(known[column.name], with_id, strict=True))
    needed = [name for name in COLUMNS if name not in listed or name == target]
    whole = [all(known[name][row] for name in needed) and with_id[row] for row in range(N)]
    assert found.n_kept == sum(whole)
    assert found.n_filled == sum(with_id[row] and (target is None or known[target][row]) for row in range(N))
    assert found.people is not None
    assert found.people.n_people_kept == len({cells["person"][row] for row in range(N) if whole[row]})
    assert f"person: {without} rows have no id, so no release counts them: they name no person" in str(found)
    assert f"it fills in missing features and uses {found.n_filled:,} rows" in str(found)
    assert f"in rows with an id: stay {found.columns[0].n_used:,}" in str(found)


def test_a_unit_that_is_left_out_is_hinted_at(tmp_path: Path) -> None:
    frame = pd.DataFrame({"patient_id": ["a", "b"], "age": [30, 40]})
    frame.to_csv(tmp_path / "rows.csv", index=False, sep="^")
    for data in (frame, pa.table(frame), pl.from_pandas(frame), pais.CSVFile(tmp_path / "rows.csv", separator="^")):
        hint = "not private: hint: column 'patient_id' looks like the id of a patient, and unit is left out"
        assert hint in str(pais.check(data, {"age": (0, 100)}))
        assert "hint" not in str(pais.check(data, {"age": (0, 100)}, unit="patient_id"))
        assert "hint" not in str(pais.check(data, {"age": (0, 100), "patient_id": ["a", "b"]}))
    shown = command("check", tmp_path / "rows.csv", "--separator", "^", "--columns", "age=0:100")
    assert "pass --unit patient_id to protect" in shown.stdout
    released = command("mean", tmp_path / "rows.csv", "--separator", "^", "--columns", "age=0:100", "--epsilon", 1)
    assert "pass --unit patient_id to protect" in released.stderr


def test_a_fit_uses_the_rows_that_the_check_counts(tmp_path: Path) -> None:
    for missing, name in (("drop", "n_kept"), ("midpoint", "n_filled")):
        columns = {"stay": (0, 50), "again": bool, "ward": ["north", "south"]}
        found = pais.check(TABLE, columns, unit="person")
        rows = source(TABLE, columns=columns, unit="person", missing=missing)  # type: ignore[arg-type]  # a word
        whole = pais.UniformRule(rate=1.0)
        sampled = pais.sample(rows, ball=pais.Ball(radius=1e9), rule=whole).spend("a test").rows
        assert len(sampled) == getattr(found, name)


HINTS: dict[str, tuple[Any, list[str], str]] = {
    "decimal commas": ((0, 9), ["1,5", "2,25", "7"], "decimal commas: pass decimal=','"),
    "thousands": ((0, 9), ["1,234", "2,500", "7"], "marks of thousands .*pass thousands=','"),
    "both": ((0, 9), ["1.234,5", "2.500,0", "7"], "pass decimal=',', thousands='.'"),
    "days first": (("2020-01-01", "2026-01-01"), ["31.12.2024", "01.02.2024"], "pass date_format='%d.%m.%Y'"),
    "days or months first": (
        ("2020-01-01", "2026-01-01"),
        ["01/02/2024"],
        "pass date_format='%d/%m/%Y' or .*'%m/%d/%Y'",
    ),
    "months first": (("2020-01-01", "2026-01-01"), ["12/31/2024", "01/02/2024"], "pass date_format='%m/%d/%Y'"),
    "units": ((0, 9), ["5 kg", "7 kg", "8"], "text beside a number: '5 kg'"),
    "words": ((0, 9), ["few", "many", "8"], "'few'"),
    "ja and nein": (bool, ["ja", "nein", "ja"], "'ja' and 'nein': state such words as a list"),
    "typos": (["north", "south"], ["Nroth", "soth", "north"], "'Nroth' .* may be 'north'"),
    "capitals": (["north", "south"], ["NORTH", "north"], "'NORTH' .* may be 'north'"),
    "others": (["north", "south"], ["west", "north"], "not listed are 'west'"),
    "read as cp1252": (["Köln", "Bonn"], ["KÃ¶ln", "Bonn"], "UTF-8 that was read as cp1252"),
    "codes": ((0, 9), ["999", "999", "999", "5"], "'999' is 100 % of the values beyond the bounds"),
}


@pytest.mark.parametrize("name", HINTS)
def test_hints(name: str, tmp_path: Path) -> None:
    stated, cells, hint = HINTS[name]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["id;c", *(f"{place};{cell}" for place, cell in enumerate(10 * cells))]), "utf-8")
    found = pais.check(path, {"c": stated})
    [column] = found.columns
    assert pd.Series(column.hints).str.contains(hint).any(), column.hints
    assert all(line.startswith("not private: ") for line in str(found).split("\n"))
    in_memory = pais.check(pd.DataFrame({"c": 10 * cells}), {"c": stated}).columns[0]
    assert (in_memory.unreadable, in_memory.unlisted, in_memory.above) == (
        column.unreadable,
        column.unlisted,
        column.above,
    )
    assert "pass" not in "".join(in_memory.hints)


def test_text_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes("id;c\n1;Köln\n2;Bonn\n".encode("cp1252"))
    columns = {"c": ["Köln", "Bonn"]}
    assert "encoding" in pais.check(tmp_path / "rows.csv", columns).columns[0].hints[0]
    assert pais.check(tmp_path / "rows.csv", columns, encoding="cp1252").columns[0].unlisted == 0


def test_lines_that_are_no_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b'\na,b\r\n1,2\r\n\r\n3\n4,5,6\n"7,8\n9,10')
    found = pais.check(tmp_path / "rows.csv", {"a": (0, 9)})
    assert (found.n_rows, found.n_skipped) == (2, 3)
    assert "3 lines are no rows" in str(found)


def test_every_output_is_marked() -> None:
    found = pais.check(TABLE, COLUMNS, unit="person")
    assert all(line.startswith("not private: ") for line in str(found).split("\n"))
    assert found.to_frame().index.name == "not private: column"
    assert found.to_frame().loc["stay", "missing"] == expected()["stay"]["missing"] / N
    assert "not private" in repr(found)
    assert found._repr_html_().count("not private") == len(found.lines())


def test_a_check_charges_nothing_and_changes_no_release() -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5)
    with ledger:
        pais.check(TABLE, COLUMNS, unit="person")
    assert ledger.spent.epsilon == 0.0
    assert not ledger.entries


def test_empty_tables_and_wrong_arguments() -> None:
    found = pais.check(TABLE.slice(0, 0), COLUMNS, unit="person")
    assert (found.n_rows, found.n_kept) == (0, 0)
    assert "0 rows" in str(found)
    with pytest.raises(pais.DataError, match="Did you mean stay"):
        pais.check(TABLE, {"sta": (0, 1)})
    with pytest.raises(pais.ArgumentError, match="for CSV files"):
        pais.check(TABLE, COLUMNS, decimal=",")
    with pytest.raises(pais.DataError, match="no column names"):
        pais.check(np.ones((3, 2)), COLUMNS)


def test_the_command(tmp_path: Path) -> None:
    path = stored(tmp_path)["csv"]
    stated = "stay=0:50,cost=auto,day=2024-02-01:2024-12-31,ward=[north|south],code=[1|2],again=bool"
    arguments = ("check", path, "--columns", stated, "--unit", "person", "--target", "again")
    shown = command(*arguments)
    assert shown.exit_code == 0, shown.stderr
    expected_lines = pais.check(path, COLUMNS, unit="person", target="again").lines()
    options = [line.replace('missing="drop"', "--missing drop") for line in expected_lines]
    options = [line.replace('missing="midpoint"', "--missing midpoint") for line in options]
    assert shown.stdout.split("\n")[:-1] == options
    assert sorted(file.name for file in tmp_path.iterdir()) == ["german.csv", "rows.csv", "rows.parquet", "rows.txt"]
    out = tmp_path / "check.json"
    written = command(*arguments, "--out", out, "--json")
    assert json.loads(out.read_text()) == json.loads(written.stdout)
    assert json.loads(out.read_text())["private"] is False
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert "NOT PROTECTED" in command("explain", out).stdout
    german = ("--decimal", ",", "--date-format", "%d.%m.%Y", "--encoding", "cp1252")
    other = command("check", tmp_path / "german.csv", *arguments[2:], *german)
    assert other.stdout == shown.stdout
    assert command("check", path, "--columns", "stay").exit_code == 2
    assert command(*arguments, "--engine", "spark").exit_code == 2
