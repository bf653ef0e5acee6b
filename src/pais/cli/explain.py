"""Explain certificates, plans and surveys in plain words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pais._base import validate
from pais._base.files import read_json
from pais._base.numerics import raised
from pais.accounting.digest import digest
from pais.cli.files import read_values
from pais.cli.recognise import recognised
from pais.cli.show import price
from pais.errors import ArgumentError


def explain_file(path: Path) -> str:
    """Explain a file of this package in words."""
    return "\n".join(explanation(path)["explanation"])


def explanation(path: Path) -> dict[str, Any]:
    """Return the kind, the guarantee and the explanation of a file of this package, recognised by its content."""
    other = recognised(path)
    if other is not None:
        return other
    content = read_json(path)
    if isinstance(content.get("certificate"), dict):
        content = content["certificate"]
    kind = "certificate" if "parts" in content else content.get("kind")
    try:
        text = {"plan": _plan, "survey": _survey, "certificate": _certificate}[str(kind)](content)
        # A survey with a shift is not priced alone.
        epsilon, delta = (None, None) if kind == "survey" and content.get("shift") else _price(content)
        return {
            "kind": kind,
            "epsilon": epsilon,
            "delta": delta,
            # A plan has drawn no randomness yet.
            "secure_randomness": None if kind == "plan" else content["secure_randomness"] is True,
            "explanation": text.split("\n"),
        }
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        pass
    raise ArgumentError(f"{path} is not a certificate, plan or survey of pais. Pass a file that pais wrote.")


def require_values(path: Path, values: Path) -> None:
    """Raise if the certificate was issued for other values."""
    content = read_json(path)
    if isinstance(content.get("certificate"), dict):
        content = content["certificate"]
    expected = content.get("values_sha256")
    if not isinstance(expected, str):
        raise ArgumentError(f"{path} holds no fingerprint of values. Pass a certificate of a release.")
    if digest(read_values(values)) != expected:
        raise ArgumentError(
            f"{values} does not hold the values that {path} was issued for. Check that both are of one release, and "
            "that no number was edited or rounded."
        )


def _price(content: dict[str, Any]) -> tuple[float, float]:
    """Read epsilon and delta of a file or of a part of it; raise unless both are non-negative numbers."""
    return validate.non_negative("epsilon", content["epsilon"]), validate.target_delta(content.get("delta", 0.0))


def _certificate(content: dict[str, Any]) -> str:
    epsilon, delta = _price(content)
    parts = [_price(part) for part in content["parts"]]
    for total, prices in zip((epsilon, delta), zip(*parts, strict=True), strict=True):
        if not math.isclose(total, sum(prices), rel_tol=1e-9, abs_tol=1e-300):
            raise ValueError
    lines = ["This is the certificate of a release."]
    if content["secure_randomness"] is not True:
        lines += [
            "",
            "NOT PRIVATE: a seed was given, so this was a rehearsal. The numbers below are not a guarantee.",
        ]
    lines += ["", "Guarantee", *_guarantee(epsilon, delta, str(content["neighbours"])), *_delta(content)]
    if "epsilon_if_kept" in content:
        lines += _if_kept(epsilon, float(content["epsilon_if_kept"]))
    lines += ["", "Parts"]
    lines += [f"  {part['what']}: {price(part)}" for part in content["parts"]]
    lines += _joint(content)
    lines += ["", "How", *_how(content)]
    lines += [
        "",
        "Limits",
        "  The guarantee is for one row. For a person with k rows, it is (k epsilon, k e^((k-1) epsilon) delta).",
        "  It does not cover steps that were fitted to the rows before this release, such as a scaler.",
        "  It does not cover other releases from the same rows: add their epsilons and deltas.",
        f"  Randomness: {content['note']}. Issued by pais {content['version']}.",
    ]
    return "\n".join(lines)


def _plan(content: dict[str, Any]) -> str:
    spent = content["spent"]
    lines = ["This is a plan. It has released nothing."]
    lines[0] += " Only the survey before it has read rows." if spent else " No row was read for it."
    lines += ["", "Guarantee, once it is run"]
    lines += _guarantee(float(content["epsilon"]), float(content["delta"]), str(content["neighbours"]))
    lines += _delta(content)
    lines += [
        f"  This includes the {part['what']} before it, with Gaussian shift {raised(_shift(part))}, already released."
        if part.get("shift")
        else f"  In addition: {part['what']}, epsilon {raised(part['epsilon'])}, already released."
        for part in spent
    ]
    lines += _joint(content)
    lines += ["", "How", *_how(content), *_radius(content)]
    if content["expected_rows"] is not None:
        expected, n_rows = float(content["expected_rows"]), float(content["n_rows"])
        lines.append(
            f"  About {expected:,.0f} of {n_rows:,.0f} rows are expected to be kept ({expected / n_rows:.1%})."
        )
    quality = content.get("predicted_quality")
    if quality is not None:
        ratio = validate.positive("predicted_cost_over_best", quality["predicted_cost_over_best"])
        lines.append(f"  The cost is predicted to be about {ratio:.3g} times that of k-means without noise.")
    lines.append("")
    lines.append("  norm           kept with probability   epsilon of such a record")
    rows = content["by_norm"]
    for norm, kept, loss in zip(rows["norm"], rows["probability"], rows["epsilon"], strict=True):
        lines.append(f"  {norm:<14.6g} {kept:21.5f}   {raised(loss):>24}")
    return "\n".join(lines)


def _survey(content: dict[str, Any]) -> str:
    ball = content["ball"]
    lines = ["This is a survey: noisy facts about the norms of the rows, released and paid for."]
    if content["secure_randomness"] is not True:
        lines += ["", "NOT PRIVATE: a seed was given, so this was a rehearsal."]
    shift = _shift(content) if content.get("shift") else 0.0
    guarantee = (
        [
            f"  Gaussian shift {raised(shift)}. The fit that ran this survey paid for it together with its release.",
            "  Every plan made from it counts the shift in its own price.",
        ]
        if shift
        else _guarantee(float(content["epsilon"]), 0.0, "one row added or removed")
    )
    lines += ["", "Guarantee", *guarantee, "", "Facts"]
    lines += [
        f"  About {content['noisy_rows']:,.0f} rows, of mean square norm {content['noisy_mean_square_norm']:.6g}.",
        f"  Nearly all lie within norm {ball['radius']:.6g} ({_norm(ball['order'])}); rows beyond are clipped.",
        *([] if content["above_noise"] is True else ["  Nothing was above the noise, so these are assumptions."]),
        "",
        "It counts in every later release from the same rows: pass it as --survey.",
    ]
    return "\n".join(lines)


def _guarantee(epsilon: float, delta: float, neighbours: str) -> list[str]:
    """Explain (epsilon, delta) to a reader who does not know the terms."""
    lines = [
        f"  epsilon {raised(epsilon)}, delta {raised(delta, 3)}; neighbours: {neighbours}.",
        "  Adding or removing one row changes the probability of any outcome",
        f"  by a factor of at most e^epsilon = {raised(math.exp(min(epsilon, 700.0)), 4)}"
        + (f", plus at most delta = {raised(delta, 3)}." if delta > 0.0 else "."),
        "  This holds for every row, whatever its values.",
    ]
    # Posterior odds are at most e^epsilon times the prior odds; shown for even prior odds.
    guess = 1.0 / (1.0 + math.exp(-epsilon))
    sure = raised(100.0 * guess, 3)
    lines.append(f"  Someone who gave a row a 50 % chance to be in the data is at most {sure} % sure of it afterwards.")
    if delta > 0.0:
        lines[-1] = lines[-1].removesuffix(".") + ", apart from delta."
    return lines


def _if_kept(epsilon: float, kept: float) -> list[str]:
    """Explain the guarantee that remains once the sample is known."""
    if not kept >= epsilon:
        raise ValueError
    if kept <= epsilon * (1.0 + 1e-6):
        return ["  It does not depend on keeping the sample secret."]
    return [
        f"  The sample must stay secret: if it becomes known that a row was kept, that row has epsilon {raised(kept)}.",
    ]


def _delta(content: dict[str, Any]) -> list[str]:
    """Explain how delta was chosen, if the user did not state it."""
    basis = content.get("delta_basis")
    # Certificates of earlier versions do not contain this field.
    if basis is None or not str(basis).startswith("default"):
        return []
    used = validate.target_delta(content["delta_used"])
    return [f"  The noise was calibrated for delta {raised(used, 3)}: the {basis}."]


def _joint(content: dict[str, Any]) -> list[str]:
    """Explain how a price divides between the survey and the release, if it includes a survey."""
    # Certificates of earlier versions do not contain these fields.
    if not content.get("survey_shift"):
        return []
    shift, rounds = _shift(content, "survey_shift"), validate.target_delta(content["release_delta"])
    return [
        f"  Survey and release have one price. The survey has the Gaussian shift {raised(shift)}.",
        f"  The release alone meets the same epsilon at delta {raised(rounds, 3)}.",
    ]


def _shift(content: dict[str, Any], name: str = "shift") -> float:
    return validate.positive(name, content[name])


def _how(content: dict[str, Any]) -> list[str]:
    ball, rule, mechanism = content["ball"], content["rule"], content["mechanism"]
    origin = "the origin" if ball["center"] is None else "a center that was stated or surveyed"
    lines = [
        f"  Rows are clipped to norm {ball['radius']:.6g} ({_norm(ball['order'])}) about {origin}.",
        f"  {_rule(rule)}",
    ]
    rounds = mechanism.get("rounds")
    if not isinstance(rounds, list):
        return [*lines, f"  Then: {mechanism['mechanism']}, with noise."]
    counts, last = rounds[-1]["count_noise"], rounds[-1].get("sum_noise")
    lines.append(f"  Then {mechanism['n_clusters']} clusters in {len(rounds)} rounds.")
    if isinstance(mechanism.get("second_moment"), dict):
        lines.append("  The first centers come from a noisy mean and second moment of the rows.")
    if last is not None:
        return [
            *lines,
            f"  Each round has noisy counts and sums: in the last, {counts['law']} noise of scale "
            f"{counts['scale']:.6g} on counts, {last['law']} {last['scale']:.6g} on sums.",
        ]
    last = rounds[-1]["residual_noise"]
    return [
        *lines,
        "  Each round has a noisy count, a noisy sum of distances and a noisy sum of residuals (row minus center)",
        f"  for each cell: in the last, {counts['law']} noise of scale {counts['scale']:.6g} on counts, and "
        f"{last['law']} {last['scale']:.6g} x clip on residuals.",
    ]


def _radius(content: dict[str, Any]) -> list[str]:
    """Explain how the plan chose the radius, if it did."""
    choice = content.get("radius_choice")
    # Plans of earlier versions do not contain this field.
    if choice is None:
        return []
    noise, clipping = (validate.non_negative(name, choice[name]) for name in ("noise_per_row", "clipping_per_row"))
    return [
        "  The radius has the least predicted excess cost per row: "
        f"{noise:.4g} from noise and {clipping:.4g} from clipping."
    ]


def _norm(order: object) -> str:
    return f"l{order:g}" if isinstance(order, (int, float)) else f"l-{order}"


def _rule(rule: dict[str, Any]) -> str:
    kind = rule["rule"]
    if kind == "uniform" and rule.get("probability") == 1.0:
        return "All rows are used."
    if kind == "uniform":
        return f"Each row is kept with the same probability, {rule['probability']:.4g}."
    kinds = {
        "constrained": "that is as small as the limits on its loss allow",
        "coreset": "that grows with its squared norm",
    }
    return f"Each row is kept with a probability {kinds.get(kind, 'given by a public function of its norm')}."
