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
@pytest.mark.parametrize("suffix", ["", ".bz2", ".gz"])
def test_a_file_as_published_gives_its_features_back_to_the_last_bit(
    key: str, name: str, write: Writer, read: formats.Reader, suffix: str, tmp_path: Path
) -> None:
    rows = numbers(SHAPES[key].columns)
    pack = {"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress}[suffix]
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(pack(write(rows).encode()))
    found = read([path], check_rows=False)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, rows)


@each_format
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_with_another_number_of_columns_is_refused_with_both_numbers(
    key: str, name: str, write: Writer, read: formats.Reader, change: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(write(numbers(SHAPES[key].columns + change)))
    with pytest.raises(DataError, match=rf"{name} has \d+ columns, expected \d+\. Use"):
        read([path], check_rows=False)


@each_format
def test_a_file_with_another_number_of_rows_is_refused_with_both_numbers(
    key: str, name: str, write: Writer, read: formats.Reader, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(write(numbers(SHAPES[key].columns)))
    with pytest.raises(DataError, match=rf"{name} has {N_ROWS} rows, expected {SHAPES[key].rows}\. Fetch"):
        read([path])


@each_format
@pytest.mark.parametrize("text", ["", "<html>not found</html>\n", "1,2\n3\n"], ids=["empty", "a page", "ragged"])
def test_file_in_another_format_is_refused_by_name(
    key: str, name: str, write: Writer, read: formats.Reader, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=name):
        read([path], check_rows=False)


@each_format
def test_a_compressed_file_that_broke_off_is_refused_by_name(
    key: str, name: str, write: Writer, read: formats.Reader, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.gz"
    packed = gzip.compress(write(numbers(SHAPES[key].columns, 200)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=name):
        read([path], check_rows=False)


@each_format
def test_a_value_that_is_not_finite_is_refused_by_its_column(
    key: str, name: str, write: Writer, read: formats.Reader, tmp_path: Path
) -> None:
    rows = numbers(SHAPES[key].columns)
    rows[3, 1] = np.nan
    path = tmp_path / name
    path.write_text(write(rows))
    with pytest.raises(DataError, match=rf"{name} (has values .* in column \d+|cannot be read)"):
        read([path], check_rows=False)


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


def test_libsvm_indices_start_at_one(tmp_path: Path) -> None:
    path = tmp_path / "ijcnn1"
    path.write_text("1 0:1.5 21:2.5\n")
    with pytest.raises(DataError, match=r"ijcnn1 cannot be read as LIBSVM text"):
        formats.read_ijcnn1([path], check_rows=False)


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


@pytest.mark.parametrize(
    ("text", "found"),
    [("1,2,3\n" * 17, "17 x 3"), ("1,2,3\n" * 15 + "1,2\n", "16 x 2, 16 x 3"), ("", "nothing"), ("1,2\n", "1 x 2")],
)
def test_pose_of_another_shape_is_refused(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "00001.csv").write_text(text)
    with pytest.raises(
        DataError, match=rf"00001\.csv has {found} numbers, expected one row of 48 or 16 rows of 3\. Keep"
    ):
        formats.read_pose([tmp_path], check_rows=False)


def test_a_pose_with_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "00001.csv").write_text("x,y,z\n" * 16)
    with pytest.raises(DataError, match=r"00001\.csv cannot be read as numbers"):
        formats.read_pose([tmp_path], check_rows=False)


def test_rows_of_miniboone_must_be_as_many_as_its_first_line_says(tmp_path: Path) -> None:
    path = tmp_path / "MiniBooNE_PID.txt"
    path.write_text(miniboone_text(numbers(50), announced=N_ROWS + 1))
    with pytest.raises(DataError, match=rf"has {N_ROWS} rows, where its first line announces {N_ROWS + 1}"):
        formats.read_miniboone([path], check_rows=False)


def test_miniboone_without_its_first_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "MiniBooNE_PID.txt"
    path.write_text(miniboone_text(numbers(50)).split("\n", 1)[1])
    with pytest.raises(DataError, match="no line of two whole numbers at its beginning"):
        formats.read_miniboone([path], check_rows=False)


def test_fma_features_without_the_line_that_names_the_index_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    whole = fma_text(numbers(518)).splitlines(keepends=True)
    path.write_text("".join(whole[:3] + whole[4:]))
    with pytest.raises(DataError, match="begins with lines named feature, statistics, number, 2, where"):
        formats.read_fma([path], check_rows=False)


def test_a_column_of_whole_numbers_may_turn_to_decimals_far_down_the_file(tmp_path: Path) -> None:
    rows = np.ones((20_000, 90))
    rows[-1] = 0.1
    path = tmp_path / "YearPredictionMSD.txt"
    whole = "2001," + ",".join(["1"] * 90) + "\n"
    path.write_text(whole * 19_999 + "2001," + ",".join(["0.1"] * 90) + "\n")
    np.testing.assert_array_equal(formats.read_song([path], check_rows=False), rows)


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


def test_invalid_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ijcnn1.parquet"
    path.write_text("<html>")
    with pytest.raises(DataError, match=r"ijcnn1\.parquet cannot be read as Parquet"):
        formats.read_parquet(path)


def test_the_folder_of_the_extracted_fma_archive_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "fma_metadata").mkdir()
    (tmp_path / "fma_metadata" / "features.csv").write_text(fma_text(numbers(518)))
    assert LAYOUTS["fma"][1].find(tmp_path) == (tmp_path / "fma_metadata" / "features.csv",)
