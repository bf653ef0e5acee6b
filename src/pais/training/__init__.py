"""Training with weighted batches: plans, samplers and steps whose records join with rates of their own."""

from pais.privacy.sampled_steps import sampled_delta
from pais.training.bounds import FeatureNorm, GradientNorm, StatedClasses, count_bounds
from pais.training.planning import Bin, TrainingPlan, geometric_bounds, plan
from pais.training.sampler import Batch, WeightedPoissonSampler
from pais.training.steps import noisy_sum, torch_step

__all__ = [
    "Batch",
    "Bin",
    "FeatureNorm",
    "GradientNorm",
    "StatedClasses",
    "TrainingPlan",
    "WeightedPoissonSampler",
    "count_bounds",
    "geometric_bounds",
    "noisy_sum",
    "plan",
    "sampled_delta",
    "torch_step",
]
