"""Private quantiles of columns, for all rows or for groups."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.randomness import RandomState, bit_source
from pais.accounting import Ledger, Part, accounts
from pais.accounting.amounts import what_is_left
from pais.data.checks import listed
from pais.data.columns import Missing
from pais.data.scales import Auto
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import ArgumentError, QualityWarning
from pais.mechanisms.quantiles import Grid, GridQuantiles, QuantileValue
from pais.pipeline import run
from pais.planning import Plan
from pais.privacy.guarantee import PURE_NOISE, epsilon_concern, ledger_concern, warn
from pais.privacy.rules import UniformRule
from pais.statistics.clipping import clipping_in_words
from pais.statistics.frames import Axis, combined
from pais.statistics.legibility import lost_cautions
from pais.statistics.planning import Found, Price, Request, Survey, wide_ball
from pais.statistics.release import opened_table
from pais.statistics.result import Statistic
from pais.statistics.table import By, Fields, Selection
from pais.statistics.words import Caution, about_rows, only_label, weights_note

# Points of a grid: at most this many for a column, and for all columns and groups together, but at least so many.
_MOST_POINTS, _ALL_POINTS, _LEAST_POINTS = 2**17, 2**20, 2**10

# Draws of the noise behind an interval, and numbers that are held at a time.
_DRAWS, _MOST_NUMBERS = 10_000, 1_000_000

_NAME = "quantiles"


@validate.without_sizes
def quantile(
    rows: object,
    q: float | Sequence[float] = 0.5,
    columns: Mapping[str, object] | Schema | object = None,
    *,
    step: float | Mapping[str, float] | None = None,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release quantiles of each column, with pure epsilon. ``pais.quantile(rows, columns=...)`` is the median.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table, or a single column.
    q : float or sequence of float
        Levels in (0, 1). They share the price. The released quantiles increase with the level.
    columns : mapping, Schema
        As in `pais.mean`: numbers and dates with bounds, or "auto".
    step : float or mapping, optional
        The values of a column are multiples of this public number, such as 1 for ages in years. The quantile is then
        one of these multiples. By default, the bounds are divided into about 100,000 values, or fewer if there are
        many groups and columns.
    by, unit, max_rows_per_unit, missing, epsilon, ledger, random_state : optional
        As in `pais.mean`. All rows are used.
    delta : float, optional
        Not used: the guarantee is pure, so it holds for every delta.

    Returns
    -------
    Statistic
        `value` has one row for each level if `q` is a sequence. An interval holds the quantile of the clipped rows with
        *at least* its probability, whatever the rows are, and is usually much wider than the error. The interval of a
        quantile at a bound has no end on that side: it is infinite, and the text says "at least" or "at most". So has
        every interval that reaches a bound that was found privately. A bound of 0 is an end, because values beyond it
        are rare. A tenth of epsilon pays for the intervals. A standard error is half the width of the interval at 68 %.

    Notes
    -----
    Guarantee. Everything that the call releases costs at most epsilon: `tests/theory/test_quantile.py`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.quantile(people, [0.25, 0.5, 0.75], columns={"age": (18, 100)}, epsilon=1.0)
    >>> bool(18 <= result.value[0.25] <= result.value[0.5] <= result.value[0.75] <= 100)
    True
    """
    if delta is not None:
        validate.target_delta(delta)
    request = Request(
        columns=columns,
        by=by,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        missing=missing,
        epsilon=epsilon,
        delta=0.0,
        sampling="none",
        sample_size=None,
        ledger=ledger,
        random_state=random_state,
    )
    return _released(rows, request, _levels(q), step, listed=np.ndim(q) > 0).warned()


def _released(
    rows: object, request: Request, levels: tuple[float, ...], step: float | Mapping[str, float] | None, *, listed: bool
) -> Statistic:
    """Open, survey what is not stated, plan and run."""
    selection = Selection.of(rows, request.columns, request.by, request.unit)
    steps = _steps(selection.fields(selection.schema, pooled=False), step)
    charged, epsilon = accounts(request.ledger), validate.target_epsilon(request.epsilon)
    charged.check(Part(what=_NAME, epsilon=epsilon))
    warn(epsilon_concern(epsilon))
    engine = opened_table(selection, request, by_cell=True)
    if charged.empty and request.random_state is None:
        warn(ledger_concern(epsilon))
    survey = Survey.of(engine, request, Price(epsilon=epsilon, delta=0.0, basis=PURE_NOISE))
    found = survey.run(engine, charged, request.random_state)
    engine = found.engine
    fields = selection.fields(engine.schema, pooled=False)
    mechanism = GridQuantiles(
        epsilon=epsilon if survey.noise is None else what_is_left(epsilon, survey.noise.epsilon),
        levels=tuple(sorted(levels)),
        grids=_grids(fields, steps),
        by=tuple(field.levels(others=False) for field in fields.by),
        step=1.0 if engine.unit is None else 2.0**-engine.unit.mass_bits,
    )
    plan = Plan(
        ball=wide_ball(engine),
        rule=UniformRule(rate=1.0),
        mechanism=mechanism,
        epsilon=mechanism.epsilon,
        delta_basis=PURE_NOISE,
        spent=survey.part(engine, secure=bit_source(request.random_state, stream=2).private),
        unit=engine.unit,
        schema=engine.schema,
    )
    release = run(plan, engine, random_state=request.random_state, ledger=charged)
    order = np.searchsorted(mechanism.levels, levels)
    return _statistic(fields, plan, release, found, order, Axis.of(levels, "quantile") if listed else None)


def _levels(q: float | Sequence[float]) -> tuple[float, ...]:
    """The levels in the order of the user."""
    rule = "a number in (0, 1)"
    values = [q] if np.ndim(q) == 0 else list(q)  # type: ignore[arg-type]  # a sequence
    levels = tuple(
        validate.number("q", level, rule=rule, low=0, high=1, open_low=True, open_high=True) for level in values
    )
    if not levels or len(set(levels)) < len(levels):
        raise ArgumentError("q must have at least one level, and each only once. Pass a number or a list of numbers.")
    return levels


def _steps(fields: Fields, step: float | Mapping[str, float] | None) -> dict[str, float | None]:
    """The step of each column; raises if a column has no quantiles."""
    fields.require("quantile", categories=False)
    truth = next((field.name for field in fields.columns if field.is_truth), None)
    if truth is not None:
        raise ArgumentError(f"the quantile of a boolean is not defined. Leave out column {truth!r}, or use pais.mean.")
    names = [field.name for field in fields.columns]
    stated: dict[str, Any] = dict(step) if isinstance(step, Mapping) else dict.fromkeys(names, step)
    unknown = [name for name in stated if name not in names]
    if unknown:
        raise ArgumentError(f"step names {unknown[0]!r}, which is not among the columns. Pass names of columns.")
    return {
        name: None if stated.get(name) is None else validate.positive(f"step of {name!r}", stated[name])
        for name in names
    }


def _grids(fields: Fields, steps: Mapping[str, float | None]) -> tuple[Grid, ...]:
    """A grid for each column, with fewer points if there are many columns and groups."""
    n_grids = len(fields.columns) * (1 if fields.groups is None else len(fields.groups))
    most_points = int(np.clip(_ALL_POINTS // n_grids, _LEAST_POINTS, _MOST_POINTS))
    grids = []
    for field in fields.columns:
        low, high, step = field.low, field.high, steps[field.name]
        if step is None and field.is_date and low % 1.0 == high % 1.0 == 0.0 and high - low < most_points:
            step = 1.0
        center, scale = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        grids.append(Grid.over(field.start, center, scale, most_points=most_points, step=step))
    return tuple(grids)


def _statistic(fields: Fields, plan: Plan, release: Any, found: Found, order: Any, inner: Axis | None) -> Statistic:
    """Values, intervals and labels, with the levels in the order of the user."""
    mechanism, max_rows = plan.mechanism, 1 if plan.unit is None else plan.unit.full_rows
    assert isinstance(mechanism, GridQuantiles)
    intervals = Intervals(
        value=release.value,
        mechanism=mechanism,
        order=order,
        max_rows=max_rows,
        found=tuple(isinstance(field.column, Auto) for field in fields.columns),
    )
    estimates, (low, high) = intervals.table(release.value.values), intervals(0.6827)
    dates = np.array([field.is_date for field in fields.columns])
    lost = intervals.lost
    cautions = [
        *found.cautions,
        *lost_cautions(np.all(lost.reshape(-1, len(mechanism.levels), dates.size), axis=1), fields),
        *_bound_cautions(np.any(np.isinf(intervals(0.95)), axis=0), fields),
    ]
    name = "median" if mechanism.levels == (0.5,) else "quantile"
    rows = intervals.noisy_rows(len(fields.columns))
    about = about_rows(name, plan.unit, rows, by_groups=bool(fields.by))
    return Statistic(
        name=name,
        clipping=f"{clipping_in_words(fields)} Clipping does not move a quantile that lies between the bounds.",
        about=about,
        cautions=tuple(cautions),
        notes=tuple(filter(None, [weights_note(name, plan.unit, rows)])),
        certificate=replace(release.certificate, about=about),
        estimates=estimates,
        standard_errors=0.5 * (high - low),
        bounds=intervals,
        rows=combined(fields.groups, inner),
        columns=None if len(fields.columns) == 1 else Axis.of(fields.labels),
        is_date=np.tile(dates, (len(estimates), 1)),
        noise="Quantiles were chosen at random from a grid, with probabilities that fall exponentially with the "
        f"distance in rows. Noisy counts of scale {mechanism.count_noise.scale * max_rows:.4g} give the intervals, "
        "which hold with at least their probability. All rows were used.",
        released=release.value,
        plan=plan,
        subject=only_label(fields),
        level=None if inner is not None else mechanism.levels[0],
        lost=lost,
    )


def _bound_cautions(is_open: NDArray[np.bool_], fields: Fields) -> list[Caution]:
    """Name the columns of quantiles that may lie beyond a bound."""
    names = [field.name for field, one in zip(fields.columns, np.any(is_open, axis=0), strict=True) if one]
    if not names:
        return []
    text = (
        f"a quantile of column(s) {listed(names)} lies at a bound, or may do. If values beyond it can occur, the "
        "quantile of the table itself may lie there too, so its interval has no end on that side. State wider bounds."
    )
    return [Caution(text, QualityWarning)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Ends of intervals that hold each quantile of the rows with at least a stated probability.

    At each edge of the noisy bins, the number of rows below it is compared with the share that the level of the
    quantile states. The quantile is beyond an edge if the difference exceeds what noise reaches at any edge.

    Values beyond a bound were clipped to it, so a quantile at a bound may lie anywhere beyond it: the interval has no
    end there. `found` tells of which columns the bounds were found privately. Their intervals have no end wherever they
    reach a bound. Zero is an end, beyond which there are often no values.
    """

    value: QuantileValue
    mechanism: GridQuantiles
    order: Any
    max_rows: int
    found: tuple[bool, ...]

    def __call__(self, level: float) -> tuple[FloatArray, FloatArray]:
        low, high = self._within_bounds(level)
        estimates, lost = self.table(self.value.values), self.lost
        opened = []
        for ends, bound, beyond in zip((low, high), self._grid_ends, (-np.inf, np.inf), strict=True):
            at_bound = (estimates == bound) | ((ends == bound) & np.array(self.found))
            opened.append(np.where(at_bound & (bound != 0.0) & ~lost, beyond, ends))
        return opened[0], opened[1]

    @property
    def _grid_ends(self) -> FloatArray:
        """The first and the last value of the grid of each column, of shape (2, columns)."""
        return np.array([grid.values(np.array([0, grid.n_points - 1])) for grid in self.mechanism.grids]).T

    def _within_bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals of the quantiles of clipped rows."""
        values = self.value.values
        low, high = np.empty_like(values), np.empty_like(values)
        for place, edges, counts in zip(
            np.ndindex(values.shape[:2]), self.value.edges, self.value.noisy_counts, strict=True
        ):
            grid = self.mechanism.grids[place[1]]
            below = np.append(0.0, np.cumsum(counts))
            for number, share in enumerate(self.mechanism.levels):
                margin = self.max_rows * _margin(level, counts.size, share, self.mechanism)
                offset = below - share * below[-1]
                begins = edges[(offset <= -margin) & (edges % 2 == 0)]
                ends = edges[(offset >= margin) & (edges % 2 == 1)]
                first = begins.max() // 2 if begins.size else 0
                last = ends.min() // 2 if ends.size else grid.n_points - 1
                chosen, ends_of_interval = values[(*place, number)], grid.values(np.array([first, last]))
                low[(*place, number)] = min(ends_of_interval[0], chosen)
                high[(*place, number)] = max(ends_of_interval[1], chosen)
        return self.table(low), self.table(high)

    def noisy_rows(self, n_columns: int) -> float:
        """Number of rows according to the release, or of people if there are units."""
        counts = np.array([each.sum() for each in self.value.noisy_counts]).reshape(-1, n_columns)
        return float(counts.sum(axis=0).max()) / self.max_rows

    @functools.cached_property
    def lost(self) -> NDArray[np.bool_]:
        """Which intervals at 95 % are as wide as the grids."""
        low, high = self._within_bounds(0.95)
        least, most = self._grid_ends
        return np.asarray((low <= least) & (high >= most))

    def table(self, values: FloatArray) -> FloatArray:
        """Values of shape (groups, columns, levels) as rows for each group and level, in the order of the user."""
        return values[..., self.order].swapaxes(1, 2).reshape(-1, values.shape[1])


def _margin(level: float, n_bins: int, share: float, mechanism: GridQuantiles) -> float:
    """A number that the noise of the difference at all edges stays below with probability (1 + level) / 2."""
    noise = mechanism.count_noise
    highest, last = _walks(n_bins, noise.scale / noise.step)
    return float(np.quantile(highest - share * last, 0.5 + 0.5 * level)) * noise.step


@functools.lru_cache(maxsize=64)
def _walks(n_bins: int, scale: float) -> tuple[FloatArray, FloatArray]:
    """Largest and last value of many sums of noise over bins, from a fixed public seed."""
    n_draws = max(1000, min(_DRAWS, _MOST_NUMBERS // n_bins))
    # An exponential variable rounded down is geometric, and the noise is the difference of two.
    steps = np.floor(scale * np.random.default_rng(0).standard_exponential((2, n_draws, n_bins)))
    total = np.cumsum(steps[0] - steps[1], axis=1)
    return np.maximum(total.max(axis=1), 0.0), total[:, -1]
