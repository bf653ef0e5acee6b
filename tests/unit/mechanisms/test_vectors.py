"""Sums of vectors by a user's function: bounds, failures, row independence, prices and rounds."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import pais
from pais._base.lattice import Lattice
from pais.data.engines.base import WeightedRows
from pais.mechanisms.noise import NoiseLaw
from pais.mechanisms.vectors import AdaptiveRounds, VectorSum

Floats = NDArray[np.float64]
BALL = pais.Ball(radius=3.0)
EVERY = pais.UniformRule(rate=1.0)
NOISES = {
    "gaussian": pais.gaussian_noise(50.0),
    "laplace": pais.laplace_noise(50.0),
    "l2": pais.LpNoise(scale=50.0, p=2.0),
    "linf": pais.LpNoise(scale=50.0, p=math.inf),
}


def square(norm: Floats) -> Floats:
    return np.square(norm)


def rows_of(n: int = 400, d: int = 3, seed: int = 0) -> Floats:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, d)) * generator.lognormal(0.0, 1.0, size=(n, 1))


def steps(mechanism: VectorSum, rows: Floats, weights: Floats | None = None) -> list[int]:
    """The sum before noise, in whole steps."""
    clipped = BALL.clip(rows.copy())
    content = WeightedRows(rows=clipped, weights=np.ones(len(rows)) if weights is None else weights)
    lattice = Lattice.for_scale(mechanism.noise.scale)
    total = content.total(lambda part, weight: mechanism._steps(BALL, lattice, part, weight))
    return [int(step) for step in total]


def too_long(rows: Floats) -> Floats:
    """Vectors that are up to a million times longer than the square of the norm, in some rows infinite or huge."""
    vectors = rows * 10.0 ** (6.0 * np.sin(1e3 * rows[:, :1]))
    vectors[np.abs(rows[:, 0]) > 2.0] *= 1e200
    return vectors


# -- the bound ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
@pytest.mark.parametrize("bound", [0.7, square], ids=["number", "function"])
def test_no_vector_is_longer_than_its_bound_whatever_the_function_returns(
    noise: NoiseLaw, bound: float | pais.mechanisms.vectors.NormFunction
) -> None:
    mechanism = VectorSum(vectors=too_long, bound=bound, noise=noise, n_features=3)
    rows = rows_of()
    norms = BALL.norms(rows)
    step = Fraction(Lattice.for_scale(noise.scale).step)
    longest = 0.0
    for row, norm, weight in zip(rows, norms, np.geomspace(1.0, 1e4, len(rows)), strict=True):
        vector = [step * each for each in steps(mechanism, row[None, :], np.array([weight]))]
        limit = Fraction(weight) * Fraction(bound if isinstance(bound, float) else float(norm**2))
        if math.isinf(noise.order):
            length, limit = max(map(abs, vector)), limit
        elif noise.order == 1.0:
            length = sum(map(abs, vector), Fraction(0))
        else:
            length, limit = sum((each**2 for each in vector), Fraction(0)), limit**2
        assert length <= limit
        longest = max(longest, float(length / limit) if limit else 0.0)
        # The profile is never below the exact loss.
        loss = Fraction(float(mechanism.profile(weight, norm)))
        exact = (
            Fraction(weight) * Fraction(bound if isinstance(bound, float) else float(norm**2)) / Fraction(noise.scale)
        )
        assert exact <= loss <= exact * (1 + Fraction(1, 10**13))
    # Vectors that are too long are scaled back to the bound, not to something much shorter.
    assert longest > 0.99


def test_a_short_vector_is_not_changed_and_one_coordinate_may_be_as_long_as_the_bound() -> None:
    def bins(rows: Floats) -> Floats:
        return np.eye(4)[np.searchsorted([-1.0, 0.0, 1.0], rows[:, 0])]

    rows = rows_of()
    histogram = VectorSum(vectors=bins, bound=1.0, noise=pais.laplace_noise(1.0), n_features=3)
    one = round(1.0 / Lattice.for_scale(1.0).step)
    assert steps(histogram, rows) == [int(count) * one for count in bins(BALL.clip(rows)).sum(axis=0)]
    plain = VectorSum(vectors=lambda rows: rows, bound=5.0, noise=pais.gaussian_noise(1.0), n_features=3)
    lattice = Lattice.for_scale(1.0)
    assert steps(plain, rows) == lattice.encode(BALL.clip(rows)).sum(axis=0).tolist()


def test_bound_zero_means_no_contribution() -> None:
    mechanism = VectorSum(
        vectors=lambda rows: np.full_like(rows, 1e-170), bound=square, noise=pais.gaussian_noise(1e-160), n_features=3
    )
    assert steps(mechanism, np.zeros((5, 3))) == [0, 0, 0]


# -- functions that fail ---------------------------------------------------------------------------------------


def test_rows_that_the_function_fails_on_count_as_zero_and_change_no_other_row() -> None:
    def fragile(rows: Floats) -> Floats:
        vectors = rows / 4.0
        if np.any((rows[:, 0] > 1.25) & (rows[:, 0] < 1.5)):
            raise ValueError(f"a row is {rows[0]}")
        vectors[np.abs(rows[:, 1] - 0.5) < 0.1] = np.nan
        vectors[np.abs(rows[:, 1] + 0.5) < 0.1, 1] = np.inf
        return vectors

    good = rows_of(2000) % 0.2
    # The synthetic rows of the constructor must not meet the interval that raises.
    mechanism = VectorSum(vectors=lambda rows: rows / 4.0, bound=1.0, noise=pais.gaussian_noise(1.0), n_features=3)
    object.__setattr__(mechanism, "_rows", dataclasses.replace(mechanism._rows, function=fragile))
    bad = np.array([[1.3, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, -0.5, 0.0]])
    assert steps(mechanism, np.vstack([good[:1000], bad, good[1000:]])) == steps(mechanism, good)
    plan = pais.Plan(ball=BALL, rule=EVERY, mechanism=mechanism, epsilon=10.0, delta=1e-6)
    assert np.all(np.isfinite(pais.run(plan, np.vstack([good, bad])).value))


@pytest.mark.parametrize(
    "function",
    [
        lambda rows: rows - rows.mean(axis=0),
        lambda rows: rows / np.abs(rows).max(),
        lambda rows: np.sort(rows, axis=0),
        lambda rows: np.random.default_rng().normal(size=rows.shape),
        lambda rows: rows[:-1],
        lambda rows: rows[:, 0],
        lambda rows: rows.sum(axis=0),
        lambda rows: np.empty((len(rows), 0)),
        lambda rows: rows @ np.ones(7),
        lambda rows: ["?"] * len(rows),
        lambda rows: rows.__setitem__(0, 0.0),
    ],
    ids=["mean", "largest", "sort", "random", "short", "flat", "sum", "empty", "wrong width", "texts", "writes"],
)
def test_function_that_uses_other_rows_or_fails_is_refused(function: pais.mechanisms.vectors.RowFunction) -> None:
    with pytest.raises(pais.AssumptionError):
        VectorSum(vectors=function, bound=1.0, noise=pais.gaussian_noise(1.0), n_features=3)


@pytest.mark.parametrize("d", [2, 9, 54])
@pytest.mark.parametrize("block", [1, 1024])
def test_contribution_of_a_row_is_the_same_to_the_bit_in_any_company(d: int, block: int) -> None:
    slope = np.random.default_rng(2).normal(size=d)
    mechanism = VectorSum(
        vectors=lambda rows: rows * np.tanh(rows @ slope)[:, None],
        bound=lambda norm: norm,
        noise=pais.gaussian_noise(1e-3),
        n_features=d,
    )
    object.__setattr__(mechanism, "_rows", dataclasses.replace(mechanism._rows, block=block))
    rows = rows_of(1100, d)[-150:]
    alone = np.sum([steps(mechanism, row[None, :]) for row in rows], axis=0).tolist()
    assert steps(mechanism, rows) == alone == steps(mechanism, rows[::-1])


def test_a_function_whose_last_bits_depend_on_the_place_of_a_row_is_called_for_one_row_at_a_time() -> None:
    def placed(rows: Floats) -> Floats:
        return rows * (1.0 + 1e-15 * (np.arange(len(rows)) % 4 == 3))[:, None]

    arguments = {"bound": lambda norm: 2.0 * norm, "noise": pais.gaussian_noise(1e-12), "n_features": 3}
    mechanism = VectorSum(vectors=placed, **arguments)
    assert mechanism._rows.block == 1
    rows = rows_of(101)
    assert (
        steps(mechanism, rows[1:]) == (np.array(steps(mechanism, rows)) - np.array(steps(mechanism, rows[:1]))).tolist()
    )
    assert VectorSum(vectors=lambda rows: rows, **arguments)._rows.block > 1


# -- plans and certificates ------------------------------------------------------------------------------------


def test_an_order_is_for_bounds_that_are_functions() -> None:
    with pytest.raises(pais.ArgumentError, match="order"):
        VectorSum(vectors=too_long, bound=1.0, noise=pais.gaussian_noise(9.0), n_features=3, order=2.0)


def test_a_decreasing_bound_is_refused_by_the_plan() -> None:
    falling = VectorSum(
        vectors=lambda rows: rows, bound=lambda norm: 5.0 - norm, noise=pais.gaussian_noise(99.0), n_features=3
    )
    with pytest.raises(pais.AssumptionError, match="decreases"):
        pais.Plan(ball=BALL, rule=EVERY, mechanism=falling, epsilon=10.0, delta=1e-6)


def test_units_need_a_number_or_a_stated_and_concave_bound() -> None:
    def made(**changes: object) -> VectorSum:
        settings = {"vectors": lambda rows: rows, "noise": pais.gaussian_noise(99.0), "n_features": 3}
        return VectorSum(**{**settings, **changes})  # type: ignore[arg-type]  # a table of arguments

    assert made(bound=1.0).is_for_units
    assert not made(bound=square).is_for_units
    assert made(bound=lambda norm: norm, protects_units=True).is_for_units
    steep = made(bound=lambda norm: norm**3, protects_units=True)
    with pytest.raises(pais.AssumptionError, match="concave"):
        pais.Plan(ball=BALL, rule=EVERY, mechanism=steep, epsilon=10.0, delta=1e-6)
    pais.Plan(ball=BALL, rule=EVERY, mechanism=made(bound=square, protects_units=True), epsilon=10.0, delta=1e-6)


@pytest.mark.parametrize("weight", [1.0, 37.5])
@pytest.mark.parametrize("bound", [square, lambda norm: norm, np.tanh, 2.5], ids=["square", "line", "tanh", "number"])
def test_a_person_with_many_rows_adds_no_more_than_one_row(
    bound: float | pais.mechanisms.vectors.NormFunction, weight: float
) -> None:
    """One row at the radius and nine at zero, and rows of all norms: together at most the bound at their root mean."""
    mechanism = VectorSum(
        vectors=lambda rows: np.full((len(rows), 1), 1e9),
        bound=bound,
        noise=pais.gaussian_noise(1e-3),
        n_features=2,
        protects_units=True,
    )
    step = Fraction(Lattice.for_scale(1e-3).step)
    for norms in (np.r_[3.0, np.zeros(9)], np.linspace(0.0, 3.0, 7), np.full(3, 1.7)):
        rows = np.column_stack([norms, np.zeros_like(norms)])
        (added,) = steps(mechanism, rows, np.full(len(rows), weight / len(rows)))
        root = float(np.sqrt(np.mean(np.square(norms)))) * (1.0 + 1e-15)
        shift = Fraction(float(mechanism.profile(weight, root))) * Fraction(1e-3)
        assert 0 < added * step <= shift


@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset", "none"])
@pytest.mark.parametrize(("noise", "delta"), [(pais.gaussian_noise, 1e-6), (pais.laplace_noise, 0.0)])
def test_calibrated_noise_is_certified_at_its_epsilon(sampling: str, noise: object, delta: float) -> None:
    norms = pais.NormDistribution.from_histogram([0.0, 1.0, 2.0, 3.0], [20_000, 60_000, 20_000])
    at_one = VectorSum(
        vectors=lambda rows: np.square(rows[:, :1]) + np.square(rows[:, 1:2]),
        bound=square,
        noise=noise(1.0),  # type: ignore[operator]  # two functions
        n_features=2,
    )
    size = {} if sampling in ("constrained", "none") else {"sample_size": 5000}
    calibration = pais.calibrate(sampling, at_one.profile, norms, epsilon=0.5, delta=delta, **size)  # type: ignore[arg-type]
    mechanism = dataclasses.replace(at_one, noise=noise(calibration.noise))  # type: ignore[operator]
    plan = pais.Plan(ball=BALL, rule=calibration.rule, mechanism=mechanism, epsilon=0.5, delta=delta)
    release = pais.run(plan, rows_of(3000, 2))
    assert release.certificate.epsilon == 0.5
    assert np.max(pais.record_losses(plan, np.linspace(0.0, 3.0, 1001))) <= 0.5 * (1.0 + 1e-9)
    # Less noise than calibrated is refused.
    less = dataclasses.replace(at_one, noise=noise(0.999 * calibration.noise))  # type: ignore[operator]
    with pytest.raises(pais.BudgetError):
        pais.Plan(ball=BALL, rule=calibration.rule, mechanism=less, epsilon=0.5, delta=delta)


def test_streamed_rows_give_the_value_of_the_rows_in_memory(tmp_path: Path) -> None:
    rows = rows_of(5000, 2)
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "\n".join(f"{a!r},{b!r}" for a, b in rows.tolist()))
    mechanism = VectorSum(
        vectors=lambda rows: np.abs(rows), bound=lambda norm: norm, noise=pais.gaussian_noise(9.0), n_features=2
    )
    plan = pais.Plan(ball=BALL, rule=EVERY, mechanism=mechanism, epsilon=10.0, delta=1e-6)
    in_memory, streamed = pais.run(plan, rows, random_state=3).value, pais.run(plan, path, random_state=3).value
    assert np.array_equal(in_memory, streamed)
    assert np.allclose(in_memory, np.abs(BALL.clip(rows)).sum(axis=0), atol=60.0)
    with pytest.raises(pais.ArgumentError, match="columns"):
        pais.run(plan, rows_of(10, 3))
    with pytest.raises(pais.MismatchError, match="columns"):
        pais.release(mechanism, pais.sample(rows_of(10, 3), ball=BALL, rule=EVERY), delta=1e-6)


def test_joint_release_of_vector_sums_has_the_root_of_their_squared_shifts() -> None:
    parts = (
        VectorSum(vectors=lambda rows: rows, bound=square, noise=pais.gaussian_noise(3.0), n_features=3),
        pais.WeightedCount(noise=pais.gaussian_noise(7.0)),
    )
    norm = np.linspace(0.0, 3.0, 50)
    exact = np.sqrt(np.square(norm**2 / 3.0) + 1.0 / 49.0)
    shift = pais.Joint(parts=parts).profile(2.0, norm)
    assert np.all(shift >= 2.0 * exact)
    assert np.allclose(shift, 2.0 * exact, rtol=1e-13, atol=0.0)
    assert not pais.Joint(parts=parts).streams
    both = pais.Joint(parts=(parts[0], parts[0]))
    assert both.streams
    plan = pais.Plan(ball=BALL, rule=EVERY, mechanism=both, epsilon=50.0, delta=1e-6)
    assert [value.shape for value in pais.run(plan, rows_of(100)).value] == [(3,), (3,)]
    pure = pais.Joint(
        parts=(
            VectorSum(vectors=lambda rows: rows[:, :1], bound=square, noise=pais.laplace_noise(3.0), n_features=3),
            pais.WeightedCount(noise=pais.laplace_noise(7.0)),
        )
    )
    assert np.allclose(pure.profile(2.0, norm), 2.0 * (norm**2 / 3.0 + 1.0 / 7.0), rtol=1e-13, atol=0.0)


# -- rounds ----------------------------------------------------------------------------------------------------


def shifted(center: Floats, *, noise: float = 40.0, bound: object = square) -> VectorSum:
    return VectorSum(
        vectors=lambda rows: rows - center,
        bound=bound,  # type: ignore[arg-type]  # a number or a function
        noise=pais.gaussian_noise(noise),
        n_features=2,
    )


def test_rounds_see_the_values_before_them_and_cost_the_root_of_their_number() -> None:
    seen: list[int] = []

    def step(values: tuple[Floats, ...]) -> VectorSum:
        seen.append(len(values))
        return shifted(values[-1] / 1000.0 if values else np.zeros(2))

    rounds = AdaptiveRounds(step=step, n_rounds=5)
    norm = np.linspace(0.0, 3.0, 50)
    exact = math.sqrt(5.0) * norm**2 / 40.0
    shift = rounds.profile(1.0, norm)
    assert np.all(shift >= exact)
    assert np.allclose(shift, exact, rtol=1e-13, atol=0.0)
    assert rounds.streams
    assert not rounds.is_for_units
    plan = pais.Plan(ball=BALL, rule=EVERY, mechanism=rounds, epsilon=5.0, delta=1e-6)
    seen.clear()
    values = pais.run(plan, rows_of(1000, 2)).value
    assert seen == [0, 1, 2, 3, 4]
    assert len(values) == 5
    with pytest.raises(pais.ArgumentError, match="columns"):
        pais.run(plan, rows_of(10, 3))
    assert not pais.audit(plan).violates
    pure = AdaptiveRounds(step=lambda _: pais.WeightedCount(noise=pais.laplace_noise(10.0)), n_rounds=5)
    assert float(pure.profile(1.0, 1.0)) == pytest.approx(0.5, rel=1e-13)
    assert pure.is_for_units
    assert not pure.streams
    assert len(pais.run(pais.Plan(ball=BALL, rule=EVERY, mechanism=pure, epsilon=0.6), rows_of(9, 2)).value) == 5


@pytest.mark.parametrize(
    "later",
    [
        lambda: shifted(np.zeros(2), noise=39.0),
        lambda: shifted(np.zeros(2), bound=lambda norm: np.square(norm)),
        lambda: shifted(np.zeros(2), bound=9.0),
        lambda: pais.WeightedCount(noise=pais.gaussian_noise(40.0)),
        lambda: "nothing",
    ],
    ids=["less noise", "another function", "a number", "another mechanism", "no mechanism"],
)
def test_a_round_with_another_profile_is_refused(later: object) -> None:
    rounds = AdaptiveRounds(
        step=lambda values: later() if values else shifted(np.zeros(2)),  # type: ignore[operator]  # a mechanism
        n_rounds=2,
    )
    plan = pais.Plan(ball=BALL, rule=EVERY, mechanism=rounds, epsilon=5.0, delta=1e-6)
    with pytest.raises((pais.AssumptionError, pais.ArgumentError)):
        pais.run(plan, rows_of(10, 2))


@pytest.mark.parametrize("joint", [False, True])
def test_a_later_round_cannot_have_finer_sums_than_those_that_were_checked(joint):
    def step(values):
        moment = pais.MomentSum(noise=pais.GaussianNoise(scale=1.0), largest=1e-12 if values else 1.0, n_rows=10.0)
        return pais.Joint(parts=(moment,)) if joint else moment

    plan = pais.Plan(
        ball=pais.Ball(radius=1.0),
        rule=pais.UniformRule(rate=1.0),
        mechanism=pais.AdaptiveRounds(step=step, n_rounds=2),
        epsilon=20.0,
        delta=1e-6,
    )
    with pytest.raises(pais.AssumptionError, match="another profile"):
        pais.run(plan, np.ones((5, 2)), random_state=0)


def _bound_plan(bound) -> pais.Plan:
    mechanism = VectorSum(vectors=lambda rows: rows, bound=bound, noise=pais.gaussian_noise(40.0), n_features=2)
    return pais.Plan(
        ball=pais.Ball(radius=3.0),
        rule=pais.UniformRule(rate=1.0),
        mechanism=mechanism,
        epsilon=1.0,
        delta=1e-6,
    )


@pytest.mark.parametrize("bound", [lambda norm: np.maximum.accumulate(norm), lambda norm: norm + 0.1 * norm.max()])
def test_a_bound_that_depends_on_other_norms_is_refused(bound):
    with pytest.raises(pais.AssumptionError, match="other norms"):
        pais.run(_bound_plan(bound), np.ones((5, 2)), random_state=0)


def test_a_bound_that_fails_for_the_norm_of_a_row_does_not_decide_whether_a_release_succeeds():
    def bound(norm):
        if np.any(np.abs(norm - 1.23456) < 1e-6):
            raise ValueError(f"failed for {norm}")
        return norm

    rows = np.full((5, 2), 0.5)
    rows[3] = 1.23456, 0.0
    value = pais.run(_bound_plan(bound), rows, random_state=0).value
    rows[3] = 0.0
    assert np.array_equal(value, pais.run(_bound_plan(bound), rows, random_state=0).value)
