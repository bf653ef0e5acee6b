"""Say what a file of this package is, if it is not a certificate, a plan or a survey: those explain themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pais._base.files import read_json
from pais._base.numerics import lowered, raised
from pais._base.validate import attempt
from pais.accounting import Ledger
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
)
from pais.data.checks import listed
from pais.data.headers import is_csv

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
            return _statistic(path)
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
        return _statistic(path)
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
    if certificate.is_file():
        lines.append(f"Check that it belongs to them: pais explain {certificate.name} --values {path.name}")
    return _described("centers", lines)


def _statistic(path: Path) -> dict[str, Any]:
    lines = [
        "This is a released statistic: one line for each value, with its standard error and its 95 % interval.",
        "It is protected and may be published. The certificate of the release states the guarantee.",
    ]
    certificate = certificate_beside(path)
    if certificate.is_file():
        lines.append(f"Read the certificate in plain words: pais explain {certificate.name}")
    return _described("statistic", lines)


def _values(path: Path, what: str) -> dict[str, Any]:
    lines = [
        f"These are released {what}: one line for each, with standard errors.",
        "They are protected and may be published. The certificate of the release states the guarantee.",
    ]
    certificate = path.absolute().parent / CERTIFICATE
    if certificate.is_file():
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
    if certificate.is_file():
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
