"""The paper's data sets: preprocessing, the cache, what is said about missing sets, and Table 1."""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.paper import datasets
from experiments.paper.datasets import BUNDLED, SOURCES, PaperRow, Prepared, Source, source_of
from experiments.paper.formats import LAYOUTS, FloatArray
from experiments.paper.table_one import markdown, rich_table, table_rows

SHARED = Path(__file__).parents[3] / "shared" / "data"
WHOLE = ("covertype", "kdd-protein", "ijcnn1")
PAPER = [source for source in SOURCES if not source.subset]


@pytest.fixture
def spoken() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(spoken: io.StringIO) -> Console:
    return Console(file=spoken, width=60)


def song_rows(seed: int = 0, rows: int = 80) -> FloatArray:
    return np.round(np.random.default_rng(seed).normal(size=(rows, 90)) * 10.0 + 3.0, 2)


def write_song(directory: Path, seed: int = 0) -> Path:
    path = directory / "YearPredictionMSD.txt"
    path.write_text("".join("2001," + ",".join(map(str, row)) + "\n" for row in song_rows(seed).tolist()))
    return path


def prepare_song(directory: Path, console: Console) -> Prepared:
    data = datasets.prepare(source_of("song"), [directory], directory / "cache", console, check_rows=False)
    assert data is not None
    return data


def preprocess_by_hand(raw: list[list[float]]) -> tuple[list[list[float]], float, float]:
    """Row by row in exact sums: centered rows that are left, largest norm, mean square."""

    def centered(rows: list[list[float]]) -> list[list[float]]:
        means = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        return [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]

    rows = centered(raw)
    norms = [math.sqrt(math.fsum(value * value for value in row)) for row in rows]
    position = 0.975 * (len(rows) - 1)
    low, high = (sorted(norms)[index] for index in (math.floor(position), math.ceil(position)))
    limit = low + (position - math.floor(position)) * (high - low)
    rows = centered([row for row, norm in zip(rows, norms, strict=True) if norm < limit])
    squares = [math.fsum(value * value for value in row) for row in rows]
    return rows, math.sqrt(max(squares)), math.fsum(squares) / len(squares)


@pytest.mark.parametrize("n_rows", [3, 40, 41, 200, 333])
def test_preprocessing_agrees_with_the_same_done_row_by_row(n_rows: int) -> None:
    raw = np.random.default_rng(n_rows).gamma(1.0, 5.0, size=(n_rows, 4))
    made = datasets.preprocess(raw)
    rows, radius, mean_square = preprocess_by_hand(raw.tolist())
    assert (made.n, made.d) == made.rows.shape == (len(rows), 4)
    assert made.rows.dtype == np.float32
    assert made.rows.flags.c_contiguous
    np.testing.assert_allclose(made.rows, rows, rtol=1e-6, atol=1e-6)
    assert made.radius == pytest.approx(radius, rel=1e-13)
    assert made.mean_square == pytest.approx(mean_square, rel=1e-13)


def test_a_set_is_read_once_and_then_mapped_from_the_cache(
    tmp_path: Path, console: Console, spoken: io.StringIO
) -> None:
    write_song(tmp_path)
    first, second = (prepare_song(tmp_path, console) for _ in range(2))
    assert spoken.getvalue().count("reading and preprocessing") == 1
    made = datasets.preprocess(song_rows())
    for data in (first, second):
        assert isinstance(data.rows, np.memmap)
        assert not data.rows.flags.writeable
        np.testing.assert_array_equal(data.rows, made.rows)
        assert (data.n, data.d, data.radius, data.mean_square) == (made.n, made.d, made.radius, made.mean_square)
        assert data.fingerprint == datasets.fingerprint_of(made.rows)


@pytest.mark.parametrize("change", ["content", "time"])
def test_a_set_is_read_again_when_its_raw_file_changed(
    change: str, tmp_path: Path, console: Console, spoken: io.StringIO
) -> None:
    path = write_song(tmp_path)
    first = prepare_song(tmp_path, console)
    time = path.stat().st_mtime_ns
    if change == "content":
        path.write_text(path.read_text() + path.read_text())
        os.utime(path, ns=(time, time))
    else:
        write_song(tmp_path, seed=1)
        os.utime(path, ns=(time, time + 1))
    second = prepare_song(tmp_path, console)
    assert spoken.getvalue().count("reading and preprocessing") == 2
    assert second.fingerprint != first.fingerprint


@pytest.mark.parametrize("break_it", ["rows cut", "facts gone", "other format", "other shape"])
def test_a_broken_cache_is_made_again(break_it: str, tmp_path: Path, console: Console, spoken: io.StringIO) -> None:
    write_song(tmp_path)
    first = prepare_song(tmp_path, console)
    expected = np.array(first.rows)
    rows, facts = (tmp_path / "cache" / f"song.{suffix}" for suffix in ("npy", "json"))
    if break_it.startswith("other"):
        change = {"format": -1} if break_it == "other format" else {"n": first.n + 1}
        facts.write_text(json.dumps(json.loads(facts.read_text()) | change))
    else:
        broken = rows if break_it.startswith("rows") else facts
        content = broken.read_bytes()
        broken.unlink()
        if break_it.endswith("cut"):
            broken.write_bytes(content[: len(content) // 2])
    second = prepare_song(tmp_path, console)
    assert spoken.getvalue().count("reading and preprocessing") == 2
    np.testing.assert_array_equal(second.rows, expected)
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"song.npy", "song.json"}


@pytest.mark.parametrize("source", PAPER, ids=lambda source: source.key)
def test_a_missing_set_is_named_in_one_line_with_its_publisher_file_and_place(
    source: Source, tmp_path: Path, console: Console, spoken: io.StringIO
) -> None:
    assert datasets.load(source, [tmp_path]) is None
    assert datasets.prepare(source, [tmp_path], tmp_path / "cache", console) is None
    said = spoken.getvalue()
    assert said.count("\n") == 1
    assert said.startswith(f"{source.title}: not found")
    assert source.publisher in said
    assert str(tmp_path) in said
    assert all(name in said for layout in LAYOUTS[source.key] for name in layout.files)
    assert not (tmp_path / "cache").exists()


def test_bundled_sample_is_used_if_no_data_set_exists(tmp_path: Path, console: Console, spoken: io.StringIO) -> None:
    (data,) = datasets.present([tmp_path], tmp_path / "cache", console)
    assert data.source.key == BUNDLED
    assert (data.n, data.d) == (29_250, 54)
    said = spoken.getvalue()
    assert said.count("not found") == len(PAPER)
    assert "subset, not the paper's data" in said
    (again,) = datasets.present([], tmp_path / "cache", console, keys=[BUNDLED])
    assert again.fingerprint == data.fingerprint
    assert [row.match for row in table_rows([data])] == ["subset"]


def made_up(source: Source, row: PaperRow) -> Prepared:
    return Prepared(
        source=source,
        rows=np.zeros((1, 1), dtype=np.float32),
        n=int(row.n),
        d=int(row.d),
        radius=float(row.radius),
        mean_square=float(row.mean_square),
        fingerprint="0" * 16,
    )


def test_table_one_marks_subsets_and_missing_sets(console: Console, spoken: io.StringIO) -> None:
    sample, rna = source_of("song-sample"), source_of("rna")
    rows = table_rows([made_up(sample, sample.paper), made_up(rna, rna.paper)])
    assert [row.match for row in rows] == ["subset", "yes"]
    text = markdown(rows)
    assert (
        "| Song sample (25.3 % of rows) | 502461 | 90 | 7507.16 | 6769375.49 | 502461 | 90 | 7507.16 | 6769375.49"
        " | subset, not the paper's data |"
    ) in text
    assert "Not at hand: KDD-Protein, Song, Covertype, Ijcnn1, Pose, MiniBooNE, FMA." in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    wide = Console(file=spoken, width=200)
    wide.print(rich_table(rows))
    assert "subset, not the paper's data" in spoken.getvalue()
    assert "Not at hand: KDD-Protein, Song," in spoken.getvalue()


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no data sets beside the checkout: Table 1 is not measured")
@pytest.mark.parametrize("key", WHOLE)
def test_a_whole_set_of_the_paper_gives_its_row_of_table_one(key: str, tmp_path: Path, console: Console) -> None:
    if not (SHARED / f"{key}.parquet").is_file():
        pytest.skip(f"{key}.parquet is not beside the checkout")
    data = datasets.present([SHARED], tmp_path, console, keys=[key])
    (row,) = table_rows(data)
    assert row.measured == row.paper
    assert row.match == "yes"
