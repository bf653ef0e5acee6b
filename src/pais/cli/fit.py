"""A private k-means, with facts stated, surveyed now, or surveyed earlier."""

from __future__ import annotations

from pais.cli.facts import surveyed
from pais.cli.plans import PlanRequest, order_of
from pais.engines import Engine
from pais.errors import ArgumentError
from pais.kmeans import KMeansFit, KMeansSettings, private_kmeans
from pais.mechanisms import KMeansValue
from pais.pipeline import run
from pais.survey import Survey


def fit(rows: Engine, settings: KMeansSettings, *, earlier: Survey | None, seed: int | None) -> KMeansFit:
    """Survey what is not stated, plan, run; an earlier survey is used and its price counted.

    Notes
    -----
    Guarantee. All parts of the certificate, an earlier survey among them, add up to at most the stated (epsilon,
    delta): `tests/integration/test_cli.py`.
    """
    if earlier is None:
        return private_kmeans(rows, settings, random_state=seed)
    if settings.radius is not None or settings.center is not None or settings.norms is not None:
        raise ArgumentError("--survey brings radius, center and norms along. Leave out what you state beside it.")
    request = PlanRequest(
        n_clusters=settings.n_clusters,
        n_features=rows.n_features,
        facts=surveyed(earlier, epsilon=settings.epsilon, order=order_of(settings.mechanism)),
        delta=settings.delta,
        sampling=settings.sampling,
        sample_size=settings.sample_size,
        mechanism=settings.mechanism,
        algorithm=settings.algorithm,
    )
    plan = request.plan()
    release = run(plan, rows, random_state=seed)
    assert isinstance(release.value, KMeansValue)
    return KMeansFit(value=release.value, certificate=release.certificate, plan=plan, survey=earlier)
