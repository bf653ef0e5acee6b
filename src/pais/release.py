"""Room 7: the value that may leave, with a certificate of what it cost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pais import _validate
from pais.certify import worst_case
from pais.errors import MismatchError
from pais.mechanisms import Mechanism
from pais.profiles import GaussianProfile
from pais.randomness import BitSource, RandomState, bit_source
from pais.sampler import WeightedSample


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What one release guarantees: public values only, each an upper bound.

    Attributes
    ----------
    epsilon, delta : float
        No record, present or absent, changes the law of the released value by more than this.
    neighbours : str
        What "present or absent" means: one row added or removed.
    private : bool
        False when any draw came from a seed: then the numbers describe a rehearsal, not a guarantee.
    mechanism, rule, ball : dict
        What was run, how rows were kept, and the public bounds.
    """

    epsilon: float
    delta: float
    neighbours: str
    private: bool
    note: str
    mechanism: dict[str, object]
    rule: dict[str, object]
    ball: dict[str, object]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A protected value and its certificate."""

    value: object
    certificate: Certificate


def release(
    mechanism: Mechanism,
    sample: WeightedSample,
    *,
    delta: float = 0.0,
    random_state: RandomState | BitSource = None,
) -> Release:
    """Spend a sample on one mechanism, and certify what that costs the costliest record of the ball.

    Parameters
    ----------
    mechanism : Mechanism
        Its noise must be made for the norm of the sample's ball.
    sample : WeightedSample
        Spent by this call.
    delta : float
        0 for pure noise; > 0 for Gaussian noise.
    random_state : None, int or numpy Generator
        None draws the noise from the cryptographic generator. Anything else is not private.

    Notes
    -----
    Guarantee. The certified (epsilon, delta) is the certified worst case of the sample's rule under the
    mechanism's profile, whether or not the rule was planned for it: `tests/integration/test_release.py`.
    """
    delta = _validate.target_delta(delta)
    if mechanism.order is not None and mechanism.order != sample.ball.order:
        raise MismatchError(
            f"the noise is made for the l{mechanism.order:g} norm and the ball for l{sample.ball.order:g}. "
            "Build the ball, and the rule on it, with the order of the noise."
        )
    bits = bit_source(random_state)
    gaussian = isinstance(mechanism.profile, GaussianProfile)
    if delta > 0.0 and not gaussian:
        raise MismatchError(f"this noise is pure and needs no delta, and delta={delta!r} was given. Leave delta at 0.")
    worst = worst_case(sample.rule, mechanism.profile, radius=sample.ball.radius, delta=delta if gaussian else None)
    private = bits.private and sample.private
    value = mechanism.measure(sample.spend(mechanism.name), sample.ball, bits)
    certificate = Certificate(
        epsilon=worst.upper,
        delta=delta,
        neighbours="one row added or removed",
        private=private,
        note="private" if private else "seeded, not private",
        mechanism=mechanism.describe(),
        rule=sample.rule.describe(),
        ball=sample.ball.describe(),
    )
    return Release(value=value, certificate=certificate)
