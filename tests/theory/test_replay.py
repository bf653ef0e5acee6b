"""The replay audit: its probabilities against brute force, and faults that it must find."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.lattice import Lattice
from pais._base.randomness import bit_source
from pais.auditing.replay import log_chance, replay, sampled_delta
from pais.mechanisms.noise import GaussianNoise, LpNoise
from pais.statistics.quantile import permute_and_flip

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 2))
FAR = np.array([[40.0, -3.0]])
PRESENT = np.vstack([ROWS, FAR])
COLUMNS = {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}


def frame(rows: Any) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(rows, columns=["x", "y"])


def mean(table: Any, seed: Any) -> Any:
    return pais.mean(table, columns=COLUMNS, epsilon=1.0, random_state=seed)


def brute_force_chance(scores: list[int], choice: int, scale: float) -> float:
    chances = [mp.exp(mp.mpf(score - max(scores)) / scale) for score in scores]
    total = mp.mpf(0)
    for accepted in itertools.product((0, 1), repeat=len(scores)):
        if accepted[choice]:
            weights = (p if is_in else 1 - p for p, is_in in zip(chances, accepted, strict=True))
            total += mp.fprod(weights) / sum(accepted)
    return float(mp.log(total))


@pytest.mark.parametrize("scores", [[0, 0], [0, 3, 5], [7, 7, 7, 1], [0, 10, 20, 30, 40, 41], [5]])
@pytest.mark.parametrize("scale", [0.7, 4.0, 100.0])
def test_chance_of_a_choice_is_that_of_all_subsets(scores: list[int], scale: float) -> None:
    for choice in range(len(scores)):
        expected = brute_force_chance(scores, choice, scale)
        assert log_chance(np.array(scores), choice, scale) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_chances_of_many_candidates_add_up_to_one() -> None:
    scores = -np.abs(np.arange(600) - 150) // 3
    chances = [math.exp(log_chance(scores, choice, 40.0)) for choice in range(600)]
    assert math.fsum(chances) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("shift", "shift_of_sample", "q"), [(0.3, 1.5, 0.1), (0.0, 2.0, 0.05), (0.5, 0.4, 0.7)])
def test_delta_of_survey_and_sample_against_an_integral(shift: float, shift_of_sample: float, q: float) -> None:
    epsilon, points, weights = 1.0, *np.polynomial.legendre.leggauss(64)
    # Twenty intervals in each variable: a sum over (1280, 1280) points, without the closed form of the second variable.
    ends = np.linspace(-9.0, 11.0, 21)
    z = (ends[:-1, None] + 0.5 * (points + 1.0) * np.diff(ends)[:, None]).ravel()
    mass = (0.5 * weights * np.diff(ends)[:, None]).ravel() * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    survey, sample = (np.exp(mu * z - 0.5 * mu**2) for mu in (shift, shift_of_sample))
    mixed = survey[:, None] * (1.0 - q + q * sample)
    removed = mass @ np.maximum(mixed - math.exp(epsilon), 0.0) @ mass
    added = mass @ np.maximum(1.0 - math.exp(epsilon) * mixed, 0.0) @ mass
    assert sampled_delta(epsilon, shift, shift_of_sample, q) == pytest.approx(max(removed, added), rel=1e-3)


def test_a_call_that_fails_on_both_tables_tests_nothing() -> None:
    def fails(table: Any, seed: Any) -> Any:
        raise pais.ArgumentError("no")

    with pytest.raises(pais.ArgumentError, match="fails on both tables"):
        replay(fails, frame(PRESENT), frame(ROWS))


def noise_that_depends_on_the_rows(table: Any, seed: Any) -> Any:
    return pais.mean(table, columns=COLUMNS, epsilon=1.0 + 1e-6 * (len(table) % 2), random_state=seed)


def a_draw_more(table: Any, seed: Any) -> Any:
    if len(table) > len(ROWS):
        mean(table, seed)
    return mean(table, seed)


def a_printed_count(table: Any, seed: Any) -> Any:
    print(f"read {len(table)} rows")
    return mean(table, seed)


def an_error_that_a_row_decides(table: Any, seed: Any) -> Any:
    if len(table) > len(ROWS):
        raise pais.ArgumentError("too many")
    return mean(table, seed)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (noise_that_depends_on_the_rows, "scales"),
        (a_draw_more, "draws"),
        (a_printed_count, "output"),
        (an_error_that_a_row_decides, "outcome"),
    ],
)
def test_a_leak_beside_the_totals_is_found(call: Callable[[Any, Any], Any], text: str) -> None:
    report = replay(call, frame(PRESENT), frame(ROWS), seeds=(0,))
    assert report.violates
    assert any(text in difference for difference in report.differences)


def test_a_choice_with_scores_times_1_1_is_found() -> None:
    scores = {300: np.array([0, 0, 0]), 301: np.array([-1, 0, 0])}

    def call(table: Any, seed: Any) -> Any:
        bits = bit_source(seed)
        return permute_and_flip(factor * scores[len(table)], 10.0, bits)

    factor = 10
    assert replay(call, PRESENT, ROWS, epsilon=1.0, delta=0.0).used <= 1.0 + 1e-9
    factor = 11
    assert replay(call, PRESENT, ROWS, epsilon=1.0, delta=0.0).violates


def test_moves_add_up_for_pure_noise_and_by_squares_for_gaussian_noise() -> None:
    lattice = Lattice(step=1.0)

    def call_with(law: Any) -> Any:
        def call(table: Any, seed: Any) -> Any:
            bits = bit_source(seed)
            for _ in range(3):
                law.added_to(np.full((2, 1), len(table)), lattice, bits)
            return 0.0

        return call

    laplace = replay(call_with(LpNoise(scale=10.0)), PRESENT, ROWS, epsilon=1.0, delta=0.0)
    assert laplace.used == pytest.approx(0.6)
    gaussian = replay(call_with(GaussianNoise(scale=10.0)), PRESENT, ROWS, epsilon=1.0, delta=1e-6)
    assert gaussian.moves[0].shift == pytest.approx(math.sqrt(6) / 10)


def test_a_push_beyond_64_bits_is_no_difference() -> None:
    def call(table: Any, seed: Any) -> Any:
        GaussianNoise(scale=2.0**61).added_to(np.zeros((1, 1), dtype=np.int64), Lattice(step=1.0), bit_source(seed))
        return 0.0

    assert not replay(call, PRESENT, ROWS, epsilon=1.0, delta=1e-6, pushes=(20.0, -20.0)).differences
