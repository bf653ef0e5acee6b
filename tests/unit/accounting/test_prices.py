"""Prices are checked where they are made: no negative, infinite or undefined number is ever added up."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pais
from pais.accounting.part import Part, survey_shift

BALL = pais.Ball(radius=1.0)
NORMS = pais.NormDistribution(norms=np.array([0.5]), masses=np.array([1000.0]), radius=1.0)


def survey(**changes: Any) -> pais.Survey:
    return pais.Survey(**{"ball": BALL, "norms": NORMS, "epsilon": 0.1, "secure_randomness": True, **changes})


COUNT = pais.WeightedCount(noise=pais.laplace_noise(4.0))
MAKERS: dict[str, Callable[..., Any]] = {
    "Part": lambda **price: pais.Part(**{"what": "a table", "epsilon": 0.1, **price}),
    "Budget": lambda **price: pais.Budget(**{"epsilon": 0.1, "delta": 0.0, **price}),
    "Survey": survey,
}
BAD_EPSILONS = [-0.999, -1e-300, math.nan, math.inf, -math.inf, 1.0000001e6, True, False, np.True_, "0.1", b"1", None]
BAD_EPSILONS += [1j, [0.1], 10**400, np.timedelta64(1)]
BAD_DELTAS = [-1e-300, 1.0, 1.5, math.nan, math.inf, True, "1e-6", None]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("bad", BAD_EPSILONS, ids=repr)
def test_bad_epsilons_are_refused_as_prices(make: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="epsilon"):
        make(epsilon=bad)


@pytest.mark.parametrize("make", [MAKERS["Part"], MAKERS["Budget"]], ids=["Part", "Budget"])
@pytest.mark.parametrize("bad", BAD_DELTAS, ids=repr)
def test_bad_deltas_are_refused_as_prices(make: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="delta"):
        make(delta=bad)


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 401, 7, None, b"bytes"], ids=repr)
def test_description_of_a_part_is_a_short_text(bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="what must be a text"):
        pais.Part(what=bad, epsilon=0.1)


@pytest.mark.parametrize("bad", [1, 0, "True", None, np.True_], ids=repr)
def test_secure_randomness_must_be_a_bool(bad: Any) -> None:
    for make in (MAKERS["Part"], survey):
        with pytest.raises(pais.ArgumentError, match="secure_randomness must be True or False"):
            make(secure_randomness=bad)
    with pytest.raises(pais.ArgumentError, match="above_noise must be True or False"):
        survey(above_noise=bad)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("good", [0, 0.0, -0.0, 5e-324, 1, np.float32(0.5), np.int64(3), 1e6], ids=repr)
def test_a_price_becomes_a_float_that_is_not_below_it(make: Callable[..., Any], good: Any) -> None:
    price = make(epsilon=good).epsilon
    assert type(price) is float
    assert price == good
    assert math.copysign(1.0, price) == 1.0


@pytest.mark.parametrize("bad", [[], (0.5,), ({"what": "a", "epsilon": 0.1, "delta": 0.0},), None, "ab"], ids=repr)
def test_spent_must_be_a_tuple_of_parts(bad: Any) -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0))
    with pytest.raises(pais.ArgumentError, match="spent"):
        pais.release(COUNT, sample, spent=bad)
    assert not sample.spent
    with pytest.raises(pais.ArgumentError, match="spent"):
        pais.Plan(ball=BALL, rule=pais.UniformRule(rate=1.0), mechanism=COUNT, epsilon=1.0, spent=bad)


def test_a_release_that_costs_more_than_any_price_is_refused_and_spends_no_sample() -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0))
    with pytest.raises(pais.ArgumentError, match="out of range"):
        pais.release(pais.WeightedCount(noise=pais.laplace_noise(1e-7)), sample)
    assert not sample.spent


prices = st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e-3))


@settings(max_examples=60, deadline=None)
@given(st.lists(prices, max_size=6))
def test_a_certificate_is_never_below_the_sum_of_its_parts(earlier: list[tuple[float, float]]) -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0), random_state=0)
    spent = tuple(pais.Part(what="earlier", epsilon=epsilon, delta=delta) for epsilon, delta in earlier)
    certificate = pais.release(COUNT, sample, spent=spent, random_state=0).certificate
    own = 0.25
    for name, total, stated in (
        ("epsilon", certificate.epsilon, [own, *(part.epsilon for part in spent)]),
        ("delta", certificate.delta, [part.delta for part in spent]),
    ):
        assert Fraction(total) >= sum(map(Fraction, stated))
        assert Fraction(total) >= sum(Fraction(getattr(part, name)) for part in certificate.parts)
        assert all(total >= price for price in stated)


@pytest.mark.parametrize("epsilon", [1.0000001e6, 1e12])
def test_a_survey_above_the_largest_price_is_refused_before_a_row_is_read(epsilon: float) -> None:
    class Unread:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("a row was read")

    with pytest.raises(pais.ArgumentError, match="epsilon"):
        pais.survey(Unread(), epsilon=epsilon)


def test_shifts_of_several_surveys_add_in_squares() -> None:
    parts = tuple(Part(what="survey", epsilon=0.0, shift=shift) for shift in (0.3, 0.4))
    assert 0.5 <= survey_shift(parts) < 0.5 * (1.0 + 1e-12)
    assert survey_shift(parts[:1]) == 0.3
    assert survey_shift(()) == 0.0
