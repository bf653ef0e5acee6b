"""Sampling rules: the inclusion probability as a public function of the norm."""

from pais.privacy.rules.base import Rule
from pais.privacy.rules.simple import CoresetRule, UniformRule, not_private_variance_optimal
from pais.privacy.rules.table import ConstrainedRule, FunctionRule
from pais.privacy.rules.weights import constrained_weight

__all__ = [
    "ConstrainedRule",
    "CoresetRule",
    "FunctionRule",
    "Rule",
    "UniformRule",
    "constrained_weight",
    "not_private_variance_optimal",
]
