"""Every engine, whatever the rows are stored in: the same verbs, the same sample, the same survey."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, ConstrainedRule, CoresetRule, DPKMeans, FunctionRule, LinearProfile, Rule, UniformRule
from pais._base.lattice import IntArray
from pais._base.randomness import BitSource, bit_source
from pais.data.engines.base import Engine, Fold, WeightedRows
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.data.sources import source
from tests.conformance.streams import STREAMS, function

pytestmark = pytest.mark.usefixtures("batches")

Floats = NDArray[np.float64]
N, D = 5000, 6
RADIUS = 4.0

CENTER = tuple(np.linspace(-0.5, 0.5, D).tolist())
BALLS = {
    "at the origin": Ball(radius=RADIUS),
    "shifted": Ball(radius=RADIUS, center=CENTER),
    "l1": Ball(radius=RADIUS, order=1.0, center=CENTER),
    "l3": Ball(radius=RADIUS, order=3.0),
    "largest coordinate": Ball(radius=RADIUS, order=math.inf),
}
RULES: dict[str, Rule] = {
    "uniform": UniformRule(rate=0.07),
    "nearly all": UniformRule(rate=0.97),
    "coreset": CoresetRule(sample_size=200.0, n_rows=N, mean_square_norm=4.0, radius=RADIUS),
    "constrained": ConstrainedRule(profile=LinearProfile(0.02, 0.2), radius=RADIUS, epsilon=1.0),
    "dipping": FunctionRule(function=lambda z: 0.05 + 0.3 * np.square(np.sin(3.0 * z)), radius=RADIUS),
}


def rows(n: int = N) -> Floats:
    """Rows in and out of the ball, some of them alike, one at the origin, one huge."""
    rng = np.random.default_rng(3)
    found = rng.standard_normal((n, D)) * rng.uniform(0.1, 2.0, (n, 1))
    found[10:40] = found[9]
    found[50] = 0.0
    found[60] = 1e200
    return found


def calm() -> Floats:
    """The same without the huge row: no ball clips them."""
    found = rows()
    found[60] = 1.0
    return found


def table(found: Floats | None = None) -> pa.Table:
    found = rows() if found is None else found
    columns = {f"x{j}": found[:, j] for j in range(found.shape[1])}
    return pa.table({**columns, "label": [f"r{i}" for i in range(len(found))], "place": np.arange(len(found))})


FEATURES = tuple(f"x{j}" for j in range(D))


def parquet(where: Path, whole: pa.Table, *, files: int = 1, group: int = 100_000, **options: object) -> Path:
    """The rows in order, in so many files of so large row groups."""
    where.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(whole.num_rows), files)):
        piece = whole.slice(int(part[0]), len(part)) if len(part) else whole.slice(0, 0)
        pq.write_table(piece, where / f"part-{number:03d}.parquet", row_group_size=group, **options)
    return where


def csv(where: Path, whole: pa.Table, *, files: int = 1) -> Path:
    where.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(whole.num_rows), files)):
        pa_csv.write_csv(whole.slice(int(part[0]), len(part)), where / f"part-{number}.csv")
    return where


def vectors(whole: pa.Table) -> pa.Table:
    """The features as one column of vectors."""
    flat = np.column_stack([whole.column(name).to_numpy() for name in FEATURES]).ravel()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(flat), D)
    return pa.table({"v": lists, "label": whole.column("label"), "place": whole.column("place")})


def opened(data: object, **options: object) -> Engine:
    names = ("v",) if isinstance(data, pa.Table) and "v" in data.column_names else FEATURES
    return source(data, columns=names, **options)  # type: ignore[arg-type]  # options of the test


LAYOUTS: dict[str, Callable[[Path], Engine]] = {
    "an array": lambda _: source(rows()),
    "an array by columns": lambda _: source(np.asfortranarray(rows())),
    "an Arrow table": lambda _: opened(table()),
    "a polars table": lambda _: opened(pl.from_arrow(table())),
    "a table of vectors": lambda _: opened(vectors(table())),
    "a Parquet file": lambda home: opened(parquet(home / "p", table()) / "part-000.parquet"),
    "tiny row groups": lambda home: opened(parquet(home / "p", table(), group=37)),
    "many files": lambda home: opened(parquet(home / "p", table(), files=13, group=111)),
    "a pattern": lambda home: opened(str(parquet(home / "p", table(), files=3) / "part-*.parquet")),
    "a dataset": lambda home: opened(pa_dataset.dataset(str(parquet(home / "p", table(), files=3)))),
    "an address": lambda home: opened(parquet(home / "p", table(), files=2).as_uri()),
    "no dictionary": lambda home: opened(parquet(home / "p", table(), use_dictionary=False, compression="snappy")),
    "vectors in files": lambda home: source(parquet(home / "p", vectors(table()), files=4, group=77), columns=["v"]),
    "a CSV file": lambda home: opened(csv(home / "c", table()) / "part-0.csv"),
    "many CSV files": lambda home: opened(csv(home / "c", table(), files=4)),
    "files held in memory": lambda home: opened(parquet(home / "p", table(), files=5)).held(),
    "CSV files held in memory": lambda home: opened(csv(home / "c", table(), files=2)).held(),
    **{name: lambda _, stream=stream: opened(stream(table())) for name, stream in STREAMS.items()},
    "a stream of vectors": lambda _: source(function(vectors(table())), columns=["v"]),
}


def sorted_rows(kept: WeightedRows) -> tuple[Floats, Floats]:
    order = np.lexsort(kept.rows.T)
    return kept.rows[order], kept.weights[order]


def drawn(engine: Engine, ball: Ball, rule: Rule, seed: int = 5) -> tuple[Floats, Floats]:
    return sorted_rows(pais.sample(engine, ball=ball, rule=rule, random_state=seed).spend("a test"))


# -- the same sample -----------------------------------------------------------------------------------------


@functools.cache
def drawn_in_memory(ball: str, rule: str) -> tuple[Floats, Floats]:
    return drawn(source(rows()), BALLS[ball], RULES[rule])


@functools.cache
def surveyed_in_memory(order: float) -> pais.Survey:
    return pais.survey(source(rows()), epsilon=1.0, order=order, random_state=3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_seed_draws_the_same_rows_and_weights_from_every_layout(layout: str, tmp_path: Path) -> None:
    engine = LAYOUTS[layout](tmp_path)
    for ball, rule in [*(("shifted", rule) for rule in RULES), ("l1", "constrained")]:
        expected, sample = drawn_in_memory(ball, rule), drawn(engine, BALLS[ball], RULES[rule])
        assert np.array_equal(sample[0], expected[0]), (rule, ball)
        assert np.array_equal(sample[1], expected[1]), (rule, ball)


def test_rows_keyed_by_a_column_may_come_in_any_order(tmp_path: Path) -> None:
    whole = table()
    mixed = whole.take(pa.array(np.random.default_rng(1).permutation(N)))
    expected = drawn(source(rows()), BALLS["shifted"], RULES["coreset"])
    streamed = [stream(mixed) for stream in STREAMS.values()]
    for data in (mixed, parquet(tmp_path / "p", mixed, files=3), csv(tmp_path / "c", mixed), *streamed):
        found = drawn(opened(data, key="place"), BALLS["shifted"], RULES["coreset"])
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])


def test_a_fit_is_the_same_to_the_bit_from_every_layout(tmp_path: Path) -> None:
    centers = []
    for number, layout in enumerate(("an array", "many files", "vectors in files", "many CSV files", *STREAMS)):
        (tmp_path / str(number)).mkdir()
        model = DPKMeans(n_clusters=3, epsilon=5.0, random_state=7).fit(LAYOUTS[layout](tmp_path / str(number)))
        centers.append(model.cluster_centers_)
    assert all(np.array_equal(centers[0], other) for other in centers[1:])


# -- the same sums -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_seeded_survey_is_the_same_to_the_bit_from_every_layout(layout: str, tmp_path: Path) -> None:
    engine = LAYOUTS[layout](tmp_path)
    for order in (1.0, 2.0, 3.0):
        expected = surveyed_in_memory(order)
        survey = pais.survey(engine, epsilon=1.0, order=order, random_state=3)
        assert survey.ball == expected.ball
        assert np.array_equal(survey.norms.masses, expected.norms.masses)


class Sums(Fold):
    """Exact sums of the rows by octave, and a count."""

    def __init__(self, ball: Ball) -> None:
        self.ball = ball

    def of(self, block: Block) -> IntArray:
        return np.append(block.octave_sums(self.ball), block.n_rows)


@functools.cache
def summed_in_memory(ball: str) -> IntArray:
    return Sums(BALLS[ball]).of(RowBlock(rows(), np.arange(N, dtype=np.uint64)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fold_reads_every_row_once(layout: str, tmp_path: Path) -> None:
    engine = LAYOUTS[layout](tmp_path)
    for ball in BALLS:
        for seeded in (True, False):
            assert np.array_equal(engine.fold(Sums(BALLS[ball]), seeded=seeded), summed_in_memory(ball)), ball


def test_norms_by_columns_are_never_below_the_exact_norm_and_hardly_above() -> None:
    found = np.vstack([rows(400), 1e-170 * rows(70), 1e-300 * rows(70)])
    block = ColumnBlock(list(np.asfortranarray(found).T), np.arange(len(found), dtype=np.uint64))
    for ball in BALLS.values():
        gap = found if ball.center is None else found - np.asarray(ball.center)
        largest = np.maximum(np.abs(gap).max(axis=1, keepdims=True), 1e-308)
        exact = np.array(
            [float(np.linalg.norm(g / s, ord=ball.order) * s[0]) for g, s in zip(gap, largest, strict=True)]
        )
        exact = np.minimum(exact, ball.radius)
        norm = block.all_norms(ball)
        norm = norm[~np.isnan(norm)]
        assert np.all(norm >= exact * (1.0 - 1e-15))
        np.testing.assert_allclose(norm, exact, rtol=1e-13, atol=2e-150)


@pytest.mark.parametrize("layout", ["an array", "many files", "many CSV files", "vectors in files"])
def test_the_cost_of_centers_is_that_of_the_distances(layout: str, tmp_path: Path) -> None:
    finite = np.delete(rows(), 60, axis=0)
    centers = finite[:7]
    gap = finite[:, None, :] - centers[None, :, :]
    expected = float(np.square(gap).sum(axis=2).min(axis=1).sum())
    homes = {
        "an array": lambda: source(finite),
        "many files": lambda: opened(parquet(tmp_path / "p", table(finite), files=5)),
        "many CSV files": lambda: opened(csv(tmp_path / "c", table(finite), files=3)),
        "vectors in files": lambda: source(parquet(tmp_path / "p", vectors(table(finite))), columns=["v"]),
    }
    assert pais.cost(homes[layout](), centers) == pytest.approx(expected, rel=1e-9)


# -- a release -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout", ["an array", "tiny row groups", "many files", "many CSV files", "vectors in files", *STREAMS]
)
def test_a_release_draws_every_row_at_its_rate_and_not_at_another(layout: str, tmp_path: Path) -> None:
    engine, rule, ball = LAYOUTS[layout](tmp_path), RULES["coreset"], BALLS["shifted"]
    probability = rule.probability(ball.norms(ball.shift(rows())))
    draws = 15
    sizes = [len(pais.sample(engine, ball=ball, rule=rule).spend("a test").weights) for _ in range(draws)]
    mean, deviation = probability.sum(), math.sqrt(np.sum(probability * (1.0 - probability)) / draws)
    assert abs(np.mean(sizes) - mean) < 5.0 * deviation
    assert abs(np.mean(sizes) - 1.2 * mean) > 5.0 * deviation
    assert len(set(sizes)) > 3


class Marked(BitSource):
    """Secure bits that record each request."""

    private = True

    def __init__(self) -> None:
        self._inner = bit_source(None)
        self.served = 0

    def raw(self, n_bytes: int) -> bytes:
        self.served += n_bytes
        return self._inner.raw(n_bytes)


@pytest.mark.parametrize("layout", ["an array", "many files", "a CSV file", *STREAMS])
def test_every_row_of_a_release_has_fresh_bits(layout: str, tmp_path: Path) -> None:
    bits = Marked()
    pais.sample(LAYOUTS[layout](tmp_path), ball=BALLS["shifted"], rule=RULES["uniform"], random_state=bits)
    assert bits.served >= N


# -- columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "parquet", "csv", "held", *STREAMS])
def test_carried_columns_stay_with_their_rows(form: str, tmp_path: Path) -> None:
    homes = {
        "table": lambda: table(calm()),
        "parquet": lambda: parquet(tmp_path / "p", table(calm()), files=4, group=90),
        "csv": lambda: csv(tmp_path / "c", table(calm()), files=2),
        "held": lambda: parquet(tmp_path / "p", table(calm()), files=4),
        **{name: lambda stream=stream: stream(table(calm())) for name, stream in STREAMS.items()},
    }
    engine = opened(homes[form](), carry=["label", "place"])
    engine = engine.held() if form == "held" else engine
    kept = pais.sample(engine, ball=Ball(radius=1e3), rule=UniformRule(rate=0.2), random_state=1).spend("a test")
    assert kept.carried is not None
    assert kept.carried.column_names == ["label", "place"]
    places = kept.carried.column("place").cast(pa.int64()).to_numpy()
    assert kept.carried.column("label").to_pylist() == [f"r{place}" for place in places]
    assert np.array_equal(kept.rows, calm()[places])
    assert 700 < len(places) < 1300


def test_numbers_of_different_kinds_in_the_files_of_one_dataset_are_read_as_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([0.5], pa.float32())}), tmp_path / "b.parquet")
    kept = pais.sample(tmp_path, ball=Ball(radius=9.0), rule=UniformRule(rate=1.0), random_state=0).spend("a test")
    assert sorted(kept.rows[:, 0].tolist()) == [0.5, 1.0, 2.0]


def test_names_and_width_of_a_source_are_public(tmp_path: Path) -> None:
    engine = opened(parquet(tmp_path / "p", table(), files=2))
    assert engine.names == FEATURES
    assert engine.n_features == D
    assert source(parquet(tmp_path / "v", vectors(table())), columns=["v"]).names == tuple(f"v[{j}]" for j in range(D))
    assert str(N) not in repr(engine)


def test_progress_counts_every_row_of_every_pass(tmp_path: Path) -> None:
    seen: list[int] = []
    home = parquet(tmp_path / "p", table(), files=3, group=500)
    engine = source(home, columns=FEATURES, on_rows=seen.append)
    assert engine.known_rows == N
    pais.survey(engine, epsilon=1.0)
    # Few rows are held after the first pass.
    assert sum(seen) == N
