"""Faults of files, disks and people: a clear error that names the file, no value of a row, nothing half written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pais import Ball, DataError, UniformRule, sample, source
from pais.cli import app, files as outputs
from pais.data.engines import arrow
from pais.data.engines.places import files_of

N = 6000
# In every data set of this file; it must not be in any error.
CANARY = 8675309.125
RELEASE = ("centers.parquet", "centers.csv", "report.html", "certificate.json")
STATED = ("--radius", 20, "--center", "0,0", "--norms", "0,3,5,20", "--n-rows", N)


def pais(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows(n: int = N) -> np.ndarray:
    rng = np.random.default_rng(5)
    found = rng.normal(size=(3, 2))[rng.integers(3, size=n)] * 4.0 + rng.normal(size=(n, 2)) * 0.3
    if n:
        found[n // 2] = CANARY
    return found


def table(n: int = N) -> pa.Table:
    found = rows(n)
    return pa.table({"a": found[:, 0], "b": found[:, 1], "id": pa.array(np.arange(n), pa.int64())})


def parquet(path: Path, whole: pa.Table | None = None, **options: object) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(table() if whole is None else whole, path, **{"row_group_size": 2000, **options})
    return path


def three_files(home: Path) -> Path:
    for number in range(3):
        parquet(home / f"part-{number}.parquet", table().slice(number * 2000, 2000))
    return home


def texts_of(error: BaseException | None) -> str:
    """All that an exception says, and those it keeps."""
    found = []
    while error is not None:
        found.append(f"{error!s} {error!r}")
        error = error.__cause__ or error.__context__
    return " ".join(found)


def snapshot(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def refused(data: object, *, names: str, work: Path, columns: str = "a,b", more: tuple[object, ...] = ()) -> None:
    """Every command refuses the data: exit code 2, the name in one line, no value, no change on the disk."""
    home = work / "outputs"
    (home / "old").mkdir(parents=True)
    for name in RELEASE:
        (home / "old" / name).write_text(f"earlier {name}")
    plan = home / "plan.json"
    planned = pais("plan", "--n-clusters", 3, "--epsilon", 1, "--n-features", 2, *STATED, "--out", plan)
    assert planned.exit_code == 0, planned.output
    (home / "sample.parquet").write_text("earlier sample")
    before = snapshot(home)
    kmeans = ("kmeans", data, "--columns", columns, "--n-clusters", 3, "--epsilon", 1, *more)
    for command in (
        (*kmeans, "--out", home / "new"),
        (*kmeans, "--out", home / "old", "--overwrite"),
        (*kmeans, *STATED, "--out", home / "new", "--engine", "memory"),
        ("survey", data, "--columns", columns, "--epsilon", 1, "--out", home / "survey.json", *more),
        ("sample", data, "--columns", columns, "--plan", plan, "--out", home / "sample.parquet", "--overwrite", *more),
    ):
        result = pais(*command)
        assert result.exit_code == 2, (command, result.output, result.exception)
        assert names in result.stderr, (command, result.stderr)
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert "8675309" not in result.output
        assert snapshot(home) == before
        assert not (home / "new").exists()
    with pytest.raises(DataError) as caught:
        sample(source(data, columns=columns.split(",")), ball=Ball(radius=9.0), rule=UniformRule(rate=0.9))
    assert names in str(caught.value)
    assert "8675309" not in texts_of(caught.value)


# -- damaged Parquet files -----------------------------------------------------------------------------------


def test_a_parquet_file_without_its_footer_is_named(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    cut = home / "part-1.parquet"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    refused(home, names="part-1.parquet cannot be read", work=tmp_path)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_parquet_file_with_pages_cut_out_before_an_intact_footer_is_named(compression: str, tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    cut = parquet(home / "part-1.parquet", compression=compression, use_dictionary=False)
    whole = cut.read_bytes()
    cut.write_bytes(whole[:500] + whole[5500:])
    refused(home, names="part-1.parquet cannot be read to its end", work=tmp_path)


def damaged(path: Path, *, column: int = 0, spread: int = 400) -> None:
    """Flip bytes in the middle of a column's chunk, away from the heads of its pages."""
    chunk = pq.read_metadata(path).row_group(1).column(column)
    start = chunk.data_page_offset + chunk.total_compressed_size // 2
    content = bytearray(path.read_bytes())
    for place in range(start, start + spread):
        content[place] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_damaged_page_is_found_by_its_checksum(compression: str, tmp_path: Path) -> None:
    data = parquet(tmp_path / "data.parquet", compression=compression, use_dictionary=False, write_page_checksum=True)
    damaged(data, spread=1)
    refused(data, names="data.parquet cannot be read to its end", work=tmp_path)


def test_a_damaged_page_without_a_checksum_is_found_where_it_cannot_be_unpacked(tmp_path: Path) -> None:
    data = parquet(tmp_path / "data.parquet", compression="gzip", use_dictionary=False)
    damaged(data)
    refused(data, names="data.parquet cannot be read to its end", work=tmp_path)


def test_a_changed_number_without_compression_and_checksum_is_a_number_like_others(tmp_path: Path) -> None:
    # Nothing in such a file tells; it must not end the process either.
    data = parquet(tmp_path / "data.parquet", compression="none", use_dictionary=False)
    damaged(data, spread=1)
    result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code in (0, 2), result.output
    assert (tmp_path / "out").exists() == (result.exit_code == 0)


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
    refused(home, names="part-1.parquet hold no numbers", work=tmp_path)
    with pytest.raises(DataError, match=r"column\(s\) 'a' \(type string\) of file"):
        source(home, columns=["a", "b"])


def test_whole_numbers_in_one_file_and_floats_in_others_are_fine(tmp_path: Path) -> None:
    home = three_files(tmp_path / "data")
    parquet(home / "part-1.parquet", pa.table({"a": [1, 2], "b": pa.array([0.5, 1.5], pa.float32())}))
    result = pais("survey", home, "--columns", "a,b", "--epsilon", 1, "--out", tmp_path / "survey.json")
    assert result.exit_code == 0, result.output


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


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("number", [1, 3])
def test_files_without_any_row_are_an_empty_table(number: int, form: str, tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir()
    for place in range(number):
        if form == "parquet":
            parquet(home / f"part-{place}.parquet", table(0))
        else:
            (home / f"part-{place}.csv").write_text("a,b,id\n")
    result = pais("kmeans", home, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    for engine in (source(home, columns=["a", "b"]), source(home, columns=["a", "b"]).held()):
        assert len(sample(engine, ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test").rows) == 0


def test_files_that_others_left_unfinished_or_keep_beside_data_are_not_data(tmp_path: Path) -> None:
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


# -- files that go or change ---------------------------------------------------------------------------------


@contextmanager
def before_pass(number: int, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do something right before a pass begins: the first is number 1."""
    real, begun = arrow.ArrowEngine._parts, [0]

    def parts(engine: arrow.ArrowEngine, **options: Any) -> Any:
        begun[0] += 1
        if begun[0] == number:
            action()
        return real(engine, **options)

    with monkeypatch.context() as patch:
        patch.setattr(arrow.ArrowEngine, "_parts", parts)
        yield


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


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_goes_or_changes_before_or_between_passes_is_named(
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
            "kmeans", home, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out, "--overwrite"
        )
    assert result.exit_code == 2, (result.output, result.exception)
    assert f"part-1.{form}" in result.stderr
    assert "8675309" not in result.output
    assert snapshot(out) == {"certificate.json": b"earlier"}
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out"}


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody whom permissions bind: root is made nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_or_directory_that_may_not_be_read_is_named() -> None:
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


# -- CSV files -----------------------------------------------------------------------------------------------

LINES = "\n".join(f"{a!r},{b!r}" for a, b in rows(3000).tolist())
BAD_CSV = {
    "no header": f"{CANARY},2\n{LINES}\n",
    "nothing in it": "",
    "bytes that are no text": f"h\udcff,b\n{LINES}\n",
}
BAD_LINES = {
    "mostly lines of another length than the header": "a,b\n" + f"1,2,{CANARY}\n" * 9000 + f"{LINES}\n",
    "a ragged row": f"a,b\n{CANARY}\n{LINES}\n",
    "a ragged row far down": f"a,b\n{LINES}\n1,2,{CANARY}\n",
    "text in a column of numbers": f"a,b\n{LINES}\n1,x{CANARY}\n",
}


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("fault", BAD_CSV)
def test_a_bad_csv_file_is_named(
    fault: str, small_blocks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With small blocks the fault is met in the middle of a pass, not when columns are looked at.
    if small_blocks:
        monkeypatch.setattr(arrow, "_CSV_BLOCK_BYTES", 4096)
    home = tmp_path / "data"
    home.mkdir()
    (home / "part-0.csv").write_text(f"a,b\n{LINES}\n")
    (home / "part-1.csv").write_bytes(BAD_CSV[fault].encode(errors="surrogateescape"))
    refused(home, names="part-1.csv", work=tmp_path)


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("fault", BAD_LINES)
def test_a_bad_line_of_a_csv_file_is_left_out(
    fault: str, small_blocks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small_blocks:
        monkeypatch.setattr(arrow, "_CSV_BLOCK_BYTES", 4096)
    (tmp_path / "rows.csv").write_text(BAD_LINES[fault])
    kept = sample(tmp_path / "rows.csv", ball=Ball(radius=1e9), rule=UniformRule(rate=1.0)).spend("a test")
    assert np.array_equal(np.sort(kept.rows[:, 0]), np.sort(rows(3000)[:, 0]))


def test_a_csv_column_without_numbers_at_first_and_one_of_truth_values_are_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n,true\n,false\n")
    with pytest.raises(DataError, match=r"column\(s\) 1 from the left have values that are missing"):
        source(tmp_path / "rows.csv", missing="error")
    (tmp_path / "rows.csv").write_text("a,b\n1,true\n0.5,false\n")
    kept = sample(tmp_path / "rows.csv", ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert sorted(kept.rows.tolist()) == [[0.5, 0.0], [1.0, 1.0]]


# -- names of files and columns ------------------------------------------------------------------------------


def test_a_directory_without_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.md").write_text("nothing")
    refused(tmp_path / "data", names="data holds no Parquet or CSV file", work=tmp_path)


def test_a_pattern_that_matches_nothing_is_named(tmp_path: Path) -> None:
    refused(str(tmp_path / "rows-*.parquet"), names="no file matches", work=tmp_path)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "missing.parquet", names="missing.parquet does not exist", work=tmp_path)
    assert pais("survey", "x" * 5000, "--epsilon", 1, "--json").exit_code == 2
    assert pais("survey", "carrier-pigeon://rows", "--epsilon", 1, "--json").exit_code == 2


def test_column_names_that_are_no_text_are_refused_by_file(tmp_path: Path) -> None:
    field = pa.field(b"a\xff", pa.float64())
    parquet(tmp_path / "odd.parquet", pa.Table.from_arrays([pa.array([CANARY])], schema=pa.schema([field])))
    refused(tmp_path / "odd.parquet", names="odd.parquet cannot be read", work=tmp_path)


@pytest.mark.parametrize("name", ["a b", "größe", "x.y", "[red]", "a\nb", "'; drop", "", "名", "-1x", "weight[0]"])
def test_column_names_of_any_text_serve(name: str, tmp_path: Path) -> None:
    found = rows()
    data = parquet(tmp_path / "rows.parquet", pa.table({name: found[:, 0], "plain": found[:, 1]}))
    result = pais("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    centers = pq.read_table(tmp_path / "out" / "centers.parquet")
    assert centers.column_names == [name, "plain", "noisy_count"]


def test_a_key_with_missing_values_is_an_error_on_demand_by_file_and_column(tmp_path: Path) -> None:
    whole = table().set_column(2, "id", pa.array([None, *range(1, N)], pa.int64()))
    data = parquet(tmp_path / "rows.parquet", whole)
    for columns in (["a", "b"], None):
        with pytest.raises(DataError, match=r"column 'id' of file .*rows\.parquet, the key, has missing") as caught:
            source(data, columns=columns, key="id", missing="error")
        assert "8675309" not in texts_of(caught.value)
        opened = source(data, columns=columns, key="id")
        kept = sample(opened, ball=Ball(radius=9.0), rule=UniformRule(rate=1.0), random_state=1).spend("a test")
        assert len(kept.rows) == N - 1
    with pytest.raises(DataError, match="column 'id' of the source, the key, has missing values"):
        source(whole, key="id", missing="error")
    with pytest.raises(DataError, match=r"column 'a' of file .*rows\.parquet holds no whole numbers"):
        source(data, columns=["b"], key="a")


def test_a_carried_column_may_not_be_called_weight_or_be_a_feature(tmp_path: Path) -> None:
    found = rows()
    data = parquet(tmp_path / "rows.parquet", pa.table({"a": found[:, 0], "b": found[:, 1], "weight": found[:, 0]}))
    plan = tmp_path / "plan.json"
    assert pais("plan", "--n-clusters", 3, "--epsilon", 1, "--n-features", 2, *STATED, "--out", plan).exit_code == 0
    for carry in ("weight", "a", "a,weight"):
        result = pais(
            "sample", data, "--columns", "a,b", "--carry", carry, "--plan", plan, "--out", tmp_path / "s.parquet"
        )
        assert result.exit_code == 2, result.output
        assert "names of their own" in result.stderr
        assert not (tmp_path / "s.parquet").exists()


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    data = parquet(tmp_path / "rows.parquet")
    for command in (
        ("survey", data, "--columns", "a,a", "--epsilon", 1, "--json"),
        ("kmeans", data, "--columns", "a,b,a", "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out"),
    ):
        result = pais(*command)
        assert result.exit_code == 2, result.output
        assert "column(s) a are named more than once" in result.stderr
    assert not (tmp_path / "out").exists()


def test_spark_that_is_not_installed_is_an_error_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "pais.data.engines.spark", raising=False)
    data = parquet(tmp_path / "rows.parquet")
    for more in (("--engine", "spark"), ("--master", "local[1]")):
        result = pais("survey", data, "--columns", "a,b", "--epsilon", 1, "--out", tmp_path / "s.json", *more)
        assert result.exit_code == 2, result.output
        assert "pais[spark]" in result.stderr
        assert not (tmp_path / "s.json").exists()


# -- disks and people ----------------------------------------------------------------------------------------


def earlier_outputs(out: Path) -> dict[str, bytes]:
    out.mkdir(exist_ok=True, parents=True)
    for name in RELEASE:
        (out / name).write_text(f"earlier {name}")
    return snapshot(out)


def test_a_full_disk_leaves_earlier_outputs_as_they_were(tmp_path: Path) -> None:
    # A limit on the size of files stands for a full disk: the report is larger than it.
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "out"
    before = earlier_outputs(out)

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for place in (out, tmp_path / "new" / "deep"):
        command = [sys.executable, "-m", "pais.cli", "kmeans", data, "--columns", "a,b", "--n-clusters", "3"]
        done = subprocess.run(
            [*command, "--epsilon", "1", "--out", place, "--overwrite"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limited,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("error: ")
        assert f"{place} cannot be written: File too large" in done.stderr
        assert "8675309" not in done.stderr
        assert snapshot(out) == before
        assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "out"}


def test_a_truly_full_disk_leaves_earlier_outputs_as_they_were(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        plan = tmp_path / "plan.json"
        assert pais("plan", "--n-clusters", 3, "--epsilon", 1, "--n-features", 2, *STATED, "--out", plan).exit_code == 0
        data = parquet(tmp_path / "rows.parquet")
        before = earlier_outputs(disk / "out")
        kmeans = ("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1)
        taken = ("--columns", "a,b", "--carry", "id", "--plan", plan)
        for command in (
            (*kmeans, "--out", disk / "out", "--overwrite"),
            (*kmeans, "--out", disk / "new"),
            ("sample", data, *taken, "--out", disk / "out" / "sample.parquet"),
        ):
            result = pais(*command)
            assert result.exit_code == 2, (command, result.output)
            assert "No space left on device" in result.stderr
            assert result.stderr.splitlines()[-1].startswith("error: ")
            assert snapshot(disk) == {f"out/{name}": content for name, content in before.items()}
            assert [path.name for path in disk.iterdir()] == ["out"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_an_output_directory_that_goes_during_the_run_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    with before_pass(2, lambda: shutil.rmtree(tmp_path / "deep"), monkeypatch):
        result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out)
    assert result.exit_code == 0, result.output
    assert set(snapshot(out)) == set(RELEASE)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "deep"}


def test_an_output_directory_that_becomes_a_file_during_the_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "out"
    with before_pass(2, lambda: out.write_text("in the way"), monkeypatch):
        result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out)
    assert result.exit_code == 2, result.output
    assert "out cannot be written" in result.stderr
    assert snapshot(tmp_path).keys() == {"rows.parquet", "out"}


def test_outputs_are_made_in_their_own_directory_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above it may be another disk, or a directory of somebody else's."""
    data, out, places = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out", []
    out.mkdir(parents=True)
    real = outputs._move_in

    def move_in(new: Path, *rest: Any) -> None:
        places.append(new.parent.parent)
        real(new, *rest)

    monkeypatch.setattr(outputs, "_move_in", move_in)
    for made in (out / "survey.json", out / "other.json"):
        assert pais("survey", data, "--columns", "a,b", "--epsilon", 1, "--out", made).exit_code == 0
    assert places == [out, out]
    assert set(snapshot(out)) == {"survey.json", "other.json"}


@pytest.mark.parametrize("gone", ["all", "the hidden place"])
def test_outputs_that_go_while_they_are_written_do_not_take_earlier_ones_along(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out"
    before = earlier_outputs(out)
    real = outputs._move_in

    def move_in(new: Path, *rest: Any) -> None:
        shutil.rmtree(tmp_path / "deep" if gone == "all" else new.parent)
        real(new, *rest)

    monkeypatch.setattr(outputs, "_move_in", move_in)
    result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out, "--overwrite")
    assert result.exit_code == 2, result.output
    assert "out cannot be written" in result.stderr
    if gone == "the hidden place":
        assert snapshot(out) == before
    assert not list(tmp_path.rglob(".pais-*"))


SLOW = """
import sys, time
from pathlib import Path
from pais.data.engines import arrow
from pais.cli import main

mark = Path(sys.argv.pop(1))
real = arrow.DataFile._each

def slowly(file, stream):
    for batch in real(file, stream):
        mark.touch()
        time.sleep(0.05)
        yield batch

arrow.DataFile._each = slowly
arrow._CSV_BLOCK_BYTES = 2048
arrow._BATCH_ROWS = 50
main()
"""


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("parquet", signal.SIGINT),
        ("csv", signal.SIGINT),
        ("one.csv", signal.SIGINT),
        ("parquet", signal.SIGTERM),
        ("csv", signal.SIGHUP),
    ],
)
def test_who_is_asked_to_end_in_the_middle_of_a_pass_ends_soon_with_130_and_writes_nothing(
    form: str, asked: signal.Signals, tmp_path: Path
) -> None:
    # Files that take a minute each: threads must not go on to their ends.
    home, out = tmp_path / "data", tmp_path / "out"
    home.mkdir()
    for number in range(1 if form == "one.csv" else 2):
        whole = table(60_000).select(["a", "b"])
        if form == "parquet":
            parquet(home / f"part-{number}.parquet", whole, row_group_size=60_000)
        else:
            pa_csv.write_csv(whole, home / f"part-{number}.csv")
    before = earlier_outputs(out)
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", SLOW, begun, "kmeans", home, "--n-clusters", "3", "--epsilon", "1", "--overwrite"]
    process = subprocess.Popen(
        [*command, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A process that was told to ignore it hands that on.
        preexec_fn=lambda: signal.signal(asked, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 120.0
        while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert begun.exists()
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(asked)
        said = process.communicate(timeout=120.0)
        took = time.monotonic() - sent
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert said == ("", "interrupted: no output is half written\n")
    assert took < 20.0
    assert snapshot(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out", "begun"}
