"""The fit of a private principal component analysis: the released second moment, and the components that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pais.mechanisms import Clipping, PrincipalComponents, principal_components
from pais.planning.fit import Fit
from pais.planning.pca import PCASettings


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
        clipping = None if fit.survey is None else Clipping.of(fit.survey.norms, ball)
        spectrum, asked = principal_components(fit.value, center=center, clipping=clipping), settings.n_components
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
        """Text of a warning if components that were asked for do not stand above the noise; else None."""
        asked, above = self.n_components, self.spectrum.above_noise
        if above >= asked or (above > 0 and not self.is_stated):
            return None
        return (
            f"noise drowns {asked - above} of the {asked} components: their variance is below the noise level "
            f"{self.spectrum.noise_level:.4g}. Ask for fewer, raise epsilon, or use more rows."
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
