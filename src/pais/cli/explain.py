"""Explain certificates, plans and surveys in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pais._base import validate
from pais._base.files import read_json
from pais._base.numerics import raised
from pais.accounting.digest import digest
from pais.accounting.words import (
    certificate_text,
    delta_lines,
    guarantee_lines,
    how_lines,
    joint_lines,
    price_of,
    units_of,
)
from pais.cli.files import read_values
from pais.cli.recognise import recognised
from pais.errors import ArgumentError
from pais.planning.explain import survey_text


def explain_file(path: Path) -> str:
    """Explain a file of this package in words."""
    return "\n".join(explanation(path)["explanation"])


def explanation(path: Path) -> dict[str, Any]:
    """Return the kind, the guarantee and the explanation of a file of this package, recognised by its content.

    Of the directory of a release, the certificate is explained.
    """
    if (path / "certificate.json").is_file():
        path = path / "certificate.json"
    other = recognised(path)
    if other is not None:
        return other
    content = read_json(path)
    kind = content.get("kind")
    introduction = ""
    if isinstance(content.get("certificate"), dict):
        introduction = _statistic(content) if kind == "statistic" else ""
        content, kind = content["certificate"], "statistic" if introduction else "certificate"
    try:
        words = {"plan": _plan, "survey": survey_text, "certificate": certificate_text, "statistic": certificate_text}
        text = introduction + words[str(kind)](content)
        # A survey with a shift is not priced alone.
        epsilon, delta = (None, None) if kind == "survey" and content["shift"] else price_of(content)
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


def _statistic(content: dict[str, Any]) -> str:
    """What a file with a released statistic holds."""
    values = content.get("values")
    number = f"{len(values)} value(s)" if isinstance(values, list) else "values"
    lines = [
        f"This is a released statistic: {content.get('statistic')}, {number} with standard errors and intervals.",
        "They are protected and may be published with the certificate, which the file holds too.",
        f"{content.get('noise')} {content.get('clipping')}",
        *_remarks(content),
    ]
    return "\n".join(lines) + "\n\n"


def _remarks(content: dict[str, Any]) -> list[str]:
    """The cautions and notes of a file with a released statistic."""
    cautions, notes = (content.get(name) for name in ("cautions", "notes"))
    return [
        *(f"Caution: {text}" for text in cautions or () if isinstance(text, str)),
        *(f"Note: {text}" for text in notes or () if isinstance(text, str)),
    ]


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


def _plan(content: dict[str, Any]) -> str:
    spent = content["spent"]
    lines = ["This is a plan. It has released nothing."]
    lines[0] += " Only the survey before it has read rows." if spent else " No row was read for it."
    lines += ["", "Guarantee, once it is run"]
    lines += guarantee_lines(float(content["epsilon"]), float(content["delta"]), str(content["neighbours"]))
    lines += delta_lines(content)
    lines += [_spent(part) for part in spent]
    lines += joint_lines(content, str(content["neighbours"]))
    lines += ["", "How", *how_lines(content), *_radius(content)]
    if content["expected_rows"] is not None:
        expected, n_rows = float(content["expected_rows"]), float(content["n_rows"])
        units = units_of(str(content["neighbours"]))
        lines.append(
            f"  About {expected:,.0f} of {n_rows:,.0f} {units} are expected to be kept ({expected / n_rows:.1%})."
        )
    quality = content["predicted_quality"]
    if quality is not None:
        ratio = validate.positive("predicted_cost_over_best", quality["predicted_cost_over_best"])
        lines.append(
            f"  The spread within segments is predicted to be about {ratio:.3g} times that of k-means without noise."
        )
    lines.append("")
    lines.append("  norm           kept with probability   epsilon of such a record")
    rows = content["by_norm"]
    for norm, kept, loss in zip(rows["norm"], rows["probability"], rows["epsilon"], strict=True):
        lines.append(f"  {norm:<14.6g} {kept:21.5f}   {raised(loss):>24}")
    return "\n".join(lines)


def _spent(part: dict[str, Any]) -> str:
    """An earlier release on the same rows, and its price."""
    if not part.get("shift"):
        return f"  In addition: {part['what']}, epsilon {raised(part['epsilon'])}, already released."
    shift = validate.positive("shift", part["shift"])
    return f"  This includes the {part['what']} before it, with Gaussian shift {raised(shift)}, already released."


def _radius(content: dict[str, Any]) -> list[str]:
    """Explain how the plan chose the radius, if it did."""
    choice = content["radius_choice"]
    if choice is None:
        return []
    for name in ("noise_per_row", "clipping_per_row"):
        validate.non_negative(name, choice[name])
    return ["  The radius was chosen so that the predicted error from noise and clipped rows together is least."]
