"""RESIDUAL-PROFILE: what a record changes in a round, in whole steps, against the price of the round."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

import pais
from pais import GaussianNoise, LpNoise, laplace_noise
from pais._base.lattice import Tails, rounded_noise
from pais._base.randomness import SeededBits
from pais.kmeans import rounds as residual
from pais.kmeans.rounds import ResidualRound, SecondMoment
from pais.mechanisms.noise import NoiseLaw
from tests.support.residual_cases import (
    MECHANISMS,
    Cells,
    exact_steps,
    in_ball,
    loss_of,
    norm_of,
    round_of,
)

Floats = NDArray[np.float64]
LARGEST = 40.0
FLATS = [0.0, 0.05, 0.3, 1.0]

# -- the loss of one record ---------------------------------------------------------------------------------------


def cells_of(round_: ResidualRound, d: int, k: int, rng: np.random.Generator) -> Cells:
    """Any public choice: centers anywhere in the ball, clips over nine powers of ten, some cells whole."""
    centers = in_ball(rng.normal(size=(k, d)), 1.0, round_.order) * round_.radius
    clip = round_.radius * 10.0 ** rng.uniform(-9.0, 0.3, k)
    clip[rng.random(k) < 0.3] = round_.radius * 0.3
    return Cells(centers=centers, clip=clip, whole=rng.random(k) < 0.2)


def records_of(round_: ResidualRound, cells: Cells, d: int, rng: np.random.Generator) -> Floats:
    """Records where the bound could be passed: at the clip, at norm zero, at the radius, and anywhere."""
    radius, order = round_.radius, round_.order
    anywhere = in_ball(rng.normal(size=(8, d)), 1.0, order) * radius * rng.random((8, 1))
    at_radius = rng.normal(size=(4, d))
    at_radius *= (radius * (1.0 - 2.0**-50) / np.linalg.norm(at_radius, ord=order, axis=1))[:, None]
    axes = np.concatenate([np.eye(d)[:1], -np.eye(d)[-1:]]) * radius
    tiny = rng.normal(size=(3, d)) * radius * 10.0 ** -rng.uniform(3.0, 12.0, (3, 1))
    # The distance at which a record of this norm is clipped, and a hair to each side of it.
    cell = rng.integers(len(cells.centers), size=6)
    way = rng.normal(size=(6, d))
    way /= np.linalg.norm(way, ord=order, axis=1)[:, None]
    at_clip = cells.centers[cell].copy()
    for _ in range(30):
        norm = np.minimum(np.linalg.norm(at_clip, ord=order, axis=1), radius)
        at_clip = cells.centers[cell] + way * (cells.clip[cell] * round_.reach(norm))[:, None]
    at_clip *= rng.choice([1.0 - 2.0**-45, 1.0, 1.0 + 2.0**-45, 1.001], size=(6, 1))
    rows = np.concatenate([anywhere, at_radius, axes, tiny, np.zeros((1, d)), cells.centers[:2], at_clip])
    return in_ball(rows, radius, order)


def weights_of(n: int, rng: np.random.Generator) -> Floats:
    """Weights on a step, right beside one, and anywhere."""
    steps = 1.0 + rng.integers(0, 1024 * 39, n) / 1024.0
    near = np.stack([steps, np.nextafter(steps, 100.0), np.maximum(np.nextafter(steps, 0.0), 1.0)])
    near = np.vstack([near, 1.0 + 39.0 * rng.random(n), np.full(n, LARGEST), np.ones(n)])
    return np.asarray(near[rng.integers(0, len(near), n), np.arange(n)])


def exceeds(round_: ResidualRound, d: int, seed: int) -> tuple[list[str], float]:
    """Records whose loss in whole steps is above their price; and the largest share of the price that is used."""
    rng = np.random.default_rng(seed)
    cells = cells_of(round_, d, 5, rng)
    rows = records_of(round_, cells, d, rng)
    weights = weights_of(len(rows), rng)
    gaussian = isinstance(round_.residual_noise, GaussianNoise)
    beyond, largest = [], 0.0
    with mp.workdps(60):
        # The other rows, each of them in turn; the empty table is one of the neighbours.
        company = slice(0, 0) if seed % 2 else slice(0, 8)
        without = exact_steps(rows[company], weights[company], round_, cells, largest_weight=LARGEST)
        for record, weight in zip(rows, weights.tolist(), strict=True):
            table = np.vstack([rows[company], record[None]])
            both = exact_steps(table, np.append(weights[company], weight), round_, cells, largest_weight=LARGEST)
            loss = loss_of(both, without, round_.order, gaussian=gaussian)
            # The norm that decides on sampling is never below the exact one.
            norm = float(np.nextafter(float(norm_of(record, round_.order)), 0.0))
            price = mp.mpf(float(round_.profile(weight, norm)))
            largest = max(largest, float(loss / price))
            if loss > price:
                beyond.append(f"norm {norm!r} weight {weight!r}: {float(loss / price)!r}")
    return beyond, largest


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("flat", FLATS)
@pytest.mark.parametrize("d", [1, 5, 40])
def test_the_loss_of_a_record_in_whole_steps_is_within_the_price_of_the_round(
    mechanism: str, flat: float, d: int
) -> None:
    used = []
    for seed in range(4):
        radius = [1.0, 37.3, 1e-5, 1e7][seed]
        beyond, largest = exceeds(round_of(mechanism, radius=radius, flat=flat), d, seed)
        assert beyond == []
        used.append(largest)
    # The price is not far above what some record pays.
    assert max(used) > 0.98


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("flat", [0.0, 0.3, 1.0])
def test_a_round_of_whole_rows_costs_no_more_than_counts_distances_and_sums(mechanism: str, flat: float) -> None:
    used = []
    for seed in range(4):
        beyond, largest = exceeds(round_of(mechanism, flat=flat, whole_rows=True), 3, seed)
        assert beyond == []
        used.append(largest)
    assert max(used) > 0.98


def test_a_round_of_whole_rows_sums_whole_rows_whatever_is_asked_for() -> None:
    round_ = round_of("gaussian", whole_rows=True)
    cells = Cells(centers=np.array([[0.5, 0.0]]), clip=np.array([0.1]), whole=np.array([False]))
    steps = exact_steps(np.array([[0.25, 0.0]]), np.ones(1), round_, cells, largest_weight=1.0)
    # Two numbers of grid steps and weight steps: the row itself, not its distance to the center.
    assert steps.values[2][0, 0] > 0
    assert steps.scales[2][0] > 0.99 * 3.0 * round_.radius / 0.25 * steps.values[2][0, 0]


# -- exact sums ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("d", [1, 3, 70])
def test_residual_sums_are_those_of_rational_arithmetic(mechanism: str, d: int) -> None:
    rng = np.random.default_rng(d)
    round_ = round_of(mechanism, radius=3.7, flat=0.3)
    rows = in_ball(rng.normal(size=(60, d)), 1.0, round_.order) * round_.radius
    weights = weights_of(60, rng)
    cells = Cells(
        centers=rows[:4] * 0.9,
        clip=np.array([0.05, 0.4, 1.1, 2.0]) * round_.radius,
        whole=np.array([False, False, False, True]),
    )
    steps = exact_steps(rows, weights, round_, cells, largest_weight=LARGEST)
    sizes = residual.Steps.of((round_,), d, 1000.0, LARGEST)
    per_unit = Fraction(2.0**sizes.grid_bits / round_.radius)
    points = [[int(value) for value in np.trunc(row * float(per_unit))] for row in rows]
    centers = [[int(value) for value in np.rint(center * float(per_unit))] for center in cells.centers]
    whole_weights = [int(Fraction(weight) * 2**sizes.weight_bits) for weight in weights.tolist()]
    with mp.workdps(50):
        expected = [[mp.mpf(0)] * d for _ in centers]
        counts, distances, clipped = [0] * 4, [0] * 4, [0] * 4
        for point, weight in zip(points, whole_weights, strict=True):
            gaps = [[x - c for x, c in zip(point, center, strict=True)] for center in centers]
            squares = [sum(gap * gap for gap in one) for one in gaps]
            j = squares.index(min(squares))
            z = norm_of(point, round_.order) / mp.mpf(2) ** sizes.grid_bits
            flat = mp.mpf(round_.flat_share)
            reach = mp.sqrt(flat + (1 - flat) * z * z) if mechanism == "gaussian" else flat + (1 - flat) * z
            ratio = norm_of(gaps[j], round_.order) / (mp.mpf(cells.clip[j]) * per_unit.numerator / per_unit.denominator)
            ratio /= reach
            counts[j] += weight
            distances[j] += int(min(ratio, 1) * weight)
            share = 1 if cells.whole[j] else min(1, 1 / ratio)
            clipped[j] += share < 1
            vector = point if cells.whole[j] else gaps[j]
            for i, value in enumerate(vector):
                expected[j][i] += value * weight * share
        assert steps.values[0].tolist() == counts
        # A share of a weight may fall on the other side of a step.
        assert np.all(np.abs(steps.values[1] - distances) <= 60)
        assert sum(clipped) >= 3
        assert min(clipped) == 0
        for j, total in enumerate(expected):
            for i, value in enumerate(total):
                error = abs(int(steps.values[2][j, i]) - value)
                # Rows that are not clipped are summed exactly; a clipped one is at most a step shorter, and the margin.
                assert error <= clipped[j] * (1 + mp.mpf(2) ** -38 * 2**sizes.grid_bits * LARGEST * 2**8)
                if clipped[j] == 0:
                    assert error == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("d", [1, 6, 33])
def test_a_round_is_the_sum_of_the_rounds_of_single_rows(mechanism: str, d: int) -> None:
    """Whatever a row adds does not depend on other rows, on its place or on the blocks of rows."""
    rng = np.random.default_rng(5)
    round_ = round_of(mechanism, radius=2.3, flat=0.1)
    n = 5000
    rows = in_ball(rng.normal(size=(n, d)), 1.0, round_.order) * round_.radius
    weights = weights_of(n, rng)
    cells = cells_of(round_, d, 7, rng)
    rows[::2] = 0.5 * (cells.centers[rng.integers(0, 7, n // 2)] + cells.centers[rng.integers(0, 7, n // 2)])
    together = exact_steps(rows, weights, round_, cells, largest_weight=LARGEST)
    order = rng.permutation(n)
    parts = [order[:1], order[1:3], order[3:2100], order[2100:]]
    split = [exact_steps(rows[part], weights[part], round_, cells, largest_weight=LARGEST) for part in parts]
    for number in range(3):
        assert np.array_equal(together.values[number], sum(one.values[number] for one in split))
    few = order[:40]
    alone = [exact_steps(rows[[i]], weights[[i]], round_, cells, largest_weight=LARGEST) for i in few]
    several = exact_steps(rows[few], weights[few], round_, cells, largest_weight=LARGEST)
    for number in range(3):
        assert np.array_equal(several.values[number], sum(one.values[number] for one in alone))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_row_at_norm_zero_has_no_residual_if_the_price_has_no_flat_part(mechanism: str) -> None:
    for radius in (1e-99, 1.0, 1e99):
        round_ = round_of(mechanism, flat=0.0, radius=radius)
        cells = Cells(
            centers=np.array([[0.9, 0.0]]) * radius, clip=np.array([0.5 * radius]), whole=np.zeros(1, dtype=bool)
        )
        with np.errstate(all="raise"):
            steps = exact_steps(np.zeros((1, 2)), np.array([LARGEST]), round_, cells, largest_weight=LARGEST)
        assert not np.any(steps.values[2])
        assert steps.values[1][0] == steps.values[0][0] > 0


@pytest.mark.parametrize("center", [math.nan, math.inf])
def test_centers_and_clips_that_are_not_numbers_release_nothing(center: float) -> None:
    round_ = round_of("gaussian")
    usual = Cells(centers=np.zeros((2, 2)), clip=np.ones(2), whole=np.zeros(2, dtype=bool))
    for cells in (
        Cells(centers=np.array([[0.0, center], [0.0, 0.0]]), clip=usual.clip, whole=usual.whole),
        Cells(centers=usual.centers, clip=np.array([1.0, center]), whole=usual.whole),
    ):
        with pytest.raises(pais.PaisError, match="not a finite number"):
            exact_steps(np.zeros((3, 2)), np.ones(3), round_, cells, largest_weight=1.0)


def test_centers_far_outside_the_ball_count_as_the_nearest_of_its_cube() -> None:
    """Scores of farther centers would not be exact."""
    round_ = round_of("gaussian")
    rows, whole = np.array([[0.5, 0.5], [-0.5, 0.1]]), np.zeros(2, dtype=bool)
    far = Cells(centers=np.array([[1e30, 0.0], [-1.0, 0.0]]), clip=np.ones(2), whole=whole)
    near = Cells(centers=np.array([[1.0, 0.0], [-1.0, 0.0]]), clip=np.ones(2), whole=whole)
    one, other = (exact_steps(rows, np.ones(2), round_, cells, largest_weight=1.0) for cells in (far, near))
    for mine, theirs in zip(one.values, other.values, strict=True):
        assert np.array_equal(mine, theirs)


# -- laws and prices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.5, 3.0, math.inf])
def test_noise_for_another_norm_than_that_of_the_residuals_is_refused(p: float) -> None:
    """Norms are measured in order 1 or 2. For a larger order, they would be above those that decide on sampling."""
    with pytest.raises(pais.MismatchError, match="order 1 or 2"):
        round_of("l2", residual_noise=LpNoise(scale=1.0, p=p))


def test_a_round_does_not_mix_pure_and_gaussian_noise() -> None:
    with pytest.raises(pais.MismatchError, match="mixes"):
        round_of("l2", count_noise=GaussianNoise(scale=1.0))
    settings: dict[str, Any] = {"n_clusters": 1, "n_features": 2, "radius": 1.0, "cells": 2, "explore": 1}
    moment = SecondMoment(noise=GaussianNoise(scale=3.0), radius=0.4, flat_share=0.2)
    pais.KMeans(rounds=(round_of("gaussian"),), moment=moment, **settings)
    with pytest.raises(pais.MismatchError, match="mixes"):
        pais.KMeans(rounds=(round_of("l2"),), moment=moment, **settings)
    with pytest.raises(pais.MismatchError, match="mixes"):
        pais.KMeans(rounds=(round_of("l2"), round_of("gaussian")), **settings)
    with pytest.raises(pais.MismatchError):
        pais.KMeans(rounds=(), moment=moment, **{**settings, "explore": 0})


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("flat", [0.0, 1e-9, 0.3, 1.0 - 1e-9, 1.0])
@pytest.mark.parametrize("whole_rows", [False, True])
def test_the_price_of_a_round_is_never_below_its_formula_and_hardly_above(
    mechanism: str, flat: float, whole_rows: bool
) -> None:
    round_ = round_of(mechanism, radius=2.7, flat=flat, whole_rows=whole_rows)
    with mp.workdps(50):
        for weight in (1.0, 3.3, 1e6):
            for norm in (0.0, 1e-9, 0.4, 1.0, 2.7):
                part = mp.mpf(0.0 if whole_rows else flat)
                share = mp.mpf(norm) / mp.mpf(2.7)
                laws = [mp.mpf(law.scale) for law in (round_.count_noise, round_.distance_noise, round_.residual_noise)]
                if mechanism == "gaussian":
                    square = 1 / laws[0] ** 2 + 1 / laws[1] ** 2 + (part + (1 - part) * share**2) / laws[2] ** 2
                    exact = weight * mp.sqrt(square)
                else:
                    exact = weight * (1 / laws[0] + 1 / laws[1] + (part + (1 - part) * share) / laws[2])
                stated = mp.mpf(float(round_.profile(weight, norm)))
                assert exact <= stated <= exact * (1 + mp.mpf(2) ** -38)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("flat", FLATS)
def test_the_reach_is_below_its_formula_and_never_below_the_share_of_the_radius(mechanism: str, flat: float) -> None:
    round_ = round_of(mechanism, radius=0.7, flat=flat)
    norms = np.concatenate([np.linspace(0.0, 0.7, 40), np.geomspace(1e-12, 0.7, 20), [0.7000001]])
    with mp.workdps(50):
        for norm, found in zip(norms.tolist(), round_.reach(norms).tolist(), strict=True):
            share = min(mp.mpf(norm) / mp.mpf(0.7), 1)
            part = mp.mpf(flat)
            exact = mp.sqrt(part + (1 - part) * share**2) if mechanism == "gaussian" else part + (1 - part) * share
            assert mp.mpf(found) <= exact
            assert mp.mpf(found) >= exact * (1 - mp.mpf(2) ** -38)
            # So whole rows, with the noise of the radius, cost no more than residuals.
            assert share <= exact


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_round_is_read_back_from_its_description(mechanism: str) -> None:
    moment = SecondMoment(noise=GaussianNoise(scale=3.0), radius=0.4, flat_share=0.2)
    made = pais.KMeans(
        n_clusters=3,
        n_features=2,
        rounds=(round_of(mechanism, whole_rows=True), round_of(mechanism, flat=0.7)),
        radius=1.0,
        cells=5,
        explore=1,
        moment=moment if mechanism == "gaussian" else None,
        n_rows=1234.5,
        largest_weight=3.5,
    )
    again = pais.Mechanism.from_dict(made.to_dict())
    assert again == made
    assert again.profile(2.0, 0.3) == made.profile(2.0, 0.3)


def test_rounds_that_end_before_the_cells_are_merged_are_refused() -> None:
    """The first of the pure rounds measures sectors. One round would release cells instead of clusters, or nothing."""
    settings: dict[str, Any] = {"n_clusters": 1, "n_features": 2, "radius": 1.0, "cells": 2, "explore": 1}
    pais.KMeans(rounds=(round_of("l2"),) * 2, **settings)
    with pytest.raises(pais.ArgumentError, match="do not fit 0 rounds"):
        pais.KMeans(rounds=(round_of("l2"),), **settings)


# -- steps of 64 bits ---------------------------------------------------------------------------------------------


def planned(scale: float, mechanism: str = "gaussian") -> ResidualRound:
    law: NoiseLaw = GaussianNoise(scale=scale) if mechanism == "gaussian" else LpNoise(scale=scale, p=2.0)
    count = GaussianNoise(scale=scale) if mechanism == "gaussian" else laplace_noise(scale)
    return round_of(mechanism, count_noise=count, distance_noise=count, residual_noise=law)


@pytest.mark.parametrize("mechanism", ["gaussian", "l2"])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6, 1e9])
@pytest.mark.parametrize("n_rows", [1.0, 1e12])
@pytest.mark.parametrize("largest", [1.0, 1e9])
@pytest.mark.parametrize("d", [1, 10_000])
def test_contributions_totals_and_noise_fit_into_integers(
    mechanism: str, scale: float, n_rows: float, largest: float, d: int
) -> None:
    round_ = planned(scale, mechanism)
    sizes = residual.Steps.of((round_,), d, n_rows, largest)
    weight, point = 2.0**sizes.weight_bits, 2.0**sizes.grid_bits
    assert 2.0 * point * largest * weight < 2.0**62
    # Twice the number of rows in one cell, all at the far end of the ball.
    assert 2.0 * point * 2.0 * n_rows * weight < 2.0**62
    assert 32.0 * round_.residual_noise.deviation(d) * point * weight < 2.0**62
    assert sizes.grid_bits >= 8
    assert d * 4.0**sizes.grid_bits <= 2.0**51
    # No weight is truncated to less than 15/16 of it, but where noise or numbers beyond 2**48 leave no room.
    if max(4.0 * n_rows, 2.0 * largest, 64.0 * round_.residual_noise.deviation(d)) <= 2.0**48:
        assert sizes.weight_bits >= 4


@pytest.mark.parametrize("law", [GaussianNoise(scale=1.0), laplace_noise(1.0), LpNoise(scale=1.0, p=2.0)], ids=repr)
def test_noise_of_more_than_64_bits_is_exact_modulo_their_number(law: NoiseLaw) -> None:
    """Beyond 2**63 steps a conversion gives one and the same number, which would show the sum behind it."""
    scale, shape = 2.0**70, (30, 2)
    steps = rounded_noise(law, shape, scale, SeededBits(np.random.default_rng(3)))
    bits = SeededBits(np.random.default_rng(3))
    tails = Tails.draw((30, law.n_uniforms(2)), bits)
    for row in range(30):
        words = [(int(word) << 128) | int.from_bytes(bits.raw(16), "little") for word in tails.words[row]]
        with mp.workprec(400):
            middle = [(mp.mpf(word) + mp.mpf(0.5)) / mp.mpf(2) ** 192 for word in words]
            exact = [int(mp.floor(scale * v + 0.5)) for v in law.evaluate_exactly(middle, tails.signs[row].tolist())]
        assert [(int(value) - e) % 2**64 for value, e in zip(steps[row], exact, strict=True)] == [0, 0]


def test_the_price_is_that_of_the_rounds_at_hand() -> None:
    """A price that was kept on the object would stay when its rounds are exchanged after the certificate."""
    settings: dict[str, Any] = {"n_clusters": 1, "n_features": 2, "radius": 1.0, "cells": 2, "explore": 1}
    made = pais.KMeans(rounds=(round_of("l2"),) * 2, **settings)
    before = float(made.profile(1.0, 0.5))
    object.__setattr__(made, "rounds", (round_of("l2"),) * 4)
    assert float(made.profile(1.0, 0.5)) == pytest.approx(2.0 * before, rel=1e-12)
