"""Streams of batches: sources that can be read once, errors of the user's code, memory, and imports."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais import Ball, DataError, DPKMeans, DPLinearRegression, Joint, Ledger, NormDistribution, UniformRule
from pais._base.threads import cores
from pais.data.engines.base import Fold
from pais.data.sources import is_streamed, names_of
from tests.conformance.streams import ONCE, STREAMS, lazy, relation, uneven

CANARY = 1234.5678
N = 3000
FACTS: dict[str, Any] = {
    "radius": 8.0,
    "center": (0.0, 0.0),
    "norms": NormDistribution.from_histogram([0.0, 2.0, 8.0], [2000.0, 1000.0]),
}


def table(n: int = N) -> pa.Table:
    rows = np.random.default_rng(2).standard_normal((n, 2)) + np.where(np.arange(n)[:, None] % 2, 3.0, -3.0)
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def model(**options: Any) -> DPKMeans:
    return DPKMeans(n_clusters=2, epsilon=5.0, random_state=1, **options)


# -- sources that can be read once ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ONCE)
@pytest.mark.parametrize(
    "use",
    [
        lambda rows, ledger: model(ledger=ledger).fit(rows),
        lambda rows, ledger: model(ledger=ledger, center=(0.0, 0.0)).fit(rows),
        lambda rows, ledger: model(ledger=ledger, unit="x").fit(rows),
        lambda rows, ledger: pais.survey(rows, epsilon=1.0, ledger=ledger),
        lambda rows, ledger: pais.mean(rows, columns={"x": "auto"}, epsilon=1.0, ledger=ledger),
        lambda rows, ledger: pais.quantile(rows, 0.5, columns={"x": "auto"}, epsilon=1.0, ledger=ledger),
        lambda rows, ledger: DPLinearRegression(target="y", epsilon=1.0, ledger=ledger).fit(rows),
        lambda rows, ledger: pais.source(rows, missing="error"),
    ],
    ids=["fit", "fit with a center", "units", "survey", "mean", "quantile", "regression", "missing"],
)
def test_more_passes_are_refused_before_a_row_is_lost_or_a_ledger_is_charged(
    form: str, use: Callable[[object, Ledger], object]
) -> None:
    rows, ledger = ONCE[form](table()), Ledger(epsilon=10.0, delta=1e-2)
    with pytest.raises(DataError, match="read only once"):
        use(rows, ledger)
    assert ledger.entries == ()
    # The same object still yields all of its rows.
    kept = pais.sample(rows, ball=Ball(radius=99.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert len(kept.weights) == N


@pytest.mark.parametrize("form", ONCE)
def test_single_passes_take_a_source_that_can_be_read_once(form: str) -> None:
    columns = {"x": (-9.0, 9.0), "y": (-9.0, 9.0)}
    mean = pais.mean(ONCE[form](table()), columns=columns, epsilon=1.0, random_state=4)
    assert mean.value.equals(pais.mean(table(), columns=columns, epsilon=1.0, random_state=4).value)
    survey = pais.survey(ONCE[form](table()), epsilon=1.0, center=(0.0, 0.0), random_state=4)
    assert survey.ball == pais.survey(table(), epsilon=1.0, center=(0.0, 0.0), random_state=4).ball
    fitted = model(**FACTS).fit(table())
    assert np.array_equal(fitted.predict(ONCE[form](table())), fitted.predict(table()))
    assert fitted.score(ONCE[form](table())) == pytest.approx(fitted.score(table()), rel=1e-12)


@pytest.mark.parametrize("form", ONCE)
def test_a_source_that_was_read_is_refused(form: str) -> None:
    rows = ONCE[form](table())
    model(**FACTS).fit(rows)
    ledger = Ledger(epsilon=10.0, delta=1e-2)
    with pytest.raises(DataError, match="was read already"):
        model(**FACTS, ledger=ledger).fit(rows)
    engine = pais.source(ONCE[form](table()))
    fitted = model(**FACTS).fit(engine)
    with pytest.raises(DataError, match="was read already"):
        model(**FACTS, ledger=ledger).fit(engine)
    with pytest.raises(DataError, match="was read already"):
        fitted.predict(engine)
    assert ledger.entries == ()


def test_a_mechanism_of_several_passes_is_refused_before_it_is_charged() -> None:
    ledger = Ledger(epsilon=10.0, delta=1e-2)
    part = pais.VectorSum(vectors=lambda rows: rows, bound=8.0, noise=pais.gaussian_noise(40.0), n_features=2)
    both = Joint(parts=(part, part))
    assert both.streams
    plan = pais.Plan(ball=Ball(radius=8.0), rule=UniformRule(rate=1.0), mechanism=both, epsilon=3.0, delta=1e-6)
    with pytest.raises(DataError, match="read only once"):
        pais.run(plan, uneven(table()), ledger=ledger)
    assert ledger.entries == ()


def test_rows_of_a_generator_do_not_outlive_it() -> None:
    batches = uneven(table())
    pais.source(batches)
    ended = weakref.ref(batches)
    del batches
    gc.collect()
    assert ended() is None


def test_iterators_that_cannot_be_remembered_are_refused() -> None:
    with pytest.raises(DataError, match="Pass a function"):
        pais.source(iter(table().to_batches()))


# -- sources that can be read again --------------------------------------------------------------------------


@pytest.mark.parametrize("form", STREAMS)
def test_predict_score_and_names_of_a_stream(form: str) -> None:
    fitted, data = model(**FACTS).fit(table()), STREAMS[form](table())
    assert is_streamed(data)
    assert names_of(data) == ["x", "y"]
    assert np.array_equal(fitted.predict(data), fitted.predict(table()))
    assert fitted.score(data) == pytest.approx(fitted.score(table()), rel=1e-12)
    regression = [DPLinearRegression(target="y", epsilon=9.0, random_state=1).fit(rows) for rows in (table(), data)]
    assert np.array_equal(regression[0].coef_, regression[1].coef_)


def test_only_the_columns_that_are_used_are_computed() -> None:
    broken = pl.col("x").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64)
    frame = lazy(table()).with_columns(other=broken)
    pais.sample(pais.source(frame, columns=["x", "y"]), ball=Ball(radius=1.0), rule=UniformRule(rate=0.1))
    with pytest.raises(DataError, match="the LazyFrame failed"):
        pais.sample(pais.source(frame), ball=Ball(radius=1.0), rule=UniformRule(rate=0.1))


def test_names_with_quotes_are_columns_of_a_relation() -> None:
    odd = relation(table().rename_columns(['a "quoted" name', "select"]))
    kept = pais.sample(odd, ball=Ball(radius=99.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert len(kept.weights) == N


def test_a_relation_leaves_its_connection_free() -> None:
    connection = duckdb.connect()
    connection.register("rows", table())
    rows = connection.sql("SELECT * FROM rows")
    engine = pais.source(rows)
    with pytest.raises(DataError):
        engine.fold(Failing(), seeded=False)
    assert connection.sql("SELECT count(*) FROM rows").fetchall() == [(N,)]
    model(**FACTS).fit(engine)
    assert connection.sql("SELECT count(*) FROM rows").fetchall() == [(N,)]


def test_another_number_of_rows_in_the_next_pass_is_an_error() -> None:
    sizes = itertools.chain([10, 10], itertools.count(2000))
    with pytest.raises(DataError, match="other rows in each pass"):
        pais.mean(lambda: uneven(table(next(sizes))), columns={"x": "auto"}, epsilon=1.0)


def test_a_function_that_returns_the_same_iterator_is_refused() -> None:
    batches = uneven(table())
    with pytest.raises(DataError, match="same iterator"):
        pais.source(lambda: batches)


# -- errors ----------------------------------------------------------------------------------------------------


class Failing(Fold):
    def of(self, block: Any) -> Any:
        raise DataError("a test")


def raising() -> Iterator[pa.RecordBatch]:
    yield from table().to_batches()
    raise ValueError(f"the row of anna: {CANARY}")


def panicking() -> Iterator[pa.RecordBatch]:
    yield from table().to_batches()
    raise pl.exceptions.PanicException(f"the row of anna: {CANARY}")


BROKEN: dict[str, Callable[[], Any]] = {
    "a generator": raising,
    "a function": lambda: raising,
    "polars that panics": panicking,
    "a function that fails": lambda: lambda: 1 / 0,
    "a LazyFrame": lambda: pl.LazyFrame({"x": [str(CANARY), f"anna {CANARY}"]}).with_columns(pl.col("x").cast(float)),
    "a relation": lambda: duckdb.sql(f"SELECT CAST(c AS DOUBLE) x FROM (VALUES ('1'), ('anna {CANARY}')) t(c)"),
    "a reader": lambda: pa.RecordBatchReader.from_batches(table().schema, raising()),
}


@pytest.mark.parametrize("form", BROKEN)
def test_errors_of_the_users_code_are_not_quoted(form: str) -> None:
    ledger = Ledger(epsilon=10.0, delta=1e-2)
    with pytest.raises(DataError, match="The message is hidden") as failure:
        pais.survey(BROKEN[form](), epsilon=1.0, center=(0.0, 0.0)[: 1 if "Lazy" in form or "rel" in form else 2])
    error: BaseException | None = failure.value
    assert error is not None
    assert error.__context__ is None
    assert error.__cause__ is None
    assert str(CANARY) not in str(error)
    assert ledger.entries == ()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_passed_on(kind: type[BaseException]) -> None:
    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from table().to_batches()
        raise kind

    with pytest.raises(kind):
        pais.survey(interrupted(), epsilon=1.0, center=(0.0, 0.0))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([{"x": [1.0]}], "yields objects of type dict"),
        ([table().to_pandas()], "yields pandas frames"),
        ([], "yields no batch"),
        ([pa.table({"x": [1.0]}), pa.table({"x": [1]})], "of type int64 in one batch and of type double"),
        ([pa.table({"x": [1.0]}), pa.table({"y": [1.0]})], "lacks column 'x'"),
        ([pa.table({"x": ["anna"]})], "'x'"),
    ],
)
def test_batches_that_cannot_be_used_are_errors_without_values(batches: list[Any], message: str) -> None:
    for rows in ((batch for batch in batches), lambda: iter(batches)):
        with pytest.raises(DataError, match=message) as failure:
            pais.sample(rows, ball=Ball(radius=1.0), rule=UniformRule(rate=0.1))
        assert "anna" not in str(failure.value)


def test_a_batch_without_values_has_the_type_of_the_others() -> None:
    batches = [pa.table({"x": [1.0]}), pa.table({"x": pa.nulls(3)}), pa.table({"x": [2.0]})]
    kept = pais.sample(lambda: iter(batches), ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert sorted(kept.rows[:, 0]) == [1.0, 2.0]


def test_options_of_csv_files_and_columns_that_do_not_exist_are_refused() -> None:
    with pytest.raises(pais.PaisError):
        pais.source(lazy(table()), separator=";")
    with pytest.raises(DataError, match="z do not exist in the LazyFrame"):
        pais.source(lazy(table()), columns=["z"])


# -- memory and imports --------------------------------------------------------------------------------------


def test_few_batches_are_alive_at_a_time() -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(120):
            batch = pa.RecordBatch.from_pydict({"x": np.full(1 << 15, float(number)), "y": np.zeros(1 << 15)})
            alive.append(weakref.ref(batch.column(0)))
            yield batch
            most = max(most, pa.total_allocated_bytes() - before)

    before = pa.total_allocated_bytes()
    fitted = DPKMeans(n_clusters=2, epsilon=1.0, sample_size=500, random_state=1).fit(batches)
    assert fitted.cluster_centers_.shape == (2, 2)
    # Pieces of 2**15 rows of two columns: three for each thread, one that is taken, and their copies.
    assert most <= 2 * (3 * cores() + 2) * (1 << 15) * 16


@pytest.mark.slow
@pytest.mark.parametrize("form", ["polars", "duckdb"])
def test_memory_does_not_grow_with_the_rows_of_a_query(form: str) -> None:
    """The peak of a fit over 6 million rows of 8 columns, 384 MB, stays far below their size."""
    script = f"""
        import resource
        import numpy as np
        from pais import DPKMeans
        from pais.data.engines import local
        local.MOST_NUMBERS = 1 << 20  # candidates for the sample are tested elsewhere
        if {form == "polars"}:
            import polars as pl
            rows = pl.LazyFrame().select(i=pl.int_range(0, 6_000_000, dtype=pl.Int64))
            rows = rows.select(*((pl.col("i") % (7 + j)).cast(pl.Float64).alias(f"x{{j}}") for j in range(8)))
        else:
            import duckdb
            columns = ", ".join(f"(i % {{7 + j}})::DOUBLE AS x{{j}}" for j in range(8))
            connection = duckdb.connect()
            connection.execute("SET enable_progress_bar = false")
            rows = connection.sql(f"SELECT {{columns}} FROM range(6_000_000) t(i)")
        DPKMeans(n_clusters=2, epsilon=1.0, sample_size=1000, random_state=1).fit(rows.limit(1000))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        DPKMeans(n_clusters=2, epsilon=1.0, sample_size=1000, random_state=1).fit(rows)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    kilobytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert kilobytes < 250_000


def test_neither_polars_nor_duckdb_is_imported() -> None:
    script = """
        import sys
        import pyarrow as pa
        import pais
        pais.source(lambda: iter([pa.record_batch({"x": [1.0]})]))
        pais.source(pa.table({"x": [1.0]}).to_reader())
        print(sorted({"polars", "duckdb", "_duckdb"} & set(sys.modules)))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
