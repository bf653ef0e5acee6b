"""Every format in which a publisher ships a data set of the paper, on tiny files written in exactly that format."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.paper import formats
from experiments.paper.formats import LAYOUTS, SHAPES, FloatArray
from pais.errors import DataError

N_ROWS = 7


def numbers(columns: int, rows: int = N_ROWS) -> FloatArray:
    """Decimals with three digits, some of them zero and some negative; the last column is never all zero."""
    generator = np.random.default_rng(columns)
    values = np.round(generator.normal(size=(rows, columns)) * 100.0, 3)
    values[generator.random(values.shape) < 0.3] = 0.0
    values[:, -1] = np.arange(1.0, rows + 1.0)
    return values


def lines(rows: FloatArray, between: str = ",") -> list[str]:
    return [between.join(repr(float(value)) for value in row) for row in rows]


def kdd_text(rows: FloatArray) -> str:
    return "".join(f"279\t{261532 + i}\t{i % 2}\t{line}\n" for i, line in enumerate(lines(rows, "\t")))


def libsvm_text(rows: FloatArray, label: str = "-1") -> str:
    pairs = (" ".join(f"{i + 1}:{value!r}" for i, value in enumerate(row.tolist()) if value != 0.0) for row in rows)
    return "".join(f"{label} {line} \n" for line in pairs)


def song_text(rows: FloatArray) -> str:
    return "".join(f"2001,{line}\n" for line in lines(rows))


def covertype_text(rows: FloatArray) -> str:
    return "".join(f"{line},5\n" for line in lines(rows))


def miniboone_text(rows: FloatArray, announced: int | None = None) -> str:
    total = len(rows) if announced is None else announced
    return f" {total - 2} 2\n" + "".join(f"  {line}\n" for line in lines(rows, "  "))


def fma_text(rows: FloatArray) -> str:
    columns = rows.shape[1]
    header = [
        ["feature"] + ["chroma_cens"] * columns,
        ["statistics"] + ["kurtosis"] * columns,
        ["number"] + ["01"] * columns,
    ]
    names = "".join(",".join(line) + "\n" for line in [*header, ["track_id"] + [""] * columns])
    return names + "".join(f"{i + 2},{line}\n" for i, line in enumerate(lines(rows)))


# Key, file, writer and reader of each format that is one file of text.
SINGLE = [
    ("kdd-protein", "bio_train.dat", kdd_text, formats.read_kdd_protein),
    ("song", "YearPredictionMSD.txt", song_text, formats.read_song),
    ("covertype", "covtype.libsvm.binary", libsvm_text, formats.read_covertype_libsvm),
    ("covertype", "covtype.data", covertype_text, formats.read_covertype_uci),
    ("ijcnn1", "ijcnn1", libsvm_text, formats.read_ijcnn1),
    ("miniboone", "MiniBooNE_PID.txt", miniboone_text, formats.read_miniboone),
    ("fma", "features.csv", fma_text, formats.read_fma),
]
Writer = Callable[[FloatArray], str]
each_format = pytest.mark.parametrize(("key", "name", "write", "read"), SINGLE, ids=[entry[1] for entry in SINGLE])


@each_format
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_as_published_gives_its_features_back_to_the_last_bit(
    key: str, name: str, write: Writer, read: formats.Reader, suffix: str, tmp_path: Path
) -> None:
    rows = numbers(SHAPES[key].columns)
    pack = {"": bytes, ".gz": gzip.compress}[suffix]
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(pack(write(rows).encode()))
    found = read([path], check_rows=False)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, rows)


def test_the_three_files_of_rna_follow_each_other_whatever_their_labels(tmp_path: Path) -> None:
    rows = numbers(8, 9)
    rows[:3, -1] = 0.0  # the first file alone looks narrower
    names, parts = ("cod-rna", "cod-rna.t", "cod-rna.r"), np.split(rows, 3)
    for name, part, label in zip(names, parts, ("1", "-1", "0"), strict=True):
        (tmp_path / name).write_text(libsvm_text(part, label))
    layout = LAYOUTS["rna"][1]
    paths = layout.find(tmp_path)
    assert paths is not None
    np.testing.assert_array_equal(layout.read(paths, check_rows=False), rows)
    with pytest.raises(DataError, match=r"cod-rna \+ cod-rna\.t \+ cod-rna\.r has 9 rows, expected 488565"):
        layout.read(paths)
    (tmp_path / "cod-rna.t").unlink()
    assert layout.find(tmp_path) is None


def test_ijcnn1_is_found_whole_or_in_two_parts_of_which_one_is_compressed(tmp_path: Path) -> None:
    rows = numbers(22)
    (tmp_path / "ijcnn1").mkdir()  # a folder of that name is not the file
    (tmp_path / "ijcnn1.tr").write_text(libsvm_text(rows[:4]))
    (tmp_path / "ijcnn1.val.bz2").write_bytes(bz2.compress(libsvm_text(rows[4:]).encode()))
    _, whole, parts = LAYOUTS["ijcnn1"]
    assert whole.find(tmp_path) is None
    paths = parts.find(tmp_path)
    assert paths is not None
    np.testing.assert_array_equal(parts.read(paths, check_rows=False), rows)


@pytest.mark.parametrize("shape", [(1, 48), (16, 3)], ids=["one row", "a row for each joint"])
def test_poses_are_taken_in_the_order_of_names_and_flattened_row_by_row(shape: tuple[int, int], tmp_path: Path) -> None:
    rows = numbers(48)
    for i in reversed(range(N_ROWS)):
        text = "\n".join(lines(rows[i].reshape(shape)))
        (tmp_path / f"{i:05d}.csv").write_text(text if i % 2 else f"{text}\n")
    (tmp_path / "notes.txt").write_text("not a pose")
    np.testing.assert_array_equal(formats.read_pose([tmp_path], check_rows=False), rows)
    with pytest.raises(DataError, match=rf"has {N_ROWS} rows, expected 35832"):
        formats.read_pose([tmp_path])


def test_parquet_gives_the_published_decimals_back(tmp_path: Path) -> None:
    rows = numbers(22)
    whole = {f"c{i}": np.round(rows[:, i] * 1000.0).astype(np.int32) for i in range(22)}
    path = tmp_path / "ijcnn1.parquet"
    pq.write_table(pa.table(whole).replace_schema_metadata({"decimals": "3"}), path)
    np.testing.assert_array_equal(formats.read_parquet(path), rows)
    layout = LAYOUTS["ijcnn1"][0]
    np.testing.assert_array_equal(layout.read([path], check_rows=False), rows)
    with pytest.raises(DataError, match=rf"ijcnn1\.parquet has {N_ROWS} rows, expected 49990"):
        layout.read([path])


def spoiled(write: Writer, columns: int) -> dict[str, tuple[bytes, str]]:
    """Contents of a file that is not as published, and the error."""
    nan = numbers(columns)
    nan[3, 1] = np.nan
    packed = gzip.compress(write(numbers(columns, 200)).encode())
    return {
        "narrow": (write(numbers(columns - 1)).encode(), r"has \d+ columns, expected \d+\. Use"),
        "wide": (write(numbers(columns + 1)).encode(), r"has \d+ columns, expected \d+\. Use"),
        "empty": (b"", ""),
        "a page": (b"<html>not found</html>\n", ""),
        "ragged": (b"1,2\n3\n", ""),
        "not finite": (write(nan).encode(), r"(has values .* in column \d+|cannot be read)"),
        "cut off": (packed[: len(packed) // 2], ""),
    }


@each_format
def test_a_file_that_is_not_as_published_is_refused_by_name(
    key: str, name: str, write: Writer, read: formats.Reader, tmp_path: Path
) -> None:
    for what, (content, error) in spoiled(write, SHAPES[key].columns).items():
        path = tmp_path / f"{name}{'.gz' * (what == 'cut off')}"
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}.*{error}"):
            read([path], check_rows=False)
    path = tmp_path / name
    path.write_text(write(numbers(SHAPES[key].columns)))
    with pytest.raises(DataError, match=rf"{name} has {N_ROWS} rows, expected {SHAPES[key].rows}\. Fetch"):
        read([path])


FMA_LINES = fma_text(numbers(518)).splitlines(keepends=True)
REFUSED = {
    "indices from 0": ("ijcnn1", "1 0:1.5 21:2.5\n", formats.read_ijcnn1, "cannot be read as LIBSVM text"),
    "a row too few": (
        "MiniBooNE_PID.txt",
        miniboone_text(numbers(50), announced=N_ROWS + 1),
        formats.read_miniboone,
        f"has {N_ROWS} rows, where its first line announces {N_ROWS + 1}",
    ),
    "no first line": (
        "MiniBooNE_PID.txt",
        miniboone_text(numbers(50)).split("\n", 1)[1],
        formats.read_miniboone,
        "no line of two whole numbers at its beginning",
    ),
    "no index": (
        "features.csv",
        "".join(FMA_LINES[:3] + FMA_LINES[4:]),
        formats.read_fma,
        "begins with lines named feature, statistics, number, 2, where",
    ),
    "a long pose": ("00001.csv", "1,2,3\n" * 17, formats.read_pose, "has 17 x 3 numbers, expected one row of 48 or 16"),
    "an empty pose": ("00001.csv", "", formats.read_pose, "has nothing numbers"),
    "words": ("00001.csv", "x,y,z\n" * 16, formats.read_pose, "cannot be read as numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_format_asks_for_is_checked(case: str, tmp_path: Path) -> None:
    name, text, read, error = REFUSED[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=error):
        read([tmp_path if read is formats.read_pose else tmp_path / name], check_rows=False)
