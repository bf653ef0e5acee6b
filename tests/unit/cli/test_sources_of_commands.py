"""The commands over every kind of source: a file, a directory, a pattern, CSV; in memory and streamed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais.cli import show
from pais.data.units import id_concern
from tests.support.commands import RELEASE, done, left_in

N = 6000


def rows() -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.normal(size=(3, 2))[rng.integers(3, size=N)] * 4.0 + rng.normal(size=(N, 2)) * 0.3


def table() -> pa.Table:
    found = rows()
    return pa.table({"a": found[:, 0], "b": found[:, 1], "id": np.arange(N)})


def file(home: Path) -> Path:
    pq.write_table(table(), home / "rows.parquet", row_group_size=1000)
    return home / "rows.parquet"


def directory(home: Path) -> Path:
    (home / "data").mkdir()
    for number in range(4):
        pq.write_table(table().slice(number * 1500, 1500), home / "data" / f"part-{number}.parquet")
    return home / "data"


def pattern(home: Path) -> str:
    pq.write_table(table(), directory(home) / "other.parquet")
    return str(home / "data" / "part-*.parquet")


def csv(home: Path) -> Path:
    pa_csv.write_csv(table(), home / "rows.csv")
    return home / "rows.csv"


SOURCES: dict[str, Callable[[Path], object]] = {"file": file, "directory": directory, "pattern": pattern, "csv": csv}
ENGINES = ("arrow", "auto", "memory", "arrow")


def all_commands(data: object, home: Path, *more: object) -> dict[str, bytes]:
    """Survey, plan, sample and kmeans, and what they wrote."""
    home.mkdir()
    survey, plan = home / "survey.json", home / "plan.json"
    taken = (data, "--columns", "a,b", *more, "--seed", 7)
    clusters = ("--n-clusters", 3, "--epsilon", 1)
    done("survey", *taken, "--epsilon", 0.1, "--out", survey)
    done("plan", "--survey", survey, *clusters, "--out", plan)
    done("sample", *taken, "--carry", "id", "--plan", plan, "--out", home / "sample.parquet")
    done("kmeans", *taken, *clusters, "--survey", survey, "--out", home / "of survey")
    done("kmeans", *taken, *clusters, "--out", home / "out")
    assert left_in(home / "out") == RELEASE
    # Every survey has a random name of its own, with a seed too.
    name = json.loads(survey.read_text())["name"].encode()
    written = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {file: content.replace(name, b"its name") for file, content in written.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    home = tmp_path_factory.mktemp("expected")
    return all_commands(file(home), home / "outputs", "--engine", "memory")


@pytest.mark.parametrize(("kind", "engine"), list(zip(SOURCES, ENGINES, strict=True)))
def test_every_command_gives_the_same_seeded_outputs_from_every_source(
    kind: str, engine: str, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    found = all_commands(SOURCES[kind](tmp_path), tmp_path / engine, "--engine", engine)
    assert found.keys() == expected.keys()
    if kind == "csv":
        # Carried columns of a CSV file are text.
        sample = pq.read_table(tmp_path / engine / "sample.parquet")
        same = pq.read_table(io.BytesIO(expected["sample.parquet"]))
        assert sample.cast(same.schema).equals(same)
        del found["sample.parquet"]
    assert [name for name in found if found[name] != expected[name]] == []


@pytest.mark.parametrize(("kind", "engine"), [("file", "memory"), ("csv", "arrow")])
def test_carried_column_stays_with_its_row_in_random_order(kind: str, engine: str, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "sample.parquet"
    stated = ("--radius", 50, "--norms", "0,3,5,50", "--n-rows", N, "--n-features", 2)
    done(
        "plan", *stated, "--n-clusters", 3, "--epsilon", 1, "--sampling", "uniform", "--sample-size", 900, "--out", plan
    )
    data = SOURCES[kind](tmp_path)
    orders = []
    for _ in range(2):
        taken = ("--columns", "a,b", "--carry", "id", "--engine", engine, "--overwrite")
        result = done("sample", data, "--plan", plan, "--out", out, *taken)
        assert show.SAMPLE_WARNING in result.stderr
        found = pq.read_table(out)
        assert found.column_names == ["a", "b", "weight", "id"]
        place = found["id"].cast(pa.int64()).to_numpy()
        assert np.array_equal(np.column_stack([found["a"].to_numpy(), found["b"].to_numpy()]), rows()[place])
        assert 700 < len(place) < 1100
        orders.append(place)
    # Neither the order of the file, nor its reverse, nor one that the rows themselves tell.
    for place in orders:
        later = np.diff(place) > 0
        assert 0.4 < later.mean() < 0.6
        by_first = np.diff(rows()[place, 0]) > 0
        assert 0.4 < by_first.mean() < 0.6
    both = np.intersect1d(*orders)
    first, second = (place[np.isin(place, both)] for place in orders)
    assert not np.array_equal(first, second)


def test_id_column_warning_without_chosen_columns(tmp_path: Path) -> None:
    data = file(tmp_path)
    for command in (
        ("survey", data, "--epsilon", 1, "--out", tmp_path / "survey.json"),
        ("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out"),
    ):
        found = done(*command, "--overwrite")
        assert "column(s) id look like ids" in found.stderr
        assert found.stderr.count("look like ids") == 1
        assert "a, b, id" in found.stdout
        assert "look like ids" in done(*command, "--overwrite", "--quiet").stderr
        assert "look like ids" not in done(*command, "--columns", "a,b,id", "--overwrite").stderr
    pq.write_table(table().select(["a", "b"]), tmp_path / "plain.parquet")
    assert done("survey", tmp_path / "plain.parquet", "--epsilon", 1).stderr == ""


def test_id_columns_are_recognised_by_name() -> None:
    ids = ["id", "ID", "user_id", "userId", "userID", "patient.id", "index", "key", "row key", "uuid", "Unnamed: 0"]
    others = ["paid", "humid", "body_mass_index", "idle", "keyboard", "monkey", "valid", "a", "", "AID"]
    assert [name for name in [*ids, *others] if id_concern([name])] == ids
