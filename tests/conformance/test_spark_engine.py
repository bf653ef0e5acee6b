"""Spark frames: the sample and the survey of rows in memory, whatever the partitions; each verb evaluates once."""

from __future__ import annotations

import base64
import logging
import math
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, CoresetRule, DataError, DPKMeans, UniformRule
from pais._base.randomness import BitSource, StreamBits, bit_source
from pais.data.engines import Block, Engine, Fold, Thinning, WeightedRows
from pais.data.sources import source
from tests.conftest import SPARK

pytestmark = SPARK

Floats = NDArray[np.float64]
N, D = 3000, 4
RADIUS = 4.0
BALL = Ball(radius=RADIUS, center=(0.1, -0.2, 0.0, 0.3))
RULE = CoresetRule(sample_size=400.0, n_rows=N, mean_square_norm=4.0, radius=RADIUS)
FEATURES = tuple(f"x.{j}" for j in range(D))  # a dot means a struct to Spark, unless the name is quoted
CANARY = 1234.5678


def rows() -> Floats:
    """Rows in and out of the ball, some of them alike."""
    rng = np.random.default_rng(3)
    found = rng.standard_normal((N, D)) * rng.uniform(0.1, 2.0, (N, 1))
    found[10:40] = found[9]
    return found


def table(found: Floats | None = None) -> pa.Table:
    found = rows() if found is None else found
    columns = {f"x.{j}": found[:, j] for j in range(found.shape[1])}
    return pa.table({**columns, "label": [f"r{i}" for i in range(len(found))], "id": np.arange(len(found))})


@pytest.fixture(scope="module", autouse=True)
def sent_whole(spark: Any) -> Iterator[None]:
    """Workers do not know this module, so what it defines goes to them as it is."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(table()).repartition(4)


def mixed(frame: Any, partitions: int) -> Any:
    """The same rows in other partitions and another order."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.orderBy(F.rand(partitions)).repartition(partitions)


def kept(engine: Engine, bits: BitSource, rule: pais.Rule = RULE, ball: Ball = BALL) -> WeightedRows:
    return engine.thin(Thinning(ball=ball, rule=rule), bits)


def in_order(found: WeightedRows) -> Floats:
    """Rows and weights in an order of their own."""
    whole = np.column_stack([found.rows, found.weights])
    return whole[np.lexsort(whole.T)]


class Rows(Fold):
    """How many."""

    def of(self, block: Block) -> NDArray[np.int64]:
        return np.array([block.n_rows])


class Norms(Fold):
    """How many have a norm, which rows that are not finite have not."""

    def of(self, block: Block) -> NDArray[np.int64]:
        return np.array([block.norms(Ball(radius=1.0)).size])


def in_memory() -> Engine:
    return source(table(), columns=FEATURES, key="id")


# -- the same as in memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_a_seed_and_a_key_draw_the_same_sample_as_in_memory(frame: Any, partitions: int) -> None:
    engine = source(mixed(frame, partitions), columns=FEATURES, key="id")
    assert np.array_equal(in_order(kept(engine, bit_source(5))), in_order(kept(in_memory(), bit_source(5))))


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_seeded_survey_is_the_same_to_the_bit_as_in_memory(frame: Any, partitions: int) -> None:
    engine = source(mixed(frame, partitions), columns=FEATURES)
    expected, found = (pais.survey(one, epsilon=1.0, random_state=3) for one in (in_memory(), engine))
    assert found.ball == expected.ball
    assert np.array_equal(found.norms.masses, expected.norms.masses)


def test_without_a_key_a_seed_draws_the_same_sample_from_any_partitions(frame: Any, spark: Any) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    samples = []
    for partitions in (1, 3, 8):
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        engine = source(mixed(frame, partitions), columns=FEATURES, carry=["label"])
        found = kept(engine, bit_source(5))
        assert found.carried is not None
        samples.append((in_order(found).tolist(), sorted(found.carried.column("label").to_pylist())))
    spark.conf.set("spark.sql.shuffle.partitions", before)
    assert samples[0] == samples[1] == samples[2]
    assert samples[0][0] != in_order(kept(engine, bit_source(6))).tolist()


def test_equal_rows_are_drawn_independently_of_each_other(spark: Any) -> None:
    n, rate = 4000, 0.3
    deviation = math.sqrt(n * rate * (1.0 - rate))
    zeros = spark.range(n, numPartitions=3).selectExpr("1.5d as a", "if(id % 2 = 0, 0.0d, -0.0d) as b")
    sizes = [
        len(kept(source(zeros), bit_source(seed), UniformRule(rate=rate), Ball(radius=RADIUS)).rows)
        for seed in range(4)
    ]
    assert all(abs(size - n * rate) < 5.0 * deviation for size in sizes)
    assert not any(abs(size - n * 1.25 * rate) < 5.0 * deviation for size in sizes)
    assert len(set(sizes)) > 1


def test_the_two_zeros_make_equal_rows(spark: Any) -> None:
    plain = spark.range(500, numPartitions=3).selectExpr("1.5d as a", "0.0d as b")
    mixed_zeros = spark.range(500, numPartitions=2).selectExpr("1.5d as a", "if(id % 2 = 0, 0.0d, -0.0d) as b")
    as_vectors = source(mixed_zeros.selectExpr("array(a, b) as v"), widths={"v": 2})
    sizes = {
        len(kept(source(one), bit_source(2), UniformRule(rate=0.3), Ball(radius=RADIUS)).rows)
        for one in (plain, mixed_zeros, as_vectors)
    }
    assert len(sizes) == 1


# -- a release -----------------------------------------------------------------------------------------------


def test_a_release_draws_at_the_rates_of_the_rule_and_not_at_others(spark: Any) -> None:
    n = 200_000
    halves = spark.range(n, numPartitions=5).selectExpr("if(id % 2 = 0, 1.0d, 3.0d) as x", "id % 2 as half")
    rule = CoresetRule(sample_size=0.3 * n, n_rows=n, mean_square_norm=5.0, radius=RADIUS)
    engine, ball = source(halves, columns=["x"], carry=["half"]), Ball(radius=RADIUS)
    first, second = (kept(engine, bit_source(None), rule, ball) for _ in range(2))
    for sample in (first, second):
        for norm in (1.0, 3.0):
            rate = float(rule.probability(np.array([norm]))[0])
            size = int(np.count_nonzero(sample.rows[:, 0] == norm))
            deviation = math.sqrt(0.5 * n * rate * (1.0 - rate))
            assert abs(size - 0.5 * n * rate) < 5.0 * deviation
            for wrong in (0.95, 1.05):
                assert abs(size - 0.5 * n * rate * wrong) > 5.0 * deviation
    assert first.weights.shape != second.weights.shape or not np.array_equal(first.rows, second.rows)


def test_partitions_of_one_release_do_not_draw_the_same_bits(spark: Any) -> None:
    places = spark.range(4000, numPartitions=2).selectExpr("1.0d as x", "id % 2000 as place", "id div 2000 as part")
    engine = source(places, columns=["x"], carry=["place", "part"])
    found = kept(engine, bit_source(None), UniformRule(rate=0.5), Ball(radius=RADIUS)).carried
    assert found is not None
    place, part = (found.column(name).to_numpy() for name in ("place", "part"))
    both = np.intersect1d(place[part == 0], place[part == 1])
    assert 350 < len(both) < 650  # independent: a quarter of 2000; the same bits: a half


def test_a_task_that_is_run_again_keeps_the_same_rows(spark: Any) -> None:
    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 1 and context.attemptNumber() == 0:
                raise OSError("the machine is gone")
            yield batch

    steady = spark.range(20_000, numPartitions=2).selectExpr("id / 20000 as x")
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    samples = [
        kept(source(one), StreamBits(bytes(32)), UniformRule(rate=0.2), Ball(radius=RADIUS)).rows.ravel()
        for one in (steady, steady.mapInArrow(failing, "x double"))
    ]
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == before
    assert np.array_equal(np.sort(samples[0]), np.sort(samples[1]))
    assert 3500 < len(samples[0]) < 4500


def test_a_task_that_meets_its_rows_in_another_order_keeps_the_same_rows(spark: Any) -> None:
    tries = spark.sparkContext.accumulator(0)

    def shuffling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        tries.add(1)
        context = TaskContext.get()
        assert context is not None
        met = pa.Table.from_batches(list(batches))
        order = np.random.default_rng().permutation(met.num_rows)  # other bits in every attempt
        yield from met.take(pa.array(order)).to_batches(max_chunksize=700)
        if context.attemptNumber() == 0:
            raise OSError("the machine is gone")

    # Every number occurs twice in its partition, and both partitions have the same ones.
    steady = spark.range(20_000, numPartitions=2).selectExpr("(id % 5000) / 5000 as x", "-0.0d as y")
    shuffled = steady.mapInArrow(shuffling, "x double, y double")
    first, *others = (
        in_order(kept(source(one), StreamBits(bytes(32)), UniformRule(rate=0.2), Ball(radius=RADIUS)))
        for one in (steady, shuffled, shuffled)
    )
    assert 3500 < len(first) < 4500
    assert all(np.array_equal(first, other) for other in others)
    # Only attempts that ended well are counted: the others failed after they had sent everything.
    assert tries.value == 4


@pytest.mark.parametrize("verb", ["fold", "release", "keyed", "numbered"])
def test_a_frame_is_evaluated_once_by_each_verb(spark: Any, verb: str) -> None:
    counted = spark.sparkContext.accumulator(0)

    def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    watched = spark.range(1000, numPartitions=3).mapInArrow(counting, "id long").selectExpr("id * 1.0d as x", "id")
    engine = source(watched, columns=["x"], key="id" if verb == "keyed" else None)
    assert counted.value == 0
    if verb == "fold":
        assert engine.fold(Rows(), seeded=False)[0] == 1000
    else:
        kept(engine, bit_source(None if verb == "release" else 1), UniformRule(rate=0.5), Ball(radius=RADIUS))
    assert counted.value == 1000


def test_a_fit_works_and_its_certificate_says_what_others_say(frame: Any) -> None:
    fitted = DPKMeans(n_clusters=3, epsilon=2.0).fit(frame.select(*[f"`{name}`" for name in FEATURES]))
    other = DPKMeans(n_clusters=3, epsilon=2.0).fit(rows())
    assert fitted.cluster_centers_.shape == (3, D)
    assert fitted.certificate_.epsilon <= 2.0
    assert fitted.certificate_.note == other.certificate_.note == "secure randomness"
    assert vars(fitted.certificate_).keys() == vars(other.certificate_).keys()
    assert tuple(fitted.feature_names_in_) == FEATURES


def test_a_seeded_fit_is_not_called_private_and_has_the_centers_of_rows_in_memory(frame: Any) -> None:
    engine = source(mixed(frame, 3), columns=FEATURES, key="id")
    fitted, other = (DPKMeans(n_clusters=3, epsilon=5.0, random_state=7).fit(one) for one in (engine, in_memory()))
    assert "NOT PRIVATE" in fitted.certificate_.note.upper()
    np.testing.assert_allclose(fitted.cluster_centers_, other.cluster_centers_, atol=1e-9)
    assert fitted.score(engine) == pytest.approx(other.score(in_memory()), rel=1e-9)


# -- columns -------------------------------------------------------------------------------------------------


def test_carried_columns_stay_with_their_rows(frame: Any) -> None:
    engine = source(frame, columns=FEATURES, carry=["label", "id", "x.1"])
    found = kept(engine, bit_source(None), UniformRule(rate=0.2), Ball(radius=1e3))
    assert found.carried is not None
    assert found.carried.column_names == ["label", "id", "x.1"]
    places = found.carried.column("id").to_numpy()
    assert found.carried.column("label").to_pylist() == [f"r{place}" for place in places]
    assert np.array_equal(found.rows, rows()[places])
    assert np.array_equal(found.rows[:, 1], found.carried.column("x.1").to_numpy())


def test_all_kinds_of_numbers_are_taken_and_vectors_have_names(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors

    data = [
        (1, 2, 3.5, 4.5, Decimal("5.25"), True, [1.0, 2.0], Vectors.dense([7.0, 8.0, 9.0])),
        (2, 3, 0.5, -4.5, Decimal("-0.25"), False, [3.0, 4.0], Vectors.sparse(3, {1: 5.0})),
    ]
    casts = {"a": "tinyint", "c": "float", "g": "array<int>"}
    kinds = spark.createDataFrame(data, list("abcdefgh"))
    kinds = kinds.selectExpr(
        *[f"cast({name} as {casts[name]}) {name}" if name in casts else name for name in "abcdefgh"]
    )
    engine = source(kinds, carry=["h"], columns=list("abcdefgh"), widths={"g": 2, "h": 3})
    assert engine.names == ("a", "b", "c", "d", "e", "f", "g[0]", "g[1]", "h[0]", "h[1]", "h[2]")
    found = kept(engine, bit_source(None), UniformRule(rate=1.0), Ball(radius=1e3))
    expected = [
        [1, 2, 3.5, 4.5, 5.25, 1, 1, 2, 7, 8, 9],
        [2, 3, 0.5, -4.5, -0.25, 0, 3, 4, 0, 5, 0],
    ]
    order = np.argsort(found.rows[:, 0])
    assert found.rows[order].tolist() == expected
    assert found.carried is not None
    assert found.carried.take(pa.array(order)).column("h").to_pylist() == [[7.0, 8.0, 9.0], [0.0, 5.0, 0.0]]


def test_columns_of_any_make_are_carried(spark: Any) -> None:
    frame = spark.sql(
        "select 1.0d as x, struct(1 as a, array(struct('b' as c)) as d) as s, map('k', struct(2 as e)) as m, "
        "date'2020-01-02' as t, X'00ff' as y, cast(null as string) as z"
    )
    found = kept(
        source(frame, columns=["x"], carry=list("smtyz")), bit_source(1), UniformRule(rate=1.0), Ball(radius=9)
    )
    assert found.carried is not None
    row = found.carried.to_pylist()[0]
    assert row["s"] == {"a": 1, "d": [{"c": "b"}]}
    assert row["m"] == [("k", {"e": 2})]
    assert (str(row["t"]), row["y"], row["z"]) == ("2020-01-02", b"\x00\xff", None)


def test_a_column_of_vectors_alone_draws_the_same_sample_as_in_memory(frame: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    assembled = VectorAssembler(inputCols=[f"y{j}" for j in range(D)], outputCol="v").transform(
        frame.toDF(*[f"y{j}" for j in range(D)], "label", "id")
    )
    found = kept(source(assembled, columns=["v"], key="id"), bit_source(5))
    assert np.array_equal(in_order(found), in_order(kept(in_memory(), bit_source(5))))


@pytest.mark.parametrize("column", ["label", "day", "parts", "words"])
def test_a_column_that_is_no_number_is_refused_by_name(spark: Any, column: str) -> None:
    frame = spark.sql("select 1.0d as x, 'a' as label, current_date() as day, struct(1) as parts, array('b') as words")
    with pytest.raises(DataError, match=rf"column\(s\) '{column}' \(type \w+\) of the source hold no numbers"):
        source(frame.select("x", column))


def test_columns_that_do_not_exist_or_are_there_twice_are_refused(spark: Any) -> None:
    twice = spark.sql("select 1.0d as x, 2.0d as x, 3.0d as y, 4.0d as Y")
    with pytest.raises(DataError, match="z do not exist"):
        source(twice, columns=["z"])
    with pytest.raises(DataError, match="x are in the source more than once"):
        source(twice)
    with pytest.raises(DataError, match="'y' of the source holds no whole numbers"):
        source(twice, columns=["Y"], key="y")
    found = kept(source(twice, columns=["Y", "y"]), bit_source(None), UniformRule(rate=1.0), Ball(radius=1e3))
    assert found.rows.tolist() == [[4.0, 3.0]]


def test_missing_values_are_dropped_or_an_error_by_column(spark: Any) -> None:
    holes = spark.range(100, numPartitions=2).selectExpr(
        "if(id % 10 = 3, null, id * 1.0d) as x",
        "if(id % 10 = 4, null, array(id * 1.0d, if(id % 10 = 5, null, 1.0d))) as v",
        "id",
    )
    vector = "'v\\[0\\]', 'v\\[1\\]'"
    for columns, names, left in ((["x"], "'x'", 90), (["v"], vector, 80), (["x", "v"], f"'x', {vector}", 70)):
        widths = {"v": 2} if "v" in columns else {}
        with pytest.raises(DataError, match=rf"column\(s\) {names} have values that are missing"):
            source(holes, columns=columns, widths=widths, missing="error")
        engine = source(holes, columns=columns, widths=widths, key="id")
        assert engine.fold(Norms(), seeded=False)[0] == left
        assert len(kept(engine, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == left
        unkeyed = source(holes, columns=columns, widths=widths)
        assert len(kept(unkeyed, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == left
    without = spark.sql("select 1.0d as x, cast(null as long) as id")
    with pytest.raises(DataError, match=r"column 'id' .*missing values"):
        source(without, key="id", missing="error")
    assert len(kept(source(without, key="id"), bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == 0


def test_vectors_of_another_length_are_dropped(spark: Any) -> None:
    ragged = spark.range(10, numPartitions=2).selectExpr("if(id = 7, array(1.0d), array(1.0d, 2.0d)) as v")
    assert source(ragged, widths={"v": 2}).fold(Norms(), seeded=False)[0] == 9
    with pytest.raises(DataError, match="'v"):
        source(ragged, widths={"v": 2}, missing="error")


def test_a_frame_without_rows_is_an_empty_table(spark: Any) -> None:
    empty = spark.range(0).selectExpr("id * 1.0d as x", "array(id * 1.0d) as v")
    assert source(empty, columns=["x"]).fold(Rows(), seeded=False)[0] == 0
    found = kept(source(empty, columns=["x"]), bit_source(None), UniformRule(rate=1.0), Ball(radius=1.0))
    assert found.rows.shape == (0, 1)
    vectors = source(empty, columns=["v"], widths={"v": 3})
    assert vectors.fold(Rows(), seeded=False)[0] == 0
    assert kept(vectors, bit_source(1), UniformRule(rate=1.0), Ball(radius=1.0)).rows.shape == (0, 3)


def test_a_sample_may_be_empty(spark: Any) -> None:
    frame = spark.range(5, numPartitions=2).selectExpr("id * 1.0d as x", "id")
    found = kept(source(frame, columns=["x"], carry=["id"]), bit_source(None), UniformRule(rate=1e-9), Ball(radius=1.0))
    assert found.rows.shape == (0, 1)
    assert found.carried is not None
    assert found.carried.num_rows == 0


# -- one row does not decide about others --------------------------------------------------------------------


def every_row(engine: Engine) -> Floats:
    """All finite rows, in an order of their own."""
    found = kept(engine, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e6)).rows
    return found[np.lexsort(found.T)]


def csv_frame(home: Path, text: str, name: str = "rows.csv") -> tuple[Path, Any]:
    from pais.data.engines.spark import read_frame

    path = home / name
    path.write_text(text)
    return path, read_frame(str(path))


@pytest.mark.parametrize("columns", [None, ["a", "b"]])
@pytest.mark.parametrize("more", ["1,0.5", "1,word", "1,2024-01-02", "1,1 day", "1,", "1,99999999999999999999"])
def test_a_line_of_a_csv_file_does_not_change_the_numbers_of_other_lines(
    spark: Any, tmp_path: Path, more: str, columns: list[str] | None
) -> None:
    lines = "a,b\n" + "1,true\n" * 1000
    alone = source(csv_frame(tmp_path, lines)[1], columns=columns)
    assert alone.fold(Norms(), seeded=False)[0] == 1000
    path, frame = csv_frame(tmp_path, f"{lines}{more}\n")
    engine = source(frame, columns=columns)
    expected = every_row(source(path, columns=columns))
    assert len(expected) >= 1000
    assert engine.fold(Norms(), seeded=False)[0] == len(expected)
    assert np.array_equal(every_row(engine), expected)


CELLS = (
    *("1", "-0", "+1.5", " 2 ", "\t3", ".5", "4.", "1e5", "1E+3", "1e-400", "1e400", "12345678901234567890123"),
    *("true", "FALSE", " True ", "tRUE", "yes", "nan", "inf", "NA", "null", "", '""', '"6"', '" 7"', '"8 ""x"""'),
    *("0x10", "1d", "2f", "1_0", "\u0661", "\u00a01", "$5", "1%", "2024-01-02", "12:30", "P1D", "0.1", "\\9", '"\\"'),
)


@pytest.mark.parametrize("seeded", [True, False])
def test_spark_reads_the_same_numbers_from_a_csv_file_as_arrow(spark: Any, tmp_path: Path, *, seeded: bool) -> None:
    text = "a,b,c\n" + "".join(f"{place},{cell},{cell}\n" for place, cell in enumerate(CELLS)) + "1,2\n1,2,3,4\n"
    path, frame = csv_frame(tmp_path, text)
    one, other = (source(data, columns=["b", "a"]) for data in (path, frame))
    bits = bit_source(1 if seeded else None)
    found = [in_order(kept(engine, bits, UniformRule(rate=1.0), Ball(radius=1e30))) for engine in (one, other)]
    assert len(found[0]) == 17
    assert np.array_equal(found[0], found[1])


def test_the_first_lines_of_a_csv_file_tell_columns_of_numbers_from_text(spark: Any, tmp_path: Path) -> None:
    mostly_numbers = "a,b\n" + "1,2\n" * 30 + "1,word\n" * 20
    assert len(every_row(source(csv_frame(tmp_path, mostly_numbers)[1]))) == 30
    _, frame = csv_frame(tmp_path, "a,b\n" + "1,2\n" * 20 + "1,word\n" * 30)
    with pytest.raises(DataError, match=r"column\(s\) 'b' \(type string\) of the source hold no numbers"):
        source(frame)
    assert len(every_row(source(frame, columns=["b"]))) == 20
    found = kept(source(frame, columns=["a"], carry=["b"]), bit_source(None), UniformRule(rate=1.0), Ball(radius=9.0))
    assert found.carried is not None
    assert sorted(found.carried.column("b").to_pylist()) == ["2"] * 20 + ["word"] * 30


def test_equal_numbers_of_a_csv_file_are_drawn_independently_whatever_their_text(spark: Any, tmp_path: Path) -> None:
    _, frame = csv_frame(tmp_path, "a,b\n" + "1,2\n1.0,2\n1.00,2e0\n+1, 2\n" * 250)
    _, plain = csv_frame(tmp_path, "a,b\n" + "1,2\n" * 1000, "plain.csv")
    rule, ball = UniformRule(rate=0.3), Ball(radius=RADIUS)
    sizes = {len(kept(source(one), bit_source(4), rule, ball).rows) for one in (frame, plain)}
    assert len(sizes) == 1
    assert 220 < sizes.pop() < 380


@pytest.mark.parametrize("first", ["array(1.0d)", "array(1.0d, 2.0d, 3.0d)", "array()", "null"])
def test_a_first_vector_of_another_length_drops_no_other_row(spark: Any, first: str) -> None:
    frame = spark.range(1000, numPartitions=1).selectExpr(
        f"if(id = 0, cast({first} as array<double>), array(1.0d, 2.0d)) as v"
    )
    engine = source(frame, widths={"v": 2})
    assert engine.names == ("v[0]", "v[1]")
    assert engine.fold(Norms(), seeded=False)[0] == 999


def test_vectors_without_a_stated_length_are_refused_before_a_row_is_read(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors

    counted = spark.sparkContext.accumulator(0)

    def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    watched = spark.range(10).mapInArrow(counting, "id long").selectExpr("array(id, id) as `v.1`", "id")
    ml = spark.createDataFrame([(Vectors.dense([1.0, 2.0]),)], ["v.1"])
    for frame in (watched, ml, watched.limit(0)):
        with pytest.raises(DataError, match=r"'v\.1' of the source.* length.*widths=\{'v\.1': 3\}"):
            source(frame)
    source(watched, columns=["v.1"], widths={"v.1": 2})
    source(watched, columns=["id"])
    assert counted.value == 0
    assert every_row(source(ml, widths={"v.1": 2})).tolist() == [[1.0, 2.0]]


def test_widths_must_be_lengths_of_vector_features_that_nothing_else_contradicts(spark: Any, frame: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    plain = frame.toDF(*[f"y{j}" for j in range(D)], "label", "id")
    assembled = VectorAssembler(inputCols=["y0", "y1", "y2"], outputCol="v").transform(plain)
    assert source(assembled, columns=["v"], widths={"v": 3}).n_features == 3
    with pytest.raises(pais.ArgumentError, match=r"widths\['v'\]=4 .* states 3"):
        source(assembled, columns=["v"], widths={"v": 4})
    for name in ("y0", "other"):
        with pytest.raises(pais.ArgumentError, match=rf"'{name}' and .* no feature that holds vectors"):
            source(assembled, columns=["y0", "v"], widths={name: 3})
    for width in (0, -1, 2.5, True, "3"):
        with pytest.raises(pais.ArgumentError, match=r"widths\['v'\]"):
            source(assembled, columns=["v"], widths={"v": width})  # type: ignore[dict-item]
    with pytest.raises(pais.ArgumentError, match="widths"):
        source(table(), columns=FEATURES, widths={"x.0": 1})


# -- secrets and workers -------------------------------------------------------------------------------------


def told(action: Callable[[], object]) -> str:
    """All that an error says, with everything it keeps of others."""
    with pytest.raises(DataError) as refused:
        action()
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    return "".join(traceback.format_exception(refused.value))


class Quoting(Fold):
    """Fails, and says on what."""

    def of(self, block: Block) -> NDArray[np.int64]:
        raise KeyError(f"no place for {block.rows()}")


def test_no_error_and_no_log_quotes_a_value(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    planted = spark.createDataFrame([(CANARY, f"secret{CANARY}"), (float("nan"), "b")], ["x", "label"])
    texts = [
        told(lambda: source(planted, columns=["x"], missing="error")),
        told(lambda: source(planted.selectExpr("x", "array(x, x) as v"), widths={"v": 2}, missing="error")),
        told(lambda: source(planted, columns=["x"]).fold(Quoting(), seeded=False)),
        told(lambda: source(planted.selectExpr("cast(label as double) as x")).fold(Rows(), seeded=False)),
        told(lambda: source(planted.selectExpr("array(cast(label as double)) as v"))),
        told(
            lambda: source(planted.selectExpr("array(cast(label as double)) as v"), widths={"v": 1}).fold(
                Rows(), seeded=False
            )
        ),
        told(lambda: source(planted, columns=["label"])),
    ]
    printed = capfd.readouterr()
    for text in [*texts, printed.out, printed.err]:
        assert str(CANARY) not in text
        assert "secret" not in text.replace("tests/", "")
    assert "KeyError" in texts[2]


def test_the_log_of_what_is_sent_to_java_does_not_hold_the_bits_of_a_release(frame: Any) -> None:
    key = bytes(range(100, 132))

    class Known(BitSource):
        private = True

        def raw(self, n_bytes: int) -> bytes:
            return key[:n_bytes]

    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("py4j", "py4j.clientserver", "py4j.java_gateway")]
    before = [logger.level for logger in loggers]
    loggers[0].addHandler(handler)
    try:
        for logger in loggers:
            logger.setLevel(logging.DEBUG)
        kept(source(frame, columns=FEATURES), Known())
        frame.count()
    finally:
        loggers[0].removeHandler(handler)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
    # It was listened to, and on any of the three ways in which base64 could show the key.
    assert heard
    parts = [base64.b64encode(key[start : start + 24]).decode() for start in range(3)]
    assert not any(part in text for part in parts for text in heard)


def test_a_worker_with_another_version_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pais.data.engines import spark as module

    monkeypatch.setattr(module, "__version__", "99.0")
    with pytest.raises(DataError, match=rf"workers have pais {pais.__version__}, and here it is pais 99\.0"):
        source(spark.sql("select 1.0d as x")).fold(Rows(), seeded=False)


def test_a_worker_without_this_package_says_so() -> None:
    from pyspark import cloudpickle

    from pais.data.engines.spark import _for_workers, _in_our_words

    sent = cloudpickle.dumps(_for_workers(b"", "1.0"))
    code = f"import sys, pickle; sys.modules['pais'] = None; list(pickle.loads({sent!r})(iter([])))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "workers cannot import pais" in _in_our_words(RuntimeError(done.stderr))


def test_a_rule_that_cannot_be_sent_is_refused(spark: Any) -> None:
    handle = open(sys.executable, "rb")  # noqa: PTH123, SIM115  # anything that cannot be pickled
    rule = pais.FunctionRule(function=lambda norm: np.full_like(norm, 0.5 if handle else 1.0), radius=RADIUS)
    with handle, pytest.raises(pais.ArgumentError, match="cannot be sent to Spark's workers"):
        kept(source(spark.sql("select 1.0d as x")), bit_source(None), rule, Ball(radius=RADIUS))


# -- the stream of bits --------------------------------------------------------------------------------------


def test_a_stream_is_the_same_however_it_is_asked_for_and_differs_by_key_and_context() -> None:
    key = bytes(range(32))
    whole = StreamBits(key, context=b"a").raw(100_000)
    pieces = StreamBits(key, context=b"a")
    assert b"".join(pieces.raw(size) for size in (1, 7, 16_384, 50_000, 33_608)) == whole
    for other in (StreamBits(key), StreamBits(key, context=b"b"), StreamBits(bytes(32), context=b"a")):
        assert other.raw(64) != whole[:64]
    ones = np.unpackbits(np.frombuffer(whole, dtype=np.uint8)).mean()
    assert abs(ones - 0.5) < 5.0 * 0.5 / math.sqrt(800_000)
    assert pickle.loads(pickle.dumps(StreamBits(key, context=b"a"))).raw(9) == whole[:9]
    with pytest.raises(pais.ArgumentError, match="32 bytes"):
        StreamBits(b"short")
