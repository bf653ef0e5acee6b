"""Candidates that a survey collects: the sample is that of a pass, memory is bounded, and nothing outlives the fit."""

from __future__ import annotations

import contextlib
import gc
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, ConstrainedRule, CoresetRule, DPKMeans, FunctionRule, LinearProfile, Rule, UniformRule
from pais._base.randomness import bit_source
from pais.auditing.replay import replay
from pais.data.engines import local
from pais.data.engines.base import Engine, Fold, Sampling, WeightedRows
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.data.engines.local import Candidates
from pais.planning import norm_survey
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
    return engine.sample(Sampling(ball=Ball(radius=RADIUS, center=(0.1,) * D), rule=rule), bit_source(seed))


def in_order(kept: WeightedRows) -> Floats:
    whole = np.column_stack([kept.rows, kept.weights])
    return whole[np.lexsort(whole.T)]


def collected(data: object, seed: int | None, **options: Any) -> tuple[Engine, list[int]]:
    """An engine after the first pass of a survey, and the rows of further passes."""
    reads: list[int] = []
    engine = pais.source(data, on_rows=reads.append, **options).collecting(seed)
    assert engine.collects
    assert engine.fold_and_collect(Count(), seeded=seed is not None).tolist() == [N]
    reads.clear()
    return engine, reads


def limit(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(local, "MOST_NUMBERS", room)
    monkeypatch.setattr(local, "MOST_WHOLE", room)


def ceiling_of(engine: Any) -> int:
    (only,) = engine._candidates
    return int(only._ceiling)


# -- the sample ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("room", [1 << 24, N * D // 2, N * D // 40, 1])
@pytest.mark.parametrize("form", ["Parquet", "a function"])
def test_candidates_give_the_sample_of_a_pass(
    form: str, room: int, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, room)
    data = parquet(tmp_path) if form == "Parquet" else STREAMS[form](table())
    engine, reads = collected(data, 5)
    ceiling = ceiling_of(engine)
    assert (ceiling == 255) == (room > N * D)
    expected = in_order(sample(pais.source(rows()), RULES[rule], 5))
    assert np.array_equal(in_order(sample(engine, RULES[rule], 5)), expected)
    needed = Sampling(ball=Ball(radius=RADIUS, center=(0.1,) * D), rule=RULES[rule]).screen(D).ceiling
    enough = needed <= ceiling
    assert sum(reads) == (0 if enough else N)
    # The candidates are used once.
    assert np.array_equal(in_order(sample(engine, RULES[rule], 5)), expected)
    assert sum(reads) == (N if enough else 2 * N)


def test_two_samples_have_two_sets_of_candidates(tmp_path: Path) -> None:
    reads: list[int] = []
    engine = pais.source(parquet(tmp_path), on_rows=reads.append).collecting(None).collecting(None, stream=4)
    engine.fold_and_collect(Count(), seeded=False)
    first, second = (in_order(sample(engine, RULES["uniform"], None)) for _ in range(2))
    assert sum(reads) == N
    assert first.shape != second.shape or not np.array_equal(first, second)
    for seed, stream in [(5, 0), (5, 4)]:
        engine = pais.source(parquet(tmp_path)).collecting(5).collecting(5, stream=4)
        engine.fold_and_collect(Count(), seeded=True)
        sampling = Sampling(ball=Ball(radius=RADIUS), rule=RULES["uniform"])
        kept, expected = (
            one.sample(sampling, bit_source(seed, stream=stream)) for one in (engine, pais.source(rows()))
        )
        assert np.array_equal(in_order(kept), in_order(expected))


def test_another_seed_reads_the_rows_again(tmp_path: Path) -> None:
    engine, reads = collected(parquet(tmp_path), 5)
    expected = in_order(sample(pais.source(rows()), RULES["uniform"], 6))
    assert np.array_equal(in_order(sample(engine, RULES["uniform"], 6)), expected)
    assert sum(reads) == N
    engine, reads = collected(parquet(tmp_path), 5)
    sample(engine, RULES["uniform"], None)
    assert sum(reads) == N


@pytest.mark.statistical
@pytest.mark.parametrize("room", [1 << 24, N * D // 2])
def test_candidates_are_kept_at_their_rate_and_not_at_another(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, room)
    ball, rule, path = Ball(radius=RADIUS, center=(0.1,) * D), RULES["dipping"], parquet(tmp_path)
    finite = rows()[np.isfinite(rows()).all(axis=1)]
    norms = ball.norms(ball.shift(finite))
    draws, samples = 60, []
    for _ in range(draws):
        engine, reads = collected(path, None)
        samples.append(ball.norms(sample(engine, rule, None).rows))
        assert not reads
    for low, high in [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0 + 1e-9)]:
        inside = (norms >= low) & (norms < high)
        probability = rule.probability(norms[inside])
        counts = [int(np.sum((kept >= low) & (kept < high))) for kept in samples]
        mean, deviation = probability.sum(), math.sqrt(np.sum(probability * (1.0 - probability)) / draws)
        assert abs(np.mean(counts) - mean) < 5.0 * deviation
        assert abs(np.mean(counts) - 1.3 * mean) > 5.0 * deviation
        assert len(set(counts)) > 3


# -- a fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Parquet", "a function"])
@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("center", [None, (0.0,) * D])
def test_a_default_fit_reads_the_rows_once(
    form: str,
    seed: int | None,
    large: bool,
    center: tuple[float, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small sources are held. Of large ones, a sample is; a seeded survey counts all rows, and reads them once more."""
    if large:
        limit(monkeypatch, N * D // 2)
        for name, value in [("_SAMPLED_FROM", N // 2), ("_SAMPLED_NUMBERS", N * D // 5), ("_HELD_NUMBERS", N * D // 2)]:
            monkeypatch.setattr(norm_survey, name, value)
    reads: list[int] = []
    data = parquet(tmp_path) if form == "Parquet" else STREAMS[form](table())
    engine = pais.source(data, on_rows=reads.append)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=3.0, sample_size=100, center=center)
    fit = pais.fit(engine, settings, random_state=seed)
    assert sum(reads) == (2 * N if large and center is None and seed is not None else N)
    if seed is not None:
        expected = pais.fit(rows(), settings, random_state=seed)
        assert np.array_equal(fit.value.centers, expected.value.centers)


def test_candidates_do_not_outlive_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pais.source(parquet(tmp_path))
    DPKMeans(n_clusters=2, epsilon=3.0).fit(engine)
    monkeypatch.setattr("pais.pipeline.run", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        DPKMeans(n_clusters=2, epsilon=3.0).fit(engine)
    gc.collect()
    assert not engine.collects
    assert not [kept for kept in gc.get_objects() if isinstance(kept, Candidates)]


def test_no_candidates_where_they_save_nothing_or_cannot_be_used(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n")
    for data, options in [
        (rows(), {}),
        (path, {"columns": ["x", "y"], "carry": ["z"]}),
        (tmp_path / "rows.csv", {}),
    ]:
        engine: Any = pais.source(data, **options)
        assert engine.collecting(4) is engine
    assert not pais.source(path).collecting(np.random.default_rng(1)).collects
    assert pais.source(tmp_path / "rows.csv").collecting(None).collects


def test_another_schema_reads_the_rows_again(tmp_path: Path) -> None:
    columns = {"x": "auto", "y": (-3.0, 3.0), "z": (-3.0, 3.0)}
    engine, reads = collected(parquet(tmp_path), 5, columns=columns)
    assert engine.schema is not None
    resolved = engine.with_schema(engine.schema.resolved({"x": (0.0, 1.0)}))
    expected = sample(pais.source(table(), columns=resolved.schema), RULES["uniform"], 5)
    assert np.array_equal(in_order(sample(resolved, RULES["uniform"], 5)), in_order(expected))
    assert sum(reads) == N


# -- a histogram of a sample ---------------------------------------------------------------------------------


def counts_of(found: Floats, seed: int) -> Any:
    """Numbers of rows by norm in a sample of a tenth. A seed gives every position its own draw."""
    ball = Ball(radius=norm_survey.WIDEST, center=(0.2,) * D)
    return norm_survey._norm_counts(pais.source(found), ball, bit_source(seed), 0.1, bit_source(seed))


def test_a_row_changes_one_count_of_a_sampled_histogram_by_one() -> None:
    found, changes = rows(), []
    for seed in range(40):
        change = counts_of(found, seed) - counts_of(found[:-1], seed)
        assert np.abs(change).sum() <= 1
        changes.append(int(change.sum()))
    # The last row is in some of the samples, and not in all of them.
    assert 0 < sum(changes) < 20


def test_a_sampled_histogram_is_a_share_of_the_whole_one() -> None:
    ball = Ball(radius=norm_survey.WIDEST, center=(0.2,) * D)
    whole = pais.source(rows()).fold(norm_survey._NormCounts(ball=ball), seeded=False)
    mean = np.mean([counts_of(rows(), seed) for seed in range(60)], axis=0)
    deviation = np.sqrt(0.09 * whole / 60)
    assert np.all(np.abs(mean - 0.1 * whole) <= 5.0 * deviation)
    assert not np.all(np.abs(mean - 0.12 * whole) <= 5.0 * deviation)


def test_a_survey_of_a_large_file_gives_the_number_of_rows_and_their_norms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in [("_SAMPLED_FROM", 1000), ("_SAMPLED_NUMBERS", 30_000 * D), ("_HELD_NUMBERS", 1000)]:
        monkeypatch.setattr(norm_survey, name, value)
    large = np.random.default_rng(1).standard_normal((200_000, D)) + 5.0
    pq.write_table(pa.table(list(large.T), names=list(NAMES)), tmp_path / "large.parquet")
    survey = pais.survey(tmp_path / "large.parquet", epsilon=2.0)
    assert survey.norms.n_rows == pytest.approx(200_000, rel=1e-3)
    assert survey.norms.mean_square_norm == pytest.approx(3.0, rel=0.05)
    assert survey.ball.center == pytest.approx((5.0,) * D, abs=0.1)


def test_the_share_of_a_sampled_histogram_follows_from_released_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in [("_SAMPLED_FROM", 1000), ("_SAMPLED_NUMBERS", 500 * D), ("_HELD_NUMBERS", 1000)]:
        monkeypatch.setattr(norm_survey, name, value)
    shares = []

    def sampling(*, ball: Ball, rule: UniformRule) -> Sampling:
        shares.append(rule.rate)
        return Sampling(ball=ball, rule=rule)

    monkeypatch.setattr(norm_survey, "Sampling", sampling)
    many = np.random.default_rng(1).standard_normal((2000, D)) + 5.0
    paths = [tmp_path / "with.parquet", tmp_path / "without.parquet"]
    for path, part in zip(paths, (many, many[:-1]), strict=True):
        pq.write_table(pa.table(list(part.T), names=list(NAMES)), path)
    # Fresh bits: a seeded survey counts all rows. The second run of each pair releases what the first one did.
    replay(lambda path, _: pais.survey(path, epsilon=2.0), *paths, epsilon=2.0, seeds=(0,), pushes=(0.0, 3.0))
    assert len(shares) == 8
    assert shares[::2] == shares[1::2]
    assert max(shares) < 1.0


class _Slow:
    """A schema that two threads compare at the same time, unless one of them waits for the other."""

    meeting = threading.Barrier(2, timeout=0.5)

    def __ne__(self, other: object) -> bool:
        with contextlib.suppress(threading.BrokenBarrierError):
            self.meeting.wait()
        return False


def test_of_two_threads_one_gets_the_candidates() -> None:
    schema: Any = _Slow()
    engine: Any = SimpleNamespace(n_features=D, schema=schema)
    kept = Candidates.of(None, stream=0)
    assert kept is not None
    kept.begin(schema, None)
    kept.add(block(1000, finite=True, by_rows=True))
    sampling = Sampling(ball=Ball(radius=9.0), rule=UniformRule(rate=1.0))
    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(kept.sample, sampling, kept._draws, engine) for _ in range(2)]
        samples = [each.result() for each in tries]
    assert sum(sample is not None for sample in samples) == 1


# -- memory ----------------------------------------------------------------------------------------------------


def block(n: int, *, finite: bool, by_rows: bool) -> Block:
    numbers, identity = np.full((n, D), 1.0 if finite else np.nan), np.arange(n, dtype=np.uint64)
    return RowBlock(numbers, identity) if by_rows else ColumnBlock(list(np.asfortranarray(numbers).T), identity)


def begun(n_numbers: int | None) -> Candidates:
    kept = Candidates.of(None, stream=0)
    assert kept is not None
    kept.begin(None, n_numbers)
    return kept


@pytest.mark.parametrize("by_rows", [True, False])
def test_rows_that_are_not_finite_are_not_held(by_rows: bool) -> None:
    kept = begun(None)
    kept.add(block(100_000, finite=False, by_rows=by_rows))
    assert sum(held.block.n_rows for held in kept._held) == 0


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_rows_that_are_held_have_about_as_many_numbers_as_allowed(
    by_rows: bool, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 30_000)
    kept = begun(D * 500 * 400 if known else None)
    for _ in range(400):
        kept.add(block(500, finite=True, by_rows=by_rows))
        assert D * sum(held.block.n_rows for held in kept._held) <= 33_000
    assert kept._ceiling == (11 if known else 7)
    assert sum(held.block.n_rows for held in kept._held) > 4000


def test_the_ceiling_depends_on_the_number_of_rows_and_on_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bits are: all small, all large, or fair."""
    limit(monkeypatch, 9000)
    ceilings = set()
    for low, high in [(0, 1), (255, 256), (0, 256)]:
        kept, rng = begun(None), np.random.default_rng(1)
        monkeypatch.setattr(
            kept._draws, "first", lambda identity, low=low, high=high, rng=rng: rng.integers(low, high, identity.size)
        )
        trace = []
        for _ in range(100):
            kept.add(block(500, finite=True, by_rows=True))
            trace.append(kept._ceiling)
        ceilings.add(tuple(trace))
    assert len(ceilings) == 1


@pytest.mark.parametrize("n_numbers", [1, 10**6, 10**8, 10**9, 10**10, 10**12, 0])
def test_the_expected_candidates_fit_into_the_room(n_numbers: int) -> None:
    kept = begun(n_numbers)
    if n_numbers <= local.MOST_WHOLE:
        assert kept.whole
    else:
        assert n_numbers * (kept._ceiling + 1) <= 256 * local.MOST_NUMBERS
        assert -1 <= kept._ceiling < 255
