"""Candidates that a survey collects: the sample is that of a pass, memory is bounded, and nothing outlives the fit."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, ConstrainedRule, CoresetRule, DPKMeans, FunctionRule, LinearProfile, Rule, UniformRule
from pais._base.randomness import bit_source
from pais.data.engines import Block, Engine, Fold, Thinning, WeightedRows, sieve
from pais.data.engines.blocks import ColumnBlock, RowBlock
from pais.data.engines.sieve import Sieve
from tests.conformance.streams import STREAMS

Floats = NDArray[np.float64]
N, D, RADIUS = 6000, 3, 4.0
NAMES = ("x", "y", "z")
RULES: dict[str, Rule] = {
    "uniform": UniformRule(rate=0.07),
    "coreset": CoresetRule(sample_size=200.0, n_rows=N, mean_square_norm=4.0, radius=RADIUS),
    "constrained": ConstrainedRule(profile=LinearProfile(0.02, 0.2), radius=RADIUS, epsilon=1.0),
    "dipping": FunctionRule(function=lambda z: 0.05 + 0.3 * np.square(np.sin(3.0 * z)), radius=RADIUS),
    "all": UniformRule(rate=1.0),
}


def rows(n: int = N) -> Floats:
    """Rows in and out of the ball, some equal, some that are not finite."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, D)) * rng.uniform(0.1, 2.0, (n, 1))
    rows[10:40] = rows[9]
    rows[50:60, 1] = np.nan
    rows[60] = np.inf
    return rows


def table(n: int = N) -> pa.Table:
    return pa.table(list(rows(n).T), names=list(NAMES))


def parquet(home: Path, n: int = N) -> Path:
    pq.write_table(table(n), home / "rows.parquet", row_group_size=700)
    return home / "rows.parquet"


class Count(Fold):
    def of(self, block: Block) -> Any:
        return np.array([block.n_rows])


def sample(engine: Engine, rule: Rule, seed: int | None) -> WeightedRows:
    return engine.thin(Thinning(ball=Ball(radius=RADIUS, center=(0.1,) * D), rule=rule), bit_source(seed))


def in_order(kept: WeightedRows) -> Floats:
    whole = np.column_stack([kept.rows, kept.weights])
    return whole[np.lexsort(whole.T)]


def sifted(data: object, seed: int | None, n_rows: float = N, **options: Any) -> tuple[Engine, list[int]]:
    """An engine after the last pass of a survey, and the rows of further passes."""
    reads: list[int] = []
    engine = pais.source(data, on_rows=reads.append, **options).sifting(seed)
    assert engine.fold(engine.sift(Count(), n_rows), seeded=seed is not None).tolist() == [N]
    reads.clear()
    return engine, reads


# -- the sample ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("room", [1 << 24, N * D // 2, N * D // 40, 1])
@pytest.mark.parametrize("form", ["Parquet", *STREAMS])
def test_a_sieve_gives_the_sample_of_a_pass(
    form: str, room: int, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieve, "MOST_NUMBERS", room)
    data = parquet(tmp_path) if form == "Parquet" else STREAMS[form](table())
    engine, reads = sifted(data, 5)
    expected = in_order(sample(pais.source(rows()), RULES[rule], 5))
    assert np.array_equal(in_order(sample(engine, RULES[rule], 5)), expected)
    needed = Thinning(ball=Ball(radius=RADIUS, center=(0.1,) * D), rule=RULES[rule]).screen(D).ceiling
    ceiling = int(min(256.0 * room / (N * D), 256.0)) - 1
    assert sum(reads) == (0 if needed <= ceiling else N)
    # The candidates are used once.
    assert np.array_equal(in_order(sample(engine, RULES[rule], 5)), expected)
    assert sum(reads) == (N if needed <= ceiling else 2 * N)


def test_another_seed_reads_the_rows_again(tmp_path: Path) -> None:
    engine, reads = sifted(parquet(tmp_path), 5)
    expected = in_order(sample(pais.source(rows()), RULES["uniform"], 6))
    assert np.array_equal(in_order(sample(engine, RULES["uniform"], 6)), expected)
    assert sum(reads) == N
    engine, reads = sifted(parquet(tmp_path), 5)
    sample(engine, RULES["uniform"], None)
    assert sum(reads) == N


@pytest.mark.statistical
@pytest.mark.parametrize("room", [1 << 24, N * D // 2])
def test_sifted_rows_are_kept_at_their_rate_and_not_at_another(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieve, "MOST_NUMBERS", room)
    ball, rule, path = Ball(radius=RADIUS, center=(0.1,) * D), RULES["dipping"], parquet(tmp_path)
    finite = rows()[np.isfinite(rows()).all(axis=1)]
    norms = ball.norms(ball.shift(finite))
    draws = 60
    for low, high in [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0 + 1e-9)]:
        inside = (norms >= low) & (norms < high)
        probability = rule.probability(norms[inside])
        counts = []
        for _ in range(draws):
            engine, reads = sifted(path, None)
            kept = ball.norms(sample(engine, rule, None).rows)
            assert not reads
            counts.append(int(np.sum((kept >= low) & (kept < high))))
        mean, deviation = probability.sum(), math.sqrt(np.sum(probability * (1.0 - probability)) / draws)
        assert abs(np.mean(counts) - mean) < 5.0 * deviation
        assert abs(np.mean(counts) - 1.3 * mean) > 5.0 * deviation
        assert len(set(counts)) > 3


# -- a fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Parquet", *STREAMS])
@pytest.mark.parametrize("seed", [3, None])
def test_a_default_fit_reads_the_rows_no_more_often_than_its_survey(
    form: str, seed: int | None, tmp_path: Path
) -> None:
    reads: list[int] = []
    data = parquet(tmp_path) if form == "Parquet" else STREAMS[form](table())
    engine = pais.source(data, on_rows=reads.append)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=3.0)
    fit = pais.private_kmeans(engine, settings, random_state=seed)
    assert sum(reads) == settings.survey_passes * N
    if seed is not None:
        expected = pais.private_kmeans(rows(), settings, random_state=seed)
        assert np.array_equal(fit.value.centers, expected.value.centers)


def test_candidates_do_not_outlive_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pais.source(parquet(tmp_path))
    DPKMeans(n_clusters=2, epsilon=3.0).fit(engine)
    monkeypatch.setattr("pais.pipeline.run", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        DPKMeans(n_clusters=2, epsilon=3.0).fit(engine)
    gc.collect()
    assert getattr(engine, "_sieve", None) is None
    assert not [kept for kept in gc.get_objects() if isinstance(kept, Sieve)]


def test_no_sieve_where_it_saves_nothing_or_cannot_be_used(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n")
    for data, options in [
        (rows(), {}),
        (path, {"columns": ["x", "y"], "carry": ["z"]}),
        (tmp_path / "rows.csv", {}),
    ]:
        engine: Any = pais.source(data, **options)
        assert engine.sifting(4) is engine
    assert pais.source(path).sifting(np.random.default_rng(1))._sieve is None  # type: ignore[attr-defined]
    assert pais.source(tmp_path / "rows.csv").sifting(None)._sieve is not None  # type: ignore[attr-defined]


def test_another_schema_reads_the_rows_again(tmp_path: Path) -> None:
    columns = {"x": "auto", "y": (-3.0, 3.0), "z": (-3.0, 3.0)}
    engine, reads = sifted(parquet(tmp_path), 5, columns=columns)
    assert engine.schema is not None
    resolved = engine.with_schema(engine.schema.resolved({"x": (0.0, 1.0)}))
    expected = sample(pais.source(table(), columns=resolved.schema), RULES["uniform"], 5)
    assert np.array_equal(in_order(sample(resolved, RULES["uniform"], 5)), in_order(expected))
    assert sum(reads) == N


# -- memory ----------------------------------------------------------------------------------------------------


def block(n: int, *, finite: bool, by_rows: bool) -> Block:
    numbers, identity = np.full((n, D), 1.0 if finite else np.nan), np.arange(n, dtype=np.uint64)
    return RowBlock(numbers, identity) if by_rows else ColumnBlock(list(np.asfortranarray(numbers).T), identity)


@pytest.mark.parametrize("by_rows", [True, False])
def test_rows_that_are_not_finite_are_not_held(by_rows: bool) -> None:
    kept = Sieve.of(None)
    assert kept is not None
    kept.through(Count(), n_rows=10.0, n_features=D, schema=None).of(block(100_000, finite=False, by_rows=by_rows))
    assert sum(held.n_rows for held, _ in kept._held) == 0


@pytest.mark.parametrize("by_rows", [True, False])
def test_more_rows_than_expected_are_dropped(by_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sieve, "MOST_NUMBERS", 3000)
    kept = Sieve.of(None)
    assert kept is not None
    fold = kept.through(Count(), n_rows=10.0, n_features=D, schema=None)
    for _ in range(30):
        fold.of(block(500, finite=True, by_rows=by_rows))
        assert sum(held.n_rows for held, _ in kept._held) <= 2 * 1000
    thinning = Thinning(ball=Ball(radius=9.0), rule=UniformRule(rate=0.001))
    assert kept.thinned(thinning, kept._draws, D, None) is None


@pytest.mark.parametrize("n", [7936, 8000, 8064])
def test_no_draw_decides_whether_candidates_are_dropped(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise a sample from candidates would be one that has few of them, and its draws would not be independent.
    monkeypatch.setattr(sieve, "MOST_NUMBERS", 1000 * D)
    thinning = Thinning(ball=Ball(radius=9.0), rule=UniformRule(rate=0.2))
    was_dropped = set()
    for _ in range(40):
        kept = Sieve.of(None)
        assert kept is not None
        # One row in four is a candidate, which gives 2000 candidates on average if there are 8000 rows.
        fold = kept.through(Count(), n_rows=4000.0, n_features=D, schema=None)
        for _ in range(4):
            fold.of(block(n // 4, finite=True, by_rows=True))
        was_dropped.add(kept.thinned(thinning, kept._draws, D, None) is None)
    assert was_dropped == {n > 8000}


@pytest.mark.parametrize("n_rows", [1e3, 1e6, 1e7, 1e8, 1e9, 1e10, 0.0, -5.0])
def test_the_expected_candidates_fit_into_the_room(n_rows: float) -> None:
    kept = Sieve.of(None)
    assert kept is not None
    fold = kept.through(Count(), n_rows=n_rows, n_features=16, schema=None)
    assert isinstance(fold, Count) == (kept._ceiling < 0)
    assert n_rows * 16 * (kept._ceiling + 1) / 256 <= sieve.MOST_NUMBERS
    assert kept._ceiling <= 255
