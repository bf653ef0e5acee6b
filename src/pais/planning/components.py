"""The fit of a private principal component analysis: the released second moment, and the components that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pais.mechanisms import Clipping, PrincipalComponents, Sampling, principal_components
from pais.planning.fit import Fit
from pais.planning.pca import PCASettings
from pais.planning.plan import Plan
from pais.planning.tails import Tail

# Standard error of the sum of squared norms beyond the radius, as a multiple of the deviation that chooses bounds. With
# 0.6, two errors held the first variance of skewed and of Student rows in 85 % of 20 fits; with 0.8 and 1, in 90 %.
_BEYOND_ERROR = 1.0

# Warn if clipping clearly took away more than this share of the variance, and if the number of rows falls more slowly
# than this power of their norm: with a power of about four or less, a few far rows decide the variance of a table.
# Fewer rows than this many standard deviations of the noise of a count do not tell.
_MUCH_BEYOND, _HEAVY, _FEW_ROWS = 0.05, 4.5, 100.0


@dataclass(frozen=True, kw_only=True, repr=False)
class PCAFit(Fit):
    """A fit of a principal component analysis. All of it may be published.

    Attributes
    ----------
    spectrum : PrincipalComponents
        All components of the released second moment, as vectors of the schema if there is one.
    n_components : int
        Number of components that the user asked for, or that was chosen from the spectrum.
    is_stated : bool
        Whether the user stated this number.
    labels : tuple of str
        Names of the coordinates of the components.
    """

    spectrum: PrincipalComponents
    n_components: int
    is_stated: bool
    labels: tuple[str, ...]

    @classmethod
    def of_fit(cls, fit: Fit, settings: PCASettings, names: tuple[str, ...] | None = None) -> PCAFit:
        """Compute the components from the released second moment."""
        d, ball = len(fit.value.moment) - 1, fit.plan.ball
        center = np.zeros(d) if ball.center is None else np.asarray(ball.center)
        spectrum = principal_components(fit.value, center=center, clipping=_clipping(fit), sampling=_sampling(fit.plan))
        asked = settings.n_components
        if isinstance(asked, str):
            k = max(spectrum.above_noise, 1)
        elif isinstance(asked, float):
            k = spectrum.n_components_for(asked)
        else:
            k = d if asked is None else int(asked)
        if fit.schema is not None:
            names = fit.schema.labels
        return cls(
            value=fit.value,
            certificate=fit.certificate,
            plan=fit.plan,
            survey=fit.survey,
            spectrum=spectrum,
            n_components=k,
            is_stated=asked is not None and not isinstance(asked, (str, float)),
            labels=tuple(f"x{j}" for j in range(d)) if names is None else names,
        )

    @property
    def concern(self) -> str | None:
        """Text of a warning if noise drowns components that were asked for, or if much was clipped; else None."""
        asked, above = self.n_components, self.spectrum.above_noise
        if above >= asked or (above > 0 and not self.is_stated):
            return self._clipping_concern
        return (
            f"noise drowns {asked - above} of the {asked} components: their variance is below the noise level "
            f"{self.spectrum.noise_level:.4g}. Ask for fewer, raise epsilon, or use more rows."
        )

    @property
    def _clipping_concern(self) -> str | None:
        """Text of a warning if clipping took away much of the variance of rows with a heavy tail."""
        tail, survey = _tail(self), self.survey
        if survey is None or tail is None or tail.exponent > _HEAVY:
            return None
        if survey.norms.n_rows < _FEW_ROWS * tail.deviation:
            return None
        clear = tail.clearly_beyond(self.plan.ball.radius, 2) / survey.norms.n_rows
        if clear <= _MUCH_BEYOND * max(self.spectrum.variances.sum(), survey.norms.mean_square_norm):
            return None
        return (
            f"about {100.0 * self.spectrum.beyond:.0f} % of the variance lies beyond the radius, where rows are "
            "clipped. Components hardly change, but explained variances rest on this estimate, and a few far rows that "
            "the noise hides may add more. State bounds of the columns, or use the logarithms of skewed columns."
        )

    def _findings(self) -> list[tuple[str, str]]:
        k, spectrum = self.n_components, self.spectrum
        verdict = (
            f"{spectrum.above_noise} of {len(self.labels)} components stand above the noise; the first {k} have about "
            f"{100.0 * spectrum.shares[:k].sum():.0f} % of the variance"
        )
        return [("verdict", verdict), *super()._findings()]

    def _value_in_words(self) -> str:
        k, d = self.n_components, len(self.labels)
        return f"a second moment, and from it {k} principal component{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}"


def _clipping(fit: Fit) -> Clipping:
    """What clipping takes away, from the norms that the survey released; nothing if there are none."""
    survey, ball = fit.survey, fit.plan.ball
    if survey is None or not survey.above_noise:
        return Clipping()
    if survey.schema is not None and ball.radius >= survey.schema.reach(ball.center):
        # The bounds of the columns keep all rows within the ball.
        return Clipping()
    tail = _tail(fit)
    if tail is None:
        return Clipping.of(survey.norms, ball)
    beyond, n_rows = tail.beyond(np.array([ball.radius]), 2), survey.norms.n_rows
    return Clipping.of(
        survey.norms,
        ball,
        # The norms continue the tail by a power, which is too much if it falls quickly.
        most=max(float(beyond.expected[0]), 0.0) / n_rows,
        error=_BEYOND_ERROR * math.sqrt(float(beyond.predicted[0])) / n_rows,
    )


def _tail(fit: Fit) -> Tail | None:
    """The tail of the norms that the survey released; None if there is no survey or nothing was seen."""
    counts = None if fit.survey is None else fit.survey.counts
    return None if counts is None else Tail.of(counts)


def _sampling(plan: Plan) -> Sampling | None:
    """What sampling adds to the errors, from the norms of the plan; None if all rows are used."""
    if plan.norms is None or plan.rule.keeps_all:
        return None
    norms = plan.norms.norms
    return Sampling(
        norms=np.sqrt(np.maximum(np.square(norms) - plan.ball.constant**2, 0.0)),
        masses=plan.norms.masses,
        spare=1.0 / plan.rule.probability(norms) - 1.0,
    )
