"""The part of a page about components, from made-up values: what stands above the noise, and what is grey."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.show.pages import components, page_of


@pytest.mark.parametrize(
    ("k", "above", "verdict"),
    [
        (4, 2, "the first 2 of 4 components stand above the noise"),
        (4, 1, "the first of 4 components stands above the noise"),
        (4, 0, "no component stands above the noise"),
        (4, 6, "all 4 components stand above the noise"),
        (2, 2, "both components stand above the noise"),
        (1, 3, "the component stands above the noise"),
    ],
)
def test_verdict_of_components(k: int, above: int, verdict: str) -> None:
    results = components(k, above_noise=above)
    assert results.verdict == verdict
    page = page_of(results)
    # One grey cell for each feature of a component within the noise, on the screen.
    assert page.count('<td class="weak"') == 6 * max(k - above, 0)
    assert page.count("weak-column") == max(k - above, 0) + 1


def test_further_components_are_counted() -> None:
    assert components(4, above_noise=4).meaning.endswith("by itself.")
    assert components(4, above_noise=5).meaning.endswith(" One further component does, which was not asked for.")
    assert components(4, above_noise=6).meaning.endswith(" 2 further components do, which were not asked for.")


def test_components_within_the_noise_are_not_put_into_words() -> None:
    page = page_of(components())
    assert "<b>Component 2</b>" in page
    assert "<b>Component 3</b>" not in page


def test_a_component_without_estimated_variance_is_grey() -> None:
    variances = np.array([1.0, 0.09, 0.05, 0.0])
    page = page_of(components(variances=variances, noisy_variances=variances + 0.3))
    assert page.count('<td class="weak"') == 6 * 3
    assert "<b>Component 2</b>" not in page
    assert page.count('class="released"') == 4
