"""Planted rows and words, and searches for them in objects, errors and files."""

from __future__ import annotations

import math
import os
import re
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import pais
from pais import DPKMeans
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import LloydSample, ResidualSample, RowGrid
from pais.pipeline import WeightedSample

Floats = NDArray[np.float64]
# One row within the ball, and one far beyond it, which is clipped.
NEAR = (1.3728465918273, -0.9182736455647, 0.4738291056473)
FAR = (73918264.55738, -28374651.92837, 65473829.10564)
WORD = "Zyxomma-81726354"
NAMES = ("height", "weight_kg", "span")
N_ROWS = 7919
SEED = 20273
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


class Secrets:
    """Numbers and words that nobody may find."""

    def __init__(self) -> None:
        # Sizes that would be unmistakable in a text, and those that are so only as an exact number.
        self.sizes: set[int] = {N_ROWS, N_ROWS - 1, N_ROWS - 2}
        self.whole: set[int] = set(self.sizes)
        self.samples: list[int] = []
        self.rounds = 0
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
                    is_property = not name.startswith("_") and isinstance(getattr(type(value), name), property)
                    # Some properties only raise an error: what they would show is not protected.
                    if is_property and hasattr(value, name):
                        item = getattr(value, name)
                        # A frame of released values, such as `elbow_`: its numbers are looked at, not its kind.
                        shown = {key: item[key].to_numpy() for key in item} if isinstance(item, pd.DataFrame) else item
                        waiting.append((f"{way}.{name}", shown))
                waiting.append((f"repr({way})", repr(value)))


# What holds rows, weights or sums of them without noise.
SECRET_KINDS = (pa.Table, pa.Array, pd.DataFrame, WeightedRows, WeightedSample, LloydSample, ResidualSample, RowGrid)


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
            bad = isinstance(value, SECRET_KINDS)
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


def assert_quiet(caplog: pytest.LogCaptureFixture, secrets: Secrets) -> None:
    for record in caplog.records:
        assert not secrets.in_text(record.getMessage())
        assert leaks(record.args, secrets) == []


def fitted(X: Any, **changes: Any) -> DPKMeans:
    return DPKMeans(**{"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "random_state": SEED, **changes}).fit(X)


def plan_of(mechanism: Any) -> pais.Plan:
    return pais.Plan(
        ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=0.4), mechanism=mechanism, epsilon=1.0, norms=NORMS
    )


def written(place: Path, text: str, name: str = "rows.csv") -> Path:
    path = place / name
    path.write_text(text)
    return path


def strict(data: object) -> pais.data.engines.Engine:
    """Rows that are an error where one has no finite number in every feature."""
    return pais.source(data, missing="error")


DIGITS = WORD.split("-")[1]
HALF = WORD.split("-")[0]


def planted_in(error: BaseException) -> list[str]:
    """Places in an error, its context or its printed form that show a planted word or the number of rows."""
    shown = ["".join(traceback.format_exception(error)), *map(repr, pieces(error)), *map(str, pieces(error))]
    secret = (HALF, DIGITS, str(N_ROWS), f"{N_ROWS:,}")
    # Paths of tests have their names in them, and no secrets.
    return [f"{one} in {text!r:.400}" for text in shown for one in secret if one in text]


def assert_silent(act: Callable[[], object], *, match: str | None = None) -> None:
    """Require an error of this package that holds no planted value and no other exception."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(pais.DataError, match=match) as caught:
            act()
    assert planted_in(caught.value) == []
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert not [one for one in warned if HALF in str(one.message) or DIGITS in str(one.message)]
    # One for each row would tell how many there are.
    assert len(warned) < 10
