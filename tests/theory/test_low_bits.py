"""Attacks on low bits: released numbers are whole multiples of public steps, for neighbours the same ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, GaussianNoise, WeightedCount, WeightedMean, WeightedSum, laplace_noise
from pais._base.lattice import IntArray, Lattice
from pais.kmeans.rounds import ResidualSample, SecondMoment, Steps
from tests.support.lattice_cases import NOISES, SMALLEST, OneWord, content, noises, on_lattice, seeded
from tests.support.residual_cases import MECHANISMS, round_of

Floats = NDArray[np.float64]


# ---------------------------------------------------------------- low bits


# Neighbours, and data whose low bits are as different as can be.
DATA = {
    "none": np.zeros((0, 2)),
    "zeros": np.zeros((3, 2)),
    "whole": np.array([[1.0, 2.0], [3.0, -1.0]]),
    "thirds": np.array([[1.0 / 3.0, -0.1], [math.pi, 2.0 / 7.0]]),
    "thirds and one more": np.array([[1.0 / 3.0, -0.1], [math.pi, 2.0 / 7.0], [0.7, 1e-9]]),
    "tiny": np.array([[SMALLEST, -SMALLEST], [1e-300, 2.0**-60]]),
    "mixed": np.array([[1e-17, 4.0], [3.9999999999999996, -1e-5]]),
}


def naive_sum(rows: Floats, scale: float, rng: np.random.Generator) -> Floats:
    """What many have written: a sum of doubles and a double of noise."""
    return np.asarray(rows.sum(axis=0) + rng.laplace(scale=scale, size=rows.shape[1]))


@noises
@pytest.mark.parametrize("scale", [0.37, 1e-4])
def test_released_sums_and_counts_are_whole_multiples_of_a_public_step(noise_name: str, scale: float) -> None:
    noise, step = NOISES[noise_name](scale), Lattice.for_scale(scale).step
    ball = Ball(radius=10.0, order=noise.order)
    mean = WeightedMean(count_noise=noise, sum_noise=noise)
    for seed, rows in enumerate(DATA.values()):
        given_ = content(rows, 1.0 + np.arange(len(rows)) / 3.0)
        assert on_lattice(WeightedSum(noise=noise).measure(given_, ball, seeded(seed)), step)
        assert on_lattice(WeightedCount(noise=noise).measure(given_, ball, seeded(seed)), step)
        value = mean.measure(given_, ball, seeded(seed))
        assert on_lattice(value.noisy_sum, step)
        assert on_lattice(value.noisy_count, step)
    assert not on_lattice(naive_sum(DATA["thirds"], scale, np.random.default_rng(0)), step)
    # Rounding the noise and not the sum is no better.
    rounded = np.rint(np.random.default_rng(0).laplace(scale=scale, size=2) / step) * step
    assert not on_lattice(DATA["thirds"].sum(axis=0) + rounded, step)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_residuals_and_moments_of_k_means_are_whole_multiples_of_public_steps(mechanism: str) -> None:
    round_ = round_of(mechanism, radius=8.0)
    centers, clip = np.array([[1.0 / 3.0, 0.0], [-1.0, math.e]]), np.array([0.3, 4.0])
    moment = SecondMoment(noise=GaussianNoise(scale=7.0), radius=3.0, flat_share=0.2)
    # The steps follow from radius, noise, largest weight and number of rows.
    side = max(3.0 * math.sqrt(5.0) / 2.0**18, math.sqrt(7.0 / 2.0**38))
    sizes = Steps.of((round_,), 2, 100.0, 5.0)
    small, step = 2.0**-sizes.weight_bits, 2.0**-sizes.weight_bits * 8.0 / 2.0**sizes.grid_bits
    for seed, rows in enumerate(DATA.values()):
        bits, held = seeded(seed), content(rows, 1.0 + np.arange(len(rows)) / 3.0)
        sample = ResidualSample(held, (round_,), n_rows=100.0, largest_weight=5.0)
        for whole in (np.array([False, False]), np.array([True, False])):
            summary = sample.summarise(centers, clip, whole, round_, bits)
            assert on_lattice(summary.noisy_counts, small)
            assert on_lattice(np.rint(summary.noisy_distances / (clip * small)), 1.0)
            assert np.array_equal(
                np.rint(summary.noisy_distances / clip / small) * small * clip, summary.noisy_distances
            )
            assert on_lattice(summary.noisy_residuals, step)
        released = moment.measure(held, 5.0, bits)
        assert np.array_equal(np.rint(released / side**2) * side**2, released)
    naive = DATA["thirds"].T @ DATA["thirds"] + np.random.default_rng(0).normal(scale=7.0, size=(2, 2))
    assert not np.array_equal(np.rint(naive / side**2) * side**2, naive)


class Spy:
    """What leaves a lattice: steps, and the doubles they become."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[float, Floats]] = []
        decode = Lattice.decode

        def recorded(lattice: Lattice, steps: IntArray) -> Floats:
            values = decode(lattice, steps)
            self.seen.append((lattice.step, values))
            return values

        monkeypatch.setattr(Lattice, "decode", recorded)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_counts_of_a_survey_are_whole_multiples_of_public_steps(order: float, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    rng = np.random.default_rng(3)
    for rows in (rng.normal(size=(2000, 2)) / 3.0, rng.normal(size=(2001, 2)) * 1e-9 + 0.1, DATA["tiny"]):
        pais.survey(rows, epsilon=2.0, order=order, random_state=5)
    # Two histograms with a step of one row. If something is above the noise, also a sum on a finer lattice.
    assert sum(step == 1.0 for step, _ in spy.seen) == 6
    assert sum(step != 1.0 for step, _ in spy.seen) == 2
    for step, values in spy.seen:
        assert math.frexp(step)[0] == 0.5
        assert on_lattice(values, step)


def word_for(steps: int, scale_in_steps: float) -> int:
    """The first word of a Laplace draw of so many steps."""
    tail = int(math.exp(-abs(steps) / scale_in_steps) * 2.0**63)
    return min(tail, 2**63 - 1) | (1 << 63 if steps >= 0 else 0)


@pytest.mark.parametrize("other", [0.0, 1.0, -1.0, 0.1, SMALLEST, 1.0 / 3.0])
def test_neighbours_reach_the_same_doubles(other: float) -> None:
    noise, ball = laplace_noise(1.0), Ball(radius=1.0, order=1.0)
    lattice, mechanism = Lattice.for_scale(1.0), WeightedSum(noise=laplace_noise(1.0))
    rng = np.random.default_rng(2)
    reached = [mechanism.measure(content([[0.7]]), ball, seeded(seed))[0] for seed in range(60)]
    for value in reached:
        steps = int(value / lattice.step) - int(lattice.encode(np.array([other]))[0])
        # The same double, from the other data and bits that are just as possible.
        again = mechanism.measure(content([[other]]), ball, OneWord(word_for(steps, noise.scale / lattice.step)))
        assert again[0] == value

    # A naive output of the row 0 that the row 1 cannot reach with any double of noise.
    def naive_reaches(value: float, row: float) -> bool:
        middle = value - row
        candidates = [middle, math.nextafter(middle, math.inf), math.nextafter(middle, -math.inf)]
        return any(row + noise == value for noise in candidates)

    out_of_reach = [value for value in rng.uniform(0.25, 0.5, 100).tolist() if (value * 2.0**54) % 2.0 == 1.0]
    out_of_reach += [0.25 + 2.0**-54]
    assert all(naive_reaches(value, 0.0) for value in out_of_reach)
    assert not any(naive_reaches(value, 1.0) for value in out_of_reach)
