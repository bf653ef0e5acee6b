"""The bias that shrinkage removes from the eigenvalues of a noisy matrix, against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from pais._base.numerics import FloatArray
from pais.pca.components import shrunk_spectrum

RUNS = 100_000


def noisy_matrices(spectrum: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Diagonal matrices plus symmetric noise of deviation 1 on the diagonal and 1/sqrt(2) off it, and the noise."""
    d = spectrum.size
    square = np.random.default_rng(0).normal(size=(RUNS, d, d))
    noise = (square + square.transpose(0, 2, 1)) / 2.0
    return np.diag(spectrum) + noise, noise


@pytest.mark.statistical
@pytest.mark.parametrize("spectrum", [[0.0, 0.0], [3.0, 0.0], [2.0, 1.5, 0.0], [6.0, 2.0, 1.0, 0.5]], ids=str)
def test_noise_along_an_eigenvector_is_the_sum_of_inverse_gaps(spectrum: list[float]) -> None:
    """E v'Wv = scale^2 E sum 1/(l - m), whatever the matrix; twice that sum is refuted by the same runs."""
    matrices, noise = noisy_matrices(np.array(spectrum))
    eigenvalues, vectors = np.linalg.eigh(matrices)
    along = np.einsum("nij,nik,nkj->nj", vectors, noise, vectors)[:, -1]
    # The sum has a finite mean: small gaps are rare, as eigenvalues repel each other. Its tail is cut at 1e3.
    pull = np.minimum((1.0 / (eigenvalues[:, -1:] - eigenvalues[:, :-1])).sum(axis=1), 1e3)
    error = np.std(along - pull) / np.sqrt(RUNS)
    assert abs(np.mean(along - pull)) < 4.0 * error
    assert abs(np.mean(along - 2.0 * pull)) > 8.0 * error


def test_shrinkage_subtracts_this_bias_where_gaps_are_large() -> None:
    eigenvalues = np.array([400.0, 300.0, 150.0, 20.0])
    gaps = eigenvalues[:, None] - eigenvalues + np.diag(np.full(4, np.inf))
    expected = eigenvalues - (1.0 / gaps).sum(axis=1)
    np.testing.assert_allclose(shrunk_spectrum(eigenvalues, 1.0), expected, rtol=1e-6)
    np.testing.assert_allclose(shrunk_spectrum(5.0 * eigenvalues, 5.0), 5.0 * expected, rtol=1e-6)
