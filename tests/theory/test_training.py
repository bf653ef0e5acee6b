"""Delta of sampled steps and plans, against an independent accountant and against integration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import integrate, special

import pais
from pais import training
from pais.errors import ArgumentError, BudgetError, UnreachableError
from pais.privacy.sampled_steps import sampled_delta
from pais.training.planning import Bin, TrainingPlan

CASES = [
    (0.01, 1 / 1.246, 2000, 2.0),
    (0.05, 1 / 2.425, 400, 2.0),
    (0.002, 1.2, 500, 1.0),
    (0.3, 0.03, 1000, 1.0),
    (0.5, 1.0, 3, 2.0),
    (0.02, 0.5, 50, 0.1),
    (0.01, 1 / 2.356, 10_000, 2.0),
]


def accountant(rate: float, shift: float, n_steps: int, epsilon: float, *, adding: bool, pessimistic: bool) -> float:
    """Delta by dp-accounting, which has another discretization and another composition."""
    steps = pld.from_gaussian_mechanism(
        1.0 / shift,
        sampling_prob=rate,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=min(1e-3, 0.05 * rate * shift),
    ).self_compose(n_steps)
    part = steps._pmf_add if adding else steps._pmf_remove
    return float(part.get_delta_for_epsilon(epsilon))


@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize(("rate", "shift", "n_steps", "epsilon"), CASES)
def test_delta_is_between_the_bounds_of_an_independent_accountant(
    rate: float, shift: float, n_steps: int, epsilon: float, adding: bool
) -> None:
    found = sampled_delta(epsilon, rate=rate, shift=shift, n_steps=n_steps, adding=adding)
    low = accountant(rate, shift, n_steps, epsilon, adding=adding, pessimistic=False)
    high = accountant(rate, shift, n_steps, epsilon, adding=adding, pessimistic=True)
    assert low * (1.0 - 1e-9) - 1e-13 <= found <= high * 1.02 + 1e-10


def integrated(rate: float, shift: float, epsilon: float, *, adding: bool) -> float:
    """Delta of two steps: closed in the second step, numerical in the first one."""

    def ratio(z: float) -> float:
        return 1.0 - rate + rate * math.exp(shift * z - 0.5 * shift * shift)

    def one_step(factor: float) -> float:
        # E_Q[(P/Q - factor)+] for removing, E_P[(1 - factor * P/Q)+] in the reverse direction for adding.
        if adding:
            if factor <= 0.0 or 1.0 / factor <= 1.0 - rate:
                return 0.0 if factor > 0.0 else 1.0
            z = (math.log((1.0 / factor - 1.0 + rate) / rate) + 0.5 * shift * shift) / shift
            joined = (1.0 - rate) * special.ndtr(z) + rate * special.ndtr(z - shift)
            return float(special.ndtr(z) - factor * joined)
        inside = (factor - 1.0 + rate) / rate
        if inside <= 0.0:
            return 1.0 - factor
        z = (math.log(inside) + 0.5 * shift * shift) / shift
        joined = (1.0 - rate) * special.ndtr(-z) + rate * special.ndtr(shift - z)
        return float(joined - factor * special.ndtr(-z))

    def density(z: float) -> float:
        whole = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        if adding:
            return whole * one_step(math.exp(epsilon) * ratio(z))
        return whole * ratio(z) * one_step(math.exp(epsilon) / ratio(z))

    value, _ = integrate.quad(density, -12.0, 12.0 + shift, limit=2000, epsabs=1e-16, epsrel=1e-10, points=[0.0, shift])
    return float(value)


@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize(("rate", "shift", "epsilon"), [(0.3, 1.0, 0.3), (0.05, 2.0, 1.0), (0.9, 0.7, 0.5)])
def test_two_steps_agree_with_integration_in_both_directions(
    rate: float, shift: float, epsilon: float, adding: bool
) -> None:
    exact = integrated(rate, shift, epsilon, adding=adding)
    found = sampled_delta(epsilon, rate=rate, shift=shift, n_steps=2, adding=adding)
    assert exact * (1.0 - 1e-9) - 1e-15 <= found <= exact * 1.01 + 1e-15


def test_one_step_agrees_with_the_closed_form() -> None:
    for rate, shift, epsilon in [(0.1, 1.0, 0.5), (0.01, 2.0, 1.0), (1.0, 0.3, 0.2)]:
        exact = pais.amplified_delta(epsilon, shift, rate)
        assert exact * (1.0 - 1e-9) <= sampled_delta(epsilon, rate=rate, shift=shift, n_steps=1) <= exact * 1.01


@pytest.mark.parametrize(("n_steps", "rate"), [(100, 0.02), (1_000, 0.01), (10_000, 0.01)])
def test_uniform_sampling_has_the_noise_of_an_independent_accountant(n_steps: int, rate: float) -> None:
    plan = training.plan(n_steps, epsilon=2.0, delta=1e-6, bounds={1.0: 10_000}, mean_batch=rate * 10_000)
    assert plan.rates == pytest.approx([rate], rel=1e-3)
    rate = float(plan.rates[0])
    multiplier = plan.noise * rate
    # The delta of the other accountant crosses 1e-6 within 1e-3 of the noise.
    more, less = (
        accountant(rate, 1.0 / (multiplier * factor), n_steps, 2.0, adding=False, pessimistic=True)
        for factor in (1.0 + 1e-4, 1.0 - 1e-3)
    )
    assert more <= 1e-6 <= less


def test_rates_are_those_of_the_table_of_the_theory() -> None:
    # Rates over the uniform rate at the same noise and guarantee, computed before with another accountant.
    bounds = dict.fromkeys([0.1, 0.2, 0.4, 0.6, 0.8, 1.0], 1000.0)
    plan = training.plan(2000, epsilon=2.0, delta=1e-6, bounds=bounds, noise=124.6)
    assert plan.rates / plan.rates[-1] == pytest.approx([0.045, 0.100, 0.228, 0.383, 0.595, 1.0], abs=6e-4)


PLANS = [
    {"n_steps": 300, "epsilon": 1.0, "noise": 150.0},
    {"n_steps": 300, "epsilon": 1.0, "mean_batch": 300.0},
    {"n_steps": 300, "epsilon": 1.0, "mean_batch": 300.0, "n_parameters": 50},
    {"n_steps": 300, "mean_batch": 300.0, "noise": 150.0},
    {"n_steps": 10_000, "epsilon": 2.0, "mean_batch": 300.0},
]


@pytest.mark.parametrize("settings", PLANS, ids=["noise", "batch", "variance", "epsilon", "long"])
def test_every_bin_of_a_plan_meets_delta_by_an_independent_accountant(settings: dict[str, float]) -> None:
    plan = training.plan(**settings, delta=1e-6, bounds={0.1: 5000, 0.3: 5000, 1.0: 5000})  # type: ignore[arg-type]
    for one in plan.bins:
        for adding in (False, True):
            shift = one.bound / (one.rate * plan.noise)
            low = accountant(one.rate, shift, plan.n_steps, plan.epsilon, adding=adding, pessimistic=False)
            assert low <= plan.delta
    if "mean_batch" in settings:
        assert plan.mean_batch == pytest.approx(300.0, rel=2e-3)


def test_a_plan_that_costs_more_than_it_states_is_refused() -> None:
    good = training.plan(300, epsilon=1.0, delta=1e-6, bounds={0.3: 5000, 1.0: 5000}, noise=150.0)
    for noise, factor in ((150.0 * 0.99, 1.0), (150.0, 0.98)):
        bins = (good.bins[0], Bin(bound=1.0, records=5000, rate=good.bins[1].rate * factor))
        with pytest.raises(BudgetError, match="would have delta"):
            TrainingPlan(n_steps=300, noise=noise, bins=bins, epsilon=1.0, delta=1e-6)


def test_a_rate_that_delta_alone_covers_is_refused() -> None:
    one = Bin(bound=1.0, records=1e9, rate=1e-9)
    assert sampled_delta(1.0, rate=1e-9, shift=50.0, n_steps=100) < 1e-6
    with pytest.raises(BudgetError, match="record known to have joined one step"):
        TrainingPlan(n_steps=100, noise=1.0 / (50.0 * 1e-9), bins=(one,), epsilon=1.0, delta=1e-6)


def test_smaller_bounds_have_smaller_rates_and_larger_noise_needs_fewer_gradients() -> None:
    bounds = {0.1: 5000, 0.3: 5000, 1.0: 5000}
    plans = [training.plan(300, epsilon=1.0, delta=1e-6, bounds=bounds, noise=noise) for noise in (150.0, 250.0)]
    assert all(np.all(np.diff(plan.rates) > 0.0) for plan in plans)
    assert plans[1].mean_batch < plans[0].mean_batch
    uniform = training.plan(300, epsilon=1.0, delta=1e-6, bounds={1.0: 15000}, noise=150.0)
    assert plans[0].mean_batch < 0.5 * uniform.mean_batch


def test_weights_times_rates_are_at_most_one() -> None:
    plan = training.plan(300, epsilon=1.0, delta=1e-6, bounds={0.1: 1, 0.3: 1, 1.0: 1}, noise=150.0)
    assert np.all(plan.weights * plan.rates <= 1.0)
    assert plan.weights == pytest.approx(1.0 / plan.rates)


def test_a_plan_file_is_certified_again(tmp_path: object) -> None:
    plan = training.plan(300, epsilon=1.0, delta=1e-6, bounds={0.3: 5000, 1.0: 5000}, noise=150.0)
    assert TrainingPlan.from_dict(plan.to_dict()) == plan
    with pytest.raises(BudgetError):
        TrainingPlan.from_dict({**plan.to_dict(), "noise": 140.0})
    with pytest.raises(ArgumentError, match="do not match"):
        TrainingPlan.from_dict({**plan.to_dict(), "epsilon_if_known": 1.0})
    assert "All steps together cost epsilon 1, delta 1e-06" in plan.explain()


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"bounds": "balanced"}, ArgumentError, "class frequencies|computed over the data set"),
        ({"bounds": np.ones(10)}, ArgumentError, "computed over the data set"),
        ({"mean_batch": None}, ArgumentError, "two of epsilon, noise and mean_batch"),
        ({"noise": 1.0}, UnreachableError, "too little"),
        ({"mean_batch": 1e9}, ArgumentError, "mean_batch"),
        ({"bounds": {1.0: 0.0}}, ArgumentError, "mean_batch|records"),
        ({"delta": 0.0}, ArgumentError, "delta"),
    ],
)
def test_refusals_of_a_plan(changed: dict[str, object], error: type[Exception], text: str) -> None:
    settings: dict[str, object] = {"epsilon": 1.0, "delta": 1e-6, "bounds": {1.0: 1000}, "mean_batch": 100}
    with pytest.raises(error, match=text):
        training.plan(100, **{**settings, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(("n_steps", "mean_batch"), [(1000, 5000), (100, 1000)])
def test_a_record_known_to_have_joined_a_step_pays_for_the_others_too(n_steps: int, mean_batch: int) -> None:
    plan = training.plan(n_steps, epsilon=1.0, delta=1e-5, bounds={1.0: 10_000}, mean_batch=mean_batch)
    one = plan.bins[0]
    others = sampled_delta(plan.epsilon_if_joined, rate=one.rate, shift=plan.shift_of(one), n_steps=n_steps - 1)
    assert plan.epsilon < plan.epsilon_if_joined <= plan.epsilon_if_known
    assert others <= 2.0 * plan.delta
    with pytest.raises(ArgumentError, match="not above epsilon"):
        replace(plan, max_epsilon_if_joined=0.06)


def test_delta_of_a_step_whose_losses_are_almost_all_infinite_is_not_too_small() -> None:
    assert sampled_delta(9.1037, rate=0.99926811919, shift=29.4985947, n_steps=1, adding=False) >= 0.99926
