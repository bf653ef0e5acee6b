"""Private principal components: settings, the released second moment, and the components that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.optimize import isotonic_regression

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.accounting.certificate import Release
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.errors import ArgumentError
from pais.mechanisms.base import Mechanism
from pais.mechanisms.moments import MomentValue
from pais.planning.facts import Facts
from pais.planning.plan import Fit, Plan, RadiusChoice, SampleChoice, clipped_facts, radius_at
from pais.planning.settings import SampleSettings, with_constant
from pais.planning.tails import Tail
from pais.privacy.amplification import largest_shift
from pais.privacy.rules import NormDistribution, Rule

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
    names : tuple of str, optional
        Names of the columns, if they have any. `for_rows` sets it.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. Without a `sample_size`, all rows are used if the table has at most 2^24 numbers or the sample
        would have more than half of the rows. Otherwise it means "free".
    """

    what = "PCA"
    gaussian_only = True

    n_components: int | float | str | None = None
    names: tuple[str, ...] | None = None

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
        asked, settings = self.n_components, super().for_rows(rows)
        # The number of categories that a survey finds must not decide whether the fit succeeds.
        is_known = settings.unlisted == 0
        if asked is not None and not isinstance(asked, (str, float)) and is_known and asked > rows.n_features:
            raise ArgumentError(
                f"n_components={asked} is more than the {rows.n_features} features. Pass at most that number."
            )
        return replace(settings, names=rows.names)

    def result(self, plan: Plan, release: Release, facts: Facts) -> PCAFit:
        """The fit with the components that follow from the released second moment."""
        return PCAFit.of_fit(super().result(plan, release, facts), self)

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


# A component with the share p of the variance within the radius has about the same share beyond it. The standard error
# of that share is this multiple of sqrt(p (1 - p)). Without noise, on Ijcnn1, KDD protein, Song, Adult and skewed
# tables, with radii from the 50 % to the 99.9 % quantile, the largest distances of the first five components were about
# twice this error (commit c0a5ad8).
_SHARE_ERROR = 0.3

# An estimated variance is clear if it is above this many deviations of its noise: an interval of about 95 %.
_CLEAR = 2.0

# Standard error of what clipping took away, at most, as a share of the variance: with more, an interval would say
# nothing.
_MOST_ERROR = 1.0


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Public estimate of what clipping does to the moments of the rows. A row scaled by f counts f^2.

    Attributes
    ----------
    weight : float
        Mean of f^2 over all rows.
    missing, error : float
        Mean square norm of the rows that clipping takes away, and its standard error.
    bias : float
        Largest distance between the mean of the clipped rows and that of all.
    """

    weight: float = 1.0
    missing: float = 0.0
    error: float = 0.0
    bias: float = 0.0

    @classmethod
    def of(cls, norms: NormDistribution, ball: Ball, *, most: float = math.inf, error: float = 0.0) -> Clipping:
        """Clipping of rows with these norms, which do not include the constant coordinate of the ball.

        `most` is another estimate of what clipping takes away. The smaller one counts.
        """
        norm, mass = norms.norms, norms.masses / norms.masses.sum()
        weight = np.minimum(1.0, ball.radius / np.maximum(np.hypot(norm, ball.constant), 1e-300)) ** 2
        share = float(mass @ weight)
        return cls(
            weight=share,
            missing=min(float(mass @ ((1.0 - weight) * norm**2)), most),
            error=error,
            bias=float(mass @ (np.abs(1.0 - weight / share) * norm)),
        )


@dataclass(frozen=True, kw_only=True)
class SamplingError:
    """Public estimate of what sampling does to the moments of the rows.

    Attributes
    ----------
    norms, masses : array
        Norms of the clipped rows about the center of the ball, and how many rows have them.
    spare : array
        Weight of a sampled row of each norm, minus 1: the variance that sampling gives to a sum of ones.
    """

    norms: FloatArray
    masses: FloatArray
    spare: FloatArray

    def error(self, variance: float, shift: float) -> float:
        """A bound on the standard error of a variance, along a direction in which the mean is `shift` from the center.

        A row at the distance s from the mean adds s^2, so the sample has the variance sum(spare s^4) + variance^2
        sum(spare). It is largest if few rows have all of the variance: those for which spare s^2 is largest.
        """
        most = np.square(self.norms + abs(shift))
        order = np.argsort(-self.spare * most, kind="stable")  # [note: pca-3]
        squares = (self.masses * most)[order]
        left = np.maximum(variance * self.masses.sum() - (np.cumsum(squares) - squares), 0.0)
        total = float((self.spare * most)[order] @ np.minimum(squares, left))
        return math.sqrt(total + variance**2 * float(self.spare @ self.masses)) / float(self.masses.sum())


@dataclass(frozen=True, kw_only=True)
class PrincipalComponents:
    """All principal components of a noisy second moment, the largest variance first.

    Attributes
    ----------
    mean : array of shape (d,)
        Mean of the rows, shrunk toward the center of the ball by its noise and by the bias of clipping.
    components : array of shape (d, d)
        One direction in each row, with its largest entry positive.
    variances : array of shape (d,)
        Estimated variance of the rows along each component. They are the noisy variances without the bias of the noise.
    noisy_variances : array of shape (d,)
        Eigenvalues of the noisy covariance matrix. The noise spreads them: the first are too large.
    standard_errors : array of shape (d,)
        Standard error of each variance, as that of all rows along the component and as that of the best component of
        the same number: due to the noise, to sampling, and to the rows that are clipped.
    noise : float
        Standard deviation of the noise of the variance along a given direction.
    beyond : float
        Estimated share of the variance that clipping took away. The variances contain it.
    """

    mean: FloatArray
    components: FloatArray
    variances: FloatArray
    noisy_variances: FloatArray
    standard_errors: FloatArray
    noise: float
    beyond: float

    @property
    def shares(self) -> FloatArray:
        """The variances as shares of their sum."""
        return np.asarray(self.variances / max(float(self.variances.sum()), 1e-300))

    @property
    def noise_level(self) -> float:
        """Largest eigenvalue that the noise has by itself, for many columns."""
        return math.sqrt(2.0 * len(self.mean)) * self.noise

    @property
    def above_noise(self) -> int:
        """Number of first components whose variance the noise does not explain.

        Their noisy variance is above the noise level, and the estimated one, which is without the bias of the noise, is
        above two deviations of it.
        """
        clear = (self.noisy_variances > self.noise_level) & (self.variances > _CLEAR * self.noise)
        return int(np.cumprod(clear).sum())

    def captured(self, n_components: int) -> float:
        """Predicted variance along the first components over that along the best of their number; noise only.

        The noise raises the first eigenvalues of the rows by as much as it lowers the variance along the directions
        that it turns. The best variance is therefore in the middle between the noisy and the estimated ones.
        """
        first = slice(n_components)
        estimate, noisy = float(self.variances[first].sum()), float(self.noisy_variances[first].sum())
        return 0.0 if estimate <= 0.0 else min(1.0, 2.0 * estimate / (estimate + noisy))

    def n_components_for(self, share: float) -> int:
        """Smallest number of components that have more than this share of the estimated variance."""
        together = np.cumsum(self.shares)
        return min(int(np.searchsorted(together, share, side="right")) + 1, len(together))


def principal_components(
    value: MomentValue, *, center: FloatArray, clipping: Clipping | None = None, sampling: SamplingError | None = None
) -> PrincipalComponents:
    """Principal components of rows from their noisy second moment about a center, which has a constant coordinate."""
    clipping = Clipping() if clipping is None else clipping
    moment, d = value.moment, len(value.moment) - 1
    # Below one deviation of its noise, the number of rows is unknown.
    count = max(value.noisy_count, value.scale / value.constant**2)
    offset = moment[-1, :-1] / (value.constant * count)
    error = value.scale / (math.sqrt(2.0) * value.constant * count)
    square = float(offset @ offset)
    kept = max(0.0, 1.0 - (d * error**2 + clipping.bias**2) / square) if square > 0.0 else 0.0
    # The scatter about the mean that is released.
    scatter = moment[:-1, :-1] - (2.0 - kept) * kept * count * np.outer(offset, offset)
    # For a matrix of this size, several BLAS threads only wait for each other.
    with one_blas_thread():
        eigenvalues, vectors = np.linalg.eigh(scatter)
    noisy, components = eigenvalues[::-1] / count, vectors.T[::-1]
    largest = components[np.arange(d), np.argmax(np.abs(components), axis=1)]
    inside, noise = shrunk_spectrum(noisy, value.scale / count), value.scale / count
    total = float(inside.sum())
    # What clipping took away is shared out in proportion to the variances.
    factor = clipping.weight + (clipping.missing / total if total > 0.0 else 0.0)
    shares = inside / max(total, 1e-300)
    shifts = components @ (kept * offset)
    squares = np.square(factor * noise) * _relative_noise(inside, shifts, value.constant)
    # The variance of the best component is in the middle between the noisy and the estimated one. [note: pca-2]
    squares += np.square(0.5 * factor * (noisy - inside))
    if sampling is not None:
        errors = [sampling.error(*each) for each in zip(inside.tolist(), shifts.tolist(), strict=True)]
        squares += np.square(factor * np.array(errors))
    beyond = min(clipping.error, _MOST_ERROR * factor * total)
    # What lies beyond the radius, and which share of it a component has. [note: pca-4]
    squares += np.square(shares * beyond)
    squares += _SHARE_ERROR**2 * (clipping.missing**2 + beyond**2) * shares * (1.0 - shares)
    return PrincipalComponents(
        mean=center + kept * offset,
        components=components * np.where(largest < 0.0, -1.0, 1.0)[:, None],
        variances=inside * factor,
        noisy_variances=noisy * factor,
        standard_errors=np.sqrt(squares),
        noise=noise * factor,
        beyond=clipping.missing / (clipping.missing + clipping.weight * total) if clipping.missing > 0.0 else 0.0,
    )


def _relative_noise(variances: FloatArray, shifts: FloatArray, constant: float) -> FloatArray:
    """Variance of the noise of each variance, in units of the noise along a direction.

    The noise E of the moment is isotropic. The variance along v is a'Ma / count with a = (v, -shift/constant), and
    count is a multiple of the last entry of M. So its noise is the product of E and aa' minus a multiple of that entry.
    """
    own, of_count = np.square(shifts / constant), variances / constant**2  # [note: pca-1]
    return np.asarray(np.square(1.0 + own) - 2.0 * of_count * own + np.square(of_count))


def shrunk_spectrum(noisy: FloatArray, scale: float) -> FloatArray:
    """Estimate v'Sv for each eigenvector v of S + W, from the eigenvalues of S + W in falling order.

    W is symmetric Gaussian noise of deviation `scale` on the diagonal and scale/sqrt(2) off it. The expectation of v'Wv
    is scale^2 times that of the sum of 1/(l - m) over the other eigenvalues m, where l is the eigenvalue of v: Stein's
    identity for the eigenvectors of a Gaussian matrix. Gaps below the noise of an entry are widened. The estimates are
    then moved to the nearest ones that fall and are not negative, and the last are cut so that they have the noisy
    trace, which is unbiased.
    """
    if scale == 0.0:
        return np.maximum(noisy, 0.0)
    eigenvalues = noisy / scale
    gaps = eigenvalues[:, None] - eigenvalues
    estimates = eigenvalues - (gaps / (gaps**2 + 0.5)).sum(axis=1)
    falling = np.maximum(isotonic_regression(estimates, increasing=False).x, 0.0)
    left = max(float(eigenvalues.sum()), 0.0) - (np.cumsum(falling) - falling)
    return np.asarray(np.minimum(falling, np.maximum(left, 0.0)) * scale)


# Standard error of the sum of squared norms beyond the radius, as a multiple of the deviation that chooses bounds. With
# 0.6, two errors held the first variance of skewed and of Student rows in 85 % of 20 fits; with 0.8 and 1, in 90 %.
_BEYOND_ERROR = 1.0

# Warn if clipping clearly took away more than this share of the variance, and if the number of rows falls more slowly
# than this power of their norm: with a power of about four or less, a few far rows decide the variance of a table.
# Fewer rows than this many standard deviations of the noise of a count do not tell. Chosen by eye (c0a5ad8).
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
    def of_fit(cls, fit: Fit, settings: PCASettings) -> PCAFit:
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
            k = d if asked is None else min(int(asked), d)
        names = settings.names if fit.schema is None else fit.schema.labels
        return fit.extended(
            cls,
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

    def in_words(self) -> str:
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


def _sampling(plan: Plan) -> SamplingError | None:
    """What sampling adds to the errors, from the norms of the plan; None if all rows are used."""
    if plan.norms is None or plan.rule.keeps_all:
        return None
    norms = plan.norms.norms
    return SamplingError(
        norms=np.sqrt(np.maximum(np.square(norms) - plan.ball.constant**2, 0.0)),
        masses=plan.norms.masses,
        spare=1.0 / plan.rule.probability(norms) - 1.0,
    )


def components_frame(fit: PCAFit) -> Any:
    """Explained variances with standard errors, then the loadings, one row per component. Numbers begin at 1."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("components_frame needs pandas. Install it: pip install pandas.") from None
    k, spectrum = fit.n_components, fit.spectrum
    index = pd.RangeIndex(1, k + 1, name="component")
    variances = {
        "explained_variance": spectrum.variances[:k],
        "explained_variance_ratio": spectrum.shares[:k],
        "standard_error": spectrum.standard_errors[:k],
    }
    loadings = pd.DataFrame(spectrum.components[:k], index=index, columns=list(fit.labels))
    return pd.concat([pd.DataFrame(variances, index=index), loadings], axis=1)
