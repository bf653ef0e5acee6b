"""One line of a CSV file, or one row of a table, changes nothing for the other rows and fails no call."""

from __future__ import annotations

import bz2
import gzip
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, DataError, DPKMeans, UniformRule
from pais.data.cells import whole_numbers_of_text
from pais.data.engines import files
from pais.data.sources import source

Floats = NDArray[np.float64]
N = 400


@pytest.fixture(params=[1 << 10, 1 << 22], ids=["small blocks", "large blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", request.param)


in_blocks = pytest.mark.usefixtures("blocks")


def lines(n: int = N) -> list[bytes]:
    return [b"%d,%d.5,t%d" % (i, i % 7, i) for i in range(n)]


def written(home: Path, body: list[bytes], *, header: bytes = b"x,y,t", end: bytes = b"\n") -> Path:
    (home / "rows.csv").write_bytes(end.join([header, *body]) + end)
    return home / "rows.csv"


def kept(data: object, seed: int | None = None, **named: object) -> tuple[Floats, pa.Table | None]:
    """All rows that count, sorted, and what is carried beside them."""
    engine = source(data, **named)  # type: ignore[arg-type]
    ball = Ball(radius=1e9)
    content = pais.sample(engine, ball=ball, rule=UniformRule(rate=1.0), random_state=seed).spend("a test")
    return content.rows[np.lexsort(content.rows.T)], content.carried


# -- keys ----------------------------------------------------------------------------------------------------

KEYS = [
    *("0", "7", "-7", "+7", "007", "-007", "0" * 30 + "7", "-" + "0" * 30 + "7", "0" * 19 + "9" * 18, "0" * 40),
    *(str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), "9" * 19, "9" * 20, "1" + "0" * 25),
    *("0x10", "0X1f", "-0x1", "0x", "1e3", "1.0", "1_000", "", " ", "-", "--1", " 5", "5 ", "\t5\t", "5\n", "٣", "NA"),
]


@pytest.mark.parametrize("cell", KEYS, ids=repr)
def test_key_value_does_not_depend_on_other_keys(cell: str) -> None:
    alone, beside = (whole_numbers_of_text(pa.array(cells))[0].as_py() for cells in ([cell], [cell, "zz"]))
    assert alone == beside
    digits = cell.strip(" \t").removeprefix("-")
    is_whole = digits.isascii() and digits.isdigit() and -(2**63) <= int(cell) < 2**63
    assert alone == (int(cell) if is_whole else None)


@in_blocks
@pytest.mark.parametrize("n", [0, 1, N])
@pytest.mark.parametrize("bad", [b"zz", b"1.5", b"\xff", b"", b"0x10", b"9" * 30])
def test_bad_key_drops_its_row(bad: bytes, n: int, tmp_path: Path) -> None:
    body = [*lines()[:n], bad + b",1,t"]
    path = written(tmp_path, body, header=b"id,y,t")
    for seed in (None, 3):
        assert len(kept(path, seed, columns=["y"], key="id")[0]) == n


# -- quotes and line breaks ----------------------------------------------------------------------------------

STRAY = [b'5,1,"open', b'5,1,a"b,"c', b'5,"1,t', b'"', b'"5,1,t', b'5,1,"a""', b'5,1,"""', b'5,1,"a"" b']


@in_blocks
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("line", STRAY)
def test_unclosed_quote_drops_its_own_line_only(line: bytes, end: bytes, tmp_path: Path) -> None:
    expected, _ = kept(written(tmp_path, lines(), end=end), columns=["x", "y"])
    assert len(expected) == N
    for place in (0, 3, N - 1, N):
        dirty = written(tmp_path, [*lines()[:place], line, *lines()[place:]], end=end)
        assert np.array_equal(kept(dirty, columns=["x", "y"])[0], expected)
        assert np.array_equal(kept(dirty, columns=["x", "y"], carry=["t"])[0], expected)


@in_blocks
def test_two_quotes_that_are_not_closed_do_not_close_each_other(tmp_path: Path) -> None:
    body = lines()
    dirty = written(tmp_path, [*body[:10], b'5,1,"open', *body[10:20], b'5,1,"open', *body[20:]])
    assert len(kept(dirty, columns=["x", "y"])[0]) == N


@in_blocks
def test_quoted_cells_are_read(tmp_path: Path) -> None:
    texts = {b'"a, b"': "a, b", b'"a ""b"""': 'a "b"', b'5" pipe': '5" pipe', b'"a" b': "a b", b'""': "", b'a"': 'a"'}
    body = [b"%d,1,%b" % (i, text) for i, text in enumerate(texts)]
    rows, carried = kept(written(tmp_path, [*body, b'"77","1.5",t']), columns=["x", "y"], carry=["t"])
    assert carried is not None
    assert carried.column("t").to_pylist() == [*texts.values(), "t"]
    assert np.array_equal(rows[:, 0], [*range(len(texts)), 77])


@in_blocks
@pytest.mark.parametrize("brk", [b"\n", b"\r", b"\r\n"])
def test_a_line_break_in_quotes_drops_the_row_alone(brk: bytes, tmp_path: Path) -> None:
    body = lines()
    dirty = written(tmp_path, [*body[:5], b'7,8,"first' + brk + b'second"', *body[5:]])
    assert len(kept(dirty, columns=["x", "y"])[0]) == N


@in_blocks
@pytest.mark.parametrize("size", [400, 600, 5000, 9 << 20])
def test_overlong_line_drops_only_itself(size: int, tmp_path: Path) -> None:
    body = lines()
    for line in (b"z" * size, b'5,1,"' + b"z" * size):
        dirty = written(tmp_path, [*body[:50], line, *body[50:]])
        assert len(kept(dirty, columns=["x", "y"])[0]) == N


@in_blocks
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress], ids=["gz", "bz2"])
def test_compressed_files_are_read_line_by_line_too(pack: object, tmp_path: Path) -> None:
    text = written(tmp_path, [*lines()[:50], b'5,1,"open', *lines()[50:]]).read_bytes()
    path = tmp_path / f"rows.csv.{'gz' if pack is gzip.compress else 'bz2'}"
    path.write_bytes(pack(text))  # type: ignore[operator]
    assert len(kept(path, columns=["x", "y"])[0]) == N


@in_blocks
def test_a_header_with_an_open_quote_is_refused(tmp_path: Path) -> None:
    for header in (b'x,y,"t', b'"x\ny",y,t', b'\n\nx,"y,t', b"x,\xff,t"):
        with pytest.raises(DataError, match=r"cannot be read|not written in utf-8"):
            source(written(tmp_path, lines(), header=header))
    assert len(kept(written(tmp_path, lines(), header=b'\n\n"x","y","t"'), columns=["x", "y"])[0]) == N


# -- lines of another length, and tables with few rows --------------------------------------------------------


@in_blocks
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize(
    "line",
    [b"1,2", b"1,2,3,4", b"a", b"\xff,\xfe", b'"', b"a,b,c", b",,", b"z" * 3000],
    ids=lambda line: repr(line[:9]),
)
def test_one_line_does_not_decide_whether_a_small_file_is_accepted(line: bytes, n: int, tmp_path: Path) -> None:
    body = [b"%d,2,3" % i for i in range(n)]
    expected, _ = kept(written(tmp_path, body))
    assert len(expected) == n
    assert np.array_equal(kept(written(tmp_path, [*body, line]))[0], expected)
    (tmp_path / "other.csv").write_bytes(b"x,y,t\n1,2,3\n")
    assert len(kept(tmp_path)[0]) == n + 1


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
def test_one_text_row_does_not_decide_whether_a_table_is_accepted() -> None:
    frame = pd.DataFrame({"x": ["a"], "y": ["b"]}, dtype=object)
    for data in (frame, frame.to_numpy(), pd.concat([frame, pd.DataFrame({"x": [1.0], "y": [2.0]})])):
        DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6).fit(data)
    with pytest.raises(DataError, match="are not numeric"):
        source(pd.concat([frame] * 5))


# -- carried columns -----------------------------------------------------------------------------------------


@in_blocks
@pytest.mark.parametrize("line", [b"\xff,1,t", b"1,2,\xff\xfe", b"1,2,2020-01-01", b"1,2,NA", b"1,2,"])
def test_no_cell_changes_the_type_of_a_carried_column(line: bytes, tmp_path: Path) -> None:
    body = [b"%d,%d,%d" % (i, i, i) for i in range(N)]
    for place in (0, N):
        path = written(tmp_path, [*body[:place], line, *body[place:]])
        rows, carried = kept(path, columns=["x", "y"], carry=["t"])
        assert carried is not None
        assert carried.column("t").type == pa.string()
        assert set(map(str, range(N))) <= set(carried.column("t").to_pylist())
        assert len(rows) == carried.num_rows
    pq.write_table(carried, tmp_path / "out.parquet")


@in_blocks
def test_a_carried_feature_keeps_its_numbers(tmp_path: Path) -> None:
    rows, carried = kept(written(tmp_path, lines()), columns=["x", "y"], carry=["x"])
    assert carried is not None
    assert np.array_equal(np.sort(carried.column("x").to_numpy()), np.sort(rows[:, 0]))


# -- signalling NaN ------------------------------------------------------------------------------------------


def with_signals(kind: type) -> NDArray[np.generic]:
    rows = np.random.default_rng(0).standard_normal((N, 3)).astype(kind)
    word = np.uint64 if kind is np.float64 else np.uint32
    rows.view(word)[5] = 0x7FF0000000000001 if kind is np.float64 else 0x7F800001
    rows.view(word)[9, 1] = 0xFFF0000000000001 if kind is np.float64 else 0xFF800001
    return rows


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning", "ignore::pais.PrivacyWarning")
@pytest.mark.parametrize("form", ["rows", "columns", "parquet", "table"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_signalling_nan_causes_no_warning(form: str, kind: type, tmp_path: Path) -> None:
    rows = with_signals(kind)
    table = pa.table({name: pa.array(rows[:, j].copy()) for j, name in enumerate("xyz")})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    data = {"rows": rows, "columns": np.asfortranarray(rows), "parquet": tmp_path / "rows.parquet", "table": table}[
        form
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for center in (None, (0.1, 0.2, 0.3)):
            for order in (1.0, 2.0, 3.0, np.inf):
                ball = Ball(radius=2.0, center=center, order=order)
                for strategy in ("pass", "thin"):
                    content = pais.sample(data, ball=ball, rule=UniformRule(rate=1.0), strategy=strategy).spend(
                        "a test"
                    )
                    assert len(content.rows) == N - 2
        for seed in (None, 3):
            pais.survey(data, epsilon=1.0, random_state=seed)
        model = DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6).fit(data)
        model.score(data)
        pais.cost(data, model.cluster_centers_)
        with pytest.raises(DataError, match="NaN"):
            source(data, missing="error")
