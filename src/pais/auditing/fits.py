"""A whole fit as the target of an audit: survey, plan, sample and release, as a caller of `fit` sees them."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from pais._base.numerics import FloatArray
from pais._base.octaves import N_BINS, bin_of
from pais.accounting import Accounts
from pais.accounting.certificate import Certificate
from pais.auditing.events import Observed
from pais.auditing.pairs import COMPANY_NORM, INSIDE, NeighbourPair
from pais.auditing.statistics import Statistic, SumFrame, column, coordinates, last_parts, statistics_near_record
from pais.auditing.targets import Draws, Target
from pais.errors import ArgumentError
from pais.estimators.base import PrivateEstimator
from pais.estimators.supervised import SupervisedEstimator
from pais.mechanisms import KMeans, KMeansValue
from pais.planning import Fit
from pais.privacy.norms import NormDistribution

# Number of outputs kept in memory at a time.
_BATCH_FITS = 2**12

# Attempts on each table to obtain a certificate: the noise of a survey can make a plan impossible.
_ATTEMPTS = 5

# Number of rows besides the record, enough for a survey to find them above its noise.
_MANY = 200

# The value of the statistic `outcome` for a fit that did not raise.
RELEASED = "released"
OUTCOME, MESSAGE, WARNINGS, CERTIFICATE = "outcome", "message", "warnings", "certificate"

#: Maps the name of a statistic to its number or symbol in one run.
Facts = Mapping[str, object]


class _NoLedger(Accounts):
    """Accounts without any ledger, not even an active one. The fit causes no warning about a missing ledger."""

    @property
    def empty(self) -> bool:
        return False


@dataclass(eq=False)
class _Certificates:
    """The largest epsilon and delta of all certificates so far, and the names of the statistics of a fit."""

    epsilon: float = 0.0
    delta: float = 0.0
    names: tuple[str, ...] = ()

    def include(self, certificate: Certificate) -> None:
        self.epsilon = max(self.epsilon, float(certificate.epsilon))
        self.delta = max(self.delta, float(certificate.delta))


@dataclass(frozen=True, kw_only=True, eq=False)
class FitTarget(Target):
    """Call `model.fit` on a fresh clone in each run, with the random bits of the audit and without any ledger.

    A fit that raises is an outcome like any other: its caller sees the class and the text of the error.
    Warnings are recorded and not issued.

    Notes
    -----
    Guarantee. A run gives the same numbers as `fit` with the same random bits, and no ledger is charged:
    `tests/statistical/test_audit_fit.py`.
    """

    model: PrivateEstimator
    statistic: dict[str, Statistic] | None
    n_features: int
    stated_epsilon: float | None
    stated_delta: float | None
    claims: _Certificates = field(default_factory=_Certificates)

    @classmethod
    def of(
        cls,
        model: PrivateEstimator,
        *,
        epsilon: float | None,
        delta: float | None,
        statistic: dict[str, Statistic] | None,
        n_features: int | None,
    ) -> FitTarget:
        """Build the target for a model; the model's center, if stated, sets the number of columns of proposed pairs."""
        return cls(
            model=model,
            statistic=statistic,
            n_features=n_features or (2 if _center(model) is None else np.size(_center(model))),
            stated_epsilon=epsilon,
            stated_delta=delta,
        )

    @property
    def name(self) -> str:  # type: ignore[override]  # read-only here
        return f"a whole fit of {type(self.model).__name__}"

    @property
    def certified(self) -> float | None:  # type: ignore[override]  # read-only here
        return self.claims.epsilon if self.stated_epsilon is None else self.stated_epsilon

    @property
    def delta(self) -> float:  # type: ignore[override]  # read-only here
        return self.claims.delta if self.stated_delta is None else self.stated_delta

    def batch(self, pair: NeighbourPair) -> int:
        return _BATCH_FITS

    def pairs(self) -> list[NeighbourPair]:
        """Propose a record at the radius (norm 1 if no radius is stated), together with one row and with many rows."""
        radius, center = getattr(self.model, "radius", None) or 1.0, _center(self.model)
        origin = np.zeros(self.n_features) if center is None else np.asarray(center, dtype=float)
        axis = np.eye(self.n_features)[0]
        record, company = origin + INSIDE * float(radius) * axis, origin - COMPANY_NORM * float(radius) * axis
        return [
            NeighbourPair.of(record, np.tile(company, (rows, 1)), name=f"record opposite {label}")
            for rows, label in ((1, "one row"), (_MANY, f"{_MANY} rows"))
        ]

    def prepare(self, pairs: list[NeighbourPair], draws: Draws) -> None:
        """Take the claim from the first fit that succeeds, on either table; if none succeeds, raise the last error."""
        tables = [table for pair in pairs for table in (pair.with_record, pair.without_record)] * _ATTEMPTS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self._first_fit(tables, draws)
        self.claims.names = (OUTCOME, MESSAGE, WARNINGS, *self._facts(model, _Geometry.of(pairs[0])))
        if self.stated_epsilon is None and self.delta < self.claims.delta:
            raise ArgumentError(
                f"delta={self.stated_delta!r} is below the certified delta={self.claims.delta!r}. Pass the claimed "
                "epsilon too, or leave delta out."
            )

    def _first_fit(self, tables: list[FloatArray], draws: Draws) -> PrivateEstimator:
        for table in tables[:-1]:
            with contextlib.suppress(Exception):
                return self._fitted(table, draws)
        return self._fitted(tables[-1], draws)

    def observe(self, rows: FloatArray, pair: NeighbourPair, runs: int, draws: Draws) -> Observed:
        geometry = _Geometry.of(pair)
        outcomes = [self._outcome(rows, geometry, draws) for _ in range(runs)]
        return {name: column([facts.get(name, math.nan) for facts in outcomes], runs) for name in self.claims.names}

    def _outcome(self, rows: FloatArray, geometry: _Geometry, draws: Draws) -> Facts:
        # Warnings and errors reach the caller of fit, so they are part of the output.
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            try:
                model = self._fitted(rows, draws)
            except Exception as error:
                return {OUTCOME: type(error).__name__, MESSAGE: str(error), WARNINGS: "", CERTIFICATE: "none"}
        kinds = ", ".join(warning.category.__name__ for warning in issued)
        return {OUTCOME: RELEASED, MESSAGE: RELEASED, WARNINGS: kinds, **self._facts(model, geometry)}

    def _fitted(self, rows: FloatArray, draws: Draws) -> PrivateEstimator:
        model: PrivateEstimator = clone(self.model)
        bits = draws.generator if draws.seeded else None
        model.set_params(random_state=bits, ledger=_NoLedger(()))  # [note: audit-4]
        # The last column of the rows is the target of a supervised model.
        model.fit(*((rows[:, :-1], rows[:, -1]) if isinstance(model, SupervisedEstimator) else (rows,)))
        self.claims.include(model.certificate_)
        return model

    def _facts(self, model: PrivateEstimator, geometry: _Geometry) -> Facts:
        if self.statistic is not None:
            return {name: function(model) for name, function in self.statistic.items()}
        return {**_public_facts(model.fit_, geometry), **_released(model.fit_, geometry)}


def _center(model: PrivateEstimator) -> Any:
    return getattr(model, "center", None)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Geometry:
    """The positions of the record and the other rows; rows with non-finite numbers are left out.

    A record with non-finite numbers has no position, so the mean of the other rows is used instead.
    """

    pair: NeighbourPair
    origin: FloatArray
    axis: FloatArray

    @classmethod
    def of(cls, pair: NeighbourPair) -> _Geometry:
        company = pair.without_record[np.all(np.isfinite(pair.without_record), axis=1)]
        origin = company.mean(axis=0) if len(company) else np.zeros(company.shape[1])
        record = pair.record if np.all(np.isfinite(pair.record)) else origin
        length = float(np.linalg.norm(record - origin))
        axis = (record - origin) / length if length > 0.0 else np.eye(origin.size)[0]
        return cls(pair=NeighbourPair.of(record, company), origin=origin, axis=np.asarray(axis))

    @cached_property
    def record(self) -> FloatArray:
        return self.pair.record


def _public_facts(fit: Fit, geometry: _Geometry) -> Facts:
    """Values of the survey, the plan and the certificate, all of which are released together with the centers."""
    plan, certificate = fit.plan, fit.certificate
    facts: dict[str, object] = {
        CERTIFICATE: "; ".join([certificate.note, *(part.what for part in certificate.parts)]),
        "certified epsilon": certificate.epsilon,
        "certified delta": certificate.delta,
        "radius": plan.ball.radius,
        "smallest probability": plan.rule.smallest_probability(plan.ball.radius),
    }
    if plan.ball.center is not None and plan.schema is None:
        facts["center along the record"] = float(np.asarray(plan.ball.center) @ geometry.axis)
    norms = plan.norms if fit.survey is None else fit.survey.norms
    if norms is not None:
        facts["rows in the norms"] = norms.n_rows
        facts["mean square norm"] = norms.mean_square_norm
    # With a schema, norms are those of scaled vectors.
    if norms is not None and plan.schema is None:
        norm = float(plan.ball.norms(plan.ball.shift(geometry.record[None, :]))[0])
        facts["rows in the record's bin of norms"] = _bin_count(norms, norm)
    if isinstance(plan.mechanism, KMeans):
        facts["rounds"] = len(plan.mechanism.rounds)
        facts["noise on counts"] = plan.mechanism.rounds[-1].count_noise.scale
    return facts


def _bin_count(norms: NormDistribution, norm: float) -> float:
    """Number of rows in the survey's bin that contains a norm; NaN if the distribution has no survey bins.

    A histogram assigns half of each bin to either edge, and this function undoes that. Edges may be clipped to a
    radius, so the bin is found by its number.
    """
    if norms.masses.size != N_BINS + 1:
        return math.nan
    position = int(bin_of(np.array([norm]))[0])
    signs = np.where(np.arange(position, -1, -1) % 2 == 0, 2.0, -2.0)
    # Round, so that an empty bin gives exactly 0.
    return round(float(signs @ norms.masses[: position + 1]), 9)


def _released(fit: Fit, geometry: _Geometry) -> Facts:
    """Counts and centers near the record, and the evidence for it in their totals if every row is kept.

    Of a value that has no centers, every number is used.
    """
    value, plan = fit.value, fit.plan
    if not isinstance(value, KMeansValue):
        return {name: float(values[0]) for name, values in coordinates([value], 1).items()}
    statistics = dict(statistics_near_record([value], geometry.record, geometry.origin, geometry.axis))
    if isinstance(plan.mechanism, KMeans):
        parts = last_parts(plan.mechanism.rounds[-1])
        frame = SumFrame.of(geometry.pair, plan.ball, plan.rule)
        counts = value.noisy_counts[:, None]
        totals = [counts.sum(axis=0)[None, :], (counts * (value.centers - frame.origin)).sum(axis=0)[None, :]]
        statistics.update(frame.statistics(parts, totals))
    return {name: float(values[0]) for name, values in statistics.items()}
