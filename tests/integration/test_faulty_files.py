"""Damaged, missing, changed or unreadable data files: an error that names the file and shows no value of a row."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais import Ball, DataError, UniformRule, sample, source
from pais.data.engines.files import files_of
from tests.support.commands import pais
from tests.support.faulty_data import CANARY, N, before_pass, parquet, refused, snapshot, table, texts_of


def three_files(home: Path) -> Path:
    for number in range(3):
        parquet(home / f"part-{number}.parquet", table().slice(number * 2000, 2000))
    return home


# -- damaged Parquet files -----------------------------------------------------------------------------------


def damaged(path: Path, *, column: int = 0, spread: int = 400) -> None:
    """Flip bytes in the middle of a column's chunk, away from the heads of its pages."""
    chunk = pq.read_metadata(path).row_group(1).column(column)
    start = chunk.data_page_offset + chunk.total_compressed_size // 2
    content = bytearray(path.read_bytes())
    for place in range(start, start + spread):
        content[place] ^= 0xFF
    path.write_bytes(bytes(content))


def without_footer(home: Path) -> None:
    cut = home / "part-1.parquet"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])


def without_pages(home: Path) -> None:
    cut = parquet(home / "part-1.parquet", compression="snappy", use_dictionary=False)
    whole = cut.read_bytes()
    cut.write_bytes(whole[:500] + whole[5500:])


def with_wrong_checksum(home: Path) -> None:
    file = parquet(home / "part-1.parquet", compression="none", use_dictionary=False, write_page_checksum=True)
    damaged(file, spread=1)


def not_to_be_unpacked(home: Path) -> None:
    damaged(parquet(home / "part-1.parquet", compression="gzip", use_dictionary=False))


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (without_footer, "part-1.parquet cannot be read"),
        (without_pages, "part-1.parquet cannot be read to its end"),
        (with_wrong_checksum, "part-1.parquet cannot be read to its end"),
        (not_to_be_unpacked, "part-1.parquet cannot be read to its end"),
    ],
)
def test_a_damaged_parquet_file_is_named(damage: Callable[[Path], None], error: str, tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    damage(home)
    refused(home, names=error, work=tmp_path)


# -- files that do not fit together --------------------------------------------------------------------------


def test_a_column_that_one_file_lacks_is_refused_by_file_and_column(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    parquet(home / "part-2.parquet", table().drop_columns(["b"]))
    refused(home, names="b do not exist in file", work=tmp_path)
    with pytest.raises(DataError, match=r"part-2\.parquet has other columns"):
        source(home)


def test_text_in_one_file_and_numbers_in_others_is_refused_by_file_and_column(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    text = pa.table({"a": [str(CANARY)], "b": [1.0], "id": [1]})
    parquet(home / "part-1.parquet", text)
    refused(home, names="part-1.parquet are not numeric", work=tmp_path)
    with pytest.raises(DataError, match=r"column\(s\) 'a' \(type string\) of file"):
        source(home, columns=["a", "b"])


def test_a_carried_column_of_two_types_is_refused_by_file_and_column(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    parquet(home / "part-1.parquet", pa.table({"a": [1.0], "b": [1.0], "id": [str(CANARY)]}))
    with pytest.raises(DataError, match=r"column 'id' of file .*part-1\.parquet is of type string") as caught:
        source(home, columns=["a", "b"], carry=["id"])
    assert "8675309" not in texts_of(caught.value)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file_without_rows_among_others_is_fine(form: str, tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir()
    for number, part in enumerate((table(0), table(), table(0))):
        if form == "parquet":
            parquet(home / f"part-{number}.parquet", part)
        else:
            pa_csv.write_csv(part, home / f"part-{number}.csv")
    opened = source(home, columns=["a", "b"], carry=["id"])
    for engine in (opened, opened.held()):
        kept = sample(engine, ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test")
        assert len(kept.rows) == N
        assert kept.carried is not None
        assert sorted(map(int, kept.carried.column("id").to_pylist())) == list(range(N))


def test_hidden_unfinished_and_marker_files_are_skipped(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    for aside in ("_temporary/0/part-9.parquet", "_delta_log/00.checkpoint.parquet", ".spark/part-9.parquet"):
        parquet(home / aside, pa.table({"a": [1.0]}))
    parquet(home / "_year=2024" / "part-3.parquet", table(10))
    (home / "_SUCCESS").touch()
    assert [Path(name).name for _, name in files_of(home)] == [
        "part-3.parquet",
        "part-0.parquet",
        "part-1.parquet",
        "part-2.parquet",
    ]


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


CHANGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut short": cut_off,
    "other columns": lambda path: write(path, table().rename_columns(["c", "d", "e"])),
    "other types": lambda path: write(path, pa.table({"a": [str(CANARY)], "b": ["x"], "id": ["y"]})),
    "other rows": lambda path: write(path, table().slice(0, 1999)),
}


def write(path: Path, whole: pa.Table) -> None:
    if path.suffix == ".csv":
        pa_csv.write_csv(whole, path)
    else:
        pq.write_table(whole, path)


@pytest.mark.parametrize(("form", "number"), [("parquet", 1), ("csv", 3)])
@pytest.mark.parametrize("change", CHANGES)
def test_deleted_or_changed_file_is_named_in_the_error(
    change: str, number: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, out = tmp_path / "data", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    (out / "certificate.json").write_text("earlier")
    for place in range(2):
        write(home / f"part-{place}.{form}", table())
    with before_pass(number, lambda: CHANGES[change](home / f"part-1.{form}"), monkeypatch):
        result = pais(
            *("kmeans", home, "--columns", "a=auto,b=auto", "--n-clusters", 3, "--epsilon", 1),
            *("--out", out, "--overwrite"),
        )
    assert result.exit_code == 2, (result.output, result.exception)
    assert f"part-1.{form}" in result.stderr
    assert "8675309" not in result.output
    assert snapshot(out) == {"certificate.json": b"earlier"}
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out"}


@contextmanager
def without_rights() -> Iterator[None]:
    """Run as the user nobody if the tests run as root, because permissions do not bind root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_file_or_directory_is_named_in_the_error() -> None:
    # Homes of pytest are closed to others.
    open_home = Path(tempfile.mkdtemp(prefix="pais-faults-"))
    open_home.chmod(0o755)
    try:
        file = parquet(open_home / "data" / "secret.parquet")
        file.chmod(0)
        closed = three_files(open_home / "closed")
        closed.chmod(0)
        with without_rights():
            if os.access(file, os.R_OK, effective_ids=True):
                pytest.skip("permissions do not bind this user")
            for data, named in (
                (file, "secret.parquet"),
                (open_home / "data", "secret.parquet"),
                (closed, "closed"),
                (closed / "part-0.parquet", "part-0.parquet"),
                (str(closed / "*.parquet"), "closed/*.parquet"),
                (open_home, "pais-faults"),
                (closed.as_uri(), "closed"),
            ):
                with pytest.raises(DataError, match=named.replace("*", r"\*")):
                    source(data, columns=["a", "b"])
                result = pais("survey", data, "--epsilon", 1, "--json")
                assert result.exit_code == 2, (data, result.output)
                assert result.stderr.startswith("error: ")
    finally:
        shutil.rmtree(open_home)
