"""Errors, with everything that hangs on them, show no value of a row and no size."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais.kmeans.rounds import RowGrid
from pais.planning import norm_survey
from tests.integration.secrets.planted import (
    DIGITS,
    FAR,
    HALF,
    N_ROWS,
    NAMES,
    NEAR,
    RADIUS,
    ROWS,
    STATED,
    WORD,
    Secrets,
    assert_quiet,
    assert_silent,
    fitted,
    frame,
    leaks,
    pieces,
    plan_of,
    planted_in,
    strict,
    written,
)
from tests.support.commands import pais as command

Floats = NDArray[np.float64]


# ---------------------------------------------------------------- errors


def spoiled(**columns: Any) -> pd.DataFrame:
    made = frame()
    for name, value in columns.items():
        made[name] = made[name].astype(object)
        made.loc[N_ROWS // 2 + 1, name] = value
    return made[list(NAMES)]


def csv_of(extra: str) -> str:
    lines = [",".join(map(repr, row)) for row in ROWS[N_ROWS // 2 - 3 : N_ROWS // 2 + 3].tolist()]
    return ",".join(NAMES) + "\n" + "\n".join([*lines, extra, *lines]) + "\n"


FAILURES: dict[str, Callable[[Path], object]] = {
    "nan": lambda place: fitted(strict(spoiled(height=math.nan))),
    "nan, stated": lambda place: fitted(strict(spoiled(height=math.inf).to_numpy(float)), sampling="none", **STATED),
    "nan, predict": lambda place: fitted(ROWS, **STATED).predict(spoiled(height=math.nan).to_numpy(float)[:, :1]),
    "text": lambda place: fitted(strict(spoiled(span=f"{NEAR[0]!r} {WORD}"))),
    "objects": lambda place: fitted(strict(spoiled(span={"row": NEAR[0]}))),
    "width": lambda place: fitted(ROWS, center=(0.0, 0.0)),
    "predict": lambda place: fitted(ROWS, **STATED).predict(ROWS[:, :2]),
    "csv text": lambda place: fitted(strict(written(place, csv_of(f"{WORD},1.0,{NEAR[0]!r}")))),
    "csv open header": lambda place: fitted(written(place, f'{NAMES[0]},"{NAMES[1]}\n{NEAR[0]!r},1.0\n')),
    "csv empty": lambda place: fitted(strict(written(place, csv_of(f",{NEAR[0]!r},")))),
    "csv late text": lambda place: fitted(
        strict(written(place, ",".join(NAMES) + "\n" + "1.0,2.0,3.0\n" * 90_000 + f"{WORD},{NEAR[0]!r},1.0\n"))
    ),
    "carried": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES, carry=("nobody",)),
    "features of text": lambda place: pais.survey(frame(), epsilon=1.0),
    "key": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES[:2], key="name"),
    "key of floats": lambda place: pais.source(pa.Table.from_pandas(frame()), columns=NAMES[:2], key="span"),
    "budget": lambda place: fitted(ROWS, ledger=pais.Ledger(epsilon=0.5)),
    "mismatch": lambda place: pais.run(plan_of(pais.WeightedSum(noise=pais.laplace_noise(100.0))), ROWS),
    "missing": lambda place: fitted(strict(pa.table({"height": [NEAR[0], None], "span": [NEAR[1], FAR[0]]}))),
    "rows for a ball": lambda place: pais.sample(ROWS, ball=ROWS, rule=pais.UniformRule(rate=1.0)),  # type: ignore[arg-type]
    "rows for a mechanism": lambda place: pais.WeightedSum(noise=ROWS),  # type: ignore[arg-type]
    "rows for a center": lambda place: fitted(ROWS, center=ROWS),
    "dates in another kind": lambda place: pais.source(
        pa.table(frame()), columns={"height": ("2020-01-01", "2021-01-01")}
    ),
    "bounds, missing": lambda place: pais.source(spoiled(span=WORD), columns={"span": (-5, 5)}, missing="error"),
    "bounds, csv": lambda place: pais.source(
        written(place, csv_of(f"{WORD},1,2")), columns=dict.fromkeys(NAMES, (-5, 5)), missing="error"
    ),
    "rows for bounds": lambda place: pais.source(frame(), columns={"span": (ROWS[0], ROWS[1])}),
    "rows for categories": lambda place: pais.source(frame(), columns={"span": [ROWS, 3]}),
    "category twice": lambda place: pais.source(frame(), columns={"name": [WORD, WORD]}),
    "row for a seed": lambda place: fitted(ROWS, random_state=NEAR),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", FAILURES)
def test_errors_and_their_causes_show_no_value_of_a_row(
    case: str, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises((pais.PaisError, ValueError, TypeError)) as caught:
            FAILURES[case](tmp_path)
    planted_in = [f"{way} in {piece!r:.300}" for piece in pieces(caught.value) for way in leaks(piece, secrets)]
    assert planted_in == []
    assert leaks([str(one.message) for one in warned], secrets) == []
    assert_quiet(caplog, secrets)


def test_command_shows_only_the_type_of_an_internal_error(
    data: Path, monkeypatch: pytest.MonkeyPatch, secrets: Secrets
) -> None:
    def breaks(self: RowGrid, *arguments: object) -> Any:
        raise RuntimeError(f"row {NEAR!r} of {WORD}")

    monkeypatch.setattr(RowGrid, "assign", breaks)
    done = command("kmeans", data, "--columns", ",".join(NAMES), "--n-clusters", 3, "--epsilon", 1, "--out", "out")
    assert done.exit_code == 1
    assert "RuntimeError" in done.stderr
    assert not secrets.in_text(done.stdout + done.stderr)
    assert not Path("out").exists()


def test_a_csv_file_without_the_columns_of_a_model_is_refused_without_its_names(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HALF},x\n1,inf\n")
    assert_silent(lambda: fitted(np.ones((50, 3)), **STATED).predict(path), match=r"2 feature\(s\)")
    assert_silent(lambda: fitted(pd.DataFrame({"a": [1.0], "x": [1.0]}), **STATED).predict(path), match="do not exist")


def test_errors_name_the_kind_of_a_type_only(tmp_path: Path) -> None:
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
def test_damaged_pandas_metadata_is_refused_and_not_quoted(notes: str, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.float64())], metadata={b"pandas": notes.encode("latin-1")})
    table = pa.table({"a": [1.0] * N_ROWS}, schema=schema)
    pq.write_table(table, tmp_path / "rows.parquet")
    for data in (table, tmp_path / "rows.parquet"):
        assert_silent(lambda data=data: pais.source(data), match="Name the columns")
        assert pais.source(data, columns=["a"]).names == ("a",)


def test_memory_error_shows_no_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(ROWS, **STATED)
    pq.write_table(pa.table(dict(zip(NAMES, ROWS.T, strict=True))), tmp_path / "rows.parquet")

    def runs_out(*_: Any, **__: Any) -> Any:
        raise MemoryError(f"Unable to allocate 1 GiB for an array with shape ({N_ROWS}, 8)")

    def assert_no_size(act: Callable[[], object]) -> None:
        with pytest.raises(MemoryError, match="memory") as caught:
            act()
        assert planted_in(caught.value) == []
        assert caught.value.__context__ is None

    ball, every = pais.Ball(radius=RADIUS), pais.UniformRule(rate=1.0)
    data = (ROWS, tmp_path / "rows.parquet")
    tables = (frame()[list(NAMES)], pa.table(dict(zip(NAMES, ROWS.T, strict=True))))
    with monkeypatch.context() as change:
        change.setattr("pais.data.engines.base.Sampling.keep", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: pais.sample(rows, ball=ball, rule=every))
            assert_no_size(
                lambda rows=rows: pais.run(plan_of(pais.WeightedCount(noise=pais.laplace_noise(20.0))), rows)
            )
    with monkeypatch.context() as change:
        for name in ("local.join", "files.np.concatenate"):
            change.setattr(f"pais.data.engines.{name}", runs_out)
        assert_no_size(lambda: pais.sample(ROWS, ball=ball, rule=every))
        assert_no_size(lambda: pais.source(data[1]).held())
    with monkeypatch.context() as change:
        change.setattr(norm_survey._OctaveSums, "of", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: pais.survey(rows, epsilon=1.0))
            assert_no_size(lambda rows=rows: fitted(rows))
    with monkeypatch.context() as change:
        change.setattr(RowGrid, "assign", runs_out)
        for rows in data:
            assert_no_size(lambda rows=rows: fitted(rows, **STATED))
    with monkeypatch.context() as change:
        change.setattr("pais.kmeans.estimator.np.empty", runs_out)
        for act in (model.predict, model.transform, model.score):
            assert_no_size(lambda act=act: act(ROWS))
    with monkeypatch.context() as change:
        change.setattr("pais.data.tables.np.empty", runs_out)
        for rows in tables:
            assert_no_size(lambda rows=rows: pais.survey(rows, epsilon=1.0))
    with monkeypatch.context() as change:
        change.setattr("pais._base.validate.np.asarray", runs_out)
        assert_no_size(lambda: fitted(ROWS.tolist()))
        assert_no_size(lambda: pais.survey(ROWS.tolist(), epsilon=1.0))
    with monkeypatch.context() as change:
        change.setattr("pais.estimator.validate_data", runs_out)
        assert_no_size(lambda: fitted(ROWS))
        assert_no_size(lambda: model.predict(tables[0]))


def test_memory_error_in_a_mechanism_shows_no_size() -> None:
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
