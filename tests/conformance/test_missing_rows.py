"""Rows without a finite number in every feature contribute nothing, in every engine, and empty tables release."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, CoresetRule, DataError, DPKMeans, UniformRule
from pais.data.engines import Engine, arrow
from pais.data.sources import source
from tests.conftest import SPARK

Floats = NDArray[np.float64]
N, D = 900, 4
NAMES = tuple(f"x{j}" for j in range(D))
BALL = Ball(radius=4.0, center=(0.1, -0.2, 0.0, 0.3))
RULE = CoresetRule(sample_size=200.0, n_rows=N, mean_square_norm=4.0, radius=4.0)
HOLE = math.nan
SECRET = "zebra-4711"
SETTINGS = {"n_clusters": 3, "epsilon": 2.0, "delta": 1e-6, "random_state": 4}


def good(dtype: type = np.float64) -> Floats:
    """Rows in and out of the ball; the squares of the last one overflow."""
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((N, D)) * rng.uniform(0.1, 2.0, (N, 1))).astype(dtype)
    rows[-1] = 1e200 if dtype is np.float64 else 1e30
    return rows


def bad(values: tuple[float, ...] = (math.nan, math.inf, -math.inf)) -> Floats:
    """Each value in each column in turn, in rows whose other cells are ordinary numbers, and a row of nothing else."""
    rows = [np.where(np.arange(D) == column, value, 0.5) for value in values for column in range(D)]
    return np.array([*rows, np.full(D, values[0])])


def columns_of(rows: Floats, **more: Any) -> dict[str, Any]:
    return {**{name: rows[:, j] for j, name in enumerate(NAMES)}, **more}


def with_bad(dtype: type = np.float64) -> Floats:
    return np.concatenate([good(dtype), bad().astype(dtype)])


def with_nulls(rows: Floats) -> list[pa.Array]:
    """Columns with null in place of NaN, and infinities as they are."""
    return [pa.array(rows[:, j], mask=np.isnan(rows[:, j])) for j in range(D)]


def arrow_table() -> pa.Table:
    return pa.table(with_nulls(with_bad()), names=NAMES)


def objects() -> pd.DataFrame:
    """Object columns with text, None, dictionaries and complex numbers among the numbers."""
    frame = pd.DataFrame(columns_of(good())).astype(object)
    cells = (SECRET, None, {"a": SECRET}, 1 + 2j, np.complex128(1j), pd.NaT, pd.NA, b"\xff", [1.0, 2.0], "", 10**400)
    extra = pd.DataFrame([[cell if j == i % D else 0.5 for j in range(D)] for i, cell in enumerate(cells)])
    extra.columns = frame.columns
    return pd.concat([frame, extra.astype(object)], ignore_index=True)


def csv_text(lines: list[str], rows: Floats | None = None) -> str:
    rows = good() if rows is None else rows
    body = [",".join(repr(float(cell)) for cell in row) for row in rows]
    return "\n".join([",".join(NAMES), *body, *lines]) + "\n"


BAD_LINES = [
    f"{SECRET},1,2,3",
    ",1,2,3",
    "1,NA,2,3",
    "1,2,nan,3",
    "1,2,3,-inf",
    "1,2,3,1e999",
    "1,2,3",
    "1,2,3,4,5",
    "1,2,0x10,4",
    '1,2,3,"a, quoted"',
    "1,2,2020-01-01,4",
    "1,2,3,1.5.2",
    "1,2,3,é",
    ",,,",
]


def csv_file(home: Path) -> Path:
    (home / "rows.csv").write_bytes(csv_text(BAD_LINES).encode() + b"1,2,3,\xff\xfe\n")
    return home / "rows.csv"


def parquet(home: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, home / "rows.parquet", **options)
    return home / "rows.parquet"


def vectors() -> pa.Table:
    """One column of vectors: with holes, with infinities, and whole vectors that are missing."""
    rows = [[None if np.isnan(cell) else cell for cell in row] for row in with_bad().tolist()]
    return pa.table({"v": pa.array([*rows, None, None], pa.list_(pa.float64(), D))})


def sources(*, dirty: bool) -> dict[str, Callable[[Path], object]]:
    """The same rows in every form, with bad rows behind them or without."""
    rows = with_bad() if dirty else good()
    narrow = with_bad(np.float32) if dirty else good(np.float32)
    table = arrow_table() if dirty else pa.table(columns_of(good()))
    text = objects() if dirty else pd.DataFrame(columns_of(good())).astype(object)
    return {
        "array": lambda _: rows,
        "array by columns": lambda _: np.asfortranarray(rows),
        "array of every other row": lambda _: np.repeat(rows, 2, axis=0)[::2],
        "float32 array": lambda _: narrow,
        "object array": lambda _: text.to_numpy(),
        "nested list": lambda _: rows.tolist(),
        "pandas": lambda _: pd.DataFrame(columns_of(rows)),
        "pandas nullable": lambda _: pd.DataFrame(columns_of(rows)).convert_dtypes(),
        "pandas objects": lambda _: text,
        "polars": lambda _: pl.from_arrow(table),
        "Arrow": lambda _: table,
        "Arrow vectors": lambda _: vectors() if dirty else vectors().slice(0, N),
        "Parquet": lambda home: parquet(home, table, row_group_size=100),
        "Parquet vectors": lambda home: parquet(home, vectors() if dirty else vectors().slice(0, N)),
        "Parquet held": lambda home: source(parquet(home, table)).held(),
        "CSV": lambda home: csv_file(home) if dirty else written(home, csv_text([])),
        "CSV with names": lambda home: source(
            csv_file(home) if dirty else written(home, csv_text([])), columns=list(NAMES)
        ),
    }


def written(home: Path, text: str) -> Path:
    (home / "clean.csv").write_text(text)
    return home / "clean.csv"


FORMS = list(sources(dirty=True))


@pytest.fixture(autouse=True, params=[64, 1 << 17], ids=["small batches", "large batches"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_BATCH_ROWS", request.param)
    monkeypatch.setattr(arrow, "_CSV_BLOCK_BYTES", 80 * request.param)


def sampled(data: object, strategy: str = "auto", ball: Ball = BALL) -> Floats:
    kept = pais.sample(data, ball=ball, rule=RULE, random_state=5, strategy=strategy).spend("a test")  # type: ignore[arg-type]
    whole = np.column_stack([kept.rows, kept.weights])
    return whole[np.lexsort(whole.T)]


def same_survey(one: pais.Survey, other: pais.Survey) -> bool:
    return one.ball == other.ball and np.array_equal(one.norms.masses, other.norms.masses)


# -- bad rows contribute nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_leave_a_seeded_survey_as_it_is(form: str, tmp_path: Path) -> None:
    clean, dirty = (sources(dirty=flag)[form](tmp_path) for flag in (False, True))
    for order in (1.0, 2.0, math.inf):
        one, other = (pais.survey(data, epsilon=1.0, order=order, random_state=3) for data in (clean, dirty))
        assert same_survey(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_are_never_kept_and_leave_a_seeded_sample_as_it_is(form: str, tmp_path: Path) -> None:
    clean, dirty = (sources(dirty=flag)[form](tmp_path) for flag in (False, True))
    for strategy in ("pass", "thin"):
        assert np.array_equal(sampled(clean, strategy), sampled(dirty, strategy))
    for order in (1.0, 3.0, math.inf):
        ball = Ball(radius=4.0, order=order)
        assert np.array_equal(sampled(clean, "pass", ball), sampled(dirty, "pass", ball))
    every = pais.sample(dirty, ball=BALL, rule=UniformRule(rate=1.0)).spend("a test")
    assert every.rows.shape == (N, D)
    assert np.all(np.isfinite(every.rows))


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_leave_a_seeded_fit_as_it_is(form: str, tmp_path: Path) -> None:
    clean, dirty = (sources(dirty=flag)[form](tmp_path) for flag in (False, True))
    one, other = (DPKMeans(**SETTINGS).fit(data) for data in (clean, dirty))
    assert np.array_equal(one.cluster_centers_, other.cluster_centers_)
    assert one.certificate_ == other.certificate_


@pytest.mark.parametrize("form", ["array", "pandas", "polars", "Arrow", "Parquet", "CSV"])
def test_bad_rows_leave_the_score_as_it_is(form: str, tmp_path: Path) -> None:
    rows = good()[:-1]
    table = pa.table(with_nulls(np.concatenate([bad(), rows])), names=NAMES)
    forms: dict[str, Callable[[], object]] = {
        "array": lambda: np.concatenate([bad(), rows]),
        "pandas": table.to_pandas,
        "polars": lambda: pl.from_arrow(table),
        "Arrow": lambda: table,
        "Parquet": lambda: parquet(tmp_path, table, row_group_size=50),
        "CSV": lambda: written(tmp_path, csv_text(BAD_LINES, rows)),
    }
    model = DPKMeans(**SETTINGS).fit(pd.DataFrame(columns_of(rows)))
    expected = model.score(pd.DataFrame(columns_of(rows)))
    dirty = forms[form]()
    assert model.score(pd.DataFrame(dirty, columns=list(NAMES)) if form == "array" else dirty) == pytest.approx(
        expected
    )
    assert pais.cost(dirty, model.cluster_centers_) == pytest.approx(-expected)


@pytest.mark.parametrize("place", [0, 450, N])
def test_bad_rows_anywhere_in_a_table_with_a_key_leave_the_others_as_they_are(place: int, tmp_path: Path) -> None:
    table = pa.table(columns_of(good(), id=np.arange(N)))
    holes = pa.table([*with_nulls(bad()), pa.array(np.arange(len(bad())) + N)], names=[*NAMES, "id"])
    mixed = pa.concat_tables([table.slice(0, place), holes, table.slice(place)])
    parquet(tmp_path, mixed, row_group_size=77)
    pa_csv.write_csv(mixed, tmp_path / "rows.csv")
    clean = source(table, key="id")
    for data in (mixed, mixed.to_pandas(), tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        dirty = source(data, key="id")
        assert np.array_equal(sampled(clean), sampled(dirty))
        assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))


@pytest.mark.parametrize("form", ["Arrow", "pandas", "Parquet", "CSV"])
def test_rows_without_a_key_contribute_nothing(form: str, tmp_path: Path) -> None:
    keys = [None if i % 7 == 3 else i for i in range(N)]
    table = pa.table(columns_of(good(), id=pa.array(keys, pa.int64())))
    clean = source(table.filter(table.column("id").is_valid()), key="id")
    forms: dict[str, Callable[[], object]] = {
        "Arrow": lambda: table,
        "pandas": lambda: table.to_pandas().convert_dtypes(),
        "Parquet": lambda: parquet(tmp_path, table, row_group_size=77),
        "CSV": lambda: pa_csv.write_csv(table, tmp_path / "rows.csv") or tmp_path / "rows.csv",
    }
    dirty = source(forms[form](), key="id")
    assert np.array_equal(sampled(clean), sampled(dirty))
    assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))
    with pytest.raises(DataError, match="id"):
        source(forms[form](), key="id", missing="error")


def test_text_in_a_key_column_of_csv_drops_the_row(tmp_path: Path) -> None:
    table = pa.table(columns_of(good(), id=np.arange(N)))
    pa_csv.write_csv(table, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open("a") as file:
        file.write(f"1,2,3,4,{SECRET}\n1,2,3,4,1.5\n1,2,3,4,99999999999999999999999\n")
    assert np.array_equal(sampled(source(table, key="id")), sampled(source(tmp_path / "rows.csv", key="id")))


def test_carried_columns_stay_beside_their_rows(tmp_path: Path) -> None:
    rows = with_bad()[::-1]
    table = pa.table(with_nulls(rows), names=NAMES).append_column(
        "label", pa.array([f"r{i}" for i in range(len(rows))])
    )
    parquet(tmp_path, table, row_group_size=50)
    pa_csv.write_csv(table, tmp_path / "rows.csv")
    for data in (table, tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        engine = source(data, columns=list(NAMES), carry=["label"])
        kept = pais.sample(engine, ball=Ball(radius=1e90), rule=UniformRule(rate=1.0)).spend("a test")
        assert kept.carried is not None
        labels = [int(label[1:]) for label in kept.carried.column("label").to_pylist()]
        near = np.abs(kept.rows[:, 0]) < 1e80
        assert np.array_equal(kept.rows[near], rows[labels][near])


def test_a_release_with_secure_randomness_takes_bad_rows() -> None:
    for data in (with_bad(), np.asfortranarray(with_bad()), arrow_table()):
        model = DPKMeans(n_clusters=3, epsilon=2.0, delta=1e-6).fit(data)
        assert np.all(np.isfinite(model.cluster_centers_))


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_a_ball_marks_bad_rows_and_leaves_the_others_as_they_are(order: float) -> None:
    ball = Ball(radius=1.0, order=order)
    clean, dirty = ball.shift(good()), ball.shift(with_bad())
    assert np.array_equal(ball.norms(clean), ball.norms(dirty)[:N])
    assert np.all(np.isnan(ball.norms(dirty)[N:]))
    assert np.array_equal(ball.clip(clean), ball.clip(dirty)[:N])
    assert np.all(np.isnan(ball.clip(dirty)[N:]))


# -- missing="error" -----------------------------------------------------------------------------------------


def holed(columns: tuple[int, ...] = (1, 3)) -> Floats:
    rows = good()
    for place, column in enumerate(columns):
        rows[700 + place, column] = (math.nan, math.inf)[place % 2]
    return rows


@pytest.mark.parametrize("spelling", ["error", "refuse"])
@pytest.mark.parametrize("form", ["array", "pandas", "polars", "Arrow", "Parquet", "CSV"])
def test_error_names_all_columns_and_shows_no_value(form: str, spelling: str, tmp_path: Path) -> None:
    table = pa.table(with_nulls(holed()), names=NAMES)
    forms: dict[str, Callable[[], object]] = {
        "array": holed,
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: pl.from_arrow(table),
        "Arrow": lambda: table,
        "Parquet": lambda: parquet(tmp_path, table, row_group_size=50),
        "CSV": lambda: written(tmp_path, csv_text([f"1,{SECRET},2,3"], holed())),
    }
    expected = {"array": r"1, 3", "CSV": "2 from the left, 4 from the left"}.get(form, "'x1', 'x3'")
    with pytest.raises(DataError, match=expected) as refusal:
        source(forms[form](), missing=spelling)
    text = str(refusal.value).replace(str(tmp_path), "")
    assert SECRET not in text
    assert "700" not in text
    assert "x0" not in text
    source(good(), missing=spelling)


def test_an_unknown_way_with_missing_values_is_refused() -> None:
    with pytest.raises(pais.ArgumentError, match="missing='fill'"):
        source(good(), missing="fill")  # type: ignore[arg-type]


# -- which columns hold numbers ------------------------------------------------------------------------------


def test_columns_of_text_are_refused_all_at_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "name": ["a", "b", "c"], "y": [1, 2, 3], "town": [SECRET, "q", 3.5]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for fit in (source, DPKMeans(**SETTINGS).fit):
        with pytest.raises(DataError, match=r"name.*town") as refusal:
            fit(frame)
        assert SECRET not in str(refusal.value)
    with pytest.raises(DataError, match=r"2 from the left.*4 from the left") as refusal:
        source(tmp_path / "rows.csv")
    assert SECRET not in str(refusal.value)


def test_named_columns_of_csv_are_numbers_whatever_their_cells_hold(tmp_path: Path) -> None:
    for cells in (["text", "3"], ["text"] * 5, ["1.5", "text"]):
        (tmp_path / "rows.csv").write_text("\n".join(["x,y", *(f"1,{cell}" for cell in cells)]))
        pais.survey(source(tmp_path / "rows.csv", columns=["x", "y"]), epsilon=1.0)


def test_one_text_cell_in_a_million_does_not_make_a_column_text(tmp_path: Path) -> None:
    lines = [f"{i},{i / 7}" for i in range(2000)]
    for place in (0, 1, 1999):
        dirty = [*lines[:place], "n/k,1", *lines[place:]]
        (tmp_path / "rows.csv").write_text("\n".join(["x,y", *dirty]))
        assert source(tmp_path / "rows.csv").names == ("x", "y")
        pais.survey(tmp_path / "rows.csv", epsilon=1.0)


def test_words_for_truth_are_numbers_in_csv(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,y\ntrue,1\nFALSE,2\n1,3\nperhaps,4\n")
    kept = pais.sample(tmp_path / "rows.csv", ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert sorted(kept.rows.tolist()) == [[0.0, 2.0], [1.0, 1.0], [1.0, 3.0]]


def test_a_csv_cell_has_one_value_whatever_the_other_cells_hold(tmp_path: Path) -> None:
    cells = [
        "1.1",
        " 2.25",
        "3.5\t",
        "+4",
        "-.5",
        "6.",
        "7e-3",
        "0.1234567890123456789",
        "1e-320",
        "12345678901234567890",
    ]
    found = []
    for extra in ([], ["text"]):
        (tmp_path / "rows.csv").write_text("\n".join(["x", *cells, *extra]))
        kept = pais.sample(tmp_path / "rows.csv", ball=Ball(radius=1e90), rule=UniformRule(rate=1.0)).spend("a test")
        found.append(np.sort(kept.rows[:, 0]))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], np.sort([float(cell) for cell in cells]))


# -- empty tables --------------------------------------------------------------------------------------------


def empty_sources(home: Path) -> dict[str, object]:
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    pq.ParquetWriter(home / "none.parquet", schema).close()
    (home / "none.csv").write_text(",".join(NAMES) + "\n")
    (home / "open.csv").write_text(",".join(NAMES))
    (home / "bad.csv").write_text(",".join(NAMES) + "\nx,1,2,3\n1,y,2,3\n")
    return {
        "array": np.empty((0, D)),
        "bad array": bad(),
        "pandas": pd.DataFrame({name: [] for name in NAMES}),
        "pandas without types": pd.DataFrame(columns=list(NAMES)),
        "bad pandas": pd.DataFrame(columns_of(bad())),
        "polars": pl.DataFrame(schema=dict.fromkeys(NAMES, pl.Float64)),
        "Arrow": schema.empty_table(),
        "bad Arrow": pa.table(with_nulls(bad()), names=NAMES),
        "Parquet": home / "none.parquet",
        "Parquet with a key": source(home / "none.parquet", columns=["x1", "x2", "x3"], carry=["x0"]),
        "CSV": home / "none.csv",
        "CSV without a line end": home / "open.csv",
        "CSV of bad rows": source(home / "bad.csv", columns=list(NAMES)),
        "CSV with carried columns": source(home / "none.csv", columns=["x1", "x2"], carry=["x0"]),
    }


EMPTY = [
    "array",
    "bad array",
    "pandas",
    "pandas without types",
    "bad pandas",
    "polars",
    "Arrow",
    "bad Arrow",
    "Parquet",
    "Parquet with a key",
    "CSV",
    "CSV without a line end",
    "CSV of bad rows",
    "CSV with carried columns",
]


def require_release(data: object) -> None:
    """Whatever can be released of rows can be released of none."""
    engine = source(data)
    survey = pais.survey(data, epsilon=0.5)
    assert not survey.above_noise
    ball = Ball(radius=1.0)
    kept = pais.sample(data, ball=ball, rule=UniformRule(rate=0.5)).spend("a test")
    assert kept.rows.shape == (0, engine.n_features)
    assert not pais.survey(engine.held(), epsilon=0.5).above_noise
    noise = pais.GaussianNoise(scale=100.0)
    for mechanism in (
        pais.WeightedCount(noise=noise),
        pais.WeightedSum(noise=noise),
        pais.WeightedMean(count_noise=noise, sum_noise=noise),
    ):
        plan = pais.Plan(ball=ball, rule=UniformRule(rate=0.5), mechanism=mechanism, epsilon=1.0, delta=1e-6)
        value = pais.run(plan, data).value
        assert np.all(np.isfinite(value.noisy_mean if isinstance(value, pais.MeanValue) else value))
    with pytest.warns(pais.SurveyWarning):
        model = DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6).fit(data)
    assert model.cluster_centers_.shape == (2, engine.n_features)
    assert model.score(data) == 0.0
    DPKMeans(n_clusters=2, epsilon=1.0, delta=0.0, mechanism="laplace", radius=1.0).fit(data)


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
@pytest.mark.parametrize("form", EMPTY)
def test_empty_tables_release(form: str, tmp_path: Path) -> None:
    require_release(empty_sources(tmp_path)[form])


def test_tables_without_columns_stay_errors(tmp_path: Path) -> None:
    for data in (np.empty((3, 0)), np.empty((0, 0)), pa.table({}), pd.DataFrame()):
        with pytest.raises(DataError, match="column"):
            source(data)
        with pytest.raises(DataError, match=r"column|feature"):
            DPKMeans(**SETTINGS).fit(data)


# -- predict -------------------------------------------------------------------------------------------------


def test_predict_and_transform_refuse_bad_rows_by_column() -> None:
    frame = pd.DataFrame(columns_of(good()))
    model = DPKMeans(**SETTINGS).fit(frame)
    frame.loc[3, "x2"] = math.nan
    frame["x1"] = frame["x1"].astype(object)
    frame.loc[7, "x1"] = SECRET
    for call in (model.predict, model.transform):
        with pytest.raises(DataError, match="x1, x2") as refusal:
            call(frame)
        assert SECRET not in str(refusal.value)
    assert model.score(frame.iloc[:-1]) == pytest.approx(model.score(frame.drop(index=[3, 7]).iloc[:-1]))


# -- Spark ---------------------------------------------------------------------------------------------------


class TestSpark:
    pytestmark = SPARK

    @pytest.fixture(autouse=True)
    def once(self, batches: None, request: pytest.FixtureRequest) -> None:
        if "small" in request.node.name:
            pytest.skip("Spark has batches of its own")

    def frame(self, spark: Any, *, dirty: bool) -> Any:
        rows = np.concatenate([bad(), good()]) if dirty else good()
        keys = np.arange(len(rows)) + (N - len(rows))
        return spark.createDataFrame(pa.table([*with_nulls(rows), pa.array(keys)], names=[*NAMES, "id"])).repartition(3)

    def test_bad_rows_contribute_nothing(self, spark: Any) -> None:
        clean, dirty = (source(self.frame(spark, dirty=flag), key="id") for flag in (False, True))
        assert np.array_equal(sampled(clean), sampled(dirty))
        assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))
        one, other = (DPKMeans(**SETTINGS).fit(data) for data in (clean, dirty))
        assert np.array_equal(one.cluster_centers_, other.cluster_centers_)
        assert pais.sample(dirty, ball=BALL, rule=UniformRule(rate=1.0)).spend("a test").rows.shape == (N, D)

    def test_bad_rows_without_a_key_contribute_nothing(self, spark: Any) -> None:
        clean, dirty = (source(self.frame(spark, dirty=flag), columns=NAMES) for flag in (False, True))
        assert np.array_equal(sampled(clean), sampled(dirty))

    def test_vectors_of_another_length_or_with_holes_contribute_nothing(self, spark: Any) -> None:
        rows = good().tolist()
        kind = "v array<double>, id long"
        clean = [(row, i) for i, row in enumerate(rows)]
        dirty = [*clean, ([1.0], N), ([1.0] * 9, N + 1), ([], N + 2), (None, N + 3), ([1.0, None, 2.0, 3.0], N + 4)]
        dirty += [([1.0, math.nan, 2.0, 3.0], N + 5)]
        first_dirty = dirty[::-1]
        one, other = (
            source(spark.createDataFrame(data, kind), key="id", widths={"v": D}) for data in (clean, first_dirty)
        )
        assert np.array_equal(sampled(one), sampled(other))
        assert same_survey(*(pais.survey(data, epsilon=1.0, random_state=3) for data in (one, other)))

    def test_rows_without_a_key_contribute_nothing(self, spark: Any) -> None:
        keys = pa.array([None if i % 7 == 3 else i for i in range(N)], pa.int64())
        table = pa.table(columns_of(good(), id=keys))
        clean = source(table.filter(table.column("id").is_valid()), key="id")
        frame = spark.createDataFrame(table)
        dirty = source(frame, key="id")
        assert np.array_equal(sampled(clean), sampled(dirty))
        assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))
        with pytest.raises(DataError, match="id"):
            source(frame, key="id", missing="error")

    def test_error_names_all_columns(self, spark: Any) -> None:
        frame = spark.createDataFrame(pa.table(with_nulls(holed()), names=NAMES))
        with pytest.raises(DataError, match="'x1', 'x3'"):
            source(frame, missing="error")
        source(spark.createDataFrame(pa.table(columns_of(good()))), missing="error")

    @pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
    def test_empty_frames_release(self, spark: Any) -> None:
        schema = ", ".join(f"{name} double" for name in NAMES)
        empty, useless = spark.createDataFrame([], schema), spark.createDataFrame(pa.table(columns_of(bad())))
        require_release(empty)
        require_release(useless)
        engine = source(empty, columns=NAMES[1:], carry=["x0"])
        kept = pais.sample(engine, ball=Ball(radius=1.0), rule=UniformRule(rate=1.0)).spend("a test")
        assert kept.carried is not None
        assert kept.carried.num_rows == 0

    def test_csv_read_by_spark_takes_bad_lines(self, spark: Any, tmp_path: Path) -> None:
        from pais.data.engines.spark import read_frame

        clean, dirty = (source(read_frame(str(sources(dirty=flag)["CSV"](tmp_path)))) for flag in (False, True))
        every = UniformRule(rate=1.0)
        one, other = (pais.sample(engine, ball=BALL, rule=every).spend("a test").rows for engine in (clean, dirty))
        assert isinstance(clean, Engine)
        assert np.array_equal(np.sort(one, axis=0), np.sort(other, axis=0))
