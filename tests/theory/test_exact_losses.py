"""Losses are never below their exact values, and every weight and probability is feasible in exact arithmetic.

The parameters of a profile are doubles, and a double is a rational number. The checks below evaluate the profile in
`fractions.Fraction`, so that no rounding of the package or of the test is on both sides of a comparison. Only the
exponential function (60 digits), powers of the weight and the normal law (mpmath) are not rational.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.numerics import FloatArray, divide_down, divide_up, multiply_add_up, multiply_down, multiply_up
from pais.accounting.part import certified_epsilon
from pais.privacy.profiles import (
    GaussianProfile,
    LinearProfile,
    PowerProfile,
    Profile,
    add_profiles,
    joint_loss,
    joint_shift,
)
from tests.support.oracles import remove_delta

DIGITS = 60


def real(value: Fraction | float) -> mp.mpf:
    """A rational number as an mpf: exact, as all denominators here are powers of two, and rounded otherwise."""
    fraction = Fraction(value)
    return mp.mpf(fraction.numerator) / mp.mpf(fraction.denominator)


def at_weight_one(intercept: float, slope: float, norm: float) -> Fraction:
    return Fraction(intercept) + Fraction(slope) * Fraction(norm)


def exact_loss(profile: PowerProfile, weight: Fraction, norm: float) -> mp.mpf:
    at_one = at_weight_one(profile.intercept, profile.slope, norm)
    if profile.power == 1.0:
        return real(at_one * weight)
    return real(at_one) * real(weight) ** real(profile.power)


def exact_shift(profile: GaussianProfile, weight: Fraction, norm: float) -> mp.mpf:
    squared = Fraction(0)
    if math.isfinite(profile.count_scale):
        squared += 1 / Fraction(profile.count_scale) ** 2
    if math.isfinite(profile.sum_scale):
        squared += (Fraction(norm) / Fraction(profile.sum_scale)) ** 2
    if math.isfinite(profile.square_scale):
        squared += (Fraction(norm) ** 2 / Fraction(profile.square_scale)) ** 2
    return real(weight) * mp.sqrt(real(profile.n_iterations * squared))


def pure_excess(loss: mp.mpf, probability: Fraction, epsilon: float) -> mp.mpf:
    """q (e^loss - 1) - (e^epsilon - 1): positive where a record exceeds the target."""
    return real(probability) * mp.expm1(loss) - mp.expm1(real(epsilon))


def infeasible(
    profile: PowerProfile, norms: Iterable[float], probabilities: Iterable[Fraction], epsilon: float
) -> list[float]:
    """Norms whose record exceeds epsilon at this probability, with the weight 1/probability."""
    with mp.workdps(DIGITS):
        return [
            norm
            for norm, probability in zip(norms, probabilities, strict=True)
            if pure_excess(exact_loss(profile, 1 / probability, norm), probability, epsilon) > 0
        ]


def inverted(weights: FloatArray) -> list[Fraction]:
    """The probabilities 1/w of weights w, as rational numbers."""
    return [1 / Fraction(weight) for weight in weights.tolist()]


def fractions_of(values: FloatArray) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


def random_parameters(rng: np.random.Generator) -> tuple[float, float, float]:
    """Epsilon, intercept and slope with a loss at most epsilon on the unit ball, often by very little.

    Small targets with losses just below them are where the weight is most sensitive to the last bit of a loss.
    """
    epsilon = float(10 ** rng.uniform(-4, 2))
    share = float(rng.uniform(0, 1) ** 2)
    top = float(1 - 10 ** rng.uniform(-6, -0.1))
    return epsilon, share * top * epsilon, (1 - share) * top * epsilon


def random_norms(rng: np.random.Generator, n: int) -> FloatArray:
    return np.concatenate([rng.uniform(0, 1, n - n // 3 - 1), 1 - 10 ** rng.uniform(-6, 0, n // 3), [1.0]])


# -- the example ---------------------------------------------------------------------------------------------


# -- arithmetic ----------------------------------------------------------------------------------------------


def smallest_double_not_below(value: Fraction) -> float:
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < value else nearest


def largest_double_not_above(value: Fraction) -> float:
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > value else nearest


def positive_doubles(rng: np.random.Generator, n: int) -> FloatArray:
    """Doubles over 60 decades, doubles with few bits, and powers of two."""
    wide = 10 ** rng.uniform(-30, 30, n)
    short = rng.integers(1, 2**12, n) * 2.0 ** rng.integers(-40, 40, n)
    powers = 2.0 ** rng.integers(-60, 60, n)
    return rng.permutation(np.concatenate([wide, short, powers, [0.1, 1.0, 1 - 2**-53, 1 + 2**-52]]))


def test_directed_products_and_quotients_are_the_nearest_doubles_on_their_side() -> None:
    rng = np.random.default_rng(0)
    one, other = positive_doubles(rng, 2000), positive_doubles(rng, 2000)
    for computed, exact, expected in [
        (multiply_up, lambda a, b: a * b, smallest_double_not_below),
        (multiply_down, lambda a, b: a * b, largest_double_not_above),
        (divide_up, lambda a, b: a / b, smallest_double_not_below),
        (divide_down, lambda a, b: a / b, largest_double_not_above),
    ]:
        values = computed(one, other).tolist()
        for a, b, value in zip(one.tolist(), other.tolist(), values, strict=True):
            assert value == expected(exact(Fraction(a), Fraction(b)))


def test_sum_of_a_product_is_the_smallest_double_that_is_not_below_it() -> None:
    rng = np.random.default_rng(1)
    terms = [positive_doubles(rng, 2000) for _ in range(3)]
    near = rng.uniform(0.5, 1, (3, 6000))
    # Sums that are doubles, or lie just beside one.
    slope = rng.integers(1, 2**26, 3000) * 2.0**-26
    norm = rng.integers(1, 2**26, 3000) * 2.0**-26
    addend = np.concatenate([1.0 - slope[:1500] * norm[:1500], 2.0**-60 * slope[1500:]])
    for a, b, c in (terms, near, (addend, slope, norm), (0.0 * slope, slope, norm), (addend, 0.0 * slope, norm)):
        values = multiply_add_up(a, b, c).tolist()
        for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), values, strict=True):
            assert value == smallest_double_not_below(Fraction(x) + Fraction(y) * Fraction(z))


@pytest.mark.parametrize("exponents", [(-1074, -900), (-1074, -1), (-600, -450), (400, 600), (900, 1023)])
def test_directed_arithmetic_is_a_bound_where_numbers_overflow_or_vanish(exponents: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    one, other = (np.ldexp(rng.uniform(1, 2, 500), rng.integers(*exponents, 500)) for _ in range(2))

    def exact(value: float) -> Fraction | float:
        return Fraction(value) if math.isfinite(value) else math.inf

    with np.errstate(all="raise"):
        products_up, products_down = multiply_up(one, other), multiply_down(one, other)
        quotients_up, quotients_down = divide_up(one, other), divide_down(one, other)
        sums = multiply_add_up(one, one, other)
    for i, (a, b) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        product, quotient = Fraction(a) * Fraction(b), Fraction(a) / Fraction(b)
        assert exact(products_down[i]) <= product <= exact(products_up[i])
        assert exact(quotients_down[i]) <= quotient <= exact(quotients_up[i])
        assert Fraction(a) + product <= exact(sums[i])
    # A bound, and no more than that.
    finite = np.isfinite(products_up)
    assert np.all(products_up[finite] <= products_down[finite] * (1 + 1e-15) + 1e-322)


def test_directed_arithmetic_leaves_zero_and_infinity_alone() -> None:
    zero, one, infinity = np.array([0.0]), np.array([3.0]), np.array([math.inf])
    assert multiply_up(zero, one) == multiply_down(zero, one) == divide_up(zero, one) == 0.0
    assert multiply_add_up(zero, zero, one) == 0.0
    assert multiply_down(infinity, one) == multiply_up(infinity, one) == math.inf
    assert divide_up(one, infinity) == divide_down(one, infinity) == 0.0


# -- losses --------------------------------------------------------------------------------------------------

POWERS = [0.0, 0.3, 1.0, 1.5, 2.0, 3.0]


@pytest.mark.parametrize("power", POWERS)
def test_power_loss_is_never_below_the_exact_one_and_within_ulps_of_it(power: float) -> None:
    rng = np.random.default_rng(int(10 * power))
    for _ in range(30):
        _, intercept, slope = random_parameters(rng)
        profile = LinearProfile(intercept, slope) if power == 1.0 else PowerProfile(intercept, slope, power)
        norm = random_norms(rng, 40)
        weight = np.where(rng.uniform(size=40) < 0.3, 1.0, 10 ** rng.uniform(0, 6, 40))
        with mp.workdps(DIGITS):
            for w, z, loss in zip(weight.tolist(), norm.tolist(), profile(weight, norm).tolist(), strict=True):
                exact = exact_loss(profile, Fraction(w), z)
                assert exact <= real(loss) <= exact * (1 + 16 * mp.mpf(2) ** -52)


def test_loss_at_weight_one_is_the_smallest_double_that_is_not_below_the_exact_loss() -> None:
    """So a target that equals the exact loss is met, and a target one double below it is not."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        _, intercept, slope = random_parameters(rng)
        for profile in (LinearProfile(intercept, slope), PowerProfile(intercept, slope, 1.5)):
            norm = float(rng.uniform(0, 3))
            expected = smallest_double_not_below(at_weight_one(intercept, slope, norm))
            assert float(profile(1.0, norm)) == float(profile.at_weight_one(np.array(norm))) == expected


@pytest.mark.parametrize(
    "scales",
    [
        (5.0, 7.0, math.inf),
        (math.inf, 3.0, math.inf),
        (0.3, math.inf, math.inf),
        (1e-3, 1e3, math.inf),
        (1e5, 1e-5, math.inf),
        (5.0, 7.0, 3.0),
        (math.inf, math.inf, 0.7),
        (1e3, 1e-3, 1e-2),
    ],
)
@pytest.mark.parametrize("rounds", [1, 2, 4, 7])
def test_gaussian_shift_is_never_below_the_exact_one_and_within_ulps_of_it(
    scales: tuple[float, float, float], rounds: int
) -> None:
    rng = np.random.default_rng(rounds)
    profile = GaussianProfile(scales[0] * 1.1, scales[1] * 1.1, rounds, scales[2] * 1.1)
    weight, norm = 10 ** rng.uniform(0, 6, 200), np.concatenate([10 ** rng.uniform(-6, 6, 199), [0.0]])
    with mp.workdps(DIGITS):
        for w, z, shift in zip(weight.tolist(), norm.tolist(), profile(weight, norm).tolist(), strict=True):
            exact = exact_shift(profile, Fraction(w), z)
            assert exact <= real(shift) <= exact * (1 + 16 * mp.mpf(2) ** -52)


def test_square_of_a_norm_that_overflows_is_still_a_loss() -> None:
    profile = GaussianProfile(math.inf, math.inf, square_scale=1e300)
    assert float(profile(1.0, 1e200)) == pytest.approx(1e100, rel=1e-12)
    assert float(profile(1.0, 1e-170)) > 0.0


@pytest.mark.parametrize("kind", ["loss", "shift"])
def test_custom_profile_covers_the_roundings_of_its_function(kind: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        _, intercept, slope = random_parameters(rng)
        profile: Profile = (
            pais.CustomProfile(lambda w, z, a=intercept, b=slope: w * (a + b * z))
            if kind == "loss"
            else pais.CustomShiftProfile(lambda z, a=intercept, b=slope: a + b * z)
        )
        weight, norm = 10 ** rng.uniform(1e-9, 6, 50), random_norms(rng, 50)
        for divided, noise in ((profile, 1.0), (profile.with_noise(0.7), 0.7), (profile.with_noise(3.0), 3.0)):
            losses = divided(weight, norm).tolist()
            for w, z, loss in zip(weight.tolist(), norm.tolist(), losses, strict=True):
                exact = at_weight_one(intercept, slope, z) * Fraction(w) / Fraction(noise)
                assert exact <= Fraction(loss) <= exact * (1 + Fraction(16, 2**52))
        twice = profile.with_noise(0.7).with_noise(1.3)
        assert twice.noise == largest_double_not_above(Fraction(0.7) * Fraction(1.3))  # type: ignore[attr-defined]


def test_weights_of_a_custom_shift_are_feasible_and_those_of_the_same_gaussian_profile() -> None:
    norms = np.linspace(0.05, 1.0, 40)
    custom = pais.CustomShiftProfile(np.square, 5.0)
    known = GaussianProfile(math.inf, math.inf, square_scale=5.0)
    for epsilon, delta in ((0.9, 1e-6), (2.0, 1e-4)):
        weights = pais.constrained_weight(custom, norms, epsilon=epsilon, delta=delta)
        assert np.allclose(weights, pais.constrained_weight(known, norms, epsilon=epsilon, delta=delta), rtol=1e-9)
        for norm, weight in zip(norms.tolist(), weights.tolist(), strict=True):
            shift = real(Fraction(weight) * Fraction(norm) ** 2 / 5)
            assert remove_delta(epsilon, shift, 1 / mp.mpf(weight)) <= delta


def test_losses_and_shifts_of_several_mechanisms_are_never_below_the_exact_ones() -> None:
    rng = np.random.default_rng(16)
    for _ in range(50):
        (_, a, b), (_, c, d) = random_parameters(rng), random_parameters(rng)
        first, second = (
            pais.CustomShiftProfile(lambda z, a=a, b=b: a + b * z),
            GaussianProfile(1.0 / (c + 1e-9), 1.0 / d),
        )
        shifts, losses = joint_shift([first, second]), joint_loss([LinearProfile(a, b), LinearProfile(c, d)])
        weight, norm = 10 ** rng.uniform(1e-9, 6, 20), random_norms(rng, 20)
        for w, z, shift, loss in zip(
            weight.tolist(), norm.tolist(), shifts(weight, norm).tolist(), losses(weight, norm).tolist(), strict=True
        ):
            total = (at_weight_one(a, b, z) + at_weight_one(c, d, z)) * Fraction(w)
            assert total <= Fraction(loss) <= total * (1 + Fraction(32, 2**52))
            count, sums = 1 / Fraction(second.count_scale) ** 2, Fraction(z) ** 2 / Fraction(second.sum_scale) ** 2
            square = (at_weight_one(a, b, z) ** 2 + count + sums) * Fraction(w) ** 2
            assert square <= Fraction(shift) ** 2 <= square * (1 + Fraction(64, 2**52))


class TripleShift(GaussianProfile):
    def shift(self, norm: FloatArray) -> FloatArray:
        return 3.0 * super().shift(norm)


class TripleLoss(LinearProfile):
    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        return 3.0 * super().loss(weight, norm)


@pytest.mark.parametrize("own", [TripleShift(2.0, 3.0), TripleLoss(0.5, 0.25)])
def test_a_profile_derived_from_one_of_the_package_keeps_its_loss_beside_others(own: Profile) -> None:
    noise = pais.gaussian_noise(40.0) if isinstance(own, GaussianProfile) else pais.laplace_noise(40.0)

    class Own(pais.WeightedCount):
        @property
        def profile(self) -> Profile:  # type: ignore[override]
            return own

    for others in ([], [pais.WeightedCount(noise=noise)], [pais.WeightedSum(noise=noise)] * 3):
        both = pais.Joint(parts=(Own(noise=noise), *others)).profile
        assert np.all(both(2.0, np.array([0.0, 1.0, 5.0])) >= own(2.0, np.array([0.0, 1.0, 5.0])))


# -- noise and sums ------------------------------------------------------------------------------------------


def test_noise_and_sums_of_linear_profiles_round_toward_more_loss() -> None:
    rng = np.random.default_rng(6)
    for _ in range(2000):
        (_, a, b), (_, c, d) = random_parameters(rng), random_parameters(rng)
        noise = float(10 ** rng.uniform(-3, 3))
        for divided in (LinearProfile(a, b).with_noise(noise), PowerProfile(a, b, 2.0).with_noise(noise)):
            assert divided.intercept == smallest_double_not_below(Fraction(a) / Fraction(noise))
            assert divided.slope == smallest_double_not_below(Fraction(b) / Fraction(noise))
        total = LinearProfile(a, b) + LinearProfile(c, d)
        assert total.intercept == smallest_double_not_below(Fraction(a) + Fraction(c))
        assert total.slope == smallest_double_not_below(Fraction(b) + Fraction(d))


def test_noise_and_sums_of_gaussian_profiles_round_toward_more_loss() -> None:
    rng = np.random.default_rng(7)
    for _ in range(2000):
        one, other = (10 ** rng.uniform(-3, 3, 3) for _ in range(2))
        rounds, other_rounds = (int(n) for n in rng.integers(1, 9, 2))
        noise = float(10 ** rng.uniform(-3, 3))
        noised = GaussianProfile(one[0], one[1], rounds, one[2]).with_noise(noise)
        assert noised.count_scale == largest_double_not_above(Fraction(one[0]) * Fraction(noise))
        assert noised.sum_scale == largest_double_not_above(Fraction(one[1]) * Fraction(noise))
        assert noised.square_scale == largest_double_not_above(Fraction(one[2]) * Fraction(noise))
        total = GaussianProfile(one[0], one[1], rounds, one[2]) + GaussianProfile(
            other[0], math.inf, other_rounds, other[2]
        )
        for place, scale in ((0, total.count_scale), (2, total.square_scale)):
            precision = rounds / Fraction(one[place]) ** 2 + other_rounds / Fraction(other[place]) ** 2
            assert precision <= 1 / Fraction(scale) ** 2 <= precision * (1 + Fraction(64, 2**52))
        alone = rounds / Fraction(one[1]) ** 2
        assert alone <= 1 / Fraction(total.sum_scale) ** 2 <= alone * (1 + Fraction(64, 2**52))


def test_sums_of_many_gaussian_profiles_are_never_below_the_exact_loss_and_do_not_depend_on_their_order() -> None:
    rng = np.random.default_rng(8)
    for spread in (0.01, 3.0, 140.0, 300.0):
        for n in (1, 2, 3, 40, 400):
            scales = 10 ** rng.uniform(-spread, spread, (n, 3))
            scales[rng.random(n) < 0.2, 0] = scales[:, 1] = math.inf
            rounds = rng.integers(1, 9, n).tolist()
            profiles = [GaussianProfile(*each[:2], many, each[2]) for each, many in zip(scales, rounds, strict=True)]
            total = add_profiles(profiles)
            assert add_profiles(profiles[::-1]) == total
            assert math.isinf(total.sum_scale)
            for column, scale in ((0, total.count_scale), (2, total.square_scale)):
                terms = zip(rounds, scales[:, column].tolist(), strict=True)
                precision = sum((many / Fraction(each) ** 2 for many, each in terms if each < math.inf), Fraction(0))
                if math.isinf(scale):
                    assert precision == 0
                else:
                    assert precision <= 1 / Fraction(scale) ** 2 <= precision * (1 + Fraction(32, 2**52))


def test_noise_so_large_that_a_scale_overflows_is_still_a_release() -> None:
    profile = GaussianProfile(1e300, math.inf).with_noise(1e300)
    assert math.isfinite(profile.count_scale)
    assert math.isinf(profile.sum_scale)
    assert LinearProfile(1e-300, 0.0).with_noise(1e300).intercept > 0.0


# -- the target at weight 1 ----------------------------------------------------------------------------------


def test_loss_that_equals_the_target_exactly_is_accepted_and_one_above_it_is_refused() -> None:
    rng = np.random.default_rng(8)
    accepted = refused = 0
    for _ in range(200):
        _, intercept, slope = random_parameters(rng)
        norm = float(rng.integers(1, 64)) / 8
        exact = at_weight_one(intercept, slope, norm)
        epsilon = float(exact)
        rule: Callable[..., pais.ConstrainedRule] = pais.ConstrainedRule
        for profile in (LinearProfile(intercept, slope), PowerProfile(intercept, slope, 2.0)):
            if exact <= Fraction(epsilon):
                accepted += 1
                assert pais.constrained_weight(profile, norm, epsilon=epsilon) >= 1.0
                assert rule(profile=profile, radius=norm, epsilon=epsilon, n_knots=4).probability(norm) <= 1.0
            else:
                refused += 1
                with pytest.raises(pais.UnreachableError):
                    pais.constrained_weight(profile, norm, epsilon=epsilon)
                with pytest.raises(pais.UnreachableError) as caught:
                    rule(profile=profile, radius=norm, epsilon=epsilon, n_knots=4)
                reachable = caught.value.reachable
                assert reachable == math.nextafter(epsilon, math.inf)
                # The two numbers differ in the last digit, and the message shows it.
                assert repr(reachable) in str(caught.value)
    assert accepted > 50
    assert refused > 50


def test_custom_loss_that_equals_the_target_at_weight_one_is_accepted() -> None:
    profile = pais.CustomProfile(lambda weight, norm: weight * norm)
    assert pais.constrained_weight(profile, 2.0, epsilon=2.0) == 1.0
    assert pais.ConstrainedRule(profile=profile, radius=2.0, epsilon=2.0).probability(2.0) == 1.0
    with pytest.raises(pais.UnreachableError):
        pais.constrained_weight(profile, 2.0, epsilon=math.nextafter(2.0, 0.0))


# -- certificates of plans -----------------------------------------------------------------------------------


def test_planned_release_certifies_the_epsilon_that_was_asked_for() -> None:
    """Noise of scale 1 times the solved factor: the price of the mechanism is that of the plan."""
    rng = np.random.default_rng(9)
    facts = pais.NormDistribution.from_quantiles(lambda levels: 3.0 * levels, n_rows=1000, radius=3.0)
    ball = pais.Ball(radius=3.0)
    for _ in range(40):
        epsilon = float(10 ** rng.uniform(-3, 2))
        unit = pais.WeightedSum(noise=pais.LpNoise(scale=1.0, p=2.0)).profile
        calibration = pais.calibrate("constrained", unit, facts, epsilon=epsilon)
        mechanism = pais.WeightedSum(noise=pais.LpNoise(scale=calibration.noise, p=2.0))
        plan = pais.Plan(ball=ball, rule=calibration.rule, mechanism=mechanism, epsilon=epsilon)
        certificate = pais.run(plan, np.eye(3), random_state=0).certificate
        assert certificate.epsilon == epsilon
        assert certified_epsilon(mechanism, calibration.rule, ball) == epsilon


def test_target_is_certified_only_for_profiles_with_smaller_losses() -> None:
    planned = LinearProfile(0.1, 0.8)
    rule = pais.ConstrainedRule(profile=planned, radius=1.0, epsilon=1.0)
    cheaper = LinearProfile(0.1, math.nextafter(0.8, 0.0))
    dearer = LinearProfile(math.nextafter(0.1, 1.0), 0.8)
    assert pais.worst_case(rule, planned, radius=1.0).upper == 1.0
    assert pais.worst_case(rule, cheaper, radius=1.0).upper == 1.0
    assert pais.worst_case(rule, dearer, radius=1.0).upper > 1.0
    assert pais.worst_case(rule, LinearProfile(0.05, 0.4), radius=1.0).upper < 0.6


def test_target_is_certified_for_a_custom_function_with_no_less_noise_than_planned() -> None:
    def line(weight: FloatArray, norm: FloatArray) -> FloatArray:
        return weight * (0.1 + 0.8 * norm)

    planned = pais.CustomProfile(line).with_noise(0.95)
    rule = pais.ConstrainedRule(profile=planned, radius=1.0, epsilon=1.0)
    more = pais.CustomProfile(line, noise=math.nextafter(0.95, 1.0))
    assert pais.worst_case(rule, planned, radius=1.0).upper == 1.0
    assert pais.worst_case(rule, more, radius=1.0).upper == 1.0
    assert pais.worst_case(rule, pais.CustomProfile(line, noise=math.nextafter(0.95, 0.0)), radius=1.0).upper > 1.0
    other = pais.CustomProfile(lambda weight, norm: line(weight, norm), noise=0.95)
    assert pais.worst_case(rule, other, radius=1.0).upper > 1.0
    shift = pais.CustomShiftProfile(np.square, 9.0)
    gaussian = pais.ConstrainedRule(profile=shift, radius=1.0, epsilon=1.0, delta=1e-6)
    assert pais.worst_case(gaussian, shift, radius=1.0, epsilon=1.0).upper == 1e-6
    assert pais.worst_case(gaussian, shift.with_noise(0.9), radius=1.0, epsilon=1.0).upper > 1.2e-6


# -- fifty thousand weights and probabilities ----------------------------------------------------------------


@pytest.mark.slow
def test_closed_form_weights_are_exactly_feasible() -> None:
    """16,000 weights: 400 profiles, 40 norms each."""
    rng = np.random.default_rng(10)
    for _ in range(400):
        epsilon, intercept, slope = random_parameters(rng)
        profile, norms = LinearProfile(intercept, slope), random_norms(rng, 40)
        weights = pais.constrained_weight(profile, norms, epsilon=epsilon)
        assert infeasible(profile, norms.tolist(), inverted(weights), epsilon) == []


@pytest.mark.slow
def test_chord_tables_are_exactly_feasible() -> None:
    """18,000 probabilities: 150 tables, 120 norms each, knots and their neighbours among them."""
    rng = np.random.default_rng(11)
    for _ in range(150):
        epsilon, intercept, slope = random_parameters(rng)
        profile = LinearProfile(intercept, slope)
        rule = pais.ConstrainedRule(
            profile=profile, radius=1.0, epsilon=epsilon, n_knots=int(rng.choice([1, 10, 4096]))
        )
        knots = rng.choice(rule.breakpoints(1.0), 20)
        beside = np.minimum(np.concatenate([knots, np.nextafter(knots, 2.0), np.nextafter(knots, -0.0)]), 1.0)
        norms = np.concatenate([beside, random_norms(rng, 60)])
        assert infeasible(profile, norms.tolist(), fractions_of(rule.probability(norms)), epsilon) == []


def as_custom(profile: PowerProfile) -> pais.CustomProfile:
    return pais.CustomProfile(lambda weight, norm: weight**profile.power * (profile.intercept + profile.slope * norm))


@pytest.mark.slow
@pytest.mark.parametrize("custom", [False, True], ids=["power", "custom"])
def test_algorithm_one_and_step_tables_are_exactly_feasible(custom: bool) -> None:
    """6,400 weights of Algorithm 1 and 2,400 probabilities of step tables, for each kind of profile."""
    rng = np.random.default_rng(12)
    for i in range(80):
        epsilon, intercept, slope = random_parameters(rng)
        # For power 1, a loss that is not of the class LinearProfile.
        family = PowerProfile(intercept, slope, float(rng.choice([0.8, 1.0, 1.0, 1.3, 2.0])))
        profile: Profile = as_custom(family) if custom else family
        norms = random_norms(rng, 80)
        weights = pais.constrained_weight(profile, norms, epsilon=epsilon)
        assert infeasible(family, norms.tolist(), inverted(weights), epsilon) == []
        rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=epsilon, n_knots=[3, 50][i % 2])
        norms = np.concatenate([rule.breakpoints(1.0)[:3], random_norms(rng, 27)])
        assert infeasible(family, norms.tolist(), fractions_of(rule.probability(norms)), epsilon) == []


def test_first_crossings_of_gaussian_noise_are_exactly_feasible() -> None:
    """1,600 weights and 800 probabilities of step tables; delta is evaluated in 60 digits and at the exact shift."""
    rng = np.random.default_rng(13)
    for _ in range(40):
        epsilon, delta = float(10 ** rng.uniform(-3, 1)), float(10 ** rng.uniform(-12, -3))
        count, total, square = (10 ** rng.uniform(-1, 1, 3)).tolist()
        shape = GaussianProfile(count, total, int(rng.integers(1, 9)), square)
        facts = pais.NormDistribution.from_quantiles(lambda levels: levels, n_rows=1000, radius=1.0)
        profile = pais.calibrate("constrained", shape, facts, epsilon=epsilon, delta=delta).profile
        assert isinstance(profile, GaussianProfile)
        norms = random_norms(rng, 40)
        weights = pais.constrained_weight(profile, norms, epsilon=epsilon, delta=delta)
        rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=epsilon, delta=delta, n_knots=16)
        looked_up = random_norms(rng, 20)
        points = zip(
            norms.tolist() + looked_up.tolist(),
            inverted(weights) + fractions_of(rule.probability(looked_up)),
            strict=True,
        )
        with mp.workdps(DIGITS):
            for norm, probability in points:
                mu = exact_shift(profile, 1 / probability, norm)
                assert remove_delta(epsilon, mu, real(probability)) <= real(delta)
