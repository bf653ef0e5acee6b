"""Explain certificates, plans and surveys in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pais._base import validate
from pais._base.files import read_json
from pais._base.numerics import lowered, raised
from pais._base.validate import attempt
from pais.accounting.certificate import digest
from pais.accounting.ledger import Ledger
from pais.accounting.words import (
    certificate_text,
    delta_lines,
    guarantee_lines,
    how_lines,
    joint_lines,
    price_of,
    units_of,
)
from pais.cli.files import (
    CERTIFICATE,
    CONTENT_KEY,
    COUNT_COLUMN,
    LABELS,
    SAMPLE,
    STATISTIC,
    STATISTIC_COLUMNS,
    WEIGHT_COLUMN,
    certificate_beside,
    read_model,
    read_values,
)
from pais.data.checks import listed
from pais.data.dialect import is_csv
from pais.errors import ArgumentError
from pais.planning.explain import survey_text

# A report begins with these bytes, and this mark stands in its head.
_PAGE, _GENERATOR = b"<!DOCTYPE html>", b'<meta name="generator" content="pais">'
_HEAD_BYTES = 4096

# The models beside k-means in words, and the column that their tables begin with, after that of the class.
_MODELS = {
    "regression": "a linear regression",
    "classification": "a logistic regression",
    "pca": "principal components",
}
_TABLES = {"coefficients": "feature", "components": "component"}


def recognised(path: Path) -> dict[str, Any] | None:
    """Return the kind and the explanation of a ledger, a model, a report or a table of this package, else None."""
    head = attempt(lambda: _head(path)) or b""
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if head.startswith(_PAGE):
        return _described("report", _report(path)) if _GENERATOR in head else None
    if is_csv(path.name):
        names = attempt(lambda: pa_csv.open_csv(path).schema.names)
        if names is not None and names[-4:] == STATISTIC_COLUMNS:
            return _statistic_file(path)
        if names is not None and COUNT_COLUMN in names:
            return _centers(path, names)
        return next((_values(path, what) for what, first in _TABLES.items() if names and first in names[:2]), None)
    content = attempt(lambda: read_json(path))
    kind = None if content is None else content.get("kind")
    if kind == "model":
        return _described("model", _model(path))
    if content is not None and isinstance(kind, str) and kind in _MODELS:
        return _described("model", _other_model(content))
    if kind == "check":
        lines = [
            "This is a check of a table against what is stated about its columns, from `pais check`.",
            "NOT PROTECTED: its numbers are exact, and it quotes cells. Keep it as secret as the table.",
        ]
        return _described("check", lines)
    return _ledger(path) if kind == "ledger" else None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _described(kind: str, lines: Sequence[str], **prices: float) -> dict[str, Any]:
    return {"kind": kind, "epsilon": None, "delta": None, "secure_randomness": None, **prices, "explanation": [*lines]}


def _parquet(path: Path) -> dict[str, Any] | None:
    schema = attempt(lambda: pq.read_schema(path))
    if schema is None:
        return None
    mark = (schema.metadata or {}).get(CONTENT_KEY)
    if mark == STATISTIC:
        return _statistic_file(path)
    if mark is not None and mark.decode() in _TABLES:
        return _values(path, mark.decode())
    if mark == LABELS:
        lines = [
            "These are labels: the number of the nearest released center for each row of a table.",
            "NOT PROTECTED: a label depends on its row. Keep the file as secret as the table.",
        ]
        return _described("labels", lines)
    if mark == SAMPLE or (mark is None and WEIGHT_COLUMN in schema.names and COUNT_COLUMN not in schema.names):
        lines = [
            "This is a weighted sample of a table, from `pais sample`.",
            "NOT PROTECTED: it contains rows, clipped but without noise. Keep it as secret as the table.",
        ]
        return _described("sample", lines)
    return _centers(path, schema.names) if COUNT_COLUMN in schema.names else None


def _centers(path: Path, names: Sequence[str]) -> dict[str, Any]:
    features = [name for name in names if name != COUNT_COLUMN]
    lines = [
        f"These are released cluster centers: one line for each center, with its {COUNT_COLUMN}.",
        f"The features are {listed(features)}.",
        "They are protected and may be published. The certificate of the release states the guarantee.",
    ]
    certificate = path.absolute().parent / CERTIFICATE
    # Its name is longer than that of the table, and may be too long for the system.
    if validate.attempt(certificate.is_file):
        lines.append(f"Check that it belongs to them: pais explain {certificate.name} --values {path.name}")
    return _described("centers", lines)


def _statistic_file(path: Path) -> dict[str, Any]:
    lines = [
        "This is a released statistic: one line for each value, with its standard error and its 95 % interval.",
        "It is protected and may be published. The certificate of the release states the guarantee.",
    ]
    certificate = certificate_beside(path)
    # Its name is longer than that of the table, and may be too long for the system.
    if validate.attempt(certificate.is_file):
        lines.append(f"Read the certificate in plain words: pais explain {certificate.name}")
    return _described("statistic", lines)


def _values(path: Path, what: str) -> dict[str, Any]:
    lines = [
        f"These are released {what}: one line for each, with standard errors.",
        "They are protected and may be published. The certificate of the release states the guarantee.",
    ]
    certificate = path.absolute().parent / CERTIFICATE
    # Its name is longer than that of the table, and may be too long for the system.
    if validate.attempt(certificate.is_file):
        lines.append(f"Read the certificate in plain words: pais explain {certificate.name}")
    return _described(what, lines)


def _other_model(content: dict[str, Any]) -> list[str]:
    about = f" of {content['target']}" if content.get("target") else ""
    return [
        f"This is the model of a release: {_MODELS[content['kind']]}{about}, and how to read rows.",
        f"Its columns are {listed([str(name) for name in content.get('columns') or ()])}.",
        "It holds public and released values only, and may be published. The certificate states the guarantee.",
    ]


def _report(path: Path) -> list[str]:
    lines = [
        "This is the report of a release, a page for a browser. It holds public and released values only.",
        "It may be published. It contains the certificate of the release.",
    ]
    certificate = path.absolute().parent / CERTIFICATE
    # Its name is longer than that of the table, and may be too long for the system.
    if validate.attempt(certificate.is_file):
        lines.append(f"Read the certificate in plain words: pais explain {certificate.name}")
    return lines


def _model(path: Path) -> list[str]:
    model = read_model(path)
    n_clusters, n_features = model.centers.shape
    return [
        f"This is the model of a release: {n_clusters} centers of {n_features} feature(s), and how to read rows.",
        "It holds public and released values only, and may be published. The certificate states the guarantee.",
        f"Label rows with it: pais label DATA --model {path} --to labels.parquet. Labels are not protected.",
    ]


def _ledger(path: Path) -> dict[str, Any]:
    ledger = Ledger(path=path)
    budget, spent, left = ledger.budget, ledger.spent, ledger.remaining
    n_entries = len(ledger.entries)
    lines = [
        "This is a ledger: the privacy budget of one set of rows, and the releases that were charged to it.",
        f"Budget: epsilon {lowered(budget.epsilon)}, delta {lowered(budget.delta, 3)}.",
        f"Spent: epsilon {raised(spent.epsilon)}, delta {raised(spent.delta, 3)}, by {n_entries} release(s).",
        f"Remaining: epsilon {lowered(left.epsilon)}, delta {lowered(left.delta, 3)}.",
        f"List the releases with: pais ledger {path}",
    ]
    return _described("ledger", lines, epsilon=budget.epsilon, delta=budget.delta)


def explain_file(path: Path) -> str:
    """Explain a file of this package in words."""
    return "\n".join(explanation(path)["explanation"])


def explanation(path: Path) -> dict[str, Any]:
    """Return the kind, the guarantee and the explanation of a file of this package, recognised by its content.

    Of the directory of a release, the certificate is explained.
    """
    # The system may refuse to look, for instance if the name is too long. Reading the file then says so.
    if validate.attempt((path / "certificate.json").is_file):
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
