"""Independent values in high precision, written from the definitions and sharing no code with the package."""

from __future__ import annotations

import mpmath as mp


def sampled_loss(loss: float, probability: float) -> mp.mpf:
    """log(1 + q (e^loss - 1)) as a real number."""
    return mp.log1p(mp.mpf(probability) * mp.expm1(mp.mpf(loss)))


def linear_weight(at_one: float, epsilon: float) -> mp.mpf:
    """Largest root w of (e^{at_one w} - 1)/w = e^epsilon - 1, by Newton from the right on a convex function."""
    c, budget = mp.mpf(at_one), mp.expm1(mp.mpf(epsilon))
    log_ratio = mp.log(budget / c)
    y = 2 * log_ratio + mp.mpf("1e-40")
    if log_ratio > 2:
        y = log_ratio + mp.log(log_ratio) + 2
    for _ in range(200):
        step = (mp.expm1(y) - y * budget / c) / (mp.exp(y) - budget / c)
        y -= step
        if abs(step) < abs(y) * mp.mpf(10) ** (-mp.mp.dps + 8):
            return y / c
    raise ArithmeticError("the oracle did not converge")


def is_feasible(weight: float, at_one: float, epsilon: float) -> bool:
    """(e^{at_one w} - 1)/w <= e^epsilon - 1, with the doubles taken as the real numbers they are."""
    w = mp.mpf(weight)
    return bool(mp.expm1(mp.mpf(at_one) * w) <= w * mp.expm1(mp.mpf(epsilon)))


def remove_delta(epsilon: float, mu: float, probability: float) -> mp.mpf:
    """Hockey-stick divergence of (1-q)N(0,1) + qN(mu,1) from N(0,1)."""
    epsilon, mu, q = mp.mpf(epsilon), mp.mpf(mu), mp.mpf(probability)
    t = (mp.log((mp.expm1(epsilon) + q) / q) + mu**2 / 2) / mu
    return (1 - q) * mp.ncdf(-t) + q * mp.ncdf(mu - t) - mp.exp(epsilon) * mp.ncdf(-t)


def add_delta(epsilon: float, mu: float, probability: float) -> mp.mpf:
    """Hockey-stick divergence of N(0,1) from (1-q)N(0,1) + qN(mu,1)."""
    epsilon, mu, q = mp.mpf(epsilon), mp.mpf(mu), mp.mpf(probability)
    if mp.exp(-epsilon) <= 1 - q:
        return mp.mpf(0)
    t = (mp.log((mp.exp(-epsilon) - 1 + q) / q) + mu**2 / 2) / mu
    return mp.ncdf(t) - mp.exp(epsilon) * ((1 - q) * mp.ncdf(t) + q * mp.ncdf(t - mu))
