"""Data files with a planted value, commands on them, and the check that a fault is named without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pais import Ball, DataError, UniformRule, sample, source
from pais.data.engines import files
from tests.support.commands import RELEASE, pais

N = 6000
# In every data set of this file; it must not be in any error.
CANARY = 8675309.125
STATED = ("--radius", 20, "--center", "0,0", "--norms", "0,3,5,20", "--n-rows", N)


def rows(n: int = N) -> np.ndarray:
    rng = np.random.default_rng(5)
    found = rng.normal(size=(3, 2))[rng.integers(3, size=n)] * 4.0 + rng.normal(size=(n, 2)) * 0.3
    if n:
        found[n // 2] = CANARY
    return found


def table(n: int = N) -> pa.Table:
    found = rows(n)
    return pa.table({"a": found[:, 0], "b": found[:, 1], "id": pa.array(np.arange(n), pa.int64())})


def parquet(path: Path, whole: pa.Table | None = None, **options: object) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(table() if whole is None else whole, path, **{"row_group_size": 2000, **options})
    return path


def texts_of(error: BaseException | None) -> str:
    """All that an exception says, and those it keeps."""
    found = []
    while error is not None:
        found.append(f"{error!s} {error!r}")
        error = error.__cause__ or error.__context__
    return " ".join(found)


def snapshot(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def refused(data: object, *, names: str, work: Path, columns: str = "a,b", more: tuple[object, ...] = ()) -> None:
    """Every command refuses the data: exit code 2, the name in one line, no value, no change on the disk."""
    home = work / "outputs"
    (home / "old").mkdir(parents=True)
    for name in RELEASE:
        (home / "old" / name).write_text(f"earlier {name}")
    plan = home / "plan.json"
    planned = pais("plan", "--n-clusters", 3, "--epsilon", 1, "--n-features", 2, *STATED, "--out", plan)
    assert planned.exit_code == 0, planned.output
    (home / "sample.parquet").write_text("earlier sample")
    before = snapshot(home)
    kmeans = ("kmeans", data, "--columns", columns, "--n-clusters", 3, "--epsilon", 1, *more)
    for command in (
        (*kmeans, "--out", home / "new"),
        (*kmeans, "--out", home / "old", "--overwrite"),
        (*kmeans, *STATED, "--out", home / "new", "--engine", "memory"),
        ("survey", data, "--columns", columns, "--epsilon", 1, "--out", home / "survey.json", *more),
        ("sample", data, "--columns", columns, "--plan", plan, "--out", home / "sample.parquet", "--overwrite", *more),
    ):
        result = pais(*command)
        assert result.exit_code == 2, (command, result.output, result.exception)
        assert names in result.stderr, (command, result.stderr)
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert "8675309" not in result.output
        assert snapshot(home) == before
        assert not (home / "new").exists()
    with pytest.raises(DataError) as caught:
        sample(source(data, columns=columns.split(",")), ball=Ball(radius=9.0), rule=UniformRule(rate=0.9))
    assert names in str(caught.value)
    assert "8675309" not in texts_of(caught.value)


@contextmanager
def before_pass(number: int, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do something right before a pass begins: the first is number 1."""
    real, begun = files.ArrowEngine._parts, [0]

    def parts(engine: files.ArrowEngine, **options: Any) -> Any:
        begun[0] += 1
        if begun[0] == number:
            action()
        return real(engine, **options)

    with monkeypatch.context() as patch:
        patch.setattr(files.ArrowEngine, "_parts", parts)
        yield
