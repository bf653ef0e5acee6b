"""Plans on the command line: build them from options, write them to a file, and read them back."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from pais._version import __version__
from pais.accounting.certificate import Spent
from pais.cli.facts import (
    Facts,
    ball_from,
    norms_description,
    norms_from,
    not_written,
    read_json,
    require_surveyed_columns,
    text,
)
from pais.data.ball import Ball
from pais.data.engines import Engine
from pais.errors import ArgumentError
from pais.pipeline import Plan, losses_if_kept, record_losses
from pais.planning.kmeans import Algorithm, MechanismName, plan_kmeans
from pais.privacy.norms import NormDistribution

SAMPLINGS = ("constrained", "coreset", "uniform", "none")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The inputs of a plan. They are public, and sufficient to make the same plan again."""

    n_clusters: int
    n_features: int
    facts: Facts
    delta: float | None
    sampling: Any
    sample_size: float | None
    mechanism: MechanismName
    algorithm: Algorithm
    max_epsilon_if_kept: float | None = None

    def plan(self) -> Plan:
        center = self.facts.ball.center
        if center is not None and len(center) != self.n_features:
            raise ArgumentError(
                f"the center has {len(center)} numbers where there are {self.n_features} features. State one for each."
            )
        return plan_kmeans(
            n_clusters=self.n_clusters,
            n_features=self.n_features,
            epsilon=self.facts.epsilon,
            delta=self.delta,
            ball=self.facts.ball,
            norms=self.facts.norms,
            sampling=self.sampling,
            sample_size=self.sample_size,
            mechanism=self.mechanism,
            algorithm=self.algorithm,
            spent=self.facts.spent,
            max_epsilon_if_kept=self.max_epsilon_if_kept,
        )


def stated_facts(
    *,
    radius: float | None,
    center: tuple[float, ...] | None,
    norms: NormDistribution | None,
    epsilon: float,
    mechanism: MechanismName,
) -> Facts:
    """Facts stated by the user; they cost no budget."""
    if radius is None or norms is None:
        raise ArgumentError("a plan needs facts: state --radius, --norms and --n-rows, or pass --survey survey.json.")
    ball = Ball(radius=radius, order=order_of(mechanism), center=center)
    return Facts(ball=ball, norms=norms, epsilon=epsilon, spent=())


def order_of(mechanism: MechanismName) -> float:
    return 1.0 if mechanism == "laplace" else 2.0


def plan_description(request: PlanRequest, plan: Plan, columns: list[str] | None = None) -> dict[str, Any]:
    """Describe a plan in public words and numbers; "request" holds the inputs to make the same plan again.

    `columns` are the columns of the survey that the plan is based on. The survey's center refers to them.
    """
    facts = request.facts
    share = np.linspace(0.0, 1.0, 11)
    norm = share * plan.ball.radius
    described = asdict(request)
    described["facts"] = {
        "ball": facts.ball.describe(),
        "norms": norms_description(facts.norms),
        "epsilon": facts.epsilon,
        "spent": [asdict(part) for part in facts.spent],
        "survey_name": facts.survey_name,
    }
    return {
        "kind": "plan",
        "epsilon": plan.epsilon,
        "delta": plan.delta_choice.certified,
        "delta_used": plan.delta,
        "delta_basis": plan.delta_basis,
        "epsilon_if_kept": plan.price.epsilon_if_kept,
        "spent": [asdict(part) for part in plan.spent],
        "neighbours": "one row added or removed",
        "columns": columns,
        "expected_rows": facts.norms.expected_size(plan.rule),
        "n_rows": facts.norms.n_rows,
        "mechanism": plan.mechanism.describe(),
        "rule": plan.rule.describe(),
        "ball": plan.ball.describe(),
        "by_norm": {
            "norm": norm.tolist(),
            "probability": plan.rule.probability(norm).tolist(),
            "epsilon": record_losses(plan, norm).tolist(),
            "epsilon_if_kept": losses_if_kept(plan, norm).tolist(),
        },
        "explanation": plan.explain().splitlines(),
        "request": described,
        "version": __version__,
    }


def read_request(path: Path) -> PlanRequest:
    """Read the inputs of a plan from its file."""
    described = read_json(path).get("request")
    try:
        facts = described["facts"]  # type: ignore[index]  # a wrong type is the TypeError below
        request = PlanRequest(
            **{
                **described,  # type: ignore[dict-item]  # as above
                "facts": Facts(
                    ball=ball_from(facts["ball"]),
                    norms=norms_from(facts["norms"]),
                    epsilon=facts["epsilon"],
                    spent=tuple(Spent(**part) for part in facts["spent"]),
                    survey_name=text(facts.get("survey_name", "")),
                ),
            }
        )
    except ArgumentError as error:
        raise not_written(path, "plan", error) from None
    except (KeyError, TypeError, ValueError, OverflowError):
        request = None
    known = request and request.sampling in SAMPLINGS and request.mechanism in get_args(MechanismName)
    # A plan has at most one earlier release, a survey, which has delta = 0.
    if request is None or not known or [part.delta for part in request.facts.spent] not in ([], [0.0]):
        raise ArgumentError(f"{path} is not a plan. Make one with `pais plan ... --out plan.json`.")
    return request


def require_planned_columns(path: Path, request: PlanRequest, rows: Engine) -> None:
    """Raise if the plan was made for other columns."""
    require_surveyed_columns(path, rows.names)
    if rows.n_features != request.n_features:
        raise ArgumentError(f"the plan is for {request.n_features} features. Choose as many with --columns.")


def require_as_written(path: Path, request: PlanRequest, plan: Plan) -> None:
    """Raise if the plan rebuilt from the request differs from the plan that the file shows to readers."""
    written, made = read_json(path), plan_description(request, plan)
    shown = (
        "epsilon",
        "delta",
        "delta_used",
        "epsilon_if_kept",
        "delta_basis",
        "spent",
        "neighbours",
        "ball",
        "rule",
        "mechanism",
        "by_norm",
        "expected_rows",
        "n_rows",
        "explanation",
    )
    if not all(_alike(written.get(name), made[name]) for name in shown):
        raise ArgumentError(
            f"{path} was edited, or made by another version of pais: it does not say what would be run. Plan again."
        )


def _alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, up to rounding differences between machines."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)
