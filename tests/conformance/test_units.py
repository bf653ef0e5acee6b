"""Units in every local engine: the same sums and samples, whole units, and refusals before anything is spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, CoresetRule, DPKMeans, UniformRule
from pais._base.lattice import Lattice
from pais._base.randomness import bit_source
from pais.data.engines import files, local as members, streams
from pais.data.engines.base import Engine, Sampling
from pais.planning.norm_survey import _NormCounts
from tests.conformance.streams import STREAMS, shuffled
from tests.support.sampler_cases import clipped_sum

Floats = NDArray[np.float64]
FEATURES = ("x", "y", "z")
N_PEOPLE, RADIUS = 300, 3.0


def people() -> pd.DataFrame:
    """Rows of people, scattered: up to 40 rows each, some without a name, some without a value."""
    rng = np.random.default_rng(4)
    n_rows = np.minimum(rng.geometric(0.15, N_PEOPLE), 40)
    who = np.repeat(np.arange(N_PEOPLE), n_rows)
    rows = rng.normal(size=(N_PEOPLE, 3))[who] + 0.4 * rng.normal(size=(len(who), 3))
    frame = pd.DataFrame(rows, columns=list(FEATURES)).assign(
        who=who.astype(float), note=[f"n{i}" for i in range(len(who))]
    )
    frame.loc[rng.choice(len(frame), 40, replace=False), "who"] = np.nan
    frame.loc[rng.choice(len(frame), 60, replace=False), "y"] = np.nan
    frame.loc[7, "x"] = np.inf
    return frame.sample(frac=1.0, random_state=5).reset_index(drop=True)


FRAME = people()
TEXT = FRAME.assign(who=["" if np.isnan(who) else f"person {who:.0f}" for who in FRAME["who"]])


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that count, by the definition: with an id and three finite numbers."""
    named = frame["who"].notna() & (frame["who"].astype(str).str.strip() != "")
    return frame[named & np.isfinite(frame[list(FEATURES)]).all(axis=1)]


def parquet(home: Path, frame: pd.DataFrame, *, files: int = 1, group: int = 1000) -> Path:
    home.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        table = pa.Table.from_pandas(frame.iloc[part], preserve_index=False)
        pq.write_table(table, home / f"part-{number:02d}.parquet", row_group_size=group)
    return home


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def csv(home: Path, frame: pd.DataFrame, *, files: int = 1) -> Path:
    home.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[part].to_csv(home / f"part-{number}.csv", index=False)
    return home


LAYOUTS: dict[str, Callable[[Path, pd.DataFrame], object]] = {
    "a DataFrame": lambda _, frame: frame,
    "a DataFrame of objects": lambda _, frame: frame.assign(who=frame["who"].astype(object)),
    "an Arrow table": lambda _, frame: pa.Table.from_pandas(frame),
    "a polars table": lambda _, frame: pl.from_pandas(frame),
    "a Parquet file": lambda home, frame: parquet(home / "p", frame) / "part-00.parquet",
    "many files": lambda home, frame: parquet(home / "p", frame, files=5, group=61),
    "a CSV file": lambda home, frame: csv(home / "c", frame) / "part-0.csv",
    "many CSV files": lambda home, frame: csv(home / "c", frame, files=3),
    "files in memory": lambda home, frame: opened(parquet(home / "p", frame, files=3)).held(),
    **{name: lambda _, frame, stream=stream: stream(arrow(frame)) for name, stream in STREAMS.items()},
    "another order in every pass": lambda _, frame: shuffled(arrow(frame)),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
some_layouts = pytest.mark.parametrize(
    "layout", ["a DataFrame", "many files", "a CSV file", "files in memory", "a function"]
)


def opened(data: object, **options: Any) -> Engine:
    if isinstance(data, Engine):
        return data
    return pais.source(data, **{"columns": FEATURES, "unit": "who", **options})


@pytest.fixture(autouse=True, params=[50, 1 << 17], ids=["small batches", "large batches"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BATCH_ROWS", request.param)
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", 60 * request.param)
    monkeypatch.setattr(streams, "BATCH_ROWS", request.param)


def ordered(rows: Floats, weights: Floats) -> tuple[Floats, Floats]:
    order = np.lexsort(rows.T)
    return rows[order], weights[order]


def drawn(engine: Engine, seed: int = 3, rate: float = 0.3) -> tuple[Floats, Floats]:
    kept = pais.sample(engine, ball=Ball(radius=RADIUS), rule=UniformRule(rate=rate), random_state=seed).spend("a test")
    return ordered(kept.rows, kept.weights)


# -- the same everywhere -----------------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("frame", [FRAME, TEXT], ids=["numbers", "text"])
def test_sums_and_samples_are_those_of_a_brute_force_computation(
    layout: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    engine = opened(LAYOUTS[layout](tmp_path, frame))
    rows = usable(frame)
    n_rows = rows.groupby("who")["x"].transform("size").to_numpy()
    mass = (2**25) // n_rows
    # The histogram of norms.
    ball = Ball(radius=2.0**60)
    counts = engine.fold(_NormCounts(ball=ball), seeded=False)
    assert counts.sum() == mass.sum()
    # The sum of clipped rows.
    values = rows[list(FEATURES)].to_numpy()
    clipped = values * np.minimum(1.0, RADIUS / np.linalg.norm(values, axis=1))[:, None]
    total = engine.fold(clipped_sum(Ball(radius=RADIUS), Lattice(step=2.0**-30)), seeded=False)
    expected = (clipped * (mass / 2**25)[:, None]).sum(axis=0)
    np.testing.assert_allclose(total * 2.0**-30, expected, rtol=0.0, atol=1e-5)
    # A sample of everything.
    kept = pais.sample(engine, ball=Ball(radius=RADIUS), rule=UniformRule(rate=1.0)).spend("a test")
    sampled, weights = ordered(kept.rows, kept.weights)
    everything, masses = ordered(clipped, mass / 2**25)
    np.testing.assert_allclose(sampled, everything, atol=1e-12)
    np.testing.assert_allclose(weights, masses, rtol=1e-12)
    assert np.all(weights <= masses)


def fitted(data: object) -> DPKMeans:
    # The same numbers as pais.source(...), passed to an estimator.
    return DPKMeans(n_clusters=3, epsilon=2.0, random_state=1).fit(opened(data))


@pytest.fixture(scope="module")
def expected() -> DPKMeans:
    return fitted(FRAME)


@layouts
def test_seeded_fits_are_the_same_wherever_the_rows_are_stored(layout: str, tmp_path: Path, expected: DPKMeans) -> None:
    model = fitted(LAYOUTS[layout](tmp_path, FRAME))
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.certificate_.neighbours == "one who added or removed"
    assert model.certificate_.unit == {"column": "who", "max_rows": None}
    assert model.plan_.unit == expected.plan_.unit


# -- whole units -------------------------------------------------------------------------------------------


@layouts
def test_units_are_kept_as_a_whole_with_their_carried_columns(layout: str, tmp_path: Path) -> None:
    data = LAYOUTS[layout](tmp_path, FRAME)
    engine = data if isinstance(data, Engine) else opened(data, carry=("who", "note"))
    if isinstance(data, Engine):
        engine = opened(parquet(tmp_path / "q", FRAME, files=3), carry=("who", "note")).held()
    kept = pais.sample(engine, ball=Ball(radius=RADIUS), rule=UniformRule(rate=0.4)).spend("a test")
    assert kept.carried is not None
    sample = kept.carried.to_pandas().assign(weight=kept.weights, x=kept.rows[:, 0])
    sample["who"] = sample["who"].astype(float)
    rows = usable(FRAME)
    assert set(sample["note"]) == set(rows[rows["who"].isin(sample["who"])]["note"])
    assert 0 < sample["who"].nunique() < N_PEOPLE
    sizes = sample.groupby("who")["weight"].agg(["size", "max", "min"])
    assert (sizes["max"] == sizes["min"]).all()
    np.testing.assert_allclose(sizes["max"] * sizes["size"], 1.0 / 0.4, rtol=1e-5)
    assert np.all(sizes["max"] * sizes["size"] <= 1.0 / 0.4 * (1.0 + 1e-15))


@pytest.mark.parametrize("max_rows", [1, 3, 100])
def test_rows_up_to_the_limit_count_in_full_once_values_are_about_rows(max_rows: int) -> None:
    engine = opened(FRAME, max_rows_per_unit=max_rows)
    kept = pais.sample(engine, ball=Ball(radius=RADIUS), rule=UniformRule(rate=1.0))
    count = pais.release(pais.WeightedCount(noise=pais.laplace_noise(1e-3)), kept, random_state=0)
    n_rows = usable(FRAME).groupby("who").size()
    assert count.value == pytest.approx(max_rows * (n_rows / np.maximum(n_rows, max_rows)).sum(), abs=0.1 * max_rows)
    assert count.certificate.unit == {"column": "who", "max_rows": max_rows}


def test_norm_of_a_unit_decides_on_its_probability() -> None:
    rule = CoresetRule(sample_size=30.0, n_rows=300.0, mean_square_norm=4.0, radius=RADIUS)
    ball = Ball(radius=RADIUS)
    rows = usable(FRAME)
    square = np.square(np.minimum(np.linalg.norm(rows[list(FEATURES)], axis=1), RADIUS))
    root = np.sqrt(pd.Series(square).groupby(rows["who"].to_numpy()).mean())
    kept = opened(FRAME, carry=("who",)).sample(Sampling(ball=ball, rule=rule), bit_source(2))
    assert kept.carried is not None
    who = kept.carried["who"].to_numpy()
    n_rows = rows.groupby("who").size().loc[who].to_numpy()
    np.testing.assert_allclose(kept.weights * n_rows, 1.0 / rule.probability(root.loc[who].to_numpy()), rtol=1e-6)


# -- what does not count -----------------------------------------------------------------------------------


@layouts
def test_missing_ids_and_rows_that_are_not_finite_contribute_nothing(layout: str, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    with_all = drawn(opened(LAYOUTS[layout](tmp_path / "all", FRAME)), rate=1.0)
    (tmp_path / "usable").mkdir()
    with_usable = drawn(opened(LAYOUTS[layout](tmp_path / "usable", usable(FRAME))), rate=1.0)
    for one, other in zip(with_all, with_usable, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_table_without_units_is_empty() -> None:
    frame = FRAME.assign(who=np.nan)
    assert drawn(opened(frame))[0].shape == (0, 3)
    assert opened(frame).fold(_NormCounts(ball=Ball(radius=9.0)), seeded=False).sum() == 0


def test_missing_values_can_be_refused_with_units() -> None:
    with pytest.raises(pais.DataError, match="'y'"):
        opened(FRAME, missing="error")
    assert opened(usable(FRAME), missing="error").unit is not None


# -- limits ------------------------------------------------------------------------------------------------


@some_layouts
@pytest.mark.parametrize("stated", [True, False], ids=["stated facts", "a survey"])
def test_too_many_units_are_refused_before_anything_is_spent(
    layout: str, stated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "MOST_UNITS", 200)
    facts: dict[str, Any] = {}
    if stated:
        norms = pais.NormDistribution.from_histogram([0.0, 1.0, RADIUS], [100.0, 100.0])
        facts = {"radius": RADIUS, "center": (0.0,) * 3, "norms": norms}
    ledger = pais.Ledger(epsilon=10.0, delta=1e-2)
    model = DPKMeans(n_clusters=2, epsilon=1.0, ledger=ledger, **facts)
    with pytest.raises(pais.DataError, match="more than 200 units"):
        model.fit(opened(LAYOUTS[layout](tmp_path, FRAME)))
    assert ledger.entries == ()


@some_layouts
def test_units_that_are_looked_up_again_are_the_same(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of rows, the units of rows are not remembered between passes."""
    room = 500
    monkeypatch.setattr(members, "_REMEMBERED_ROWS", room)
    (tmp_path / "looked up").mkdir()
    engine: Any = opened(LAYOUTS[layout](tmp_path / "looked up", FRAME))
    looked_up = drawn(engine)
    counts = engine.fold(_NormCounts(ball=Ball(radius=9.0)), seeded=False)
    assert sum(map(len, engine._members._remembered.values())) <= room
    monkeypatch.setattr(members, "_REMEMBERED_ROWS", 1 << 20)
    remembered = opened(FRAME)
    for one, other in zip(looked_up, drawn(remembered), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(counts, remembered.fold(_NormCounts(ball=Ball(radius=9.0)), seeded=False))
