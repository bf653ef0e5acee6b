"""The Laplace-sum study in miniature: its files, its sizes, its losses and its errors."""

from __future__ import annotations

import csv
from pathlib import Path

import mpmath
import numpy as np
import pytest

from experiments import laplace_sum as study_module
from experiments.laplace_sum import (
    ALL_POINTS,
    CONSTRAINED,
    UNIFORM,
    UNIFORM_SAME_LOSS,
    VARIANCE_OPTIMAL,
    Points,
    Study,
)

SEED = 0
SCALES = (3.0, 95.0, 3000.0)

# Room for 15 means of skewed errors whose standard errors are themselves estimated; the seed is fixed.
STANDARD_ERRORS = 5.0


@pytest.fixture(scope="module")
def study() -> Study:
    return study_module.run_study(runs=300, seed=SEED, noise_scales=SCALES)


@pytest.fixture(scope="module")
def points() -> Points:
    return study_module.draw_points(np.random.default_rng(SEED))


def test_the_command_writes_a_figure_and_a_table_that_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made" / "on the way"
    assert study_module.main(["--out", str(out), "--runs", "5", "--seed", "3"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["laplace-sum.csv", "laplace-sum.png"]
    assert (out / "laplace-sum.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with (out / "laplace-sum.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    numbers = ("noise", "sample_size", "largest_epsilon", "mse", "mse_standard_error", "mse_exact")
    assert set(lines[0]) == {"sampler", *numbers}
    assert all(float(line[name]) > 0.0 for line in lines for name in numbers)
    for sampler in (ALL_POINTS, UNIFORM, CONSTRAINED, VARIANCE_OPTIMAL, UNIFORM_SAME_LOSS):
        assert sum(line["sampler"] == sampler for line in lines) == len(study_module.NOISE_SCALES)
    assert "At equal loss and equal size" in capsys.readouterr().out


@pytest.mark.parametrize("noise", SCALES)
def test_no_point_exceeds_the_target_in_50_digits(noise: float, points: Points) -> None:
    target = mpmath.mpf(study_module.free_epsilon(points, noise))
    losses = study_module.profile_at(noise)(1.0, points.l1_norms)
    probabilities = study_module.constrained_probabilities(points, noise)
    with mpmath.workdps(50):
        for loss, probability in zip(losses.tolist(), probabilities.tolist(), strict=True):
            q = mpmath.mpf(probability)
            assert mpmath.log1p(q * mpmath.expm1(mpmath.mpf(loss) / q)) <= target


def test_at_the_same_loss_and_size_the_constrained_error_is_smaller_than_the_uniform_one(study: Study) -> None:
    for constrained, uniform in zip(study.of(CONSTRAINED), study.of(UNIFORM_SAME_LOSS), strict=True):
        assert uniform.largest_epsilon == pytest.approx(constrained.largest_epsilon, rel=1e-6)
        assert uniform.largest_epsilon <= constrained.largest_epsilon * (1.0 + 1e-12)
        assert constrained.mse_exact < uniform.mse_exact


@pytest.mark.parametrize("sampler", [UNIFORM, VARIANCE_OPTIMAL])
def test_at_the_same_loss_the_constrained_curve_lies_below(sampler: str, study: Study) -> None:
    losses, factors = study_module.factors_at_same_loss(study, sampler)
    assert losses.size >= 2
    assert np.all(factors > 1.0)


def test_guide_quotes_the_results_of_the_study() -> None:
    """All sentences but the last follow from exact errors, which do not depend on the number of runs."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "reproduce-the-paper.md").read_text(encoding="utf-8")
    found, _, _ = study_module.reading_text(study_module.run_study(runs=2, seed=0)).partition("Check:")
    assert " ".join(found.split()) in " ".join(guide.split())


def test_simulated_errors_agree_with_the_exact_formula(study: Study) -> None:
    for at in study.measurements:
        assert abs(at.mse - at.mse_exact) < STANDARD_ERRORS * at.mse_standard_error, at


def test_the_exact_error_is_the_variance_over_all_samples_of_three_points() -> None:
    """The formula against an enumeration of all eight samples, with the noise's own variance added."""
    rows = np.array([[1.0, -2.0], [0.5, 0.0], [-3.0, 1.0]])
    tiny = Points(rows=rows, l1_norms=np.abs(rows).sum(axis=1), l2_norms=np.linalg.norm(rows, axis=1))
    probability = np.array([0.3, 0.8, 0.5])
    expected = 2 * 2.0 * 1.5**2
    for kept in np.ndindex(2, 2, 2):
        chance = np.prod(np.where(kept, probability, 1.0 - probability))
        error = (np.array(kept) / probability) @ rows - rows.sum(axis=0)
        expected += chance * error @ error
    assert study_module.exact_mse(tiny, 1.5, probability) == pytest.approx(expected, rel=1e-12)
