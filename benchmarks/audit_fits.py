"""Faults planted in the steps of a whole fit, each beside the right version: what an audit of `fit` must tell apart.

NOT PRIVATE, on purpose. Every fault replaces one step of the real code while a model is fitted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import pais
from benchmarks.audit_cases import Case
from pais.norm_survey import charged_survey, surveyed_facts
from pais.planning import Survey
from pais.planning.survey_noise import SurveyNoise
from pais.privacy.amplification import largest_shift
from pais.sampler import WeightedSample, sample_for

_SURVEY, _PIPELINE = (importlib.import_module(f"pais.{name}") for name in ("norm_survey", "pipeline"))

_ALL_ROWS = pais.UniformRule(rate=1.0)


def model(kind: type[pais.DPKMeans], **settings: Any) -> pais.DPKMeans:
    """One cluster, l2 noise: two rounds, and a fit takes a few milliseconds."""
    usual = {"n_clusters": 1, "epsilon": 1.0, "delta": 0.0, "mechanism": "l2", "sampling": _ALL_ROWS}
    return kind(**{**usual, **settings})


# -- a survey that is not charged ----------------------------------------------------------------------


class DearSurvey(pais.DPKMeans):
    """The fit as it is, but for the survey's share of epsilon."""

    share = 0.5

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        with patch.object(pais.KMeansSettings, "survey_share", self.share):
            return super().fit(X)


class UnchargedSurvey(DearSurvey):
    """The survey counts as a stated fact: the release gets all of epsilon, and no price of the survey is refused."""

    share = 8.0

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        def uncharged(*arguments: Any) -> pais.Facts:
            return replace(surveyed_facts(*arguments), survey=None)

        with patch.object(_PIPELINE, "surveyed_facts", uncharged):
            return super().fit(X)


def uncharged_survey(broken: bool) -> dict[str, Any]:
    # In two bins of neighbouring octaves: the survey shows the octaves beside one that stands out.
    pair = pais.NeighbourPair.of([0.9], np.full((100, 1), -0.4), name="record opposite 100 rows")
    return {"target": model(UnchargedSurvey if broken else DearSurvey, radius=1.0), "pair": pair}


# -- a Gaussian survey that is not counted --------------------------------------------------------------


class DearGaussianSurvey(pais.DPKMeans):
    """The fit as it is, but for the survey's share of the shift."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        with patch.object(pais.KMeansSettings, "survey_shift_share", 0.5):
            return super().fit(X)


class UncountedGaussianSurvey(pais.DPKMeans):
    """The survey counts as a stated fact: the rounds get all of delta, whatever the shift of the survey."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        def uncounted(*arguments: Any) -> pais.Facts:
            return replace(surveyed_facts(*arguments), survey=None)

        noise = SurveyNoise(shift=8.0 * largest_shift(self.epsilon, self.delta or 1e-6))
        with (
            patch.object(pais.KMeansSettings, "survey_noise", noise),
            patch.object(pais.KMeansSettings, "require_price", lambda *_: None),
            patch.object(_PIPELINE, "surveyed_facts", uncounted),
        ):
            return super().fit(X)


def uncounted_survey(broken: bool) -> dict[str, Any]:
    pair = pais.NeighbourPair.of([0.9], np.full((100, 1), -0.4), name="record opposite 100 rows")
    kind = UncountedGaussianSurvey if broken else DearGaussianSurvey
    return {"target": model(kind, mechanism="gaussian", delta=0.01, radius=1.0), "pair": pair}


# -- a radius read off the rows -------------------------------------------------------------------------


class ExactRadius(pais.DPKMeans):
    """The survey's radius is replaced by the largest norm of the rows."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        def surveyed(*arguments: Any, **settings: Any) -> Survey:
            survey = charged_survey(*arguments, **settings)
            radius = float(survey.ball.norms(survey.ball.shift(np.asarray(X))).max())
            norms = pais.NormDistribution(norms=survey.norms.norms, masses=survey.norms.masses, radius=radius)
            return replace(survey, ball=replace(survey.ball, radius=radius), norms=norms, quantile_asked=True)

        with patch.object(_SURVEY, "charged_survey", surveyed):
            return super().fit(X)


def exact_radius(broken: bool) -> dict[str, Any]:
    pair = pais.NeighbourPair.of([1.0], np.full((20, 1), -0.25), name="record far beyond 20 rows")
    return {"target": model(ExactRadius if broken else pais.DPKMeans, center=(0.0,)), "pair": pair}


# -- a sample that is drawn again -----------------------------------------------------------------------


class OneRound(pais.DPKMeans):
    """A fit by one round of the paper's algorithm: the whole loss of a row at norm 0 is in the count it releases."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        defaults = pais.KMeansSettings.__init__.__kwdefaults__
        with patch.dict(defaults, {"algorithm": "paper", "n_iterations": 1}):
            return super().fit(X)


class DrawsAgain(OneRound):
    """An empty sample is drawn again until it holds a row."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        def until_a_row(*arguments: Any, **settings: Any) -> WeightedSample:
            while True:
                kept = sample_for(*arguments, **settings)
                content = kept.spend("a look whether it is empty")
                if len(content.rows):
                    return WeightedSample(content, rule=kept.rule, ball=kept.ball, private=kept.private)

        with patch.object(_PIPELINE, "draw", until_a_row):
            return super().fit(X)


def second_draw(broken: bool) -> dict[str, Any]:
    """One row is seldom kept and weighs much. The record is always kept, so that no sample with it is empty."""
    pair = pais.NeighbourPair.of([1.0], [[0.0]], name="record at the radius beside one at norm 0")
    rule = pais.FunctionRule(function=lambda norm: np.clip(10.0 * norm, 0.05, 1.0), radius=1.0, n_knots=16)
    kind = DrawsAgain if broken else OneRound
    return {"target": model(kind, epsilon=0.5, radius=1.0, sampling=rule), "pair": pair}


# -- rows with missing values ---------------------------------------------------------------------------


class MissingRefused(pais.DPKMeans):
    """Refuses a table of which at least half of the rows have missing values: an exact count decides."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        if 2 * np.count_nonzero(_missing(X)) >= len(X):
            raise pais.DataError("too many values are missing. Fill them in.")
        return super().fit(X)


class MissingCounted(pais.DPKMeans):
    """The certificate says how many rows were left out."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        super().fit(X)
        certificate = self.certificate_
        note = f"{certificate.note}; {np.count_nonzero(_missing(X))} rows left out"
        self.certificate_ = replace(certificate, note=note)
        self.fit_ = replace(self.fit_, certificate=self.certificate_)
        return self


def _missing(X: Any) -> NDArray[np.bool_]:
    return np.asarray(~np.all(np.isfinite(np.asarray(X)), axis=1))


def missing_refused(broken: bool) -> dict[str, Any]:
    company = np.array([[-0.5]] * 3 + [[np.nan]] * 3)
    pair = pais.NeighbourPair.of([1.0], company, name="record that makes missing rows the smaller part")
    return {"target": model(MissingRefused if broken else pais.DPKMeans, radius=1.0), "pair": pair}


def missing_counted(broken: bool) -> dict[str, Any]:
    pair = pais.NeighbourPair.of([np.nan], np.full((3, 1), -0.5), name="record without a number beside 3 rows")
    return {"target": model(MissingCounted if broken else pais.DPKMeans, radius=1.0), "pair": pair}


def _case(name: str, arguments: Callable[[bool], dict[str, Any]], runs: int, right_runs: int) -> Case:
    return Case(name=f"whole fit: {name}", arguments=arguments, runs=runs, right_runs=right_runs, slow=True)


# A fit takes milliseconds: as few runs as tell.
FIT_CASES = (
    _case("survey not charged", uncharged_survey, 400, 200),
    _case("Gaussian survey not counted", uncounted_survey, 400, 200),
    _case("radius read off the rows", exact_radius, 200, 200),
    _case("empty sample drawn again", second_draw, 800, 200),
    _case("refused where most rows have missing values", missing_refused, 100, 100),
    _case("number of rows with missing values released", missing_counted, 100, 100),
)
