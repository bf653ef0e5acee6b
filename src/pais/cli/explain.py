"""Say what a file of this package is, recognised by its content, and put it into plain words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pais._base import validate
from pais._base.files import read_json
from pais._base.numerics import lowered, raised
from pais._base.validate import attempt
from pais.accounting.certificate import (
    certificate_text,
    delta_lines,
    digest,
    guarantee_lines,
    joint_lines,
    price_of,
)
from pais.accounting.ledger import Ledger
from pais.cli import files
from pais.data.cells import listed
from pais.data.dialect import is_csv
from pais.errors import ArgumentError
from pais.planning.explain import survey_text

# A report begins with these bytes, and this mark stands in its head.
_PAGE, _GENERATOR = b"<!DOCTYPE html>", b'<meta name="generator" content="pais">'
_HEAD_BYTES = 4096

_MAY_LEAVE = "They are protected and may be published. The certificate of the release states the guarantee."

# What files without a price hold, by their kind.
_WORDS = {
    "centers": [
        f"These are released cluster centers: one line for each center, with its {files.COUNT_COLUMN}.",
        "The features are {features}.",
        _MAY_LEAVE,
    ],
    "coefficients": ["These are released coefficients: one line for each, with standard errors.", _MAY_LEAVE],
    "components": ["These are released components: one line for each, with standard errors.", _MAY_LEAVE],
    "statistic": [
        "This is a released statistic: one line for each value, with its standard error and its 95 % interval.",
        "It is protected and may be published. The certificate of the release states the guarantee.",
    ],
    "report": [
        "This is the report of a release, a page for a browser. It holds public and released values only.",
        "It may be published. It contains the certificate of the release.",
    ],
    "labels": [
        "These are labels: the number of the nearest released center for each row of a table.",
        "NOT PROTECTED: a label depends on its row. Keep the file as secret as the table.",
    ],
    "sample": [
        "This is a weighted sample of a table, from `pais sample`.",
        "NOT PROTECTED: it contains rows, clipped but without noise. Keep it as secret as the table.",
    ],
    "check": [
        "This is a check of a table against what is stated about its columns, from `pais check`.",
        "NOT PROTECTED: its numbers are exact, and it quotes cells. Keep it as secret as the table.",
    ],
}

# What the metadata of a Parquet file says, and the kind of the file.
_MARKS = {files.STATISTIC: "statistic", files.LABELS: "labels", files.SAMPLE: "sample"}
_MARKS |= {kind.encode(): kind for kind in ("centers", "coefficients", "components")}

# The models beside k-means in words.
_MODELS = {
    "regression": "a linear regression",
    "classification": "a logistic regression",
    "pca": "principal components",
}


def explanation(path: Path) -> dict[str, Any]:
    """Return the kind, the guarantee and the explanation of a file of this package.

    Of the directory of a release, the certificate is explained.
    """
    # The system may refuse to look, for instance if the name is too long. Reading the file then says so.
    if attempt((path / files.CERTIFICATE).is_file):
        path = path / files.CERTIFICATE
    kind, features = _kind_by_bytes(path)
    if kind is not None:
        lines = [line.replace("{features}", features) for line in _WORDS[kind]]
        return _described(kind, [*lines, *_certificate_hint(path, kind)])
    content = read_json(path)
    kind = content.get("kind")
    if kind == "check":
        return _described(kind, _WORDS[kind])
    if kind == "model":
        return _described(kind, _centers_model(path))
    if isinstance(kind, str) and kind in _MODELS:
        return _described("model", _other_model(content))
    if kind == "ledger":
        return _ledger(path)
    introduction = ""
    if isinstance(content.get("certificate"), dict):
        introduction = _statistic(content) if kind == "statistic" else ""
        content, kind = content["certificate"], "statistic" if introduction else "certificate"
    words: dict[str, Callable[[dict[str, Any]], str]] = {
        "plan": _plan,
        "survey": survey_text,
        "certificate": certificate_text,
        "statistic": certificate_text,
    }
    try:
        text = introduction + words[str(kind)](content)
        # A survey with a shift is not priced alone.
        epsilon, delta = (None, None) if kind == "survey" and content["shift"] else price_of(content)
        # A plan has drawn no randomness yet.
        secure = None if kind == "plan" else content["secure_randomness"] is True
        return _described(str(kind), text.split("\n"), epsilon=epsilon, delta=delta, secure_randomness=secure)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        pass
    raise ArgumentError(f"{path} is not a certificate, plan or survey of pais. Pass a file that pais wrote.")


def explain_file(path: Path) -> str:
    """Explain a file of this package in words."""
    return "\n".join(explanation(path)["explanation"])


def _described(kind: str, lines: list[str], **prices: Any) -> dict[str, Any]:
    return {"kind": kind, "epsilon": None, "delta": None, "secure_randomness": None, **prices, "explanation": [*lines]}


def _kind_by_bytes(path: Path) -> tuple[str | None, str]:
    """The kind of a page or table of this package, and the features of a table; None if it is something else."""
    head = attempt(lambda: _head(path)) or b""
    names: list[str] = []
    kind = None
    if head.startswith(b"PAR1"):
        schema = attempt(lambda: pq.read_schema(path))
        if schema is not None:
            names, kind = schema.names, _MARKS.get((schema.metadata or {}).get(files.CONTENT_KEY, b""))
    elif head.startswith(_PAGE):
        kind = "report" if _GENERATOR in head else None
    elif is_csv(path.name):
        names = attempt(lambda: pa_csv.open_csv(path).schema.names) or []
        if names[-4:] == files.STATISTIC_COLUMNS:
            kind = "statistic"
        elif files.COUNT_COLUMN in names:
            kind = "centers"
        elif "feature" in names[:2]:
            kind = "coefficients"
        elif "component" in names[:2]:
            kind = "components"
    return kind, listed([name for name in names if name != files.COUNT_COLUMN])


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _certificate_hint(path: Path, kind: str) -> list[str]:
    """How to read the certificate beside a file, if there is one."""
    beside = files.certificate_beside(path) if kind == "statistic" else path.absolute().parent / files.CERTIFICATE
    if kind in ("labels", "sample") or not attempt(beside.is_file):
        return []
    if kind == "centers":
        return [f"Check that it belongs to them: pais explain {beside.name} --values {path.name}"]
    return [f"Read the certificate in plain words: pais explain {beside.name}"]


def _centers_model(path: Path) -> list[str]:
    n_clusters, n_features = files.read_model(path).centers.shape
    return [
        f"This is the model of a release: {n_clusters} centers of {n_features} feature(s), and how to read rows.",
        "It holds public and released values only, and may be published. The certificate states the guarantee.",
        f"Label rows with it: pais label DATA --model {path} --to labels.parquet. Labels are not protected.",
    ]


def _other_model(content: dict[str, Any]) -> list[str]:
    about = f" of {content['target']}" if content.get("target") else ""
    return [
        f"This is the model of a release: {_MODELS[content['kind']]}{about}, and how to read rows.",
        f"Its columns are {listed([str(name) for name in content.get('columns') or ()])}.",
        "It holds public and released values only, and may be published. The certificate states the guarantee.",
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


def _statistic(content: dict[str, Any]) -> str:
    """What a file with a released statistic holds."""
    values = content.get("values")
    number = f"{len(values)} value(s)" if isinstance(values, list) else "values"
    lines = [
        f"This is a released statistic: {content.get('statistic')}, {number} with standard errors and intervals.",
        "They are protected and may be published with the certificate, which the file holds too.",
        f"{content.get('noise')} {content.get('clipping')}",
    ]
    for word, name in (("Caution", "cautions"), ("Note", "notes")):
        lines += [f"{word}: {text}" for text in content.get(name) or () if isinstance(text, str)]
    return "\n".join(lines) + "\n\n"


def require_values(path: Path, values: Path) -> None:
    """Raise if the certificate was issued for other values."""
    content = read_json(path)
    if isinstance(content.get("certificate"), dict):
        content = content["certificate"]
    expected = content.get("values_sha256")
    if not isinstance(expected, str):
        raise ArgumentError(f"{path} holds no fingerprint of values. Pass a certificate of a release.")
    if digest(files.read_values(values)) != expected:
        raise ArgumentError(
            f"{values} does not hold the values that {path} was issued for. Check that both are of one release, and "
            "that no number was edited or rounded."
        )


def _plan(content: dict[str, Any]) -> str:
    """A plan in words."""
    spent, neighbours = content["spent"], str(content["neighbours"])
    lines = ["This is a plan. It has released nothing."]
    lines[0] += " Only the survey before it has read rows." if spent else " No row was read for it."
    lines += ["", "Guarantee, once it is run"]
    lines += guarantee_lines(float(content["epsilon"]), float(content["delta"]), neighbours)
    lines += delta_lines(content)
    for part in spent:
        if part.get("shift"):
            shift = f"with Gaussian shift {raised(validate.positive('shift', part['shift']))}"
            lines.append(f"  This includes the {part['what']} before it, {shift}, already released.")
        else:
            lines.append(f"  In addition: {part['what']}, epsilon {raised(part['epsilon'])}, already released.")
    return "\n".join([*lines, *joint_lines(content, neighbours), "", "How", *map(str, content["explanation"])])
