"""Coverage of the intervals of regressions: how often they hold the table's own coefficients.

``python -m benchmarks.coverage_models --quick`` for a look, without ``--quick`` for the record. Seeded runs are not
private; they are here to be repeated.

The truth is what the same model without privacy gives for all rows of the table, with its columns clipped to the stated
bounds: least squares, or maximum likelihood. No model of these tables is right, and no row is dropped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import Progress
from sklearn.linear_model import LinearRegression, LogisticRegression

import pais
from benchmarks.tables import Cell, Table, parser, run

FloatArray = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 3.0, 5.0)
LEAST, MOST_FALSE = 0.9, 0.06
# A cell has more fits, by this factor, if its least coverage is below CLEAR after the first ones. An interval that
# holds its coefficient in 95 of 100 fits holds it in 36 of 40 or fewer by chance, for one coefficient of seven.
CLEAR, MORE = 0.95, 2.5
# Tables with columns without effect have more fits, by this factor. A rate of 5 % of four coefficients in 240 fits has
# a standard error of 0.7 %.
NULL_FITS = 6.0

ADULT: dict[str, Any] = {
    "age": (17, 90),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "sex": ["Male", "Female"],
    "race": ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"],
    "marital_status": ["Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed"],
    "workclass": ["Private", "Self-emp-not-inc", "Self-emp-inc", "Local-gov", "State-gov", "Federal-gov"],
    "income_class": ["<=50K", ">50K"],
    "hours_per_week": (1, 99),
}
BIKE: dict[str, Any] = {
    "hour": (0, 23),
    "temperature": (0, 1),
    "humidity": (0, 1),
    "wind": (0, 1),
    "workday": bool,
    "season": ["winter", "spring", "summer", "fall"],
    "rides": (0, 1000),
}


@dataclass(frozen=True, kw_only=True)
class Known:
    """A table, what is public about its columns, its target, and columns that have no effect."""

    name: str
    rows: pd.DataFrame
    columns: dict[str, Any]
    target: str
    null: tuple[str, ...] = ()

    def first(self, n_rows: int) -> Known:
        return replace(self, rows=self.rows.sample(n_rows, random_state=0).reset_index(drop=True))

    def as_classes(self) -> Known:
        """The same table for a logistic regression: a number above its median, or the larger category."""
        if isinstance(self.columns[self.target], list):
            return self
        high = self.rows[self.target] > self.rows[self.target].median()
        return replace(self, rows=self.rows.assign(**{self.target: high}), columns={**self.columns, self.target: bool})

    def design(self) -> tuple[FloatArray, list[list[int]]]:
        """Features as numbers within their bounds, and the places of each column of categories."""
        parts: list[FloatArray] = []
        groups = []
        for name, fact in self.columns.items():
            if name == self.target:
                continue
            cells = self.rows[name]
            if isinstance(fact, list):
                groups.append(list(range(len(parts), len(parts) + len(fact))))
                parts += [(cells == value).to_numpy(float) for value in fact]
            else:
                parts.append(cells.to_numpy(float) if fact is bool else cells.clip(*fact).to_numpy(float))
        return np.column_stack(parts), groups


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    fits = options.seeds
    table = Table(
        name="coverage-models",
        title="Coverage of the coefficients of regressions",
        shown=(
            *("model", "data", "rows", "epsilon", "least coverage", "coverage of intervals", "hidden by noise"),
            *("clearly not zero", "false claims", "fits", "result"),
        ),
        remarks=[
            f"{fits} fits in each cell, and {round(MORE * fits)} if the least coverage of these is below {CLEAR}.",
            "Coverage: share of the fits in which the interval of two standard errors holds the coefficient of the "
            "same model without privacy on all rows, within the stated bounds. The least one is over the coefficients; "
            "a fit that calls a coefficient hidden by noise shows no interval, and counts as covered there. The "
            "coverage of intervals is over all intervals that were shown.",
            "False claims: share of coefficients of columns without effect that are called clearly different from "
            f"zero; every fit uses a new table, and there are {round(NULL_FITS * fits)} of them, so that chance hardly "
            "decides.",
            f"Met: least coverage of {LEAST}, and at most {MOST_FALSE} false claims.",
            "Bounds of Song and Covertype are quantiles of the rows, at no price, because we do not know these columns "
            "as their owners do. Song is a sample of a quarter of the rows.",
        ],
    )
    cells = [(model, known) for model in options.only for known in known_tables(options.data, options.quick)]
    for model, known in progress.track(cells):
        table.rows += [_row(model, known, epsilon, fits) for epsilon in options.epsilon]
    yield table


def known_tables(data: Path, quick: bool) -> Iterator[Known]:
    """Tables about people and trees, and made-up ones that no line fits."""
    adult = pd.read_parquet(data / "adult.parquet")[list(ADULT)].dropna()
    for name, fact in ADULT.items():
        adult = adult[adult[name].isin(fact)] if isinstance(fact, list) else adult
    known = Known(name="Adult", rows=adult.reset_index(drop=True), columns=ADULT, target="hours_per_week")
    yield known
    yield known.first(1000)
    yield from (bike(n_rows) for n_rows in ((1000,) if quick else (100, 1000, 17_000, 200_000)))
    yield from (noise_columns(n_rows) for n_rows in ((300,) if quick else (100, 300, 1000, 10_000)))
    if quick:
        return
    song = _numbers(data, "song-sample", 12, "Song")
    yield from (song.first(10_000), song)
    covertype = _numbers(data, "covertype", 10, "Covertype")
    yield from (covertype.first(10_000), covertype.first(500_000))


def _numbers(data: Path, file: str, n_columns: int, name: str) -> Known:
    """The first columns of a table of numbers; the first one is the target."""
    table = pq.read_table(data / f"{file}.parquet")
    scale = 10.0 ** int(table.schema.metadata[b"decimals"])
    rows = table.select(table.column_names[:n_columns]).to_pandas() / scale
    rows.columns = [f"x{place}" for place in range(n_columns)]
    bounds = {column: tuple(rows[column].quantile([0.001, 0.999]).tolist()) for column in rows}
    return Known(name=name, rows=rows, columns=bounds, target="x0")


def bike(n_rows: int) -> Known:
    """Rides by hour: counts with two peaks in a day, a curved effect of humidity, and a spread that grows."""
    rng = np.random.default_rng(3)
    hour, season = rng.integers(0, 24, n_rows), rng.choice(BIKE["season"], n_rows)
    workday = rng.random(n_rows) < 0.68
    temperature, humidity = np.clip(rng.normal(0.5, 0.2, n_rows), 0.0, 1.0), rng.beta(4.0, 2.5, n_rows)
    wind = np.clip(rng.gamma(2.0, 0.1, n_rows), 0.0, 1.0)
    rate = 4.2 + 1.2 * np.exp(-np.square((hour - 8.0) / 2.0)) * workday + 1.4 * np.exp(-np.square((hour - 17.5) / 3.0))
    rate += 1.5 * temperature - 0.8 * humidity**2 - 0.5 * wind - 2.5 * (hour < 6)
    rate += pd.Series(season).map({"winter": -0.2, "spring": 0.05, "summer": 0.2, "fall": 0.1}).to_numpy(float)
    rides = rng.poisson(np.exp(rate + 0.4 * rng.normal(size=n_rows))).clip(0, 1000).astype(float)
    columns = (hour, temperature, humidity, wind, workday, season, rides)
    rows = pd.DataFrame(dict(zip(BIKE, columns, strict=True)))
    return Known(name="bike-like", rows=rows, columns=BIKE, target="rides")


def noise_columns(n_rows: int, seed: int = 0) -> Known:
    """One column with an effect, and four without."""
    rng = np.random.default_rng([n_rows, seed])
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 5))
    rows = pd.DataFrame(X, columns=[f"x{place}" for place in range(5)])
    rows["y"] = np.clip(0.5 * X[:, 0] + 0.25 * rng.normal(size=n_rows), -1.0, 1.0)
    null = tuple(f"x{place}" for place in range(1, 5))
    return Known(name="noise columns", rows=rows, columns=dict.fromkeys(rows, (-1, 1)), target="y", null=null)


def _row(model: str, known: Known, epsilon: float, fits: int) -> dict[str, Cell]:
    known = known if model == "linear" else known.as_classes()
    truth = _not_private(model, known)
    inside: list[NDArray[np.bool_]] = []
    hidden, clear = [], []
    most = round(NULL_FITS * fits) if known.null else round(MORE * fits)
    for seed in range(most):
        if seed == fits and not known.null and np.mean(inside, axis=0).min() >= CLEAR:
            break
        if known.null:
            # Chance made the table too: a new one for each fit.
            known = noise_columns(len(known.rows), seed)
            known = known if model == "linear" else known.as_classes()
            truth = _not_private(model, known)
        kind = pais.DPLinearRegression if model == "linear" else pais.DPLogisticRegression
        fitted = kind(epsilon, columns=known.columns, target=known.target, random_state=1000 + seed).fit(known.rows)
        frame = fitted.coefficients_frame().iloc[:-1]
        frame_hidden = frame["low"].isna().to_numpy()
        inside.append(((frame["low"] <= truth) & (truth <= frame["high"])).to_numpy() | frame_hidden)
        clear.append(((frame["low"] > 0.0) | (frame["high"] < 0.0)).to_numpy())
        hidden.append(frame_hidden)
    labels = [name in known.null for name in frame.index]
    coverage, shown = np.mean(inside, axis=0), np.array(inside)[~np.array(hidden)]
    false = float(np.mean(clear, axis=0)[labels].mean()) if known.null else None
    met = coverage.min() >= LEAST and (false is None or false <= MOST_FALSE)
    return {
        "model": model,
        "data": known.name,
        "rows": len(known.rows),
        "epsilon": epsilon,
        "least coverage": float(coverage.min()),
        "coverage of intervals": float(np.mean(shown)) if shown.size else None,
        "hidden by noise": float(np.mean(hidden)),
        "clearly not zero": float(np.mean(clear)),
        "false claims": false,
        "fits": len(inside),
        "result": "met" if met else "missed",
    }


def _not_private(model: str, known: Known) -> FloatArray:
    """Coefficients in the units of the columns, where those of categories add up to zero."""
    X, groups = known.design()
    scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    standard = (X - X.mean(axis=0)) / scale
    fact = known.columns[known.target]
    if model == "linear":
        y = known.rows[known.target].clip(*fact).to_numpy(float)
        fitted: Any = LinearRegression().fit(standard, y)
    else:
        y = known.rows[known.target].to_numpy() == (True if fact is bool else max(fact))
        fitted = LogisticRegression(C=1e7, max_iter=5000, tol=1e-9).fit(standard, y)
    values = np.ravel(fitted.coef_) / scale
    for group in groups:
        values[group] -= values[group].mean()
    return np.asarray(values)


if __name__ == "__main__":
    made = parser(__doc__, seeds=100, only=("linear", "logistic"))
    made.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS, help="guarantees")
    run(made.parse_args(), tables)
