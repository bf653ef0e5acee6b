"""Private k-means from end to end: quality, relations between runs, what leaves, and the parts it is made of."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from sklearn.cluster import KMeans

import pais
from pais import KMeansFit, KMeansSettings, NormDistribution, private_kmeans
from pais._base.randomness import bit_source
from pais.data.engines import WeightedRows
from pais.mechanisms import GaussianNoise, LpNoise, NoiseLaw, Round, laplace_noise
from pais.mechanisms.kmeans import refine
from pais.mechanisms.kmeans.lloyd import LloydSample, Summary

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "certificate.schema.json").read_text())
DELTAS = {"gaussian": 1e-6, "l2": 0.0, "laplace": 0.0}
ULP = Fraction(1, 2**52)


def mixture(n: int = 30_000, d: int = 6, k: int = 5, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(k, d)) * 2.0
    return middle[rng.integers(0, k, n)] + 0.3 * rng.normal(size=(n, d))


ROWS = mixture()
RADIUS = 10.0


def norms_of(rows: np.ndarray, radius: float, order: float = 2.0) -> NormDistribution:
    """Norms that stand for public facts here."""
    return NormDistribution.from_private_norms(
        np.minimum(np.linalg.norm(rows, ord=order, axis=1), radius), radius=radius
    )


def settings_of(mechanism: str = "gaussian", **changes: Any) -> KMeansSettings:
    made = KMeansSettings(n_clusters=5, epsilon=1.0, delta=DELTAS[mechanism], mechanism=mechanism)  # type: ignore[arg-type]
    return replace(made, **changes)


def stated(mechanism: str = "gaussian", **changes: Any) -> KMeansSettings:
    order, radius = (1.0, 20.0) if mechanism == "laplace" else (2.0, RADIUS)
    facts = {"radius": radius, "center": (0.0,) * 6, "norms": norms_of(ROWS, radius, order)}
    return settings_of(mechanism, **{**facts, **changes})


def cost(rows: np.ndarray, centers: np.ndarray) -> float:
    return float(((rows[:, None, :] - centers[None]) ** 2).sum(axis=2).min(axis=1).sum())


BEST = float(KMeans(5, n_init=5, random_state=0).fit(ROWS).inertia_)


# -- quality ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform", "none"])
@pytest.mark.parametrize(("mechanism", "epsilon"), [("gaussian", 1.0), ("l2", 3.0), ("laplace", 3.0)])
@pytest.mark.parametrize("make", [settings_of, stated], ids=["surveyed", "stated"])
def test_the_cost_is_near_that_of_a_run_without_privacy(
    make: Any, mechanism: str, epsilon: float, sampling: str
) -> None:
    ratios = [
        cost(
            ROWS,
            private_kmeans(ROWS, make(mechanism, epsilon=epsilon, sampling=sampling), random_state=seed).value.centers,
        )
        / BEST
        for seed in range(3)
    ]
    # One center is worth a factor of several here; noise alone, with all centers found, some percent.
    assert np.median(ratios) < 1.5
    assert min(ratios) > 0.999


@pytest.mark.filterwarnings("ignore:epsilon=.* promises hardly anything:UserWarning")
@pytest.mark.parametrize("mechanism", ["l2", "laplace"])
def test_the_papers_algorithm_runs_and_costs_what_lloyd_costs(mechanism: str) -> None:
    fit = private_kmeans(ROWS, stated(mechanism, algorithm="paper", epsilon=20.0), random_state=1)
    made = fit.plan.mechanism
    assert isinstance(made, pais.KMeans)
    assert fit.value.centers.shape == (5, 6)
    assert np.all(np.isfinite(fit.value.centers))
    assert cost(ROWS, fit.value.centers) < 0.5 * cost(ROWS, ROWS.mean(axis=0, keepdims=True))
    assert fit.certificate.mechanism["exploring_rounds"] == 0
    (round_,) = set(made.rounds)
    weight, norm = np.array([1.0, 3.0, 9.0]), np.array([0.0, 1.0, fit.plan.ball.radius])
    by_hand = len(made.rounds) * (1.0 / round_.count_noise.scale + norm / round_.sum_noise.scale) * weight
    np.testing.assert_allclose(made.profile(weight, norm), by_hand, rtol=1e-13)


def test_noisy_counts_of_the_last_round_are_near_the_sizes_of_the_clusters() -> None:
    fit = private_kmeans(ROWS, stated(epsilon=5.0), random_state=0)
    label = ((ROWS[:, None, :] - fit.value.centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(fit.value.noisy_counts, np.bincount(label, minlength=5), rtol=0.15)


# -- relations between runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", DELTAS)
@pytest.mark.parametrize("factor", [2.0**10, 2.0**-7, 1000.0])
def test_scaling_rows_radius_and_center_scales_the_centers(mechanism: str, factor: float) -> None:
    plain = stated(mechanism, center=(0.5,) * 6)
    assert plain.radius is not None
    assert plain.norms is not None
    scaled = replace(
        plain,
        radius=plain.radius * factor,
        center=(0.5 * factor,) * 6,
        norms=NormDistribution(
            norms=plain.norms.norms * factor, masses=plain.norms.masses, radius=plain.radius * factor
        ),
    )
    here = private_kmeans(ROWS, plain, random_state=4).value
    there = private_kmeans(ROWS * factor, scaled, random_state=4).value
    np.testing.assert_allclose(there.centers, here.centers * factor, rtol=1e-3, atol=1e-3 * factor)
    np.testing.assert_allclose(there.noisy_counts, here.noisy_counts, rtol=1e-3)


@pytest.mark.parametrize("mechanism", DELTAS)
def test_moving_rows_and_center_moves_the_centers(mechanism: str) -> None:
    here = private_kmeans(ROWS, stated(mechanism), random_state=4).value
    there = private_kmeans(ROWS + 64.0, stated(mechanism, center=(64.0,) * 6), random_state=4).value
    np.testing.assert_allclose(there.centers, here.centers + 64.0, rtol=1e-3)


@pytest.mark.parametrize("mechanism", DELTAS)
def test_the_order_of_the_rows_is_no_part_of_a_release_of_all_rows(mechanism: str) -> None:
    here = private_kmeans(ROWS, stated(mechanism, sampling="none"), random_state=4).value
    there = private_kmeans(ROWS[::-1].copy(), stated(mechanism, sampling="none"), random_state=4).value
    np.testing.assert_array_equal(here.centers, there.centers)


# -- what leaves --------------------------------------------------------------------------------------------------

NEIGHBOURS = [ROWS, np.vstack([ROWS, np.full((1, 6), 1e4)]), np.vstack([ROWS, np.zeros((1, 6))]), ROWS[1:]]


@pytest.mark.parametrize("mechanism", DELTAS)
@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform", "none"])
def test_certificates_of_neighbouring_data_are_identical_where_all_facts_are_stated(
    mechanism: str, sampling: str
) -> None:
    fits = [private_kmeans(rows, stated(mechanism, sampling=sampling)) for rows in NEIGHBOURS]
    assert len({replace(fit.certificate, values_sha256=None).to_json() for fit in fits}) == 1
    assert len({fit.plan.explain() for fit in fits}) == 1
    assert fits[0].certificate.secure_randomness


def shape_of(value: object) -> object:
    """A certificate without its numbers: what may not differ between neighbours even where a survey was paid for."""
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items() if key not in ("rounds", "profile")}
    if isinstance(value, list):
        return [shape_of(item) for item in value]
    return "number" if isinstance(value, float) else value


@pytest.mark.parametrize("mechanism", DELTAS)
def test_with_a_survey_certificates_differ_only_in_what_it_released(mechanism: str) -> None:
    fits = [private_kmeans(rows, settings_of(mechanism, sampling="none")) for rows in NEIGHBOURS]
    loaded = [json.loads(fit.certificate.to_json()) for fit in fits]
    for certificate, fit in zip(loaded, fits, strict=True):
        assert fit.survey is not None
        assert certificate["ball"] == fit.survey.describe()["ball"]
        assert certificate["rule"] == {"rule": "uniform", "probability": 1.0}
        # Everything else follows from the released survey: planning on it again gives the same certificate.
        again = pais.plan_kmeans(
            n_clusters=5,
            n_features=6,
            epsilon=1.0 - 0.06,
            delta=DELTAS[mechanism],
            ball=fit.survey.ball,
            norms=fit.survey.norms,
            sampling="none",
            mechanism=mechanism,  # type: ignore[arg-type]
        )
        assert certificate["mechanism"] == json.loads(json.dumps(again.mechanism.describe()))
    fixed = ("epsilon", "delta", "parts", "neighbours", "note", "secure_randomness", "version")
    assert len({json.dumps([certificate[key] for key in fixed]) for certificate in loaded}) == 1
    assert len({json.dumps(shape_of(certificate["ball"])) for certificate in loaded}) == 1


def certificates() -> list[Any]:
    rows, small = ROWS[:4000], {"norms": None, "radius": None, "center": None}
    cases = [
        stated(mechanism, sampling=sampling, **facts)
        for mechanism in DELTAS
        for sampling in ("constrained", "coreset", "uniform", "none")
        for facts in ({}, small)
    ]
    cases += [stated(mechanism, algorithm="paper") for mechanism in ("l2", "laplace")]
    cases += [stated(center=None), stated(sampling=pais.FunctionRule(function=lambda z: 0.5 + 0 * z, radius=RADIUS))]
    return [
        pytest.param(rows, case, seed, id=f"{number}-{seed}") for number, case in enumerate(cases) for seed in (None, 0)
    ]


@pytest.mark.parametrize(("rows", "case", "seed"), certificates())
def test_every_certificate_follows_the_published_schema(
    rows: np.ndarray, case: KMeansSettings, seed: int | None
) -> None:
    certificate = json.loads(private_kmeans(rows, case, random_state=seed).certificate.to_json())
    jsonschema.Draft202012Validator(SCHEMA).validate(certificate)


def test_certificates_of_other_mechanisms_follow_the_published_schema() -> None:
    count = pais.WeightedCount(noise=laplace_noise(50.0))
    total = pais.WeightedSum(noise=LpNoise(scale=50.0, p=np.inf))
    mean = pais.WeightedMean(count_noise=laplace_noise(50.0), sum_noise=LpNoise(scale=50.0, p=np.inf))
    ball, rule = pais.Ball(radius=1.0, order=np.inf), pais.UniformRule(rate=0.5)
    for mechanism in (count, total, mean, pais.Joint(parts=(count, total))):
        released = pais.release(mechanism, pais.sample(ROWS, ball=ball, rule=rule))
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(released.certificate.to_json()))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 30_000},
        {"epsilon": -1.0},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"parts": []},
        {"note": "secure randomness"},  # of a seeded run
        {"neighbours": "one person"},
        {"mechanism": {"mechanism": "k-means"}},
        {"ball": {"radius": 0.0, "order": 2.0, "center": None}},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_no_certificate(change: dict[str, object]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    good = json.loads(private_kmeans(ROWS[:500], stated(), random_state=0).certificate.to_json())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**good, **change})
    for name in good:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({key: good[key] for key in good if key != name})


@pytest.mark.parametrize("mechanism", DELTAS)
def test_a_plan_explains_its_stages_and_shows_no_row(mechanism: str) -> None:
    canary = 7.36194825172
    rows = ROWS.copy()
    rows[:, 2] = canary
    for case in (stated(mechanism), settings_of(mechanism)):
        fit = private_kmeans(rows, case, random_state=0)
        text = fit.plan.explain()
        for stage, word in [
            ("rows", "secret"),
            ("ball", "secret"),
            ("rule", "public"),
            ("sample", "secret"),
            ("mechanism", "protected"),
            ("release", "may leave"),
        ]:
            assert re.search(rf"^\d\. {stage} +{word} ", text, re.MULTILINE), stage
        assert len(re.findall(r"^ +round \d+", text, re.MULTILINE)) == len(fit.plan.mechanism.rounds)  # type: ignore[attr-defined]
        assert ("survey" in text) == (fit.survey is not None)
        for shown in (text, fit.certificate.to_json(), repr(fit.plan), repr(fit.certificate), repr(fit)):
            assert "7.36194" not in shown
            assert "30000" not in shown.replace(",", "") or fit.survey is None


def test_a_seed_is_said_wherever_it_was_used() -> None:
    for case in (stated(), settings_of()):
        fit = private_kmeans(ROWS, case, random_state=7)
        assert fit.certificate.note == "seeded, not private"
        assert fit.survey is None or not fit.survey.secure_randomness


@pytest.mark.parametrize("rows", [ROWS[:300].tolist(), ROWS[:300].astype(np.float32), np.asfortranarray(ROWS[:300])])
@pytest.mark.parametrize("make", [settings_of, stated], ids=["surveyed", "stated"])
def test_anything_that_reads_as_a_table_can_be_passed(rows: Any, make: Any) -> None:
    assert private_kmeans(rows, make(), random_state=0).value.centers.shape == (5, 6)


NO_TABLES: dict[str, Any] = {
    "without columns": ROWS[:, :0],
    "one column without a second axis": ROWS[:, 0],
    "text": np.array([["a"] * 6] * 3),
    "nothing": None,
    "a number": 3.0,
}


@pytest.mark.parametrize("kind", NO_TABLES)
@pytest.mark.parametrize(
    "facts",
    [{}, {"radius": None, "norms": None}, {"norms": None, "center": None}],
    ids=["stated", "center stated", "radius stated"],
)
def test_rows_that_are_no_table_are_refused(kind: str, facts: dict[str, Any]) -> None:
    with pytest.raises(pais.DataError):
        private_kmeans(NO_TABLES[kind], stated(**facts))


@pytest.mark.parametrize("facts", [{}, {"radius": None, "norms": None}], ids=["stated", "center stated"])
def test_rows_of_another_width_than_the_center_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(pais.DataError, match="column"):
        private_kmeans(ROWS[:, :2], stated(**facts))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_table_without_a_finite_row_is_released_as_an_empty_one_is(value: float) -> None:
    rows = ROWS[:2000].copy()
    rows[:, 4] = value
    for case in (stated(), settings_of(), stated(sampling="uniform", sample_size=100.0)):
        none, bad = (private_kmeans(one, case, random_state=1) for one in (ROWS[:0], rows))
        assert np.all(np.isfinite(bad.value.centers))
        assert np.array_equal(none.value.centers, bad.value.centers)
    with pytest.raises(pais.DataError, match=r"column\(s\) 4"):
        private_kmeans(pais.source(rows, missing="error"), stated())


# -- rounds: what a record can change -----------------------------------------------------------------------------

RADIUS_SMALL = 2.0


def sample_of(rows: np.ndarray, weights: np.ndarray, rounds: tuple[Round, ...], order: float = 2.0) -> LloydSample:
    return LloydSample(WeightedRows(rows=rows, weights=weights), pais.Ball(radius=RADIUS_SMALL, order=order), rounds)


def weighted_rows(n: int = 400, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows *= (RADIUS_SMALL * rng.random(n) ** 0.3 / np.linalg.norm(rows, axis=1))[:, None] * (1.0 - 1e-12)
    return rows, 1.0 + 30.0 * rng.random(n)


def square(values: np.ndarray) -> Fraction:
    return sum((Fraction(value) ** 2 for value in values.tolist()), Fraction(0))


LAWS: list[tuple[NoiseLaw, NoiseLaw]] = [
    (GaussianNoise(scale=3.0), GaussianNoise(scale=0.7)),
    (laplace_noise(3.0), LpNoise(scale=0.7, p=2.0)),
    (laplace_noise(3.0), laplace_noise(0.7)),
]


@pytest.mark.parametrize(("count_noise", "sum_noise"), LAWS)
@pytest.mark.parametrize("alone", [False, True])
def test_a_record_changes_one_count_by_its_weight_and_one_sum_by_its_weighted_norm(
    count_noise: NoiseLaw, sum_noise: NoiseLaw, alone: bool
) -> None:
    rounds = (Round(count_noise=count_noise, sum_noise=sum_noise),)
    rows, weights = weighted_rows()
    rng = np.random.default_rng(1)
    for trial in range(30):
        centers = rng.normal(size=(7, 5)) * 0.3
        if alone:
            centers[0] = rows[trial]  # and every other row is at another center
        others = np.arange(400) != trial
        if alone:
            others &= ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1) != 0
        with_it = others.copy()
        with_it[trial] = True
        there, here = (
            sample_of(rows[kept], weights[kept], rounds, sum_noise.order).summarise(
                centers, rounds[0], bit_source(trial)
            )
            for kept in (with_it, others)
        )
        counts, sums = there.noisy_counts - here.noisy_counts, there.noisy_sums - here.noisy_sums
        weight = Fraction(float(weights[trial]))
        assert np.count_nonzero(counts) == 1
        changed = int(np.flatnonzero(counts)[0])
        if alone:
            assert changed == 0
        assert np.all(np.delete(sums, changed, axis=0) == 0.0)
        assert 0 < Fraction(float(counts[changed])) <= weight
        if sum_noise.order == 1.0:
            change = sum((abs(Fraction(value)) for value in sums[changed].tolist()), Fraction(0))
            bound = weight * sum((abs(Fraction(value)) for value in rows[trial].tolist()), Fraction(0))
            assert change <= bound * (1 + ULP)
        else:
            assert square(sums[changed]) <= weight**2 * square(rows[trial]) * (1 + ULP) ** 2
        # And it does arrive: truncation to the lattice is far below the noise.
        np.testing.assert_allclose(sums[changed], weights[trial] * rows[trial], atol=1e-5)


def test_the_cluster_of_a_row_depends_on_no_other_row() -> None:
    rounds = (Round(count_noise=GaussianNoise(scale=1e-6), sum_noise=GaussianNoise(scale=1e-6)),)
    rows, weights = weighted_rows(n=5000)
    centers = np.random.default_rng(2).normal(size=(9, 5)) * 0.5
    together = sample_of(rows, weights, rounds)._assign(centers)
    alone = [int(sample_of(rows[[i]], weights[[i]], rounds)._assign(centers)[0]) for i in range(0, 5000, 50)]
    np.testing.assert_array_equal(together[::50], alone)


def test_rounds_with_negligible_noise_are_weighted_counts_and_sums() -> None:
    rounds = (Round(count_noise=GaussianNoise(scale=1e-9), sum_noise=GaussianNoise(scale=1e-9)),)
    rows, weights = weighted_rows()
    centers = np.random.default_rng(2).normal(size=(9, 5)) * 0.5
    summary: Summary = sample_of(rows, weights, rounds).summarise(centers, rounds[0], bit_source(0))
    label = ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    for j in range(9):
        mine = label == j
        assert summary.noisy_counts[j] == pytest.approx(weights[mine].sum(), abs=1e-7)
        np.testing.assert_allclose(summary.noisy_sums[j], weights[mine] @ rows[mine], atol=1e-7)


def second_moment(rows: np.ndarray, weights: np.ndarray, scale: float, largest_weight: float) -> np.ndarray:
    rounds = (Round(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),)
    made = sample_of(rows, weights, rounds)
    return made.second_moment(GaussianNoise(scale=scale), RADIUS_SMALL, largest_weight, bit_source(5))


def test_a_second_moment_with_negligible_noise_is_that_of_the_weighted_rows() -> None:
    rows, weights = weighted_rows()
    found = second_moment(rows, weights, 1e-9, 31.0)
    expected = (rows * weights[:, None]).T @ rows
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.trace(expected))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("largest_weight", [1.0, 3.7, 31.0, 1e6])
def test_a_record_adds_no_more_than_its_weighted_square_norm_to_the_second_moment(largest_weight: float) -> None:
    rows, weights = weighted_rows()
    weights = np.minimum(weights, largest_weight)
    rng = np.random.default_rng(3)
    rows[:50] = RADIUS_SMALL * np.eye(5)[rng.integers(0, 5, 50)]
    weights[:25] = largest_weight
    base = second_moment(rows[100:], weights[100:], 5.0, largest_weight)
    step = (RADIUS_SMALL * np.sqrt(largest_weight) / 2.0**18) ** 2
    for trial in range(60):
        kept = np.append(np.arange(100, 400), trial)
        # The same bits make the same noise: what is left is the record's own matrix, in whole steps.
        steps = np.rint((second_moment(rows[kept], weights[kept], 5.0, largest_weight) - base) / step)
        frobenius = sum((Fraction(value) ** 2 for value in steps.ravel().tolist()), Fraction(0)) * Fraction(step) ** 2
        bound = Fraction(float(weights[trial])) * square(rows[trial])
        assert frobenius <= bound**2
        # A matrix y y' of whole numbers: its trace is |y|^2, and so is its Frobenius norm.
        whole = [int(value) for value in steps.ravel().tolist()]
        assert sum(whole[::6]) ** 2 == sum(value**2 for value in whole)


def test_the_noise_of_the_second_moment_is_round_in_the_frobenius_norm() -> None:
    d = 40
    rounds = (Round(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),)
    made = sample_of(np.zeros((1, d)), np.ones(1), rounds)
    drawn = np.array(
        [made.second_moment(GaussianNoise(scale=5.0), RADIUS_SMALL, 1.0, bit_source(seed)) for seed in range(50)]
    )
    upper = drawn[(slice(None), *np.triu_indices(d, 1))]
    assert drawn[:, np.arange(d), np.arange(d)].std() == pytest.approx(5.0, rel=0.06)
    assert upper.std() == pytest.approx(5.0 / np.sqrt(2.0), rel=0.02)


# -- post-processing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (60, 60)])
def test_denoising_takes_pure_noise_to_almost_nothing(shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).standard_normal(shape)
    last = shape[0] // 2
    shrunk, left = refine.denoise(noise, np.ones(shape[0]), last)
    assert shrunk.shape == (last, shape[1])
    assert np.square(shrunk).sum() < 0.02 * np.square(noise[-last:]).sum()
    assert np.all(left >= 0.0)
    assert left.mean() < 0.02 * shape[1]


@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (60, 60)])
def test_denoising_keeps_a_strong_signal_and_removes_the_noise_across_it(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    signal = 50.0 * rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    last = shape[0] // 2
    shrunk, left = refine.denoise(signal + rng.standard_normal(shape), np.ones(shape[0]), last)
    error = np.square(shrunk - signal[-last:]).sum() / last
    assert error < 0.2 * shape[1]
    # The error it states: noise along the three directions that are kept.
    np.testing.assert_allclose(left, 3.0, rtol=0.05)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 40])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_merging_gives_k_finite_centers_among_the_cells(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 3))
    merged = refine.merge(points, rng.random(n) + 1e-9, k, rng)
    assert merged.shape == (k, 3)
    assert np.all(np.isfinite(merged))
    assert np.linalg.norm(merged, axis=1).max() < np.linalg.norm(points, axis=1).max() + 0.1


def test_merging_finds_groups_of_cells_and_weighs_them() -> None:
    rng = np.random.default_rng(0)
    middles = 10.0 * rng.normal(size=(4, 3))
    points = np.repeat(middles, 6, axis=0) + 0.01 * rng.normal(size=(24, 3))
    mass = rng.random(24) + 0.1
    merged = refine.merge(points, mass, 4, rng)
    expected = [np.average(points[6 * j : 6 * j + 6], axis=0, weights=mass[6 * j : 6 * j + 6]) for j in range(4)]
    np.testing.assert_allclose(merged[refine.nearest(np.array(expected), merged)], expected, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.7])
def test_merging_equal_cells_is_no_crash(value: float) -> None:
    merged = refine.merge(np.full((9, 3), value), np.ones(9), 4, np.random.default_rng(0))
    np.testing.assert_allclose(merged, value)


@pytest.mark.parametrize("n_trusted", [1, 2, 9])
def test_idle_centers_are_put_beside_busy_ones_within_the_ball(n_trusted: int) -> None:
    rng = np.random.default_rng(0)
    centers = refine.directions(10, 4, 4.0, rng) * 2.0  # on the sphere of radius 4
    trusted = np.arange(10) < n_trusted
    counts = np.where(trusted, 100.0, -3.0)
    for _ in range(20):
        moved = refine.reseed(centers, counts, trusted, np.eye(4), 4.0, rng)
        assert np.all(np.linalg.norm(moved, axis=1) <= 4.0 * (1 + 1e-12))
        np.testing.assert_array_equal(moved[trusted], centers[trusted])
        gap = np.linalg.norm(moved[~trusted][:, None] - centers[trusted][None], axis=2).min(axis=1)
        assert np.all(gap < 4.0)
        assert np.all(gap > 0.0)


def test_reseeding_equal_centers_with_no_spread_is_no_crash() -> None:
    moved = refine.reseed(
        np.zeros((4, 3)),
        np.array([-1.0, -2.0, 0.0, 0.0]),
        np.array([True, True, False, False]),
        np.zeros((1, 3)),
        1.0,
        np.random.default_rng(0),
    )
    np.testing.assert_array_equal(moved, np.zeros((4, 3)))


@pytest.mark.parametrize("moment", [np.zeros((4, 4)), -np.eye(4), np.diag([1e6, 1.0, 0.0, 0.0])])
def test_a_start_is_made_of_any_second_moment_and_stays_in_the_ball(moment: np.ndarray) -> None:
    spread = refine.spread_of_moment(moment, 1.0, 1000.0, 2.0)
    start = refine.start_from_spread(spread, 12, 3.0, np.random.default_rng(0))
    assert start.shape == (12, 4)
    assert np.all(np.linalg.norm(start, axis=1) <= 3.0 * (1 + 1e-12))


def test_the_spread_of_a_second_moment_is_its_covariance_where_noise_is_negligible() -> None:
    rng = np.random.default_rng(0)
    covariance = np.cov(rng.normal(size=(4, 100)))
    spread = refine.spread_of_moment(1000.0 * covariance, 1e-9, 1000.0, 1.0)
    np.testing.assert_allclose(spread.T @ spread, covariance, atol=1e-9)


def test_centers_beyond_the_radius_are_brought_back_to_it_and_others_left() -> None:
    centers = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(refine.into_ball(centers, 1.0), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


# -- fits that say little -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", DELTAS)
@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform"])
@pytest.mark.filterwarnings("ignore:delta=.* is too large:UserWarning")
def test_an_empty_sample_gives_centers_in_the_ball(mechanism: str, sampling: str) -> None:
    # Stated to hold a million rows, of which a few are kept; the data hold one.
    order, radius = (1.0, 20.0) if mechanism == "laplace" else (2.0, RADIUS)
    norms = NormDistribution.from_quantiles(lambda level: radius * level**0.5, n_rows=1e6, radius=radius)
    case = stated(mechanism, radius=radius, norms=norms, sampling=sampling, sample_size=2000.0)
    fit: KMeansFit = private_kmeans(np.zeros((1, 6)), case, random_state=0)
    assert fit.plan.ball.order == order
    for seed in range(5):
        value = pais.run(fit.plan, np.zeros((1, 6)), random_state=seed).value
        assert isinstance(value, pais.KMeansValue)
        assert np.all(np.linalg.norm(value.centers, axis=1) <= radius * (1 + 1e-12))
