"""Settings of a private principal component analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from pais._base import validate
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.data.units import most_units
from pais.errors import ArgumentError
from pais.mechanisms.base import Mechanism
from pais.planning.choices import SampleChoice
from pais.planning.facts import Facts
from pais.planning.settings import MomentSettings
from pais.privacy.amplification import largest_shift
from pais.privacy.guarantee import chosen_delta
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

S = TypeVar("S", bound="PCASettings")

# Share of the rows that are clipped, over the root of the noise. Clipped rows keep their direction, so they change the
# components little. A smaller radius also means a larger sample, so the share falls more slowly than the noise.
_CLIPPED_PER_NOISE = 2.0

# At most this share of the rows is clipped.
_MOST_CLIPPED = 0.5

# A table of at most this many numbers is used as a whole unless the user asks for a sample: its product takes a
# fraction of a second, and a sample would only add error. So is one of which a sample would have more than this share.
_WHOLE_NUMBERS, _MOST_SAMPLED = 2.0**24, 0.5


@dataclass(frozen=True, kw_only=True)
class PCASettings(MomentSettings):
    """Settings of a private principal component analysis that the user chooses; public.

    Attributes
    ----------
    n_components : int, float, "auto" or None
        Number of components: see `DPPCA`. The release does not depend on it.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. Without a `sample_size`, all rows of a small table are used.
    """

    what = "PCA"
    constant_share: ClassVar[float] = 0.2

    n_components: int | float | str | None = None

    def require(self) -> None:
        asked = self.n_components
        if isinstance(asked, str):
            if asked != "auto":
                raise ArgumentError("n_components is a text other than 'auto'. Pass a number, 'auto' or None.")
        elif isinstance(asked, float):
            rule = "a whole number, or a share of the variance in (0, 1)"
            validate.number("n_components", asked, rule=rule, low=0.0, high=1.0, open_low=True, open_high=True)
        elif asked is not None:
            validate.count("n_components", asked)
        super().require()

    def for_rows(self: S, rows: Engine) -> S:
        asked = self.n_components
        if asked is not None and not isinstance(asked, (str, float)) and asked > rows.n_features:
            raise ArgumentError(
                f"n_components={asked} is more than the {rows.n_features} features. Pass at most that number."
            )
        return super().for_rows(rows)

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        is_open = self.sampling == "constrained" and self.sample_size is None
        whole = replace(self, sampling="none")
        if is_open and norms.n_rows * d <= _WHOLE_NUMBERS:
            return super(PCASettings, whole)._mechanism(ball, norms, d, delta, limit)
        mechanism, rule, choice = super()._mechanism(ball, norms, d, delta, limit)
        if is_open and norms.expected_size(rule) > _MOST_SAMPLED * norms.n_rows:
            return super(PCASettings, whole)._mechanism(ball, norms, d, delta, limit)
        return mechanism, rule, choice

    def radius_quantile(self, facts: Facts, n_features: int) -> float:
        """Share of the rows within the radius: more of them, the smaller the noise is.

        In squared radii per row, the largest eigenvalue of the noise is sqrt(2 d) / (n mu), where mu is the shift
        allowed without sampling.
        """
        n_rows = facts.norms.n_rows
        n_units = most_units(facts.unit, n_rows)
        delta = chosen_delta(self.delta, gaussian=True, n_rows=n_units, surveyed=True).used
        noise = math.sqrt(2.0 * n_features) / (n_rows * largest_shift(float(self.epsilon), delta))
        return 1.0 - min(_CLIPPED_PER_NOISE * math.sqrt(noise), _MOST_CLIPPED)
