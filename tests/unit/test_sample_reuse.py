"""A weighted sample serves one release and cannot be copied."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    GaussianNoise,
    Joint,
    LpNoise,
    SpentError,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSample,
    WeightedSum,
    laplace_noise,
    release,
    sample,
)
from tests.support.sampler_cases import RADIUS, opened, rows_in_ball

Floats = NDArray[np.float64]


# -- spent once ----------------------------------------------------------------------------------------------


def fresh(seed: int = 43) -> WeightedSample:
    return sample(rows_in_ball(100), ball=Ball(radius=RADIUS, order=1.0), rule=UniformRule(rate=0.5), random_state=seed)


def test_sample_can_be_released_once() -> None:
    kept = fresh()
    assert not kept.spent
    release(WeightedCount(noise=laplace_noise(1.0)), kept, random_state=1)
    assert kept.spent
    with pytest.raises(SpentError, match="already spent"):
        release(WeightedSum(noise=laplace_noise(1.0)), kept, random_state=1)
    with pytest.raises(SpentError, match="already spent"):
        release(WeightedCount(noise=laplace_noise(1.0)), kept, random_state=1)


def test_a_sample_cannot_be_copied_or_pickled_before_or_after_it_is_spent() -> None:
    kept = fresh()
    for _ in range(2):
        for duplicate in (
            copy.copy,
            copy.deepcopy,
            pickle.dumps,
            lambda value: pickle.dumps(value, protocol=0),
            lambda value: copy.deepcopy({"inside": [value]}),
        ):
            with pytest.raises(SpentError, match="copied"):
                duplicate(kept)
        if not kept.spent:
            # The attempts took nothing away.
            assert opened(kept).weights.size > 0


def test_a_joint_mechanism_uses_one_sample_for_all_and_pays_the_sum() -> None:
    count, total = WeightedCount(noise=laplace_noise(4.0)), WeightedSum(noise=laplace_noise(2.0))
    joint = Joint(parts=(count, total))
    norms = np.linspace(0.0, RADIUS, 9)
    assert np.allclose(joint.profile(3.0, norms), count.profile(3.0, norms) + total.profile(3.0, norms), rtol=1e-15)
    kept = fresh()
    both = release(joint, kept, random_state=2)
    assert kept.spent
    assert isinstance(both.value, tuple)
    assert len(both.value) == 2
    alone = [release(part, fresh(), random_state=2).certificate.epsilon for part in (count, total)]
    assert max(alone) < both.certificate.epsilon
    # At every probability the joint pays more than each part alone and, here at one half, more than a part's double.
    gaussian = [WeightedCount(noise=GaussianNoise(scale=3.0)), WeightedSum(noise=GaussianNoise(scale=4.0))]
    squares = sum(np.square(part.profile(2.0, norms)) for part in gaussian)
    assert np.allclose(np.square(Joint(parts=tuple(gaussian)).profile(2.0, norms)), squares, rtol=1e-12)


def test_a_refused_release_leaves_the_sample_unspent() -> None:
    kept = fresh()
    with pytest.raises(ValueError, match="norm"):
        release(WeightedMean(count_noise=laplace_noise(1.0), sum_noise=LpNoise(scale=1.0, p=2.0)), kept)
    with pytest.raises(ValueError, match="delta"):
        release(WeightedCount(noise=laplace_noise(1.0)), kept, delta=1e-6)
    with pytest.raises(ValueError, match="delta"):
        release(WeightedCount(noise=GaussianNoise(scale=1.0)), kept)
    assert not kept.spent
    release(WeightedCount(noise=laplace_noise(1.0)), kept)
    assert kept.spent


def test_the_repr_of_a_sample_shows_no_row_and_no_size() -> None:
    ball, rule = Ball(radius=5000.0), UniformRule(rate=1.0)
    few = sample(np.full((3, 2), 1234.5678), ball=ball, rule=rule, random_state=44)
    many = sample(np.full((7777, 2), 0.25), ball=ball, rule=rule, random_state=44)
    assert repr(few) == repr(many)
    assert str(few) == str(many)
    assert "1234" not in repr(few)
    assert "5678" not in repr(few)
    assert "7777" not in repr(many)
    content = opened(few)
    assert "1234" not in repr(content)
    assert "5678" not in repr(content)
    # What is public is shown: the rule, the ball, whether it was spent and whether the draws were secure.
    for public in ("UniformRule", "5000.0", "spent=True", "private=False"):
        assert public in repr(few)
