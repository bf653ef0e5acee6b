"""Whole calls, replayed: the noise of a survey and of the release after it, each added up and compared with its price.

A call may stay within its price as a whole although one of its stages is too dear, since another stage of it may not be
used up. So the stages are compared one by one, and most of them are used up by a record far from all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.lattice import TAPE
from pais._base.randomness import bit_source
from pais.auditing import replay as replays
from pais.auditing.replay import Move, replay
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import ResidualRound, Round, SecondMoment
from pais.mechanisms.blocks import Split
from pais.planning.column_survey import column_ranges, octave_totals
from pais.planning.facts import SurveyNoise
from pais.privacy.profiles import ShiftProfile
from tests.support.kept import kept_with

pd = pytest.importorskip("pandas")

Call = Callable[[Any, Any], Any]

N_PEOPLE, ROWS_EACH = 120, 2


def people() -> Any:
    """A table of people with two rows each; the last person has five rows, far from all others."""
    rng = np.random.default_rng(0)
    who = np.append(np.repeat(np.arange(N_PEOPLE), ROWS_EACH), [N_PEOPLE] * 5)
    size = len(who) - 5
    far = np.full(5, 40.0)
    table = pd.DataFrame(
        {
            "who": who,
            "x": np.append(rng.normal(size=size), far),
            "y": np.append(rng.normal(2.0, 1.0, size=size), far),
            "group": np.append(rng.choice(["a", "b"], size=size), ["a", "b", "a", "b", "a"]),
            "buys": np.append(rng.random(size) < 0.4, [True, False, True, True, True]),
        }
    )
    return table.assign(twice=2.0 * table["x"], square=table["x"] ** 2, opposite=-table["y"])


TABLE = people()
# Without units, the record is the last row. With them, it is the last person.
OF_ROWS, ONE_ROW = TABLE.iloc[:-4], TABLE.iloc[-5:-4]
OF_PEOPLE, ONE_PERSON = TABLE, TABLE.iloc[-5:]

STATED = {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}
AUTO: dict[str, Any] = {"x": "auto", "y": "auto"}
AUTO_CLASSES = {**AUTO, "buys": bool}
# With so many columns, the target has other noise in the survey than the features.
FOUR = ["x", "twice", "square", "opposite"]
GROUPS = {"group": ["a", "b"]}


def statistic(function: Call, columns: Any = None, **arguments: Any) -> Call:
    def call(table: Any, seed: Any) -> Any:
        stated = {} if columns is None else {"columns": columns}
        return function(table, **stated, random_state=seed, **{"epsilon": 1.0, **arguments})

    return call


def model(kind: Any, columns: Any = None, **arguments: Any) -> Call:
    def call(table: Any, seed: Any) -> Any:
        return kind(columns=columns, random_state=seed, **{"epsilon": 1.0, **arguments}).fit(table)

    return call


@dataclass(frozen=True, kw_only=True)
class Case:
    """A call, the epsilon that it asks for, and the least share of the price of its release that the record uses up."""

    call: Call
    epsilon: float = 1.0
    release: float = 0.97
    unit: bool = False
    columns: tuple[str, ...] = tuple(TABLE)


# At a delta this large, two columns are enough for Gaussian noise to be smaller than pure noise.
GAUSSIAN, PURE = {"delta": 0.1}, {"delta": 0.0}
SAMPLE = {"sampling": "uniform", "sample_size": 150.0}
PEOPLE = {"unit": "who"}
ALL = {"sampling": "none"}
LAPLACE = {"mechanism": "laplace", **ALL}

CASES = {
    "mean": Case(call=statistic(pais.mean, STATED, **GAUSSIAN)),
    "mean, pure": Case(call=statistic(pais.mean, STATED, **PURE)),
    "mean by group": Case(call=statistic(pais.mean, STATED, by=GROUPS, **GAUSSIAN)),
    "mean, auto": Case(call=statistic(pais.mean, AUTO, **GAUSSIAN)),
    "mean, auto, pure": Case(call=statistic(pais.mean, AUTO, **PURE)),
    "mean, one of two auto": Case(call=statistic(pais.mean, {**STATED, "x": "auto"}, **GAUSSIAN)),
    "mean of a sample": Case(call=statistic(pais.mean, STATED, **SAMPLE, **GAUSSIAN)),
    "mean of a sample, pure": Case(call=statistic(pais.mean, STATED, **SAMPLE, **PURE)),
    "mean of a sample, auto": Case(call=statistic(pais.mean, AUTO, **SAMPLE, **GAUSSIAN)),
    "mean of a sample, auto, pure": Case(call=statistic(pais.mean, AUTO, **SAMPLE, **PURE)),
    "variance, auto": Case(call=statistic(pais.variance, AUTO, **GAUSSIAN)),
    "covariance": Case(call=statistic(pais.covariance, STATED, **GAUSSIAN)),
    "histogram": Case(call=statistic(pais.histogram, {"x": (-3.0, 3.0)}, **PURE)),
    "median": Case(call=statistic(pais.quantile, STATED), release=0.4),
    "median, auto": Case(call=statistic(pais.quantile, AUTO), release=0.2),
    "three quantiles by group": Case(call=statistic(pais.quantile, STATED, q=[0.1, 0.5, 0.9], by=GROUPS), release=0.2),
    "mean about people": Case(call=statistic(pais.mean, STATED, **PEOPLE, **GAUSSIAN), unit=True),
    "mean about people, auto": Case(call=statistic(pais.mean, AUTO, **PEOPLE, **GAUSSIAN), unit=True),
    "mean about people, auto, pure": Case(call=statistic(pais.mean, AUTO, **PEOPLE, **PURE), unit=True),
    "mean of a sample of people": Case(call=statistic(pais.mean, AUTO, **SAMPLE, **PEOPLE, **PURE), unit=True),
    "median about people, auto": Case(call=statistic(pais.quantile, AUTO, **PEOPLE), unit=True, release=0.2),
    "total about people": Case(call=statistic(pais.sum, STATED, **PEOPLE, **GAUSSIAN), unit=True),
    "total about people, pure": Case(call=statistic(pais.sum, STATED, **PEOPLE, **PURE), unit=True),
    "total about people, auto": Case(call=statistic(pais.sum, AUTO, **PEOPLE, **GAUSSIAN), unit=True, release=0.7),
    "total about people by group": Case(call=statistic(pais.sum, STATED, by=GROUPS, **PEOPLE, **GAUSSIAN), unit=True),
    "total about people by group, pure": Case(call=statistic(pais.sum, STATED, by=GROUPS, **PEOPLE, **PURE), unit=True),
    "number of people by group": Case(call=statistic(pais.count_people, by=GROUPS, **PEOPLE, **PURE), unit=True),
    "number of rows of people": Case(call=statistic(pais.count, **PEOPLE, **PURE), unit=True),
    "k-means": Case(call=model(pais.DPKMeans, n_clusters=2), columns=("x", "y"), release=0.4),
    # With so much epsilon, the survey sees the rows and finds their mean and their radius.
    "k-means, found center": Case(
        call=model(pais.DPKMeans, n_clusters=2, epsilon=30.0), epsilon=30.0, columns=("x", "y"), release=0.4
    ),
    "k-means, found center, l2": Case(
        call=model(pais.DPKMeans, n_clusters=2, epsilon=300.0, mechanism="l2", **ALL),
        epsilon=300.0,
        columns=("x", "y"),
        release=0.4,
    ),
    "k-means, stated": Case(call=model(pais.DPKMeans, STATED, n_clusters=2), release=0.7),
    # The survey of few rows allows for norms that are larger than that of the record.
    "k-means, auto": Case(call=model(pais.DPKMeans, AUTO, n_clusters=2), release=0.55),
    "k-means, auto, laplace": Case(call=model(pais.DPKMeans, AUTO, n_clusters=2, **LAPLACE), release=0.4),
    "k-means, l2": Case(call=model(pais.DPKMeans, n_clusters=2, mechanism="l2", **ALL), columns=("x", "y")),
    "k-means about people": Case(call=model(pais.DPKMeans, AUTO, n_clusters=2, **PEOPLE), unit=True, release=0.5),
    "pca": Case(call=model(pais.DPPCA, AUTO, n_components=1)),
    "linear regression": Case(call=model(pais.DPLinearRegression, AUTO, target="y")),
    "linear regression about people": Case(call=model(pais.DPLinearRegression, AUTO, target="y", **PEOPLE), unit=True),
    "linear regression on four columns": Case(call=model(pais.DPLinearRegression, FOUR, target="y")),
    "linear regression on four columns about people": Case(
        call=model(pais.DPLinearRegression, FOUR, target="y", **PEOPLE), unit=True
    ),
    "logistic regression": Case(call=model(pais.DPLogisticRegression, AUTO_CLASSES, target="buys"), release=0.7),
    "logistic regression about people": Case(
        call=model(pais.DPLogisticRegression, AUTO_CLASSES, target="buys", **PEOPLE), unit=True, release=0.6
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_survey_and_release_each_move_by_what_they_state(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, plans = CASES[name], []
    # All draws after the survey count as those of a sample, also if it keeps all rows.
    begin_sample = replays._Recording.begin_sample

    def begin(self: Any, content: Any, plan: pais.Plan) -> None:
        begin_sample(self, content, plan)
        self.in_sample = True

    monkeypatch.setattr(replays._Recording, "begin_sample", begin)

    def call(table: Any, seed: Any) -> Any:
        result = case.call(table, seed)
        plans.append(getattr(result, "plan", None) or result.plan_)
        return result

    table, record = (OF_PEOPLE, ONE_PERSON) if case.unit else (OF_ROWS, ONE_ROW)
    table, record = table[list(case.columns)], record[list(case.columns)]
    without = table.iloc[: len(table) - len(record)]
    report = replay(call, table, without, probability=kept_with(record), seeds=(0,), pushes=(0.0, 3.0))
    assert not report.violates, str(report)
    assert report.epsilon <= case.epsilon
    # Every transcript has two runs of the same plan.
    shares = [shares_of(move, plan, record) for move, plan in zip(report.moves, plans[::2], strict=True)]
    survey, release = np.max(shares, axis=0)
    assert survey <= 1.0 + 1e-9
    assert release <= 1.0 + 1e-9
    assert survey >= (0.94 if plans[0].spent else 0.0)
    assert release >= case.release


def shares_of(move: Move, plan: pais.Plan, record: Any) -> tuple[float, float]:
    """The moves of survey and release over what they state. A survey that states nothing must not move."""
    stated = math.hypot(*(part.shift for part in plan.spent)) or math.fsum(part.epsilon for part in plan.spent)
    weight = 1.0 / kept_with(record)(SimpleNamespace(plan=plan))
    price = float(plan.mechanism.profile(weight, plan.ball.radius))
    before, after = move.shift + move.loss, move.shift_of_sample + move.loss_of_sample
    return before / stated if stated else (math.inf if before else 0.0), after / price


# -- what only a threshold shows ------------------------------------------------------------------------------


def bounds_of_a_column(epsilon: float, *, shaped: bool = False) -> Call:
    noise = SurveyNoise(epsilon=epsilon)

    def call(table: Any, seed: Any) -> Any:
        engine, bits = pais.source(table), bit_source(seed)
        totals = octave_totals(engine, [0], seeded=not bits.private)
        return column_ranges(totals, engine, [0], noise, bits, shaped=shaped)

    return call


def shapes_of_a_column(epsilon: float) -> Call:
    return bounds_of_a_column(epsilon, shaped=True)


def survey_of_norms(epsilon: float) -> Call:
    return lambda table, seed: pais.survey(table, epsilon=epsilon, center=(0.0,), random_state=seed)


@pytest.mark.parametrize(
    ("call", "signal", "share"),
    [(bounds_of_a_column, 150.0, 0.7), (shapes_of_a_column, 50.0, 0.7), (survey_of_norms, 106.0, 0.92)],
    ids=["bounds of a column", "shapes of a column", "survey of norms"],
)
def test_the_number_of_bins_follows_from_released_counts(
    call: Callable[[float], Call], signal: float, share: float
) -> None:
    """With the record there are just as many rows as a finer histogram or clear bounds need; without it one too few."""
    rows = np.random.default_rng(0).normal(5.0, 1.0, size=(1000, 1))
    deviation = (len(rows) - 0.5) / signal
    epsilon = math.sqrt(2.0) / (share * deviation)
    report = replay(call(epsilon), rows, rows[:-1], epsilon=epsilon)
    assert not report.violates, str(report)


def test_k_means_of_the_paper_shows_neither_rows_nor_empty_clusters() -> None:
    """The record comes first and is alone in its cluster: a start from rows, or a skipped cluster, would show it."""
    settings = pais.KMeansSettings(
        n_clusters=2,
        epsilon=1.0,
        mechanism="l2",
        algorithm="paper",
        n_iterations=2,
        radius=3.0,
        norms=pais.NormDistribution.from_histogram([0.0, 3.0], [200.0]),
        sampling="none",
    )
    rows = np.vstack([[[-2.5, 0.5]], np.random.default_rng(0).normal(1.5, 0.1, size=(200, 2))])
    report = replay(lambda table, seed: pais.fit(table, settings, random_state=seed), rows, rows[1:])
    assert not report.violates, str(report)
    assert report.used > 0.8


# -- what one row adds ----------------------------------------------------------------------------------------


class Added:
    """A tape that adds up what a row adds by itself, in units of the noise."""

    closed = False

    def __init__(self) -> None:
        self.lengths: list[float] = []

    def noisy(self, total: Any, noisy: Any, *, law: str, order: float, scales: Any) -> Any:
        self.lengths += np.linalg.norm(total / scales[:, None], ord=order, axis=1).tolist()
        return noisy

    def begin_sample(self, content: Any, plan: Any) -> None:
        raise NotImplementedError

    def end_sample(self) -> None:
        raise NotImplementedError

    def chosen(self, scores: Any, choice: int, *, scale: float) -> int:
        raise NotImplementedError


L2, GAUSS = pais.LpNoise(scale=3.0, p=2.0), pais.GaussianNoise(scale=3.0)
FIRST_MOMENT = SecondMoment(noise=GAUSS, radius=1.0, flat_share=0.5)
RADIUS = 2.0
LOUD = pais.GaussianNoise(scale=300.0)
CLUSTERS: dict[str, Any] = {
    "n_clusters": 2,
    "n_features": 2,
    "radius": RADIUS,
    "cells": 2,
    "largest_weight": 30.0,
}
MECHANISMS: dict[str, Any] = {
    "count": pais.WeightedCount(noise=pais.laplace_noise(3.0)),
    "count, geometric": pais.WeightedCount(noise=pais.GeometricNoise(scale=3.0, step=2.0**-20)),
    "sum": pais.WeightedSum(noise=L2),
    "sum, Gaussian": pais.WeightedSum(noise=GAUSS),
    "mean": pais.WeightedMean(count_noise=pais.laplace_noise(3.0), sum_noise=L2),
    "statistic": pais.VectorStatistic(name="means", blocks=(Split(column=1),), noise=pais.laplace_noise(3.0)),
    "statistic, Gaussian": pais.VectorStatistic(name="means", blocks=(Split(column=1),), noise=GAUSS),
    "second moment": pais.MomentSum(noise=GAUSS, largest=100.0, n_rows=10.0),
    "k-means of the paper": pais.KMeans(
        rounds=(Round(count_noise=pais.laplace_noise(3.0), sum_noise=L2),), explore=0, **CLUSTERS
    ),
    # The noise of the rounds is large, so that the first moment has most of the price.
    "k-means": pais.KMeans(
        rounds=(
            ResidualRound(count_noise=LOUD, distance_noise=LOUD, residual_noise=LOUD, radius=RADIUS, flat_share=0.5),
            ResidualRound(count_noise=LOUD, distance_noise=LOUD, residual_noise=LOUD, radius=RADIUS, flat_share=0.5),
        ),
        explore=1,
        moment=FIRST_MOMENT,
        **CLUSTERS,
    ),
    "first moment of k-means": SimpleNamespace(
        profile=FIRST_MOMENT.profile, measure=lambda content, _, bits: FIRST_MOMENT.measure(content, 30.0, bits)
    ),
}


@pytest.mark.parametrize("weight", [1.0, 4.0 / 3.0, 25.0])
@pytest.mark.parametrize("size", [0.3, 5.0])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_row_moves_no_more_than_its_profile_states(name: str, size: float, weight: float) -> None:
    mechanism, ball = MECHANISMS[name], pais.Ball(radius=RADIUS)
    row = np.array([[size, -size / 2.0]])
    added = Added()
    token = TAPE.set(added)
    try:
        content = WeightedRows(rows=ball.clip(row), weights=np.array([weight]))
        mechanism.measure(content, ball, bit_source(0))
    finally:
        TAPE.reset(token)
    stated = float(mechanism.profile(weight, ball.norms(row)[0]))
    moved = math.hypot(*added.lengths) if isinstance(mechanism.profile, ShiftProfile) else math.fsum(added.lengths)
    assert moved <= stated
    assert moved >= 0.3 * stated
