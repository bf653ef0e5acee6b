"""AMPLIFY: accuracy, safe side, and exact divergences of small mechanisms that can be enumerated."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import pais
from tests.support.oracles import sampled_loss


def test_amplified_epsilon_is_never_below_the_exact_value_and_at_most_1e_12_above() -> None:
    rng = np.random.default_rng(0)
    epsilon = np.concatenate([10 ** rng.uniform(-12, 3, 4000), rng.uniform(690, 1000, 1000)])
    probability = np.concatenate([10 ** rng.uniform(-15, 0, 4500), 1 - 10 ** rng.uniform(-16, -1, 500)])
    with mp.workdps(50):
        for value, e, q in zip(pais.amplified_epsilon(epsilon, probability), epsilon, probability, strict=True):
            exact = sampled_loss(e, q)
            assert mp.mpf(value) >= exact
            assert mp.mpf(value) <= exact * (1 + mp.mpf("1e-12"))


def test_probability_one_and_loss_zero_are_unchanged() -> None:
    assert pais.amplified_epsilon(3.7, 1.0) == 3.7
    assert pais.amplified_epsilon(1000.0, 1.0) == 1000.0
    assert pais.amplified_epsilon(0.0, 0.3) == 0.0


def test_scalars_give_a_float_and_arrays_broadcast() -> None:
    assert isinstance(pais.amplified_epsilon(1, 0.5), float)
    assert pais.amplified_epsilon([1.0, 2.0], [[0.1], [0.2], [0.3]]).shape == (3, 2)


def output_law(weighted_sums: dict[int, Fraction], decay: Fraction, top: int) -> list[Fraction]:
    """Exact law of a weighted sum plus two-sided geometric noise of ratio `decay`, clamped to [0, top]."""
    law = [Fraction(0)] * (top + 1)
    for total, mass in weighted_sums.items():
        for out in range(top + 1):
            if out == 0:
                noise = decay**total / (1 + decay)
            elif out == top:
                noise = decay ** (top - total) / (1 + decay)
            else:
                noise = (1 - decay) / (1 + decay) * decay ** abs(out - total)
            law[out] += mass * noise
    assert sum(law) == 1
    return law


def sampled_sums(records: list[tuple[int, int]]) -> dict[int, Fraction]:
    """Law of the weighted sum of records (value, 1/q) under Poisson sampling with probability q and weight 1/q."""
    sums: dict[int, Fraction] = {}
    for kept in itertools.product([False, True], repeat=len(records)):
        mass, total = Fraction(1), 0
        for (value, weight), is_kept in zip(records, kept, strict=True):
            mass *= Fraction(1, weight) if is_kept else 1 - Fraction(1, weight)
            total += value * weight if is_kept else 0
        sums[total] = sums.get(total, Fraction(0)) + mass
    return sums


def largest_log_ratio(p: list[Fraction], q: list[Fraction]) -> mp.mpf:
    return max(
        mp.log(mp.mpf(a.numerator) / a.denominator * b.denominator / b.numerator) for a, b in zip(p, q, strict=True)
    )


@pytest.mark.parametrize("others", [[], [(1, 1)], [(1, 2), (2, 3)], [(2, 2), (1, 4), (3, 1)]])
@pytest.mark.parametrize("record", [(1, 1), (1, 2), (1, 5), (2, 3), (3, 2)])
def test_the_exact_loss_of_an_enumerated_mechanism_never_exceeds_the_bound_in_either_direction(
    others: list[tuple[int, int]], record: tuple[int, int]
) -> None:
    decay = Fraction(2, 3)
    value, weight = record
    with_record = output_law(sampled_sums([*others, record]), decay, top=40)
    without = output_law(sampled_sums(others), decay, top=40)
    with mp.workdps(40):
        bound = mp.mpf(pais.amplified_epsilon(weight * value * math.log(1.5), 1 / weight))
        bound *= 1 + mp.mpf("1e-14")  # log(1.5) itself is rounded
        assert largest_log_ratio(with_record, without) <= bound
        assert largest_log_ratio(without, with_record) <= bound


@pytest.mark.parametrize("record", [(1, 2), (1, 5), (2, 3)])
def test_the_bound_is_tight_and_a_bound_one_percent_smaller_would_be_broken(record: tuple[int, int]) -> None:
    value, weight = record
    with_record = output_law(sampled_sums([record]), Fraction(2, 3), top=40)
    without = output_law(sampled_sums([]), Fraction(2, 3), top=40)
    bound = pais.amplified_epsilon(weight * value * math.log(1.5), 1 / weight)
    with mp.workdps(40):
        attained = largest_log_ratio(with_record, without)
    assert float(attained) == pytest.approx(bound, rel=1e-14)
    assert attained > 0.99 * bound
