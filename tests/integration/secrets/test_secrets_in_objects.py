"""Fitted models, surveys, releases, ledgers and samples hold no row, no row count and no true cluster count."""

from __future__ import annotations

import dataclasses
import pickle
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import ResidualSample, RowGrid
from pais.show.page import report_html
from tests.integration.secrets.planted import (
    FAR,
    N_ROWS,
    NAMES,
    NEAR,
    RADIUS,
    ROUTES,
    ROWS,
    SEED,
    WORD,
    Secrets,
    assert_quiet,
    fitted,
    frame,
    leaks,
    pieces,
    plan_of,
)
from tests.support.residual_cases import round_of

# ---------------------------------------------------------------- the searches find what is there


def test_object_search_finds_planted_values() -> None:
    secrets = Secrets()
    secrets.add(sample=1234, weighted=[4321.125])

    @dataclasses.dataclass
    class Holder:
        held: Any

    for planted in (
        ROWS,
        ROWS[:, 0],
        {"a": [Holder(N_ROWS)]},
        Holder(f"{N_ROWS:,} rows"),
        Holder({"rows": float(N_ROWS)}),
        [f"a row ({NEAR[0]!r}, ...)"],
        Holder(f"{FAR[1]:.10g}"),
        np.array([1.0, NEAR[1]]),
        np.array([1.0, 1234.0]),
        np.float64(4321.125),
        (lambda row: lambda: row)(ROWS),
        np.array(["x", WORD], dtype=object),
        b"head" + struct.pack("<d", NEAR[2]),
        WeightedRows(rows=ROWS, weights=np.ones(N_ROWS)),
        Holder(RowGrid(np.zeros((1, 2)), 1.0, 8)),
        ResidualSample(
            WeightedRows(rows=np.zeros((1, 2)), weights=np.ones(1)), (round_of("l2"),), n_rows=1.0, largest_weight=1.0
        ),
        ROWS[:1],
    ):
        assert leaks(planted, secrets), planted
    assert secrets.in_bytes(pickle.dumps(ROWS))
    assert secrets.in_bytes(repr(ROWS[N_ROWS // 2].tolist()).encode())
    assert leaks({"n": 8000.0, "text": "12345 and 17919 and 7919.25", "b": np.arange(49)}, secrets) == []
    error = ValueError("nothing")
    error.__context__ = KeyError(NEAR[0])
    error.__suppress_context__ = True
    assert any(leaks(piece, secrets) for piece in pieces(error))


# ---------------------------------------------------------------- public objects


def inputs(kind: str, place: Path) -> Any:
    if kind == "array":
        return ROWS.copy()
    if kind == "pandas":
        return frame()[list(NAMES)]
    path = place / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame()[list(NAMES)], preserve_index=False), path)
    return path


@pytest.mark.parametrize(
    ("kind", "route"),
    [*(("array", route) for route in ROUTES), *((kind, "every row") for kind in ("pandas", "parquet")),
     ("parquet", "surveyed")],
)  # fmt: skip
def test_fitted_model_holds_no_row_and_no_true_count(
    kind: str, route: str, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = fitted(inputs(kind, tmp_path), **ROUTES[route])
    assert len(secrets.samples) == 1
    # The search knows the true counts, distances and sums of the rounds.
    assert secrets.rounds >= 2
    assert len(secrets.real) > 100
    # Large enough to be searched for in texts.
    assert secrets.samples[0] >= 500
    # The survey's number of rows is noisy; were it the true one by chance, another seed would be taken.
    assert leaks(model, secrets) == []
    assert leaks([str(one.message) for one in warned], secrets) == []
    assert leaks([model.plan_.explain(), model.certificate_.to_json(), repr(model), str(model.fit_)], secrets) == []
    assert leaks([model.get_params(), model.fit_.survey and model.fit_.survey.to_dict()], secrets) == []
    assert_quiet(caplog, secrets)
    for public in (model, model.certificate_, model.plan_, model.fit_):
        assert not secrets.in_bytes(pickle.dumps(public))
    page = report_html(model.fit_, feature_names=NAMES)
    assert not secrets.in_text(page)


def test_model_with_a_schema_holds_no_row(secrets: Secrets, tmp_path: Path) -> None:
    columns: dict[str, Any] = dict.fromkeys(NAMES, (-50, 50)) | {"name": ["somebody", "nobody"]}
    for missing in ("drop", "midpoint"):
        model = pais.DPKMeans(3, epsilon=1.0, delta=1e-6, columns=columns, missing=missing, random_state=SEED)
        assert leaks(model.fit(frame()), secrets) == []
        assert leaks(model.write_report(tmp_path / "report.html").read_text(), secrets) == []
    assert secrets.samples


@pytest.mark.parametrize("center", [None, (0.0, 0.0, 0.0)])
def test_survey_holds_no_row_and_no_true_count(
    center: tuple[float, ...] | None, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = pais.Ledger(epsilon=10.0)
    norm = np.linalg.norm(ROWS, axis=1)
    secrets.add(counts=np.histogram(norm, bins=np.exp2(np.arange(-100 * 12, 100 * 12 + 1) / 12))[0])
    found = pais.survey(ROWS, epsilon=0.5, center=center, random_state=SEED + 1, ledger=ledger)
    planted_in = leaks([found.ball, found.to_dict(), found.name, found.epsilon], secrets)
    planted_in += leaks([entry.to_dict() for entry in ledger.entries], secrets)
    assert planted_in == []
    # Noisy masses may hit a true count of a bin by chance; the total, the canaries and the size of the table may not.
    plain = Secrets()
    assert leaks(found, plain) == []
    assert not plain.in_bytes(pickle.dumps(found))
    assert_quiet(caplog, secrets)


MECHANISMS: dict[str, Callable[[], pais.Plan]] = {
    "count": lambda: plan_of(pais.WeightedCount(noise=pais.laplace_noise(20.0))),
    "sum": lambda: plan_of(pais.WeightedSum(noise=pais.LpNoise(scale=100.0, p=2.0))),
    "mean": lambda: plan_of(
        pais.WeightedMean(count_noise=pais.LpNoise(scale=40.0, p=2.0), sum_noise=pais.LpNoise(scale=200.0, p=2.0))
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_run_leaves_no_trace_of_rows_in_release_ledger_and_plan(
    name: str, secrets: Secrets, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    plan = MECHANISMS[name]()
    for ledger in (pais.Ledger(epsilon=5.0), pais.Ledger(epsilon=5.0, path=tmp_path / "book.json")):
        made = pais.run(plan, ROWS, random_state=SEED, ledger=ledger)
        secrets.add(weighted=ROWS.sum(axis=0))
        assert (
            leaks([made, plan, plan.explain(), made.certificate.to_json(), ledger.entries, ledger.spent], secrets) == []
        )
        assert leaks(vars(ledger), secrets) == []
        assert not secrets.in_bytes(pickle.dumps(made))
    assert not secrets.in_text((tmp_path / "book.json").read_text())
    assert_quiet(caplog, secrets)


def test_a_sample_shows_its_rule_and_its_ball_and_nothing_else(secrets: Secrets) -> None:
    rows = pais.source(pa.Table.from_pandas(frame(), preserve_index=False), columns=NAMES, carry=("name",))
    kept = pais.sample(rows, ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=1.0), random_state=SEED)
    assert leaks([repr(kept), str(kept), repr(rows), kept.rule, kept.ball, kept.private, kept.spent], secrets) == []
    for act in (lambda: pickle.dumps(kept), lambda: kept.__reduce_ex__(4)):
        with pytest.raises(pais.SpentError) as caught:
            act()
        assert [way for piece in pieces(caught.value) for way in leaks(piece, secrets)] == []
    content = kept.spend("a test")
    assert content.carried is not None
    assert WORD in content.carried.column("name").to_pylist()
    assert leaks([repr(content), str(content)], secrets) == []
    with pytest.raises(pais.SpentError) as caught:
        kept.spend("another")
    assert [way for piece in pieces(caught.value) for way in leaks(piece, secrets)] == []


BOUNDS: dict[str, Any] = dict.fromkeys(NAMES, (-50, 50))
FOUND: dict[str, Any] = dict.fromkeys(NAMES, "auto")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("columns", [BOUNDS, FOUND], ids=["stated", "found"])
@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize(
    "statistic", [pais.count, pais.sum, pais.mean, pais.variance, pais.histogram, pais.quantile, pais.describe]
)
def test_a_statistic_holds_no_row(statistic: Callable[..., Any], unit: str | None, columns: dict[str, Any]) -> None:
    if statistic in (pais.count, pais.histogram) and columns is FOUND:
        pytest.skip("it takes no found bounds")
    made = frame().assign(person=np.arange(N_ROWS) // 3)
    stated = {} if statistic is pais.count else {"columns": columns}
    # With more noise than this, a released count is hardly ever the true one.
    secrets, options = Secrets(), {"unit": unit, "epsilon": 0.01, "random_state": SEED}
    result = statistic(made, by={"name": ["somebody", "nobody"]}, **options, **stated)
    assert leaks(result, secrets) == []
    assert not secrets.in_bytes(pickle.dumps(result))


@pytest.mark.parametrize("groups", [pais.ranges(0, 1, 2), pais.months("2024-01-01", "2024-12-31")], ids=str)
def test_a_result_does_not_show_whether_a_row_was_read(groups: Any, tmp_path: Path) -> None:
    """Values that the first row would let a column or a schema keep are there from the beginning, or not at all."""
    shown = []
    for body in ("1,1.5\n", ""):
        path = tmp_path / "rows.csv"
        path.write_text(f"x,y\n{body}")
        result = pais.count(path, by={"y": groups}, random_state=0)
        schema = result.plan.schema
        restored = pickle.loads(pickle.dumps(result)).plan.schema
        shown.append([sorted(vars(part)) for part in (schema, schema["y"], restored, restored["y"])])
    assert shown[0] == shown[1]
