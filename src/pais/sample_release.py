"""A release from a sample that was drawn already."""

from __future__ import annotations

from pais._base import validate
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting import Ledger, Part, Release, accounts
from pais.mechanisms import Mechanism
from pais.pipeline import measure
from pais.planning import AT_COST, Plan
from pais.sampler import WeightedSample


@validate.without_sizes
def release(
    mechanism: Mechanism,
    sample: WeightedSample,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    spent: tuple[Part, ...] = (),
    random_state: RandomState | BitSource = None,
    ledger: Ledger | None = None,
    max_epsilon_if_kept: float | None = None,
) -> Release:
    """Spend a sample on one mechanism, and certify the largest loss of any record in the ball.

    Parameters
    ----------
    mechanism : Mechanism
        Its noise must be calibrated for the norm of the sample's ball.
    sample : WeightedSample
        Spent by this call.
    epsilon : float, optional
        Budget: a release that would cost more is refused, and the sample is not spent.
    delta : float
        0 for pure noise; > 0 for Gaussian noise.
    spent : tuple of Part
        Earlier releases on the same rows; the certificate adds their prices.
    random_state : None, int or numpy Generator
        None draws the noise from the cryptographic generator. Any other value is not private.
    ledger : Ledger, optional
        Charged for this release, as is every active ledger.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. A release that exceeds it is refused, and the sample is not spent.

    Notes
    -----
    Guarantee. The certificate states the certified worst case of the sample's rule under the mechanism's profile,
    whether or not the rule was planned for it: `tests/unit/test_pipeline.py`. Ledgers are checked before the sample is
    spent and charged before noise is drawn: `tests/unit/accounting/test_ledger_charging.py`.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> ball = pais.Ball(radius=1.0, order=1)
    >>> drawn = pais.sample(np.zeros((1000, 2)), ball=ball, rule=pais.UniformRule(rate=0.1))
    >>> result = pais.release(pais.WeightedCount(noise=pais.laplace_noise(50.0)), drawn, epsilon=0.5)
    >>> result.certificate.epsilon <= 0.5
    True
    """
    validate.instance("sample", sample, WeightedSample, "Draw one with pais.sample.")
    plan = Plan(
        ball=sample.ball,
        rule=sample.rule,
        mechanism=mechanism,
        epsilon=AT_COST if epsilon is None else epsilon,
        delta=delta,
        spent=spent,
        max_epsilon_if_kept=max_epsilon_if_kept,
        unit=sample.unit,
        schema=sample.schema,
    )
    charged = accounts(ledger)
    charged.check(*plan.due)
    return measure(plan, sample, charged, bit_source(random_state, stream=1))
