"""Octaves of numbers agree with their bins."""

from __future__ import annotations

import numpy as np

from pais._base.lattice import BINS_PER_OCTAVE, OCTAVES, bin_of, octave_of


def test_octave_is_that_of_the_bin() -> None:
    rng = np.random.default_rng(0)
    powers = np.ldexp(1.0, np.arange(-OCTAVES - 5, OCTAVES + 5))
    special = np.array([0.0, 5e-324, 1e308, np.finfo(float).max])
    sizes = np.concatenate(
        [special, powers, np.nextafter(powers, 0.0), np.nextafter(powers, np.inf), 10.0 ** rng.uniform(-40, 40, 10_000)]
    )
    assert np.array_equal(octave_of(sizes), bin_of(sizes) // BINS_PER_OCTAVE)
