"""Settings of a private principal component analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from pais._base import validate
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.errors import ArgumentError
from pais.mechanisms.base import Mechanism
from pais.planning.choices import RadiusChoice, SampleChoice, clipped_facts, radius_at
from pais.planning.facts import Facts
from pais.planning.settings import SampleSettings, with_constant
from pais.privacy.amplification import largest_shift
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

S = TypeVar("S", bound="PCASettings")

# Share of the rows that are clipped, over the root of the noise, and at most. Clipped rows keep their direction, so
# they change the components little. A smaller radius also means a larger sample, so the share falls more slowly than
# the noise. Chosen by eye (commit 79b9ef2); benchmarks/results/pca-captured.md shows what they reach.
_CLIPPED_PER_NOISE, _MOST_CLIPPED = 2.0, 0.5

# Length of the constant coordinate as a share of the radius: its square is 4 % of the price. Chosen by eye (0257ded).
_CONSTANT = 0.2

# A table of at most this many numbers is used as a whole unless the user asks for a sample: its product takes a
# fraction of a second, and a sample would only add error. So is one of which a sample would have more than this share.
# The first for speed (benchmarks/results/pca-speed.md), the second by eye (c0a5ad8).
_WHOLE_NUMBERS, _MOST_SAMPLED = 2.0**24, 0.5


@dataclass(frozen=True, kw_only=True)
class PCASettings(SampleSettings):
    """Settings of a private principal component analysis that the user chooses; public.

    Attributes
    ----------
    n_components : int, float, "auto" or None
        Number of components: see `DPPCA`. The release does not depend on it.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. Without a `sample_size`, all rows of a small table are used.
    """

    what = "PCA"
    gaussian_only = True

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
        if not (is_open and norms.n_rows * d <= _WHOLE_NUMBERS):
            mechanism, rule = self.moment_sum(ball, norms, d, delta, limit)
            if not (is_open and norms.expected_size(rule) > _MOST_SAMPLED * norms.n_rows):
                return mechanism, rule, None
        return *replace(self, sampling="none").moment_sum(ball, norms, d, delta, limit), None

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        """The facts with a constant coordinate, clipped where the survey leaves the radius open.

        The smaller the noise is, the more rows are within the radius. In squared radii per row, the largest eigenvalue
        of the noise is sqrt(2 d) / (n mu), where mu is the shift allowed without sampling.
        """
        if facts.radius_is_open:
            quantile = self.quantile
            if quantile is None:
                shift = largest_shift(float(self.epsilon), self._surveyed_delta(facts))
                noise = math.sqrt(2.0 * n_features) / (facts.norms.n_rows * shift)
                quantile = 1.0 - min(_CLIPPED_PER_NOISE * math.sqrt(noise), _MOST_CLIPPED)
            facts = clipped_facts(facts, radius_at(facts.norms, quantile))
        return with_constant(facts, _CONSTANT * facts.ball.radius), None
