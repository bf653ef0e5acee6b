"""Sampling rules: the inclusion probability as a public function of the norm."""

from pais.rules.base import Rule
from pais.rules.oracle import not_private_variance_optimal
from pais.rules.simple import CoresetRule, UniformRule
from pais.rules.table import ConstrainedRule, FunctionRule
from pais.rules.weights import constrained_weight

__all__ = [
    "ConstrainedRule",
    "CoresetRule",
    "FunctionRule",
    "Rule",
    "UniformRule",
    "constrained_weight",
    "not_private_variance_optimal",
]
