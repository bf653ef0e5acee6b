"""What a k-means releases and what follows: errors, cells, other numbers of clusters, readability and concerns."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

import pais
from pais._base.cards import number
from pais.accounting.certificate import digest
from pais.errors import ArgumentError
from pais.kmeans.result import nearest, readability_concern, readability_of, structure_concern
from pais.show.page import report_html
from tests.support.kmeans_cases import ROWS, stated

CASES = {
    "gaussian": stated(),
    "sectors": stated("l2", epsilon=3.0),
    "laplace": stated("laplace", epsilon=3.0),
    "paper": stated("l2", epsilon=3.0, algorithm="paper"),
}


@pytest.fixture(scope="module", params=CASES)
def fits(request: pytest.FixtureRequest) -> list[pais.KMeansFit]:
    return [pais.fit(ROWS, CASES[request.param], random_state=seed) for seed in range(3)]


def cell_means(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    label = nearest(rows, centers)
    size = np.maximum(np.bincount(label, minlength=len(centers)), 1)
    columns = [np.bincount(label, column, minlength=len(centers)) for column in rows.T]
    return np.asarray(np.stack(columns, axis=1) / size[:, None])


def test_standard_errors_are_those_of_the_centers(fits: list[pais.KMeansFit]) -> None:
    scores = []
    for fit in fits:
        value = fit.value
        assert value.standard_errors.shape == value.centers.shape
        assert np.all(value.standard_errors > 0.0)
        scores.append(np.abs(value.centers - cell_means(ROWS, value.centers)) / value.standard_errors)
    score = np.concatenate(scores)
    # A fit in a bad local optimum has an empty cluster, which no score describes.
    assert np.mean(score < 1.0) > 0.55
    assert np.mean(score < 2.0) > 0.85
    # They are not far too large either.
    assert np.mean(score < 0.1) < 0.4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:epsilon=1000 is a weak guarantee")
def test_standard_errors_include_the_error_of_a_small_sample() -> None:
    """Without noise to speak of, the sample alone moves the centers."""
    rows = np.random.default_rng(0).standard_normal((100_000, 3)) + 20.0 * np.eye(4, 3)[np.arange(100_000) % 4]
    norms = pais.NormDistribution.from_private_norms(np.linalg.norm(rows, axis=1), radius=30.0)
    settings = pais.KMeansSettings(n_clusters=4, epsilon=1000.0, radius=30.0, norms=norms, sample_size=1000)
    scores = []
    for seed in range(10):
        value = pais.fit(rows, settings, random_state=seed).value
        scores.append((value.centers - cell_means(rows, value.centers)) / value.standard_errors)
    assert 0.7 < np.std(scores) < 1.2


def test_cells_are_in_the_coordinates_of_the_rows_and_above_the_noise() -> None:
    far = np.full(6, 40.0)
    settings = replace(stated(), center=tuple(far.tolist()))
    here, there = (
        pais.fit(rows, one, random_state=0).value for rows, one in ((ROWS, stated()), (ROWS + far, settings))
    )
    assert here.cells is not None
    assert there.cells is not None
    assert len(here.cells) >= 5
    np.testing.assert_allclose(there.cells.centers, here.cells.centers + far, atol=1e-6)
    assert here.cells.noisy_sizes.sum() == pytest.approx(len(ROWS), rel=0.05)
    for name in ("noisy_sizes", "mean_distances", "standard_errors", "errors"):
        assert getattr(here.cells, name).shape == (len(here.cells),)
        assert np.all(getattr(here.cells, name) > 0.0)


def test_certificate_matches_the_value_a_pickle_and_a_file_of_it(fits: list[pais.KMeansFit]) -> None:
    fit = fits[0]
    assert fit.certificate.matches(fit)
    assert fit.certificate.matches(pickle.loads(pickle.dumps(fit.value)))
    read = pais.KMeansValue(centers=fit.value.centers, noisy_counts=fit.value.noisy_counts)
    assert fit.certificate.matches(read)
    assert digest(read) == digest(fit.value)
    assert not fit.certificate.matches(replace(read, centers=read.centers + 1e-9))


def test_nothing_is_known_about_centers_that_noise_drowned() -> None:
    settings = stated(epsilon=0.01)
    value = pais.fit(ROWS[:200], settings, random_state=0).value
    assert value.effective_centers == 1
    assert np.all(value.standard_errors == settings.radius)


@pytest.fixture(scope="module")
def fit() -> pais.KMeansFit:
    return pais.fit(ROWS, stated(n_clusters=8), random_state=0)


def blobs(k: int, separation: float, d: int = 4, n: int = 30_000, seed: int = 0) -> np.ndarray:
    """Gaussian clusters whose nearest centers are `separation` standard deviations apart."""
    rng = np.random.default_rng(seed)
    tries = rng.normal(size=(100, k, d))
    gaps = np.linalg.norm(tries[:, :, None] - tries[:, None], axis=3) + 1e9 * np.eye(k)
    nearest = gaps.min(axis=(1, 2))
    best = int(np.argmax(nearest / np.linalg.norm(tries, axis=2).mean(axis=1)))
    centers = tries[best] * (separation / nearest[best])
    return centers[rng.integers(0, k, n)] + rng.normal(size=(n, d))


@pytest.mark.parametrize(("mechanism", "most"), [("gaussian", 0.25), ("laplace", 0.4)])
def test_estimated_costs_are_near_the_true_costs(mechanism: str, most: float) -> None:
    fit = pais.fit(ROWS, stated(mechanism, epsilon=3.0, n_clusters=8), random_state=0)
    assert fit.elbow is not None
    costs = {point.n_clusters: point.cost for point in fit.elbow.points}
    assert list(costs) == list(range(1, len(fit.value.cells) + 1))
    for k in (1, 2, 3, 4, 6):
        true = pais.cost(ROWS, fit.with_clusters(k).value.centers)
        assert costs[k] == pytest.approx(true, rel=most)


def test_other_numbers_of_clusters_keep_the_certificate(fit: pais.KMeansFit) -> None:
    for k in (1, 3, len(fit.value.cells)):
        other = fit.with_clusters(k)
        assert other.value.centers.shape == (k, 6)
        assert other.value.noisy_counts.sum() == pytest.approx(len(ROWS), rel=0.05)
        assert np.all(other.value.standard_errors > 0.0)
        assert other.certificate is fit.certificate
        assert fit.certificate.matches(other)
        assert other.value.released is fit.value
        np.testing.assert_array_equal(other.with_clusters(8).value.centers, fit.value.centers)
    assert fit.with_clusters(8).value is fit.value
    # A changed center matches only as long as the released value is beside it.
    changed = replace(fit.with_clusters(3).value, released=None)
    assert not fit.certificate.matches(changed)


def test_merged_centers_are_the_same_each_time_and_move_with_the_data(fit: pais.KMeansFit) -> None:
    np.testing.assert_array_equal(fit.with_clusters(3).value.centers, fit.with_clusters(3).value.centers)
    far = np.full(6, 30.0)
    there = pais.fit(ROWS + far, stated(n_clusters=8, center=tuple(far.tolist())), random_state=0)
    # The last bits of the moved rows differ, which may change the order of the centers.
    moved, here = (np.array(sorted(each.with_clusters(5).value.centers.tolist())) for each in (there, fit))
    np.testing.assert_allclose(moved, here + far, atol=1e-4)


def test_impossible_numbers_of_clusters_are_refused(fit: pais.KMeansFit) -> None:
    for k in (0, -1, 2.5, "3"):
        with pytest.raises(ArgumentError, match="n_clusters"):
            fit.with_clusters(k)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="released cells"):
        fit.with_clusters(len(fit.value.cells) + 1)
    paper = pais.fit(ROWS, stated("l2", epsilon=3.0, algorithm="paper"), random_state=0)
    assert paper.elbow is None
    with pytest.raises(ArgumentError, match="no cells"):
        paper.with_clusters(2)


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 8])
def test_suggested_number_is_that_of_separated_clusters(k: int) -> None:
    settings = pais.KMeansSettings(n_clusters=12, epsilon=1.0)
    fit = pais.fit(blobs(k, separation=6.0), settings, random_state=0)
    assert fit.elbow is not None
    assert fit.elbow.suggested == k
    assert fit.elbow.stands_out


@pytest.mark.slow
def test_rows_without_clusters_do_not_stand_out() -> None:
    rows = np.random.default_rng(0).normal(size=(30_000, 3))
    fit = pais.fit(rows, pais.KMeansSettings(n_clusters=12, epsilon=1.0), random_state=0)
    assert fit.elbow is not None
    assert not fit.elbow.stands_out
    assert 1 < fit.elbow.suggested <= 12


@pytest.mark.parametrize("mechanism", ["gaussian", "l2"])
def test_auto_chooses_the_number_within_the_price(mechanism: str) -> None:
    settings = stated(mechanism, epsilon=3.0, n_clusters="auto", max_clusters=10)
    fit = pais.fit(ROWS, settings, random_state=0)
    assert fit.value.centers.shape == (5, 6)
    assert fit.certificate.epsilon <= 3.0
    assert fit.plan.mechanism.n_clusters == 10
    assert "up to 10 centers" in fit.plan.explain()
    assert fit.certificate.matches(fit)
    assert fit.quality is not None
    assert pais.Plan.from_dict(fit.plan.to_dict()) == fit.plan


@pytest.mark.slow
def test_auto_of_overlapping_clusters_is_near_their_number() -> None:
    rows = blobs(5, separation=3.5, seed=5)
    fit = pais.fit(rows, pais.KMeansSettings(n_clusters="auto", epsilon=1.0), random_state=0)
    assert abs(len(fit.value.centers) - 5) <= 1


def test_auto_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(ArgumentError, match="n_clusters"):
        stated(n_clusters="many").require()
    with pytest.raises(ArgumentError, match="max_clusters"):
        stated(n_clusters="auto", max_clusters=0).require()
    with pytest.raises(ArgumentError, match="'paper'"):
        stated("l2", n_clusters="auto", algorithm="paper").require()


@pytest.mark.slow
def test_auto_can_be_audited() -> None:
    norms = pais.NormDistribution.from_histogram([0.0, 1.0], [500.0])
    plan = pais.plan_kmeans(
        n_clusters="auto", max_clusters=4, n_features=2, epsilon=1.0, ball=pais.Ball(radius=1.0), norms=norms
    )
    report = pais.audit(plan, method="runs", runs=20, random_state=0)
    assert report.lower_bound <= plan.price.epsilon


CENTERS = np.array([[0.0, 0.0, 5.0], [10.0, 0.5, 5.1], [20.0, -0.5, 4.9]])


def made(centers: np.ndarray = CENTERS, error: float = 1.0, count: float = 1000.0) -> pais.KMeansValue:
    errors = np.full(centers.shape, error)
    return pais.KMeansValue(centers=centers, noisy_counts=np.full(len(centers), count), standard_errors=errors)


def of(value: pais.KMeansValue) -> pais.Readability:
    readable = readability_of(value, count_noise=10.0, radius=100.0)
    assert readable is not None
    return readable


def test_a_feature_is_drowned_if_no_two_centers_differ_by_more_than_the_noise() -> None:
    assert of(made()).features == (True, False, False)
    assert of(made()).features == (True, False, False)
    assert of(made(error=0.1)).features == (True, True, False)
    assert of(made(error=100.0)).features == (False, False, False)


def test_noise_alone_is_rarely_readable_however_many_centers_there_are() -> None:
    rng = np.random.default_rng(0)
    for k in (2, 5, 25):
        readable = [of(made(rng.normal(size=(k, 4)))).features for _ in range(100)]
        assert np.mean(readable) < 0.08


def test_a_center_is_readable_if_it_differs_from_all_others_and_its_count_is_above_the_noise() -> None:
    assert of(made()).centers == (True, True, True)
    twins = made(CENTERS[[0, 0, 2]])
    assert of(twins).centers == (False, False, True)
    assert of(replace(twins, centers=CENTERS, noisy_counts=np.array([15.0, 1000.0, 1000.0]))).centers[0] is False


def test_cells_differ_from_the_overall_mean_by_more_than_two_standard_errors() -> None:
    np.testing.assert_array_equal(of(made()).cells, [[True, False, False], [False] * 3, [True, False, False]])


def test_verdict_is_one_sentence() -> None:
    assert of(made()).verdict == "all 3 segments and 1 of 3 features are readable above the noise"
    assert of(made(error=100.0)).verdict == "none of 3 segments and none of 3 features are readable above the noise"
    assert of(made(CENTERS[:1, :1])).verdict == "the only segment and the only feature are readable above the noise"


def test_a_value_from_a_file_has_no_standard_errors_and_no_readability() -> None:
    assert readability_of(replace(made(), standard_errors=None), count_noise=1.0, radius=1.0) is None


def test_concern_names_drowned_features_and_what_to_state() -> None:
    readable = of(made())
    text = readability_concern(readable, ("income", "age", "visits")) or ""
    assert text.startswith("noise drowns 2 of 3 features: age, visits. ")
    assert "columns={'age': (low, high), ...}" in text
    assert readability_concern(readable, None) is None
    assert readability_concern(of(made(CENTERS[:, :1])), ("income",)) is None
    assert "no two centers differ" in (readability_concern(of(made(error=50.0)), None) or "")
    many = of(made(np.hstack([CENTERS[:, :1], np.zeros((3, 20))])))
    assert "f8 and 12 more" in (readability_concern(many, tuple(f"f{i}" for i in range(21))) or "")


def table(n: int = 20_000) -> tuple[np.ndarray, tuple[str, ...]]:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    income = np.array([20_000.0, 50_000.0, 90_000.0])[group] + 3_000.0 * rng.normal(size=n)
    age = np.array([25.0, 45.0, 65.0])[group] + 3.0 * rng.normal(size=n)
    return np.column_stack([income, age, group == 1]), ("income", "age", "premium")


def test_fit_of_a_table_with_columns_of_very_different_size_warns_and_names_them() -> None:
    pandas = pytest.importorskip("pandas")
    rows, names = table()
    model = pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0)
    with pytest.warns(pais.QualityWarning, match="noise drowns 2 of 3 features: age, premium") as issued:
        model.fit(pandas.DataFrame(rows, columns=names))
    assert issued[0].filename == __file__
    assert model.fit_.readability.features == (True, False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        model.fit(pandas.DataFrame(rows / [100_000.0, 100.0, 1.0], columns=names))
        assert all(model.fit_.readability.features)
        # An array has no names to state anything about.
        model.fit(rows)


def test_a_good_fit_is_readable_and_a_hopeless_one_says_so() -> None:
    fit = pais.fit(ROWS, stated(), random_state=0)
    assert fit.readability is not None
    assert fit.readability.verdict == "all 5 segments and all 6 features are readable above the noise"
    assert fit.concern is None
    one = pais.fit(ROWS[:200], stated(epsilon=0.01, n_clusters=1), random_state=0)
    assert one.readability is not None
    assert not any(one.readability.features)
    assert "the center is a guess" in (one.concern or "")


def test_fits_of_other_mechanisms_have_no_verdict() -> None:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(4.0))
    ball, rule = pais.Ball(radius=1.0, order=1), pais.UniformRule(rate=0.5)
    plan = pais.Plan(ball=ball, rule=rule, mechanism=mechanism, epsilon=1.0)
    fit = pais.KMeansFit.of(plan, pais.run(plan, np.ones((10, 2)), random_state=0))
    assert not isinstance(fit, pais.KMeansFit)
    assert fit.verdict is None
    assert fit.concern is None


CONCERN = "noise hides the clusters: only 2 of 5 centers are above the noise"


def repeated(value: pais.KMeansValue, distinct: int) -> pais.KMeansValue:
    """The same value with fewer distinct centers."""
    index = np.minimum(np.arange(len(value.centers)), distinct - 1)
    return replace(value, centers=value.centers[index])


@pytest.fixture(scope="module")
def clear_fit() -> pais.KMeansFit:
    return pais.fit(ROWS, stated(), random_state=0)


def test_concern_says_how_many_centers_are_above_the_noise_and_what_to_do() -> None:
    assert structure_concern(5, 5) is None
    assert "all 5 centers are the same noisy mean" in (structure_concern(5, 1) or "")
    text = structure_concern(5, 2) or ""
    assert text.startswith(CONCERN)
    for advice in ("Raise epsilon", "fewer clusters", "fewer columns", "more rows"):
        assert advice in text


def test_a_clear_fit_has_all_its_centers_and_no_concern(clear_fit: pais.KMeansFit) -> None:
    assert clear_fit.value.effective_centers == 5
    assert clear_fit.concern is None
    assert "noise hides" not in report_html(clear_fit)


def test_a_drowned_fit_has_a_concern_and_its_report_shows_it(clear_fit: pais.KMeansFit) -> None:
    drowned = replace(clear_fit, value=repeated(clear_fit.value, 2))
    assert drowned.value.effective_centers == 2
    assert (drowned.concern or "").startswith(CONCERN)
    assert "Noise hides the clusters: only 2 of 5 centers" in report_html(drowned)


def test_a_fit_of_too_few_rows_is_one_repeated_center_and_no_good_quality() -> None:
    model = pais.DPKMeans(n_clusters=5, epsilon=0.05, random_state=0)
    with pytest.warns(pais.QualityWarning, match="all 5 centers are the same noisy mean"):
        model.fit(ROWS[:300])
    assert model.effective_centers_ == 1
    assert model.quality_.ratio > 2.0


def test_plan_fit_report_and_model_show_the_predicted_quality(clear_fit: pais.KMeansFit) -> None:
    quality = clear_fit.quality
    assert quality is not None
    assert 1.0 < quality.ratio < 1.2
    assert f"7. quality    public      predicted: {clear_fit.plan.quality}" in clear_fit.plan.explain()
    assert clear_fit.plan.to_dict()["predicted_quality"] == clear_fit.plan.quality.to_dict()  # type: ignore[union-attr]
    page = report_html(clear_fit)
    assert "Predicted quality" in page
    assert f"{number(quality.ratio, 3)} \u00d7" in page
    model = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0).fit(ROWS)
    assert model.quality_ == model.fit_.quality
    # The paper's algorithm has no prediction.
    paper = pais.fit(ROWS, stated("l2", algorithm="paper"), random_state=0)
    assert paper.quality is None
    assert "Predicted quality" not in report_html(paper)
    assert "7. quality" not in paper.plan.explain()


def test_the_estimator_keeps_its_result_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = pais.KMeans.measure
    monkeypatch.setattr(pais.KMeans, "measure", lambda *arguments: repeated(measure(*arguments), 2))
    model = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0)
    with pytest.warns(pais.QualityWarning, match=CONCERN) as issued:
        model.fit(ROWS)
    assert issued[0].filename == __file__
    assert model.effective_centers_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        again = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0)
        with pytest.raises(pais.QualityWarning):
            again.fit(ROWS)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


def test_effective_centers_can_be_read_from_the_released_centers(clear_fit: pais.KMeansFit) -> None:
    value = repeated(clear_fit.value, 3)
    copy = pais.KMeansValue(centers=value.centers.copy(), noisy_counts=value.noisy_counts)
    assert copy.effective_centers == 3
    assert digest(copy) == digest(value)
