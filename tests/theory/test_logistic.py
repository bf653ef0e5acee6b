"""Logistic regression: the size of residuals, of what a record adds to each release, and the profile of all of them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy import optimize

from pais import Ball, GaussianNoise, GaussianProfile, LogisticRounds, MismatchError
from pais._base.lattice import Lattice
from pais._base.randomness import bit_source
from pais.data.engines.base import WeightedRows
from pais.logistic.mechanism import LogisticSample
from pais.mechanisms.base import Extent

Floats = NDArray[np.float64]
RADIUS = 3.0
LABEL = math.sqrt(2.0)


def mechanism(n_inputs: int = 3, n_classes: int = 2, *, largest: float = RADIUS, **changes: Any) -> LogisticRounds:
    facts: dict[str, Any] = {
        "n_features": n_inputs + n_classes,
        "n_classes": n_classes,
        "mean_noise": GaussianNoise(scale=20.0),
        "moment_noise": GaussianNoise(scale=30.0),
        "curvature_noise": GaussianNoise(scale=5.0),
        "rounds": (GaussianNoise(scale=40.0), GaussianNoise(scale=10.0)),
        "radius": RADIUS,
        "n_rows": 1000.0,
        "mean_square_norm": 4.0,
        "largest": largest,
        **changes,
    }
    return LogisticRounds(**facts)


def labelled(features: Any, classes: Any, n_classes: int) -> tuple[Floats, Floats]:
    """Rows with their labels, clipped to the ball, and the norms that decide about their probabilities."""
    ball = Ball(radius=RADIUS)
    rows = ball.shift(np.column_stack([np.asarray(features), LABEL * np.eye(n_classes)[np.asarray(classes)]]))
    return ball.clip(rows), ball.norms(rows)


def prepared(plan: LogisticRounds, rows: Floats, weights: Floats, matrix: Any = None) -> LogisticSample:
    sample = LogisticSample(plan, WeightedRows(rows=rows, weights=weights))
    sample.apply(np.eye(plan.n_inputs + 1) if matrix is None else matrix)
    return sample


def exact_norm(steps: Any, lattice: Lattice) -> float:
    """Length of a contribution, from exact integers, rounded up."""
    square = sum((Fraction(int(entry)) ** 2 for entry in np.ravel(steps)), Fraction(0)) * Fraction(lattice.step) ** 2
    return math.sqrt(square) * (1.0 + 1e-15)


# -- residuals ----------------------------------------------------------------------------------------------------


def residual(logits: Floats, label: int) -> Floats:
    chances = np.exp(logits - logits.max())
    return np.asarray(chances / chances.sum() - np.eye(len(logits))[label])


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_largest_residual_of_several_classes_is_the_root_of_two(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    largest = 0.0
    for _ in range(20):
        found = optimize.minimize(
            lambda logits: -np.linalg.norm(residual(logits, 0)), rng.normal(scale=3.0, size=n_classes)
        )
        largest = max(largest, -float(found.fun))
    assert 1.41 < largest <= math.sqrt(2.0)


def test_largest_residual_of_two_classes_with_one_logit_is_one() -> None:
    plan = mechanism(1, 2)
    rows, _ = labelled([[1.0], [1.0]], [0, 1], 2)
    sample = prepared(plan, rows, np.ones(2))
    for size in (-1e6, -3.0, 0.0, 3.0, 1e6):
        residuals = sample._residuals(np.array([[size], [0.0]]))
        assert np.abs(residuals).max() <= 1.0
        assert np.abs(residuals[0] - residuals[1]) == pytest.approx(1.0)


# -- the contribution of a record -----------------------------------------------------------------------------------

records = {
    "features": st.lists(st.floats(-30.0, 30.0), min_size=3, max_size=3),
    "label": st.integers(0, 1),
    "weight": st.floats(1.0, 1e4),
    "seed": st.integers(0, 1000),
    "size": st.sampled_from([1e-6, 0.1, 1.0, 30.0, 1e6]),
}


@settings(max_examples=150, deadline=None)
@given(**records, n_classes=st.sampled_from([2, 3, 5]))
def test_a_record_adds_no_more_than_its_price_to_a_gradient(
    features: list[float], label: int, weight: float, seed: int, size: float, n_classes: int
) -> None:
    rng = np.random.default_rng(seed)
    plan = mechanism(3, n_classes, largest=weight * RADIUS)
    rows, norms = labelled([features], [label], n_classes)
    sample = prepared(plan, rows, np.array([weight]), rng.normal(size=(4, 4)) * size)
    steps, lattice = sample.gradient_steps(rng.normal(size=(4, plan.n_logits)) / size * 10.0 ** rng.integers(-2, 4))
    price = GaussianProfile(math.inf, plan._price_scale(GaussianNoise(scale=1.0)))
    assert exact_norm(steps, lattice) <= float(price(weight, norms[0]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_record_adds_no_more_than_its_price_to_a_gradient_of_very_many_rows(n_classes: int) -> None:
    """Sums of a trillion rows leave four binary places for a weighted residual: rounding would add up to 2 %."""
    price = GaussianProfile(math.inf, mechanism(1, n_classes)._price_scale(GaussianNoise(scale=1.0)))
    rows, norms = labelled([[9.0]], [n_classes - 1], n_classes)
    # These coefficients are sure of the wrong class.
    point = np.zeros((2, 1 if n_classes == 2 else n_classes))
    point[0, 0] = -1e3 if n_classes == 2 else 1e3
    shares = []
    for weight in np.linspace(1.0, 1.5, 101):
        sample = prepared(mechanism(1, n_classes, largest=2 * RADIUS, n_rows=1e12), rows, np.array([weight]))
        shares.append(exact_norm(*sample.gradient_steps(point)) / float(price(weight, norms[0])))
    assert max(shares) <= 1.0
    assert max(shares) > 0.99


@settings(max_examples=100, deadline=None)
@given(**records)
def test_a_record_adds_no_more_than_its_price_to_the_second_moment(
    features: list[float], label: int, weight: float, seed: int, size: float
) -> None:
    plan = mechanism(3, 2, largest=weight * RADIUS)
    rows, norms = labelled([features], [label], 2)
    matrix = np.random.default_rng(seed).normal(size=(4, 4)) * size
    steps, lattice = prepared(plan, rows, np.array([weight]), matrix).moment_steps(plan.moment_noise.scale)
    assert exact_norm(steps, lattice) <= weight * norms[0] ** 2


@settings(max_examples=150, deadline=None)
@given(**records, n_classes=st.sampled_from([2, 3, 5]), longer=st.sampled_from([0.1, 1.0, 4.0, 1e3]))
def test_a_record_adds_no_more_than_its_price_to_the_second_derivatives(
    features: list[float], label: int, weight: float, seed: int, size: float, n_classes: int, longer: float
) -> None:
    rng = np.random.default_rng(seed)
    plan = mechanism(3, n_classes, largest=weight * RADIUS)
    rows, norms = labelled([features], [label], n_classes)
    matrix = rng.normal(size=(4, 4)) * size
    sample = prepared(plan, rows, np.array([weight]), matrix)
    point = rng.normal(size=(4, plan.n_logits)) / size * 10.0 ** rng.integers(-4, 2)
    steps, lattice = sample.curvature_steps(point, matrix * longer, 5.0)
    assert exact_norm(steps, lattice) <= plan.largest_slope * weight * norms[0] ** 2


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_largest_slope_of_several_classes_is_that_of_three_equal_ones(n_classes: int) -> None:
    """The norm of p (1 - p), by search, and where it is attained."""

    def slope(logits: Floats) -> float:
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        return float(np.linalg.norm(chances * (1.0 - chances)))

    rng = np.random.default_rng(n_classes)
    largest = max(
        -float(optimize.minimize(lambda logits: -slope(logits), rng.normal(scale=3.0, size=n_classes)).fun)
        for _ in range(20)
    )
    bound = mechanism(3, n_classes).largest_slope
    assert largest <= bound * (1.0 + 1e-12)
    assert slope(np.append(np.zeros(3), np.full(n_classes - 3, -50.0))) == pytest.approx(bound, rel=1e-9)


def test_bound_of_a_second_derivative_is_met_by_a_record_that_the_coefficients_do_not_decide() -> None:
    rows, norms = labelled([[9.0, 0.0, 0.0]], [0], 2)
    sample = prepared(mechanism(), rows, np.ones(1), 5.0 * np.eye(4))
    steps, lattice = sample.curvature_steps(np.zeros((4, 1)), 5.0 * np.eye(4), 5.0)
    assert exact_norm(steps, lattice) > 0.9999 * 0.25 * norms[0] ** 2


def test_second_derivatives_are_those_of_the_gradients() -> None:
    """Against differences of gradients, also where rows are clipped and shortened, and in longer coordinates."""
    rng = np.random.default_rng(3)
    rows, _ = labelled(rng.normal(size=(400, 3)) * [2.0, 1.0, 0.3], rng.integers(0, 2, 400), 2)
    matrix = np.array([[0.6, 0.1, 0.0, 0.0], [0.0, 0.5, 0.2, 0.0], [0.0, 0.0, 0.9, 0.0], [0.1, 0.0, 0.0, 0.4]])
    sample = prepared(mechanism(largest=RADIUS), rows, np.ones(400), matrix)
    point, small = np.array([[2.0], [-2.5], [1.0], [0.5]]), 1e-3
    for longer in (1.0, 1.3):
        steps, lattice = sample.curvature_steps(point, matrix * longer, 1e-3)
        seen = lattice.decode(steps[0]) / longer**2
        for place in range(4):
            ahead, behind = (
                sample.gradient_steps(point + sign * small * np.eye(4)[:, [place]]) for sign in (1.0, -1.0)
            )
            change = (ahead[1].decode(ahead[0]) - behind[1].decode(behind[0]))[:, 0] / (2.0 * small)
            assert np.abs(seen[:, place] - change).max() < 0.03 * np.abs(seen).max()


def test_a_row_of_no_listed_class_adds_nothing() -> None:
    rows, _ = labelled([[1.0, 2.0, -1.0]], [0], 2)
    rows[:, 3:] = 0.0
    plan = mechanism()
    sample = LogisticSample(plan, WeightedRows(rows=rows, weights=np.ones(1)))
    quiet = GaussianNoise(scale=1e-9)
    assert np.abs(sample.total(quiet, bit_source(0))).max() < 1e-7
    sample.apply(np.eye(4))
    assert not sample.moment_steps(30.0)[0].any()
    assert not sample.gradient_steps(np.ones((4, 1)))[0].any()
    assert not np.any(sample.curvature_steps(np.ones((4, 1)), np.eye(4), 5.0)[0])


# -- the profile ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "factor"), [(2, 1.0), (4, 2.0)])
def test_profile_adds_the_squares_of_all_releases(n_classes: int, factor: float) -> None:
    profile = mechanism(3, n_classes).profile
    for weight, norm in ((1.0, 1.5), (7.0, 0.01), (2.0, 3.0)):
        slope = 1.0 / 16.0 if n_classes == 2 else 4.0 / 27.0
        square = norm**2 / 20.0**2 + norm**4 * (1 / 30.0**2 + 2.0 * slope / 5.0**2)
        square += factor * norm**2 * (1 / 40.0**2 + 1 / 10.0**2)
        exact = weight * math.sqrt(square)
        assert exact <= float(profile(weight, norm)) <= exact * (1.0 + 1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_person_with_many_rows_adds_no_more_than_one_row(n_classes: int) -> None:
    """The norm of a person is the root mean square, also for one far row and nine near ones."""
    rng = np.random.default_rng(1)
    plan = mechanism(3, n_classes, largest=5.0 * RADIUS)
    for scale in ([9.0] + [0.0] * 9, rng.uniform(0.0, 3.0, 10)):
        features = rng.normal(size=(10, 3)) * np.asarray(scale)[:, None]
        rows, norms = labelled(features, rng.integers(0, n_classes, 10), n_classes)
        weight, norm = 5.0, math.sqrt(np.square(norms).mean())
        sample = prepared(plan, rows, np.full(10, weight / 10), rng.normal(size=(4, 4)))
        steps, lattice = sample.gradient_steps(rng.normal(size=(4, plan.n_logits)) * 30.0)
        largest = 1.0 if n_classes == 2 else math.sqrt(2.0)
        assert exact_norm(steps, lattice) <= largest * weight * norm
        steps, lattice = sample.moment_steps(30.0)
        assert exact_norm(steps, lattice) <= weight * norm**2
        point = rng.normal(size=(4, plan.n_logits))
        slopes, lattice = sample.curvature_steps(point, 3.0 * np.eye(4), 5.0)
        assert exact_norm(slopes, lattice) <= plan.largest_slope * weight * norm**2


# -- other rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("d", [1, 7, 65])
def test_contribution_of_a_row_is_the_same_to_the_bit_in_any_company(n_classes: int, d: int) -> None:
    rng = np.random.default_rng(d)
    plan = mechanism(d, n_classes, largest=8.0 * RADIUS)
    rows, _ = labelled(rng.normal(size=(300, d)) * 3.0 / math.sqrt(d), rng.integers(0, n_classes, 300), n_classes)
    weights = rng.uniform(1.0, 8.0, 300)
    matrix, point = rng.normal(size=(d + 1, d + 1)), rng.normal(size=(d + 1, plan.n_logits))
    whole = prepared(plan, rows, weights, matrix)
    for part in (slice(0, 1), slice(3, 10), slice(10, 299)):
        rest = np.setdiff1d(np.arange(300), np.arange(300)[part])
        pieces = [prepared(plan, rows[index], weights[index], matrix) for index in (part, rest)]
        gradients = [piece.gradient_steps(point)[0] for piece in pieces]
        moments = [piece.moment_steps(30.0)[0] for piece in pieces]
        np.testing.assert_array_equal(sum(gradients), whole.gradient_steps(point)[0])
        np.testing.assert_array_equal(sum(moments), whole.moment_steps(30.0)[0])
        slopes = [np.array(piece.curvature_steps(point, 2.0 * matrix, 5.0)[0]) for piece in pieces]
        np.testing.assert_array_equal(sum(slopes), np.array(whole.curvature_steps(point, 2.0 * matrix, 5.0)[0]))


def test_another_ball_or_rule_than_the_planned_one_is_refused() -> None:
    plan = mechanism()
    plan.require_lattice(Extent(radius=RADIUS, weight=1.0, contribution=RADIUS))
    for extent in (
        Extent(radius=2.0, weight=1.0, contribution=2.0),
        Extent(radius=RADIUS, weight=9.0, contribution=9.0 * RADIUS),
    ):
        with pytest.raises(MismatchError, match="planned for radius"):
            plan.require_lattice(extent)


def test_gradient_is_that_of_the_weighted_loss() -> None:
    """A clipped row has the logit of the whole row, and counts with the share of it that clipping left."""
    rng = np.random.default_rng(5)
    features, classes = rng.normal(size=(200, 2)) * 2.0, rng.integers(0, 3, 200)
    rows, _ = labelled(features, classes, 3)
    plan = mechanism(2, 3, largest=2.0 * RADIUS)
    matrix, point = np.diag([0.2, 0.1, 0.3]), rng.normal(size=(3, 3))
    steps, lattice = prepared(plan, rows, np.full(200, 2.0), matrix).gradient_steps(point)
    longer = np.column_stack([features, np.ones(200)]) @ matrix
    share = np.minimum(1.0, RADIUS / np.sqrt(np.square(features).sum(axis=1) + LABEL**2))
    logits = longer @ point
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(3)[classes]
    expected = 2.0 * (longer * share[:, None]).T @ chances
    np.testing.assert_allclose(lattice.decode(steps), expected, atol=0.02)
