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
        raise ArgumentError("gradients need one row for each record of the batch and a column for each parameter.")
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
    if batch is not sampler.last:  # [note: training-17]
        raise ArgumentError("the batch is not the last one that this sampler drew. Use each before the next one.")
    batch.use()
    noise, lattice = GaussianNoise(scale=sampler.plan.noise), lattice_of(sampler.plan)
    whole = np.concatenate(totals)
    noisy = noise.added_to(whole[None, :], lattice, sampler.bits_of(len(sampler.plan.bins)))[0]  # [note: training-16]
    ends = np.cumsum([total.size for total in totals])[:-1]
    return np.split(lattice.decode(noisy), ends)


def torch_step(sampler: WeightedPoissonSampler, batch: Batch, optimizer: Any, *, divisor: float) -> None:
    """Set the gradients of a torch optimizer to a noisy sum over a public divisor; then call the optimizer's step.

    Parameters
    ----------
    sampler, batch
        As in `noisy_sum`.
    optimizer : torch optimizer
        The parameters in all its groups get noisy gradients. Each has per-record gradients in ``grad_sample``, of a
        loss that is summed over the batch, as Opacus' module ``GradSampleModule(model, loss_reduction="sum")`` leaves
        them. For an empty batch they may be missing. A parameter that needs no gradient loses the one that it has.
    divisor : float
        A public number, such as a stated number of records. Never the size of a batch.
    """
    import torch

    divisor = validate.positive("divisor", divisor)
    n, lattice = batch.index.size, lattice_of(sampler.plan)
    every = [one for group in optimizer.param_groups for one in group["params"]]
    trained = [one for one in every if one.requires_grad]
    samples = [_samples_of(one, n) for one in trained]
    largest = torch.stack([part.abs().amax(dim=1).double() for part in samples]).amax(dim=0)
    fine = torch.isfinite(largest)
    scale = torch.where(fine & (largest > 0.0), largest, 1.0)
    length = torch.sqrt(sum(((part.double() / scale[:, None]) ** 2).sum(dim=1) for part in samples))
    clip, weight = (torch.as_tensor(part, device=length.device) for part in (batch.clip, batch.weight))
    # The same operations as in `bounded`.
    factor = torch.clamp(clip / torch.clamp(length, min=1e-300) / scale, max=1.0) * weight  # [note: training-18]
    totals = []
    for part in samples:
        total = torch.zeros(part.shape[1], dtype=torch.int64, device=part.device)
        for start in range(0, n, _BLOCK):
            span = slice(start, start + _BLOCK)
            kept = torch.where(fine[span, None], part[span].double() * factor[span, None], 0.0)
            total += torch.trunc(kept / lattice.step).to(torch.int64).sum(dim=0)
        totals.append(total.cpu().numpy())
    noisy = released(sampler, batch, totals)
    for one in every:
        one.grad = one.grad_sample = None
    for one, value in zip(trained, noisy, strict=True):
        one.grad = torch.as_tensor(value / divisor, dtype=one.dtype, device=one.device).reshape(one.shape)


def _samples_of(parameter: Any, n: int) -> Any:
    """Gradients of records for a parameter, one in each row. Opacus leaves a list after several backward passes."""
    import torch

    if n == 0:
        return parameter.detach().new_zeros((0, parameter.numel()))
    found = getattr(parameter, "grad_sample", None)
    found = torch.cat(found) if isinstance(found, list) else found
    if found is None or found.shape != (n, *parameter.shape):
        raise ArgumentError(
            "each parameter needs grad_sample with one gradient for each record of the batch, in the order of its "
            "positions. Wrap the model in opacus.GradSampleModule, and use every parameter in the loss."
        )
    return found.detach().reshape(n, -1)
