"""Secrets stay in: a planted row, the number of rows, the size of the sample and true counts are nowhere to be found.

Everything that leaves is searched: public objects and all that hangs on them, texts, logs, warnings, errors, pickles
and files. The searches are shown to find what is there.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import json
import logging
import math
import os
import pickle
import re
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy import sparse
from typer.testing import CliRunner

import pais
from pais import DPKMeans, norm_survey
from pais.accounting.digest import digest
from pais.cli import app, files
from pais.data.columns import read
from pais.data.engines import WeightedRows
from pais.mechanisms.kmeans.lloyd import LloydSample
from pais.report import report_html, write_report
from pais.sampler import WeightedSample

Floats = NDArray[np.float64]

# One row within the ball, and one far beyond it, which is clipped.
NEAR = (1.3728465918273, -0.9182736455647, 0.4738291056473)
FAR = (73918264.55738, -28374651.92837, 65473829.10564)
WORD = "Zyxomma-81726354"
NAMES = ("height", "weight_kg", "span")
N_ROWS = 7919
SEED = 20261
RADIUS = 6.0
NORMS = pais.NormDistribution.from_quantiles(lambda level: RADIUS * level, n_rows=8000.0, radius=RADIUS)
STATED: dict[str, Any] = {"radius": RADIUS, "norms": NORMS}
ROUTES: dict[str, dict[str, Any]] = {
    "surveyed": {},
    "stated": STATED,
    "every row": {**STATED, "sampling": "none"},
    "uniform": {"sampling": "uniform", "sample_size": 1500.0},
    "laplace": {"mechanism": "laplace", "delta": 0.0},
    "l2": {"mechanism": "l2", "delta": 0.0, "sampling": "coreset"},
}
routes = pytest.mark.parametrize("route", ROUTES)


def table(*, canaries: bool = True, n: int = N_ROWS) -> Floats:
    rows = np.random.default_rng(1).normal(size=(n, 3)) + 3.0 * np.eye(3)[np.arange(n) % 3]
    if canaries:
        rows[n // 2], rows[n // 3] = NEAR, FAR
    return rows


ROWS = table()


def frame() -> pd.DataFrame:
    made = pd.DataFrame(ROWS, columns=list(NAMES))
    made["name"] = "somebody"
    made.loc[N_ROWS // 2, "name"] = made.loc[N_ROWS // 3, "name"] = WORD
    return made


# ---------------------------------------------------------------- what is searched for


class Secrets:
    """Numbers and words that nobody may find."""

    def __init__(self) -> None:
        # Sizes that would be unmistakable in a text, and those that are so only as an exact number.
        self.sizes: set[int] = {N_ROWS, N_ROWS - 1, N_ROWS - 2}
        self.whole: set[int] = set(self.sizes)
        self.samples: list[int] = []
        self.real: set[float] = set()
        for row in (NEAR, FAR):
            clipped = np.array(row) * min(1.0, RADIUS / float(np.linalg.norm(row)))
            for value in (*row, *clipped, np.linalg.norm(row), np.abs(row).sum(), np.square(row).sum()):
                self.real.add(abs(float(value)))
        # The radius itself is public.
        self.real.discard(RADIUS)
        self.digits = {f"{value:.9e}"[:9].replace(".", "") for value in self.real}

    def add(self, *, sample: int | None = None, counts: Any = (), weighted: Any = ()) -> None:
        """Sizes of a sample and of clusters; small ones could be anybody's, and are left out."""
        self.sizes |= {sample} if sample is not None and sample >= 500 else set()
        self.whole |= self.sizes | {int(count) for count in np.ravel(counts) if count >= 300}
        self.real |= {abs(float(value)) for value in np.ravel(weighted) if abs(value) >= 300.0}

    def in_number(self, value: float) -> bool:
        if not math.isfinite(value) or value == 0.0:
            return False
        size = abs(value)
        return size in self.whole or any(abs(size - real) <= 1e-9 * real for real in self.real)

    def in_array(self, values: NDArray[Any]) -> bool:
        if values.dtype.kind not in "fiu" or values.size == 0:
            return values.dtype.kind in "OUS" and any(
                bool(self.in_text(str(value))) for value in values.ravel().tolist()
            )
        size = np.abs(values.astype(np.float64)).ravel()
        found = np.isin(size, np.array(sorted(self.whole), dtype=np.float64))
        for real in self.real:
            found |= np.abs(size - real) <= 1e-9 * real
        return bool(np.any(found))

    def in_text(self, text: str) -> str:
        """The first secret in a text, with what stands beside it; empty where there is none."""
        if WORD in text or WORD.split("-")[1] in text:
            return WORD
        for number in self.sizes:
            for written in (str(number), f"{number:,}", f"{number}.0"):
                if found := re.search(rf"(?<![\d.,]){re.escape(written)}(?![\d]|[.,]\d)", text):
                    return text[max(0, found.start() - 60) : found.end() + 60]
        plain = text.replace(".", "").replace(",", "")
        return next((digits for digits in self.digits if digits in plain), "")

    def in_bytes(self, content: bytes) -> bool:
        """Doubles and single floats of the rows in either order of bytes, and their digits."""
        for row in (NEAR, FAR):
            for value in row:
                for kind in ("<d", ">d", "<f", ">f"):
                    if struct.pack(kind, value) in content:
                        return True
        return WORD.encode() in content or any(digits.encode() in content for digits in self.digits)


def reachable(root: object) -> Iterator[tuple[str, object]]:
    """All that hangs on an object: attributes, slots, public properties, contents, closures; with the way to it."""
    seen: dict[int, object] = {}
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        way, value = waiting.pop()
        if isinstance(value, (type, type(os))) or id(value) in seen:
            continue
        if not isinstance(value, (int, float, str, bytes)):
            seen[id(value)] = value
        yield way, value
        if isinstance(value, dict):
            waiting += [(f"{way}[{key!r}]", item) for key, item in value.items()]
            waiting += [(f"{way}.keys", key) for key in value]
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += [(f"{way}[{number}]", item) for number, item in enumerate(value)]
        elif isinstance(value, np.ndarray):
            if value.base is not None:
                waiting.append((f"{way}.base", value.base))
        elif not isinstance(value, (int, float, str, bytes, complex, np.generic)):
            for name, item in vars(value).items() if hasattr(value, "__dict__") else ():
                waiting.append((f"{way}.{name}", item))
            slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
            waiting += [(f"{way}.{name}", getattr(value, name)) for name in slots if hasattr(value, name)]
            for cell in getattr(value, "__closure__", None) or ():
                waiting.append((f"{way}<closure>", cell.cell_contents))
            if type(value).__module__.startswith("pais"):
                for name in dir(type(value)):
                    if not name.startswith("_") and isinstance(getattr(type(value), name), property):
                        waiting.append((f"{way}.{name}", getattr(value, name)))
                waiting.append((f"repr({way})", repr(value)))


def leaks(root: object, secrets: Secrets) -> list[str]:
    """Ways to a secret."""
    found = []
    for way, value in reachable(root):
        if isinstance(value, (bool, type(None))):
            continue
        if isinstance(value, str):
            bad = bool(secrets.in_text(value))
        elif isinstance(value, bytes):
            bad = secrets.in_bytes(value)
        elif isinstance(value, np.ndarray):
            bad = secrets.in_array(value) or (value.dtype.kind != "O" and secrets.in_bytes(value.tobytes()))
        elif isinstance(value, (int, float, np.integer, np.floating)):
            bad = secrets.in_number(float(value))
        else:
            bad = isinstance(value, (pa.Table, pa.Array, pd.DataFrame, WeightedRows, WeightedSample))
        if bad:
            found.append(f"{way}: {type(value).__name__}")
    return found


def pieces(error: BaseException) -> Iterator[object]:
    """An error with all that hangs on it, suppressed contexts too; frames are the interpreter's business."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one), list(one.args), dict(vars(one)), list(getattr(one, "__notes__", ())))
        waiting += [one.__cause__, one.__context__]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    """Secrets, to which every sample and every round of k-means adds its true sizes."""
    known = Secrets()
    begin, assign = WeightedSample.__init__, LloydSample._assign

    def drawn(self: WeightedSample, content: WeightedRows, **rest: Any) -> None:
        known.add(sample=content.weights.size, weighted=content.weights.sum())
        known.samples.append(content.weights.size)
        begin(self, content, **rest)

    def assigned(self: LloydSample, centers: Floats) -> Any:
        label = assign(self, centers)
        known.add(counts=np.bincount(label), weighted=np.bincount(label, self._content.weights))
        return label

    monkeypatch.setattr(WeightedSample, "__init__", drawn)
    monkeypatch.setattr(LloydSample, "_assign", assigned)
    return known


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)


def assert_quiet(caplog: pytest.LogCaptureFixture, secrets: Secrets) -> None:
    for record in caplog.records:
        assert not secrets.in_text(record.getMessage())
        assert leaks(record.args, secrets) == []


def fitted(X: Any, **changes: Any) -> DPKMeans:
    return DPKMeans(**{"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "random_state": SEED, **changes}).fit(X)


# ---------------------------------------------------------------- the searches find what is there


def test_the_searches_find_what_is_there() -> None:
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
def test_nothing_that_hangs_on_a_fitted_model_tells_a_row_or_a_true_count(
    kind: str, route: str, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = fitted(inputs(kind, tmp_path), **ROUTES[route])
    assert len(secrets.samples) == 1
    # Large enough to be searched for in texts.
    assert secrets.samples[0] >= 500
    # The survey's number of rows is noisy; were it the true one by chance, another seed would be taken.
    assert leaks(model, secrets) == []
    assert leaks([str(one.message) for one in warned], secrets) == []
    assert leaks([model.plan_.explain(), model.certificate_.to_json(), repr(model), str(model.fit_)], secrets) == []
    assert leaks([model.get_params(), model.fit_.survey and model.fit_.survey.describe()], secrets) == []
    assert_quiet(caplog, secrets)
    for public in (model, model.certificate_, model.plan_, model.fit_):
        assert not secrets.in_bytes(pickle.dumps(public))
    page = report_html(model.fit_, feature_names=NAMES)
    assert not secrets.in_text(page)


@pytest.mark.parametrize("center", [None, (0.0, 0.0, 0.0)])
def test_nothing_that_hangs_on_a_survey_tells_a_row_or_a_true_count(
    center: tuple[float, ...] | None, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = pais.Ledger(epsilon=10.0)
    norm = np.linalg.norm(ROWS, axis=1)
    secrets.add(counts=np.histogram(norm, bins=np.exp2(np.arange(-100 * 12, 100 * 12 + 1) / 12))[0])
    found = pais.survey(ROWS, epsilon=0.5, center=center, random_state=SEED, ledger=ledger)
    told = leaks([found.ball, found.describe(), found.name, found.epsilon], secrets)
    told += leaks([entry.describe() for entry in ledger.entries], secrets)
    assert told == []
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


def plan_of(mechanism: Any) -> pais.Plan:
    return pais.Plan(
        ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=0.4), mechanism=mechanism, epsilon=1.0, norms=NORMS
    )


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


# ---------------------------------------------------------------- errors


def spoiled(**columns: Any) -> pd.DataFrame:
    made = frame()
    for name, value in columns.items():
        made[name] = made[name].astype(object)
        made.loc[N_ROWS // 2 + 1, name] = value
    return made[list(NAMES)]


def written(place: Path, text: str, name: str = "rows.csv") -> Path:
    path = place / name
    path.write_text(text)
    return path


def csv_of(extra: str) -> str:
    lines = [",".join(map(repr, row)) for row in ROWS[N_ROWS // 2 - 3 : N_ROWS // 2 + 3].tolist()]
    return ",".join(NAMES) + "\n" + "\n".join([*lines, extra, *lines]) + "\n"


def strict(data: object) -> pais.data.engines.Engine:
    """Rows that are an error where one has no finite number in every feature."""
    return pais.source(data, missing="error")


FAILURES: dict[str, Callable[[Path], object]] = {
    "nan": lambda place: fitted(strict(spoiled(height=math.nan))),
    "nan, stated": lambda place: fitted(strict(spoiled(height=math.inf).to_numpy(float)), sampling="none", **STATED),
    "nan, predict": lambda place: fitted(ROWS, **STATED).predict(spoiled(height=math.nan).to_numpy(float)),
    "text": lambda place: fitted(strict(spoiled(span=f"{NEAR[0]!r} {WORD}"))),
    "text array": lambda place: fitted(np.array([[repr(NEAR[0]), WORD, "1"]] * 5)),
    "objects": lambda place: fitted(strict(spoiled(span={"row": NEAR[0]}))),
    "ragged": lambda place: fitted([list(NEAR), list(NEAR)[:2]]),
    "one row": lambda place: fitted(np.array(NEAR)),
    "complex": lambda place: fitted(ROWS.astype(complex)),
    "masked": lambda place: pais.survey(np.ma.masked_greater(ROWS, 5.0), epsilon=1.0),
    "width": lambda place: fitted(ROWS, center=(0.0, 0.0)),
    "predict": lambda place: fitted(ROWS, **STATED).predict(ROWS[:, :2]),
    "csv text": lambda place: fitted(strict(written(place, csv_of(f"{WORD},1.0,{NEAR[0]!r}")))),
    "csv open header": lambda place: fitted(written(place, f'{NAMES[0]},"{NAMES[1]}\n{NEAR[0]!r},1.0\n')),
    "csv bare": lambda place: fitted(written(place, csv_of("1.0,2.0,3.0").split("\n", 1)[1])),
    "csv empty": lambda place: fitted(strict(written(place, csv_of(f",{NEAR[0]!r},")))),
    "csv late text": lambda place: fitted(
        strict(written(place, ",".join(NAMES) + "\n" + "1.0,2.0,3.0\n" * 90_000 + f"{WORD},{NEAR[0]!r},1.0\n"))
    ),
    "broken parquet": lambda place: fitted(written(place, f"PAR1 {NEAR[0]!r} {WORD}", "rows.parquet")),
    "carried": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES, carry=("nobody",)),
    "features of text": lambda place: pais.survey(frame(), epsilon=1.0),
    "key": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES[:2], key="name"),
    "key of floats": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES[:2], key="span"),
    "budget": lambda place: fitted(ROWS, ledger=pais.Ledger(epsilon=0.5)),
    "mismatch": lambda place: pais.run(plan_of(pais.WeightedSum(noise=pais.laplace_noise(100.0))), ROWS),
    "missing": lambda place: fitted(strict(pa.table({"height": [NEAR[0], None], "span": [NEAR[1], FAR[0]]}))),
    "no plan": lambda place: pais.run(ROWS, ROWS),  # type: ignore[arg-type]  # on purpose
    "rows for a ball": lambda place: pais.sample(ROWS, ball=ROWS, rule=pais.UniformRule(rate=1.0)),  # type: ignore[arg-type]
    "rows for a mechanism": lambda place: pais.WeightedSum(noise=ROWS),  # type: ignore[arg-type]
    "rows for a center": lambda place: fitted(ROWS, center=ROWS),
    "row for a seed": lambda place: fitted(ROWS, random_state=NEAR),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", FAILURES)
def test_errors_with_all_that_hangs_on_them_tell_no_value_of_a_row(
    case: str, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises((pais.PaisError, ValueError, TypeError)) as caught:
            FAILURES[case](tmp_path)
    told = [f"{way} in {piece!r:.300}" for piece in pieces(caught.value) for way in leaks(piece, secrets)]
    assert told == []
    assert leaks([str(one.message) for one in warned], secrets) == []
    assert_quiet(caplog, secrets)


def test_what_breaks_in_the_middle_of_a_run_is_shown_by_its_type_alone_on_the_command_line(
    data: Path, monkeypatch: pytest.MonkeyPatch, secrets: Secrets
) -> None:
    def breaks(self: LloydSample, centers: Floats) -> Any:
        raise RuntimeError(f"row {NEAR!r} of {WORD}")

    monkeypatch.setattr(LloydSample, "_assign", breaks)
    done = command("kmeans", data, "--columns", ",".join(NAMES), "--n-clusters", 3, "--epsilon", 1, "--out", "out")
    assert done.exit_code == 1
    assert "RuntimeError" in done.stderr
    assert not secrets.in_text(done.stdout + done.stderr)
    assert not Path("out").exists()


# ---------------------------------------------------------------- awkward input, by the table

DIGITS = WORD.split("-")[1]
HALF = WORD.split("-")[0]


def told(error: BaseException) -> list[str]:
    """Where an error, or what hangs on it or is printed of it, tells a planted word or the number of rows."""
    shown = ["".join(traceback.format_exception(error)), *map(repr, pieces(error)), *map(str, pieces(error))]
    secret = (HALF, DIGITS, str(N_ROWS), f"{N_ROWS:,}")
    # Paths of tests have their names in them, and no secrets.
    return [f"{one} in {text!r:.400}" for text in shown for one in secret if one in text]


def assert_silent(act: Callable[[], object], *, match: str | None = None) -> None:
    """Refused by this package, in words of its own, with nothing behind them."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(pais.DataError, match=match) as caught:
            act()
    assert told(caught.value) == []
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert not [one for one in warned if HALF in str(one.message) or DIGITS in str(one.message)]
    # One for each row would tell how many there are.
    assert len(warned) < 10


def test_the_search_of_errors_finds_what_is_there() -> None:
    behind = ValueError("nothing")
    behind.__context__ = KeyError(WORD)
    noted = ValueError("nothing")
    noted.__notes__ = [f"{N_ROWS} rows"]
    for error in (ValueError(f"{N_ROWS:,}"), behind, noted, json.JSONDecodeError("bad", WORD, 0)):
        assert told(error)
    assert told(ValueError("column 3")) == []


class Unreadable:
    """A value, or a table, that tells its secret as it fails."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __float__(self) -> float:
        raise self._error(f"cannot parse {WORD}")

    def __array__(self, *_: object, **__: object) -> Any:
        raise self._error(f"cannot parse {WORD}")


def cells(value: object) -> NDArray[Any]:
    rows = np.ones((N_ROWS, 2), dtype=object)
    for place in range(N_ROWS):
        rows[place, 1] = value
    return rows


def beside(value: object, n: int = N_ROWS) -> dict[str, list[object]]:
    return {"a": [1.0] * n, "b": [value] * n}


# None of them is a table of numbers, in whatever it comes.
AWKWARD: dict[str, Callable[[], Any]] = {
    "ragged list": lambda: [[1.0, 2.0]] * (N_ROWS - 1) + [[1.0]],
    "a list in a cell": lambda: [[1.0, 2.0]] * (N_ROWS - 1) + [[1.0, [float(DIGITS)]]],
    "an array in a cell": lambda: cells(np.array([float(DIGITS)] * 3)),
    "no columns": lambda: np.ones((N_ROWS, 0)),
    "no columns, pandas": lambda: pd.DataFrame(index=range(N_ROWS)),
    "one dimension": lambda: np.full(N_ROWS, float(DIGITS)),
    "three dimensions": lambda: np.full((N_ROWS, 2, 2), float(DIGITS)),
    "text": lambda: np.array([[WORD, "1"]] * N_ROWS),
    "text objects": lambda: cells(WORD),
    "a dict in a cell": lambda: cells({WORD: 1}),
    "a huge whole number": lambda: cells(int(DIGITS) * 10**400),
    "a complex number": lambda: cells(complex(float(DIGITS), 1.0)),
    "complex numbers of numpy": lambda: cells(np.complex128(float(DIGITS) + 1j)),
    "masked rows": lambda: [np.ma.masked_array([1.0, float(DIGITS)], mask=[False, True])] * N_ROWS,
    "a date": lambda: np.full((N_ROWS, 2), np.datetime64("1981-07-26")),
    "records": lambda: np.array([(float(DIGITS), 1)] * N_ROWS, dtype=[("a", float), ("b", int)]),
    "a mask": lambda: np.ma.masked_greater(ROWS, 5.0),
    **{f"a cell with {kind.__name__}": lambda kind=kind: cells(Unreadable(kind))
       for kind in (ValueError, TypeError, RuntimeError, OverflowError, KeyError, ZeroDivisionError)},
    **{f"a table with {kind.__name__}": lambda kind=kind: Unreadable(kind)
       for kind in (ValueError, TypeError, RuntimeError, OverflowError)},
    "record batch of text": lambda: pa.record_batch(beside(WORD)),
    "arrow of text": lambda: pa.table(beside(WORD)),
    "reader of text": lambda: pa.table(beside(WORD)).to_reader(),
    "arrow column": lambda: pa.chunked_array([[float(DIGITS)] * N_ROWS]),
    "arrow of structs": lambda: pa.table(beside({WORD: 1})),
    "arrow of lists of structs": lambda: pa.table(beside([{WORD: 1}])),
    "arrow of empty vectors": lambda: pa.table({"a": pa.array([[]] * N_ROWS, pa.list_(pa.float64(), 0))}),
    "pandas column": lambda: pd.Series([float(DIGITS)] * N_ROWS),
    "pandas of text": lambda: pd.DataFrame(beside(WORD)),
    "pandas of categories": lambda: pd.DataFrame({"a": [1.0] * N_ROWS, "b": pd.Categorical([WORD] * N_ROWS)}),
    "pandas of text and huge numbers": lambda: pd.DataFrame(
        {"a": [WORD] * N_ROWS, "b": pd.Series([10**400] * N_ROWS, dtype=object)}
    ),
    "pandas of huge numbers": lambda: pd.DataFrame({"b": pd.Series([int(DIGITS) * 10**400] * N_ROWS, dtype=object)}),
    "pandas of complex numbers": lambda: pd.DataFrame(beside(complex(float(DIGITS), 1.0))),
    "pandas of dicts": lambda: pd.DataFrame(beside({WORD: 1})),
    "pandas of lists": lambda: pd.DataFrame(beside([float(DIGITS)])),
    "pandas of dates": lambda: pd.DataFrame(beside(pd.Timestamp("1981-07-26"))),
    "pandas of what cannot be read": lambda: pd.DataFrame(beside(Unreadable(RuntimeError))),
    "pandas of two kinds of names": lambda: pd.DataFrame({"a": [WORD] * 3, 1: [1.0] * 3}),
    "pandas of one name": lambda: pd.DataFrame([[float(DIGITS), 1.0]] * N_ROWS, columns=["a", "a"]),
    "polars column": lambda: pl.Series("a", [float(DIGITS)] * N_ROWS),
    "polars of text": lambda: pl.DataFrame(beside(WORD)),
    "polars of dates": lambda: pl.DataFrame(beside(datetime.date(1981, 7, 26))),
    "polars of moments": lambda: pl.DataFrame(beside(datetime.datetime(1981, 7, 26))),
    "polars of spans": lambda: pl.DataFrame(beside(datetime.timedelta(days=int(DIGITS)))),
    "polars of structs": lambda: pl.DataFrame(beside({WORD: 1})),
    "polars of lists": lambda: pl.DataFrame(beside([float(DIGITS)])),
    "polars of objects": lambda: pl.DataFrame({"a": [Unreadable(RuntimeError)] * 9}),
    "sparse": lambda: sparse.csr_matrix(np.full((N_ROWS, 2), float(DIGITS))),
    "nothing": lambda: None,
    "a dict": lambda: {WORD: [float(DIGITS)] * N_ROWS},
}  # fmt: skip


@pytest.mark.parametrize("case", AWKWARD)
def test_what_is_no_table_of_numbers_is_refused_by_the_model_without_a_trace(case: str) -> None:
    assert_silent(lambda: fitted(AWKWARD[case]()))
    assert_silent(lambda: fitted(AWKWARD[case](), **STATED))
    model = fitted(np.ones((50, 2)), **STATED)
    for act in (model.predict, model.transform, model.score):
        assert_silent(lambda act=act: act(AWKWARD[case]()))


@pytest.mark.parametrize("case", AWKWARD)
def test_what_is_no_table_of_numbers_is_refused_by_sources_without_a_trace(case: str) -> None:
    assert_silent(lambda: pais.survey(AWKWARD[case](), epsilon=1.0))
    assert_silent(lambda: pais.sample(AWKWARD[case](), ball=pais.Ball(radius=1.0), rule=pais.UniformRule(rate=0.5)))
    assert_silent(lambda: pais.cost(AWKWARD[case](), np.ones((1, 2))))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_rows_of_another_width_or_other_names_are_refused_by_the_model_without_a_trace(method: str) -> None:
    plain, named = fitted(ROWS, **STATED), fitted(frame()[list(NAMES)], **STATED)
    for X in (np.full((N_ROWS, 2), float(DIGITS)), np.full((N_ROWS, 4), float(DIGITS)).tolist()):
        assert_silent(lambda X=X: getattr(plain, method)(X), match="features")
    other = pd.DataFrame(np.full((N_ROWS, 3), float(DIGITS)), columns=["height", "span", "other"])
    for X in (other, pl.DataFrame(other), pa.table(other), pa.record_batch(other), pa.table(other).to_reader()):
        assert_silent(lambda X=X: getattr(named, method)(X), match="feature names")


# First lines that are rows, each above more of its like; none is quoted, and none becomes the names of columns.
HEADERLESS: dict[str, str] = {
    "semicolons": f"{DIGITS};987654321",
    "tabs": f"{DIGITS}\t987654321",
    "bars": f"{DIGITS}|987654321",
    "blanks": f"{DIGITS} 987654321",
    "semicolons and text": f"{HALF};b;1",
    "quoted decimal commas": f'"{DIGITS},5","1,5"',
    "thousands": '"8,172","6,354"',
    "points for thousands": '"8.172,5","6.354,5"',
    "short quoted decimal commas": '"1,5","2,5"',
    "dollars": f"${DIGITS},$1",
    "few dollars": "$12,$13",
    "euros": "12 €,13 €",
    "currency words": "USD 12,12 EUR",
    "per cent": f"{DIGITS}%,12%",
    "few per cent": "11%,12%",
    "brackets": f"({DIGITS}),(12)",
    "quotes": f"'{DIGITS}','12'",
    "ids": f"P{DIGITS},,true",
    "ids of text": f"P{DIGITS},x",
    "hex": "0x1f,0xAB",
    "dates": "1981-07-26,2024-01-31",
    "moments": "1981-07-26T07:26:35Z,2024-01-31T00:00:00Z",
    "other dates": "26/07/1981,31.01.2024",
    "times": "07:26,19:26 pm",
    "doubled text": f"{HALF},{HALF}",
    "text": f"{HALF},{HALF} b",
    "text and a number": f"{HALF},5",
    "truths": "true,false",
    "loud truths": "TRUE,False",
    "bits": "0,1",
    "a bit": "1",
    "no values": "NA,null",
    "truth and no value": "true,NA",
    "an empty cell": f"{HALF},",
    "empty cells": ",",
    "a question": f"{HALF},?",
    "a question and no more": "?,-",
    "not finite": "inf,-inf",
    "signs": "+5,-5",
    "exponents": "1e5,2E-3",
    "two lines in a cell": f'"{HALF}\n{DIGITS}",x',
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERLESS)
def test_a_first_line_that_is_a_row_is_neither_quoted_nor_published(case: str, tmp_path: Path) -> None:
    text = f"{HEADERLESS[case]}\n" * 60
    path = written(tmp_path, text)
    model = fitted(np.ones((50, 2)), **STATED)
    for act in (
        lambda: pais.source(path),
        lambda: pais.survey(path, epsilon=1.0),
        lambda: fitted(path, **STATED),
        lambda: model.predict(path),
        lambda: pais.source(path, columns=["height", "b"]),
        lambda: pais.source(tmp_path, columns=["height"], carry=["weight"]),
        lambda: read(path),
        lambda: read(path, columns=["height"]),
    ):
        assert_silent(act)
    done = command("kmeans", path, "--n-clusters", 2, "--epsilon", 1, "--out", "out")
    assert done.exit_code == 2, done.output
    assert not any(secret in done.output for secret in (HALF, DIGITS))
    assert not Path("out").exists()


CSV_FAULTS: dict[str, str] = {
    "text": f"{HALF},x\nword,1\n",
    "doubled": f"{HALF},{HALF}\n1,2\n",
    "missing": f"{HALF},x\n,1\n2,3\n",
    "late text": f"{HALF},x\n" + "1,2\n" * 200 + "word,1\n",
}


@pytest.mark.parametrize("case", CSV_FAULTS)
def test_names_in_a_csv_file_that_nobody_typed_are_not_quoted(case: str, tmp_path: Path) -> None:
    path = written(tmp_path, CSV_FAULTS[case])
    model = fitted(np.ones((50, 2)), **STATED)
    for act in (lambda: pais.survey(strict(path), epsilon=1.0), lambda: strict(path), lambda: model.predict(path)):
        assert_silent(act)
    (tmp_path / "rows.csv").rename(tmp_path / "more.csv")
    written(tmp_path, "u,v\n1,2\n", "a.csv")
    assert_silent(lambda: pais.survey(tmp_path, epsilon=1.0))


def test_names_that_were_typed_are_repeated_and_others_are_called_by_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HALF},typed,late\n1,word,\n2,word,3\n4,word,5\n")
    assert_silent(lambda: pais.source(path), match=r"column\(s\) 2 from the left \(type string\) of file")
    for name in ("typed", "late"):
        assert_silent(
            lambda name=name: pais.source(path, columns=[name], missing="error"), match=rf"column\(s\) '{name}' have"
        )
    assert_silent(lambda: pais.source(path, columns=["typo"]), match=r"column\(s\) typo do not exist in file")
    written(tmp_path, f"{HALF},late\n1,\n2,3\n")
    assert_silent(lambda: strict(path), match=r"column\(s\) 2 from the left have")


def test_a_csv_file_whose_numbers_are_not_finite_is_refused_by_predict_without_its_names(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HALF},x\n1,inf\n")
    assert_silent(lambda: fitted(np.ones((50, 2)), **STATED).predict(path), match=r"column\(s\) 1 of X")
    assert_silent(lambda: fitted(pd.DataFrame({"a": [1.0], "x": [1.0]}), **STATED).predict(path), match="feature names")


def test_types_are_told_by_their_kind_alone(tmp_path: Path) -> None:
    structs = pa.table({"a": [1.0], "j": [{WORD: 1}]})
    assert_silent(lambda: pais.survey(structs, epsilon=1.0), match=r"'j' \(type struct\) of the source")
    several = pa.concat_tables([structs] * 3).to_pandas()
    assert_silent(lambda: pais.survey(several, epsilon=1.0), match=r"'j' \(type string\) of the source")
    lists = pa.table({"a": [1.0], "j": [[{WORD: 1}]]})
    assert_silent(lambda: pais.survey(lists, epsilon=1.0), match=r"'j' \(type list\) of the source")
    for name, one in (("a", structs), ("b", lists), ("c", pa.table({"a": [1.0], "j": [{DIGITS: 1}]}))):
        pq.write_table(one, tmp_path / f"{name}.parquet")
    for pattern in ("[ab].parquet", "[ac].parquet"):
        assert_silent(
            lambda pattern=pattern: pais.source(str(tmp_path / pattern), columns=["a"], carry=["j"]), match="of type"
        )


def test_values_in_names_of_directories_are_left_out(tmp_path: Path) -> None:
    for part, column in (("1", [1.0, None]), ("2", [1.0, 2.0])):
        home = tmp_path / "data" / f"ssn={DIGITS}{part}" / f"name={WORD}"
        home.mkdir(parents=True)
        pq.write_table(pa.table({"b": column}), home / f"{part}.parquet")
    whole = tmp_path / "data"
    assert_silent(lambda: strict(whole), match=r"column\(s\) 'b' have values that are missing")
    assert_silent(lambda: pais.source(whole, columns=["c"]), match=r"ssn=\.\.\./name=\.\.\./1\.parquet")
    (whole / f"ssn={DIGITS}2" / f"name={WORD}" / "2.parquet").write_bytes(b"no parquet")
    assert_silent(lambda: pais.source(whole), match=r"ssn=\.\.\./name=\.\.\./2\.parquet cannot be read")
    # What was typed may be repeated.
    with pytest.raises(pais.DataError, match="ssn=5"):
        pais.source(whole / "ssn=5")


@pytest.mark.parametrize(
    "notes",
    [f'{{"index_columns": [{DIGITS}', f"[{N_ROWS}]", '{"index_columns": 5}', '{"index_columns": [[1]]}', "\xff"],
)
def test_notes_of_pandas_that_are_damaged_are_refused_and_not_quoted(notes: str, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.float64())], metadata={b"pandas": notes.encode("latin-1")})
    table = pa.table({"a": [1.0] * N_ROWS}, schema=schema)
    pq.write_table(table, tmp_path / "rows.parquet")
    for data in (table, tmp_path / "rows.parquet"):
        assert_silent(lambda data=data: pais.source(data), match="Name the columns")
        assert pais.source(data, columns=["a"]).names == ("a",)


def test_memory_that_runs_out_tells_no_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(ROWS, **STATED)
    pq.write_table(pa.table(dict(zip(NAMES, ROWS.T, strict=True))), tmp_path / "rows.parquet")

    def runs_out(*_: Any, **__: Any) -> Any:
        raise MemoryError(f"Unable to allocate 1 GiB for an array with shape ({N_ROWS}, 8)")

    def assert_no_size(act: Callable[[], object]) -> None:
        with pytest.raises(MemoryError, match="memory") as caught:
            act()
        assert told(caught.value) == []
        assert caught.value.__context__ is None

    ball, every = pais.Ball(radius=RADIUS), pais.UniformRule(rate=1.0)
    data = (ROWS, tmp_path / "rows.parquet")
    tables = (frame()[list(NAMES)], pa.table(dict(zip(NAMES, ROWS.T, strict=True))))
    with monkeypatch.context() as change:
        change.setattr("pais.data.engines.base.Thinning.keep", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: pais.sample(rows, ball=ball, rule=every))
            assert_no_size(
                lambda rows=rows: pais.run(plan_of(pais.WeightedCount(noise=pais.laplace_noise(20.0))), rows)
            )
    with monkeypatch.context() as change:
        for name in ("together", "np.concatenate"):
            change.setattr(f"pais.data.engines.memory.{name}", runs_out)
            change.setattr(f"pais.data.engines.arrow.{name}", runs_out)
        assert_no_size(lambda: pais.sample(ROWS, ball=ball, rule=every))
        assert_no_size(lambda: pais.source(data[1]).held())
    with monkeypatch.context() as change:
        change.setattr(norm_survey._NormCounts, "of", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: pais.survey(rows, epsilon=1.0))
            assert_no_size(lambda rows=rows: fitted(rows))
    with monkeypatch.context() as change:
        change.setattr(LloydSample, "_assign", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: fitted(rows, **STATED))
    with monkeypatch.context() as change:
        change.setattr("pais.estimators.kmeans.np.empty", runs_out)
        for act in (model.predict, model.transform, model.score):
            assert_no_size(lambda act=act: act(ROWS))
    with monkeypatch.context() as change:
        change.setattr("pais.data.columns.np.empty", runs_out)
        for rows in tables:
            assert_no_size(lambda rows=rows: pais.survey(rows, epsilon=1.0))
    with monkeypatch.context() as change:
        change.setattr("pais._base.validate.np.asarray", runs_out)
        assert_no_size(lambda: fitted(ROWS.tolist()))
        assert_no_size(lambda: pais.survey(ROWS.tolist(), epsilon=1.0))
    with monkeypatch.context() as change:
        change.setattr("pais.estimators.kmeans.validate_data", runs_out)
        assert_no_size(lambda: fitted(ROWS))
        assert_no_size(lambda: model.predict(tables[0]))


# ---------------------------------------------------------------- files and commands


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "rows.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pandas(frame(), preserve_index=False), path)
    return path


def left_in(place: Path) -> list[Path]:
    """All files, hidden ones too, but for the data."""
    return [path for path in sorted(place.rglob("*")) if path.is_file() and "given" not in path.parts]


def assert_clean(path: Path, secrets: Secrets) -> None:
    assert not secrets.in_text(str(path)), path
    assert not secrets.in_bytes(path.read_bytes()), path
    if path.suffix == ".parquet":
        found = pq.read_table(path)
        assert leaks([column.to_numpy() for column in found.columns], secrets) == [], path
        assert leaks({str(key): str(value) for key, value in (found.schema.metadata or {}).items()}, secrets) == []
    else:
        assert not secrets.in_text(path.read_text(encoding="utf-8")), path


def test_commands_tell_nothing_of_rows_on_the_screen_or_in_any_file(
    data: Path, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    columns = ("--columns", ",".join(NAMES))
    book = tmp_path / "book.json"
    fit = ("kmeans", data, *columns, "--n-clusters", 3, "--seed", SEED, "--ledger", book)
    plan = ("plan", "--n-clusters", 3, "--n-features", 3, "--epsilon", 1, "--survey", "survey.json")
    lines = [
        ("ledger", book, "--epsilon", 9, "--delta", 1e-4),
        (*fit, "--epsilon", 1, "--out", "a"),
        (*fit, "--epsilon", 1, "--out", "b/c", "--json"),
        (*fit, "--epsilon", 1, "--out", "a", "--overwrite", "--mechanism", "laplace"),
        ("survey", data, *columns, "--epsilon", 0.2, "--seed", SEED, "--ledger", book, "--out", "survey.json"),
        ("survey", data, *columns, "--epsilon", 0.2, "--seed", SEED, "--json"),
        (*plan, "--out", "plan.json"),
        ("explain", "survey.json"),
        ("explain", "plan.json"),
        ("explain", "a/certificate.json"),
        (*fit, "--epsilon", 1, "--out", "d", "--survey", "survey.json"),
        ("sample", data, *columns, "--plan", "plan.json", "--out", "given/secret.parquet", "--carry", "name",
         "--seed", SEED),
        ("ledger", book),
        ("ledger", book, "--json"),
    ]  # fmt: skip
    for line in lines:
        done = command(*line)
        assert done.exit_code == 0, (line, done.output)
        assert not secrets.in_text(done.stdout + done.stderr), line
    # What fails tells nothing either.
    for line in (
        (*fit, "--epsilon", 100, "--out", "e"),
        (*fit, "--epsilon", 1, "--out", "a"),
        ("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", "e"),
        ("survey", data, "--columns", "name", "--epsilon", 1),
        ("survey", data, "--columns", "nobody", "--epsilon", 1),
        ("explain", data),
        ("ledger", data),
    ):
        done = command(*line)
        assert done.exit_code in (1, 2, 3), line
        assert not secrets.in_text(done.stdout + done.stderr), (line, done.output)
    made = left_in(tmp_path)
    assert {"certificate.json", "centers.csv", "report.html", "book.json"} <= {path.name for path in made}
    for path in made:
        assert_clean(path, secrets)
    assert list(tmp_path.rglob(".pais-*")) == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert_quiet(caplog, secrets)
    # The sample does hold the rows, and the searches see it.
    held = tmp_path / "given" / "secret.parquet"
    assert pq.read_metadata(held).num_rows in secrets.whole
    assert held.stat().st_mode & 0o777 == 0o600


def test_a_sample_is_its_owners_alone_from_the_first_byte_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    write = pq.write_table

    def watched(content: pa.Table, where: Any, **rest: Any) -> None:
        seen.extend([Path(where).stat().st_mode & 0o777, Path(where).parents[1].stat().st_mode & 0o777])
        write(content, where, **rest)

    before = os.umask(0)
    try:
        monkeypatch.setattr(files.pq, "write_table", watched)
        out = tmp_path / "secret.parquet"
        out.write_text("readable by all")
        out.chmod(0o666)
        columns = ("--columns", ",".join(NAMES))
        found = command("survey", data, *columns, "--epsilon", 0.1, "--out", "survey.json")
        assert found.exit_code == 0
        made = command("plan", "--n-clusters", 3, "--epsilon", 1, "--survey", "survey.json", "--out", "plan.json")
        assert made.exit_code == 0
        done = command("sample", data, *columns, "--plan", "plan.json", "--out", out, "--overwrite")
        assert done.exit_code == 0, done.output
    finally:
        os.umask(before)
    assert seen == [0o600, 0o700]
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_report_is_one_file_without_a_row(tmp_path: Path, secrets: Secrets) -> None:
    model = fitted(frame()[list(NAMES)])
    write_report(tmp_path / "page.html", model.fit_)
    model.write_report(tmp_path / "second.html")
    made = left_in(tmp_path)
    assert [path.name for path in made] == ["page.html", "second.html"]
    for path in made:
        assert_clean(path, secrets)


def test_a_model_that_was_stored_and_brought_back_holds_no_more_than_before(secrets: Secrets) -> None:
    model = fitted(frame()[list(NAMES)], **STATED)
    place = io.BytesIO()
    pickle.dump(model, place)
    assert not secrets.in_bytes(place.getvalue())
    back = pickle.loads(place.getvalue())
    assert leaks(back, secrets) == []
    # A pickle has no room for the rows: a few numbers and the stated norms.
    assert len(place.getvalue()) < 60_000 + NORMS.norms.nbytes * 4 < ROWS.nbytes * 4


# ---------------------------------------------------------------- neighbours


def shape_of(value: object) -> object:
    """What an object looks like without its protected numbers: keys, types, shapes, words."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape)
    if isinstance(value, (bool, type(None), str)):
        return value
    if isinstance(value, (int, float, np.generic)):
        return type(value).__name__
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shape_of, value)]
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, {name: shape_of(item) for name, item in vars(value).items()})
    return type(value).__name__


def without_digits(page: str) -> str:
    return re.sub(r" *-?[\d.,]+(e[-+]\d+)?", "#", page)


NEIGHBOUR = np.delete(ROWS, N_ROWS // 2, axis=0)


def without_fingerprint(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a fitted model, with certificates that do not name its values."""
    certificate = dataclasses.replace(attributes["certificate_"], values_sha256=None)
    fit = dataclasses.replace(attributes["fit_"], certificate=certificate)
    return {**attributes, "certificate_": certificate, "fit_": fit}


@pytest.mark.parametrize("route", ["stated", "every row"])
def test_with_stated_facts_neighbours_give_the_same_public_words_and_numbers_but_for_the_released_value(
    route: str,
) -> None:
    one, other = (fitted(rows, **ROUTES[route]) for rows in (ROWS, NEIGHBOUR))
    # The fingerprint is a function of the released value, and of nothing else.
    assert [model.certificate_.values_sha256 for model in (one, other)] == [
        digest(model.fit_.value) for model in (one, other)
    ]
    certificates = [dataclasses.replace(model.certificate_, values_sha256=None) for model in (one, other)]
    assert certificates[0] == certificates[1]
    assert certificates[0].to_json() == certificates[1].to_json()
    assert one.plan_.explain() == other.plan_.explain()
    assert one.plan_.rule == other.plan_.rule
    assert one.plan_.mechanism == other.plan_.mechanism
    assert repr(one) == repr(other)
    assert sorted(vars(one)) == sorted(vars(other))
    assert shape_of(without_fingerprint(vars(one))) == shape_of(without_fingerprint(vars(other)))
    assert len(pickle.dumps(one)) == len(pickle.dumps(other))
    assert not np.array_equal(one.cluster_centers_, other.cluster_centers_)
    pages = [report_html(model.fit_, feature_names=NAMES) for model in (one, other)]
    assert json.loads(one.certificate_.to_json())["rule"] == json.loads(other.certificate_.to_json())["rule"]
    assert len(re.findall("<tr", pages[0])) == len(re.findall("<tr", pages[1]))


@routes
def test_neighbours_give_objects_of_the_same_keys_types_and_shapes(route: str) -> None:
    one, other = (fitted(rows, **ROUTES[route]) for rows in (ROWS, NEIGHBOUR))
    words = [json.loads(model.certificate_.to_json()) for model in (one, other)]
    for told in words:
        # The profile is written as text with its numbers, the fingerprint as text.
        told["rule"].pop("profile", None)
        assert len(told.pop("values_sha256")) == 64
    assert shape_of(words[0]) == shape_of(words[1])
    assert sorted(vars(one)) == sorted(vars(other))
    assert shape_of(vars(one.fit_.value)) == shape_of(vars(other.fit_.value))
    assert shape_of(one.plan_.norms) == shape_of(other.plan_.norms)
    assert len(one.plan_.mechanism.describe()["rounds"]) == len(other.plan_.mechanism.describe()["rounds"])
    assert without_digits(one.plan_.explain()) == without_digits(other.plan_.explain())


def test_ledgers_of_neighbours_differ_in_time_name_and_nothing_else() -> None:
    books = []
    for rows in (ROWS, NEIGHBOUR):
        ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
        fitted(rows, ledger=ledger, **STATED)
        (entry,) = [entry.describe() for entry in ledger.entries]
        books.append({name: value for name, value in entry.items() if name not in ("when", "id")})
    assert books[0] == books[1]


def test_a_survey_of_neighbours_has_the_same_keys_types_and_shapes() -> None:
    one, other = (pais.survey(rows, epsilon=0.5, random_state=SEED) for rows in (ROWS, NEIGHBOUR))
    # Names are random, and know nothing of rows.
    assert shape_of(one) == shape_of(dataclasses.replace(other, name=one.name))
    assert shape_of(one.describe()) == shape_of(other.describe())
    assert len(one.name) == len(other.name)


def test_memory_that_runs_out_in_a_mechanism_tells_no_size() -> None:
    class Hungry(pais.WeightedCount):
        def measure(self, content: Any, ball: pais.Ball, bits: Any) -> float:
            raise MemoryError(f"Unable to allocate an array with shape ({len(content.weights)}, 8)")

    plan = pais.Plan(
        ball=pais.Ball(radius=3.0),
        rule=pais.UniformRule(rate=0.5),
        mechanism=Hungry(noise=pais.laplace_noise(1.0)),
        epsilon=9.0,
    )
    kept = pais.sample(ROWS, ball=plan.ball, rule=plan.rule)
    for call in (lambda: pais.run(plan, ROWS), lambda: pais.release(plan.mechanism, kept)):
        with pytest.raises(MemoryError, match="memory ran out") as raised:
            call()
        assert "shape" not in "".join(traceback.format_exception(raised.value))
        assert raised.value.__context__ is None
