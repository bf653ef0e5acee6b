"""CSV files with other separators and decimal marks: the same rows as from a file with commas."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais.data.cells import days_of
from pais.data.dialect import Dialect
from pais.data.engines import files
from tests.support.commands import pais as command

Floats = NDArray[np.float64]
ROWS = np.random.default_rng(1).normal(size=(300, 3)).round(4)


@pytest.fixture(params=[1 << 10, 1 << 22], ids=["small blocks", "large blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", request.param)


in_blocks = pytest.mark.usefixtures("blocks")


def written(path: Path, separator: str, decimal: str = ".", header: str = "a b c") -> Path:
    lines = [[f"{number:.4f}".replace(".", decimal) for number in row] for row in ROWS]
    text = "\n".join(separator.join(cells) for cells in [header.split(), *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def rows_of(data: object, **named: Any) -> Floats:
    ball, rule = pais.Ball(radius=1e9), pais.UniformRule(rate=1.0)
    rows = pais.sample(pais.source(data, **named), ball=ball, rule=rule).spend("a test").rows
    return rows[np.lexsort(rows.T)]


SORTED = ROWS[np.lexsort(ROWS.T)]


@in_blocks
@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv", "rows.txt"])
def test_separators_are_recognised_from_the_header(tmp_path: Path, name: str, mark: str) -> None:
    assert np.array_equal(rows_of(written(tmp_path / name, mark)), SORTED)
    assert np.array_equal(rows_of(written(tmp_path / name, mark, ","), decimal=","), SORTED)
    assert np.array_equal(rows_of(pais.CSVFile(tmp_path / name, decimal=",")), SORTED)
    assert pais.source(tmp_path / name, decimal=",").names == ("a", "b", "c")


@in_blocks
def test_semicolons_in_rows_do_not_change_how_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n3;4;5\n6,7\n" + "8;9\n" * 50)
    assert np.array_equal(rows_of(path), [[1.0, 2.0], [6.0, 7.0]])
    path.write_text("a;b\n1;2\n3,4\n6;7\n" + "8,9\n" * 50)
    assert np.array_equal(rows_of(path), [[1.0, 2.0], [6.0, 7.0]])


@pytest.mark.parametrize("header", ["a;b,c", "a;;b", "a;1;b", '"a;b"', "a,b;c"])
def test_doubtful_headers_are_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1;2;3\n")
    with pytest.raises(pais.DataError, match="first line"):
        pais.source(path)


@pytest.mark.parametrize("separator", ["\t", "|", ";", " ", ":"])
def test_a_stated_separator_is_used(tmp_path: Path, separator: str) -> None:
    assert np.array_equal(rows_of(written(tmp_path / "rows.csv", separator), separator=separator), SORTED)


def test_a_stated_comma_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(pais.DataError, match=r"first line .* has semicolons, .* separator=';'"):
        pais.source(written(tmp_path / "rows.csv", ";"), separator=",")


@in_blocks
def test_quotes_work_with_every_separator(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a;"b"\n"1";2\n"3;4";5\n6;"7\n8;9"\n"10";"11"\n12;1"3\n')
    assert np.array_equal(rows_of(path, columns=["a", "b"]), [[1.0, 2.0], [10.0, 11.0]])


@in_blocks
def test_a_decimal_comma_in_quoted_cells(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n"1,5",2\n3,"0,25"\n')
    assert np.array_equal(rows_of(path, decimal=","), [[3.0, 0.25], [1.5, 2.0]])


@pytest.mark.parametrize(("cell", "value"), [("1,5", "1.5"), ("-2", "-2"), ("1.5", None), ("1.234,5", None), ("", "")])
def test_decimal_commas_cell_by_cell(cell: str, value: str | None) -> None:
    for cells in ([cell], [cell, "1,0"], [cell, "1.0", None]):
        assert Dialect(decimal=",").cells(pa.array(cells), "numbers")[0].as_py() == value


@pytest.mark.parametrize("bad", ["", ";;", '"', "\n", "a", "5", "é", 3])
@pytest.mark.parametrize("name", ["separator", "decimal", "thousands", "encoding", "date_format"])
def test_bad_dialects_are_refused(tmp_path: Path, name: str, bad: Any) -> None:
    path = written(tmp_path / "rows.csv", ";")
    for opened in (pais.source, pais.CSVFile):
        with pytest.raises(pais.ArgumentError, match=f"{name}="):
            opened(path, **{name: bad})


REFUSED = [
    *(({"thousands": "."}, "also the decimal mark"), ({"thousands": ",", "decimal": ","}, "also the decimal mark")),
    *(
        ({"date_format": form}, "date_format")
        for form in ("%d.%m", "%d.%m.%Y.%d", "%d.%m.%Y.%y", "%j %Y", "%d.%m.%y %p")
    ),
    # Encodings in which a cell could change another line.
    *(({"encoding": name}, "line by line") for name in ("utf-16", "shift_jis", "gb18030", "utf-7", "cp037")),
]


@pytest.mark.parametrize(("stated", "message"), REFUSED, ids=str)
def test_dialects_that_are_refused(stated: dict[str, str], message: str) -> None:
    with pytest.raises(pais.ArgumentError, match=message):
        pais.CSVFile("rows.csv", **stated)


def test_separator_and_decimal_are_for_csv_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0], "b": [2.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    for data in (table, ROWS, tmp_path / "rows.parquet"):
        with pytest.raises(pais.ArgumentError, match="CSV"):
            pais.source(data, separator=";")
        with pytest.raises(pais.ArgumentError, match="CSV"):
            pais.source(data, decimal=",")
    with pytest.raises(pais.ArgumentError, match="beside a CSVFile"):
        pais.source(pais.CSVFile("rows.csv"), decimal=",")


def test_options_of_the_command_line(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.csv", ",")
    other = written(tmp_path / "other.csv", "\t", ",")
    arguments = ("--epsilon", 1, "--seed", 1, "--json")
    expected = command("survey", plain, *arguments).stdout
    for separator in ("tab", r"\t", "\t"):
        shown = command("survey", other, *arguments, "--separator", separator, "--decimal", ",")
        assert shown.exit_code == 0, shown.stderr
        assert [line for line in shown.stdout.split("\n") if '"name"' not in line] == [
            line for line in expected.split("\n") if '"name"' not in line
        ]
    assert command("survey", plain, *arguments, "--decimal", ";").exit_code == 2


# -- numbers, dates and text in other forms ------------------------------------------------------------------

NUMBERS = [1234567.5, 12.25, -1000.0, 3.0, 0.125, 999.0]
FORMS: dict[str, tuple[dict[str, str], list[str]]] = {
    "usual": ({}, ["1234567.5", "12.25", "-1000", "3", "0.125", "999"]),
    "English": ({"thousands": ","}, ["1,234,567.5", "12.25", "-1,000", "3", "0.125", "999"]),
    "German": ({"decimal": ",", "thousands": "."}, ["1.234.567,5", "12,25", "-1.000", "3", "0,125", "999"]),
    "French": ({"decimal": ",", "thousands": " "}, ["1\u202f234\u00a0567,5", "12,25", "-1 000", "3", "0,125", "999"]),
    "Swiss": ({"thousands": "'"}, ["1'234\u2019567.5", "12.25", "-1'000", "3", "0.125", "999"]),
    "decimal commas": ({"decimal": ","}, ["1234567,5", "12,25", "-1000", "3", "0,125", "999"]),
}
BOUNDS = {"size": (-2e6, 2e6)}


@in_blocks
@pytest.mark.parametrize("form", FORMS)
def test_numbers_in_every_form(tmp_path: Path, form: str) -> None:
    dialect, cells = FORMS[form]
    path = tmp_path / "rows.csv"
    path.write_text("id;size\n" + "".join(f"{place};{cell}\n" for place, cell in enumerate(cells)), "utf-8")
    assert np.allclose(np.sort(rows_of(path, columns=BOUNDS, **dialect).ravel() * 2e6), np.sort(NUMBERS))
    assert np.allclose(np.sort(rows_of(path, columns=["size"], **dialect).ravel()), np.sort(NUMBERS))


@pytest.mark.parametrize("cell", ["1,5", "12,34", "1,2345", ",123", "1,,234", "1,234,", "0,125", "1,234,56", "x"])
def test_marks_of_thousands_stand_between_groups_of_three_digits(cell: str) -> None:
    dialect = Dialect(thousands=",")
    assert dialect.numbers(pa.array([cell, "5", "1,234"])).to_pylist() == [None, 5.0, 1234.0]


DATES = {
    "%d.%m.%Y": ["31.01.2025", "1.2.2025", " 29.02.2024 "],
    "%m/%d/%Y": ["01/31/2025", "2/1/2025", "02/29/2024"],
    "%d-%m-%y": ["31-01-25", "01-02-25", "29-02-24"],
    "%Y%m%d": ["20250131", "20250201", "20240229"],
    "%d.%m.%Y %H:%M": ["31.01.2025 00:00", "1.2.2025 0:00", "29.02.2024 00:00"],
}


@pytest.mark.parametrize("form", DATES)
def test_dates_in_every_form(form: str) -> None:
    cells = [*DATES[form], "2025-01-32", "99.99.2025", None, ""]
    days = days_of(Dialect(date_format=form).cells(pa.array(cells), "dates"))
    assert days[:3].tolist() == [20119.0, 20120.0, 19782.0]
    assert np.isnan(days[3:]).all()


@pytest.mark.parametrize("year", ["68", "69", "70"])
def test_two_digits_of_a_year_as_in_python(year: str) -> None:
    epoch = datetime.datetime(1970, 1, 1)
    expected = (datetime.datetime.strptime(f"01.01.{year}", "%d.%m.%y") - epoch).days
    assert days_of(Dialect(date_format="%d.%m.%y").cells(pa.array([f"01.01.{year}"]), "dates")).tolist() == [expected]


@in_blocks
def test_an_encoding_is_used(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("größe;ort\n1;Köln\n2;Zürich\n3;Köln\n".encode("cp1252"))
    columns = {"größe": (0, 4), "ort": ["Köln", "Zürich"]}
    with pytest.raises(pais.DataError, match="encoding='cp1252'"):
        pais.source(path, columns=columns)
    rows = rows_of(path, columns=columns, encoding="cp1252")
    assert sorted((rows[:, 1] > 0.0).tolist()) == [False, True, True]
    path.write_bytes("größe;ort\n1;Köln\n".encode("utf-16"))
    with pytest.raises(pais.DataError, match="UTF-16"):
        pais.source(path, columns=columns)


# -- forms that a file shows ---------------------------------------------------------------------------------

SHOWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "decimal commas": ({"c": (0, 9)}, "3,5", "has decimal commas: pass decimal=','"),
    "thousands": ({"c": (0, 9)}, "1,234", "marks of thousands .*: pass thousands=','"),
    "both": ({"c": (0, 9)}, "1.234,50", "decimal commas and marks of thousands .*decimal=',', thousands='.'"),
    "dates": ({"c": ("2020-01-01", "2026-01-01")}, "31.12.2023", "dates such as 31.12.2025: .*'%d.%m.%Y'"),
    "American dates": ({"c": ("2020-01-01", "2026-01-01")}, "12/31/2023", "dates such as 12/31/2025"),
    "encoding": ({"c": ["Köln", "Bonn"]}, "Köln", "text that is not UTF-8: pass encoding='cp1252'"),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_a_form_that_a_file_shows_is_named(tmp_path: Path, shown: str) -> None:
    columns, cell, message = SHOWN[shown]
    usual = {"c": "5"} if shown not in ("dates", "American dates") else {"c": "2023-12-31"}
    path = tmp_path / "rows.csv"

    def write(n_cells: int, n_others: int) -> None:
        lines = [*[""] * 3, *[usual["c"]] * n_others, *[cell] * n_cells]
        path.write_bytes("\n".join(["id;c", *(f"{place};{line}" for place, line in enumerate(lines))]).encode("cp1252"))

    write(20, 0)
    with pytest.raises(pais.DataError, match=message) as caught:
        pais.source(path, columns=columns)
    assert cell not in str(caught.value)
    # One row less shows nothing, and so does a form that the user states.
    write(19, 0)
    pais.source(path, columns=columns)
    write(400, 0)
    pais.source(path, columns=columns, decimal=".", encoding="utf-8", date_format="%Y-%m-%d")
    if "dates" in shown:
        write(400, 30)
        pais.source(path, columns=columns)


def test_whole_numbers_and_points_show_no_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("c\td\n" + "3\t2.5\n" * 500 + "1,5\t3\n" * 30)
    pais.source(path, columns={"c": (0, 9), "d": (0, 9)})
    path.write_text("c\td\n" + "3\t2,5\n" * 500 + "1,5\t3.5\n" * 20)
    with pytest.raises(pais.DataError, match="decimal commas"):
        pais.source(path, columns={"c": (0, 9), "d": (0, 9)})


def test_every_front_door_takes_a_file_with_its_dialect(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, 2000).round(1)
    again = np.where(rng.random(2000) < age / 100, "ja", "nein")
    table = pd.DataFrame({"age": age, "again": again})
    table.to_csv(tmp_path / "plain.csv", index=False)
    table.to_csv(tmp_path / "other.csv", index=False, sep=";", decimal=",")
    plain, other = tmp_path / "plain.csv", pais.CSVFile(tmp_path / "other.csv", decimal=",")
    columns = {"age": (0, 100), "again": ["nein", "ja"]}
    settings = {"epsilon": 5.0, "columns": columns, "random_state": 0}
    for name, extra in (("DPLogisticRegression", {"target": "again"}), ("DPLinearRegression", {"target": "age"})):
        models = [getattr(pais, name)(**settings, **extra).fit(data) for data in (plain, other)]
        assert models[0].coef_.tolist() == models[1].coef_.tolist()
        assert models[0].score(plain) == models[1].score(other)
        assert models[0].predict(plain).tolist() == models[1].predict(other).tolist()
    means = [pais.mean(data, columns=columns, random_state=0).value for data in (plain, other)]
    assert np.array_equal(*means)
    assert np.array_equal(*[pais.count(data, random_state=0).value for data in (plain, other)])


def test_groups_by_ranges_and_periods_are_read_in_the_dialect_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, 2000), "D")
    table = pd.DataFrame({"cost": rng.uniform(0, 300, 2000).round(2), "day": days})
    table.to_csv(tmp_path / "plain.csv", index=False)
    table.to_csv(tmp_path / "other.csv", index=False, sep=";", decimal=",", date_format="%d.%m.%Y")
    by = {"cost": pais.ranges(0, 100, 300), "day": pais.quarters("2024-01-01", "2024-12-31")}
    other = pais.CSVFile(tmp_path / "other.csv", decimal=",", date_format="%d.%m.%Y")
    plain, read = (pais.count(data, by=by, random_state=0).value for data in (tmp_path / "plain.csv", other))
    assert read.tolist() == plain.tolist()
    assert plain.sum() > 1900
    for one in by:
        with pytest.raises(pais.DataError, match=r"decimal commas|dates"):
            pais.count(tmp_path / "other.csv", by={one: by[one]}, random_state=0)


@in_blocks
def test_one_message_names_all_forms(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    lines = [f"{n},5;{1 + n % 28:02d}.12.2024;Pädiatrie" for n in range(60)]
    path.write_bytes("\n".join(["stay;day;ward", *lines]).encode("cp1252"))
    columns = {"stay": (0, 100), "day": ("2024-01-01", "2024-12-31"), "ward": ["Pädiatrie", "Chirurgie"]}
    forms = "decimal commas, text that is not UTF-8 and dates such as 31.12.2025"
    stated = "pass decimal=',', encoding='cp1252', date_format='%d.%m.%Y'"
    with pytest.raises(pais.DataError) as caught:
        pais.source(path, columns=columns)
    assert str(caught.value).endswith(f"has {forms}: {stated}.")
    assert len(rows_of(path, columns=columns, decimal=",", encoding="cp1252", date_format="%d.%m.%Y")) == 60
    with pytest.raises(pais.DataError, match=r"has dates such as 31\.12\.2025: pass date_format='%d\.%m\.%Y'\.$"):
        pais.source(path, columns=columns, decimal=",", encoding="cp1252")


def test_an_error_about_the_first_lines_leaves_no_thread_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow reads ahead in a thread that calls Python, which aborts a process that ends with an error."""
    path = written(tmp_path / "rows.csv", ";", ",")

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("opened for reading ahead")

    monkeypatch.setattr(files.open_csv.__globals__["pa"], "PythonFile", refused)
    with pytest.raises(pais.DataError, match="decimal commas"):
        pais.source(path, columns={"a": (0, 1)})
    assert pais.source(path, columns=["a"], decimal=",").names == ("a",)
    assert pais.source(path, decimal=",").names == ("a", "b", "c")
