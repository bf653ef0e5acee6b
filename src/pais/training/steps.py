"""One step: clip each gradient at its record's bound, multiply by the weight, add up, and add noise on the lattice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pais._base import validate
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.rowwise import norms_of
from pais.errors import ArgumentError
from pais.mechanisms.noise import GaussianNoise
from pais.training.planning import TrainingPlan
from pais.training.sampler import Batch, WeightedPoissonSampler


def noisy_sum(sampler: WeightedPoissonSampler, batch: Batch, gradients: ArrayLike) -> FloatArray:
    """Noisy sum of the gradients of all records, estimated from those of a batch. It may be published.

    Parameters
    ----------
    sampler : WeightedPoissonSampler
        It drew the batch.
    batch : Batch
        Used once.
    gradients : array of shape (records in the batch, parameters)
        One gradient in each row, in the order of ``batch.index``; shape (0, parameters) for an empty batch.

    Returns
    -------
    array of shape (parameters,)
        Divide it by a public number such as a stated number of records, never by the size of the batch.

    Notes
    -----
    Guarantee. A record adds at most bound times weight to the sum before noise, whatever its gradient and whatever the
    other records are: `tests/unit/training/test_steps.py`.
    """
    rows = np.asarray(gradients, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] != batch.index.size:
        raise ArgumentError(
            "gradients must have one row for each record of the batch and one column for each parameter."
        )
    lattice = lattice_of(sampler.plan)
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        total += lattice.encode(bounded(rows[part], batch.clip[part], batch.weight[part])).sum(axis=0)
    return released(sampler, batch, [total])[0]


# Gradients that are encoded at a time; only memory depends on it.
_BLOCK = 256


def bounded(rows: FloatArray, clip: FloatArray, weight: FloatArray) -> FloatArray:
    """Gradients clipped to their bounds, then multiplied by their weights; one that is not finite becomes 0."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0)
    # Scaled first, so that no square overflows.
    length = norms_of(rows / scale[:, None], 2.0)
    with np.errstate(over="ignore"):
        factor = np.minimum(clip / np.maximum(length, 1e-300) / scale, 1.0)  # [note: training-14]
    return np.asarray(rows * (factor * weight)[:, None])  # [note: training-15]


def lattice_of(plan: TrainingPlan) -> Lattice:
    """Lattice of the noisy sums of a plan."""
    noise = GaussianNoise(scale=plan.noise)
    noise.lattice.require(float((plan.bounds * plan.weights).max()))
    return noise.lattice


def released(sampler: WeightedPoissonSampler, batch: Batch, totals: Sequence[IntArray]) -> list[FloatArray]:
    """Add noise to flat totals in whole steps, as one vector, and convert them to numbers."""
    batch.use()
    if batch.step != sampler.step:
        raise ArgumentError("the batch is not the last one that the sampler drew. Use each batch before the next one.")
    noise, lattice = GaussianNoise(scale=sampler.plan.noise), lattice_of(sampler.plan)
    whole = np.concatenate(totals)
    noisy = noise.added_to(whole[None, :], lattice, sampler.noise_bits())[0]  # [note: training-16]
    ends = np.cumsum([total.size for total in totals])[:-1]
    return np.split(lattice.decode(noisy), ends)


def torch_step(sampler: WeightedPoissonSampler, batch: Batch, parameters: Any, *, divisor: float) -> None:
    """Set the gradients of torch parameters to a noisy sum over a public divisor; then call the optimizer's step.

    Parameters
    ----------
    sampler, batch
        As in `noisy_sum`.
    parameters : iterable of torch parameters
        Each with per-record gradients in ``grad_sample``, of a loss that is summed over the batch, as Opacus' module
        ``GradSampleModule(model, loss_reduction="sum")`` leaves them. For an empty batch they may be missing.
    divisor : float
        A public number, such as a stated number of records. Never the size of a batch.
    """
    import torch

    divisor = validate.positive("divisor", divisor)
    trained = [one for one in parameters if one.requires_grad]
    n, lattice = batch.index.size, lattice_of(sampler.plan)
    samples = [_samples_of(one, n) for one in trained]
    squares = sum((part.double().reshape(n, -1) ** 2).sum(dim=1) for part in samples)
    length = torch.sqrt(squares)
    clip, weight = (torch.as_tensor(part, device=length.device) for part in (batch.clip, batch.weight))
    factor = torch.clamp(clip / torch.clamp(length, min=1e-300), max=1.0) * weight
    fine = torch.isfinite(length)
    totals = []
    for part in samples:
        total = torch.zeros(part[0].numel() if n else part.shape[1:].numel(), dtype=torch.int64, device=part.device)
        for start in range(0, n, _BLOCK):
            rows = part[start : start + _BLOCK].double().reshape(-1, total.numel())
            kept = torch.where(fine[start : start + _BLOCK, None], rows, 0.0)
            scaled = kept * torch.where(fine, factor, 0.0)[start : start + _BLOCK, None] / lattice.step
            total += torch.trunc(scaled).to(torch.int64).sum(dim=0)
        totals.append(total.cpu().numpy())
    for one, noisy in zip(trained, released(sampler, batch, totals), strict=True):
        one.grad = torch.as_tensor(noisy / divisor, dtype=one.dtype, device=one.device).reshape(one.shape)
        one.grad_sample = None


def _samples_of(parameter: Any, n: int) -> Any:
    """Per-record gradients of a parameter. Opacus leaves a list if the module was called several times."""
    if n == 0:
        return parameter.detach().new_zeros((0, *parameter.shape))
    found = getattr(parameter, "grad_sample", None)
    if found is None:
        raise ArgumentError("a parameter has no grad_sample. Wrap the model in opacus.GradSampleModule.")
    return (found[-1] if isinstance(found, list) else found).detach()
