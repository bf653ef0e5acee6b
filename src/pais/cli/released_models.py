"""The work of the commands of regression, classification and PCA: fit an estimator, then print and write its values."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pais
from pais._base import files as formats
from pais.cli import books, files, options, show
from pais.cli.columns import columns_of
from pais.cli.commands import warn_of_seed
from pais.cli.models import MODELS, Classification, Components, Model
from pais.cli.options import EngineName
from pais.cli.rows import center_of, found, stated_norms
from pais.data.checks import listed
from pais.data.sources import Opening
from pais.errors import ArgumentError
from pais.estimators.frames import with_intervals
from pais.report import ComponentResults, RegressionResults
from pais.report.regression import HIDDEN
from pais.report.results import as_sentence
from pais.statistics.frames import with_error


def release(
    name: str,
    wanted: Model,
    run: options.Run,
    ledger: Path | None,
    out: Path,
    report: options.Report,
    *,
    overwrite: bool,
) -> None:
    """Fit a model and write its values, model, report and certificate; then print a summary."""
    warn_of_seed(run.seed)
    table = "components" if name == "pca" else "coefficients"
    files.require_free([out / each for each in files.model_files(table)], overwrite=overwrite)
    model = _estimator(name, wanted, run.seed)
    # The estimator checks the price against the ledger before it opens the rows.
    model.ledger = book = books.opened(ledger)
    with books.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        bar.begin(f"survey, plan, sample, {name}")
        held = wanted.engine is EngineName.memory
        model.fit(Opening(data=data, options={**csv, "on_rows": bar.rows}, held=held))
        bar.begin("write")
        values = _values(model)
        described = _described(name, model, values)

        def write_report(path: Path) -> object:
            return model.write_report(path, data_name=report.data_name, owner=report.owner)

        paths = files.write_model(out, table, values, described, write_report, model.certificate_.to_json())
    if run.as_json:
        show.print_json({"certificate": json.loads(model.certificate_.to_json()), **described, "files": paths})
    elif not run.quiet:
        _print(model, paths)


def _estimator(name: str, wanted: Model, seed: int | None) -> Any:
    """The estimator with the parameters that the options of the same names state."""
    kind = getattr(pais, MODELS[name][0])
    names = kind().get_params()
    stated = {field.name: getattr(wanted, field.name) for field in fields(wanted) if field.name in names}
    stated |= {option: value.value for option, value in stated.items() if isinstance(value, Enum)}
    stated |= {
        "columns": columns_of(wanted.columns),
        "norms": stated_norms(wanted.norms, wanted.n_rows, wanted.radius),
        "random_state": seed,
    }
    if isinstance(wanted, Classification) and wanted.classes is not None:
        stated["classes"] = _classes(wanted.classes)
    if isinstance(wanted, Components):
        stated["center"] = center_of(wanted.center)
    return kind(**stated)


def _classes(text: str) -> list[str]:
    classes = [each.strip() for each in text.strip().removeprefix("[").removesuffix("]").split("|")]
    if len(classes) < 2 or not all(classes) or len(set(classes)) < len(classes):
        raise ArgumentError("--classes needs two or more classes, each once. Write --classes 'yes|no'.")
    return classes


def _values(model: Any) -> pa.Table:
    """The released values, one line for each coefficient or component."""
    shown = _results(model)
    columns: dict[str, Any]
    if isinstance(shown, ComponentResults):
        k = len(shown.variances)
        columns = {
            "component": np.arange(1, k + 1),
            "explained_variance": shown.variances,
            "explained_variance_ratio": shown.shares,
            "standard_error": shown.standard_errors,
        }
        loadings = dict(zip(files.require_names(shown.names, *columns), shown.loadings.T, strict=True))
        return pa.table({name: pa.array(numbers) for name, numbers in (columns | loadings).items()})
    values, errors, names = shown.values, shown.standard_errors, [*shown.names]
    hidden, compared_with = shown.is_hidden, [reference or None for reference in shown.compared_with]
    if shown.intercepts is not None and shown.intercept_errors is not None:
        values, errors = np.column_stack([values, shown.intercepts]), np.column_stack([errors, shown.intercept_errors])
        hidden = np.column_stack([hidden, np.zeros(len(values), dtype=bool)])
        names.append("intercept")
        compared_with.append(None)
    columns = {"class": np.repeat(shown.classes, len(names))} if len(values) > 1 else {}
    columns |= {"feature": names * len(values), **with_intervals(values.ravel(), errors.ravel(), hidden.ravel())}
    columns["compared_with"] = pa.array(compared_with * len(values), pa.string())
    # What has no interval has empty cells.
    return pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns.items()})


def _results(model: Any) -> RegressionResults | ComponentResults:
    """The released values as a reader of the report sees them."""
    shown: RegressionResults | ComponentResults = model._shown().value
    return shown


def _described(name: str, model: Any, values: pa.Table) -> dict[str, Any]:
    """The model for a file: the released values, and how to read rows."""
    schema, shown = model.fit_.schema, _results(model)
    facts: dict[str, Any] = {"kind": name, "format": formats.FORMAT, "verdict": shown.verdict, "caution": shown.concern}
    if isinstance(shown, RegressionResults):
        facts["target"] = shown.target
    if hasattr(model, "classes_"):
        facts["classes"] = list(map(str, model.classes_.tolist()))
    if isinstance(shown, ComponentResults):
        facts["mean"] = dict(zip(shown.names, map(_finite, model.mean_.tolist()), strict=True))
    return {
        **facts,
        "columns": [str(column) for column in model.feature_names_in_],
        "schema": None if schema is None else schema.to_dict(),
        "fills_missing": model.missing == "midpoint",
        "values": [{key: _finite(value) for key, value in line.items()} for line in values.to_pylist()],
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(model: Any, paths: dict[str, str]) -> None:
    """Print the guarantee, how far the values can be read, and the values if there are not too many."""
    shown = _results(model)
    facts = [("features", listed([str(column) for column in model.feature_names_in_]))]
    if isinstance(shown, RegressionResults):
        classes = [] if not hasattr(model, "classes_") else [str(each) for each in model.classes_.tolist()]
        facts.append(("target", f"{shown.target} ({listed(classes)})" if classes else shown.target))
    show.release_table(shown.title, model.fit_, [*facts, ("verdict", shown.verdict)], paths)
    if isinstance(shown, ComponentResults):
        _print_components(shown, paths)
    else:
        _print_coefficients(shown, paths)


def _print_coefficients(shown: RegressionResults, paths: dict[str, str]) -> None:
    header = ["feature", *(shown.classes if len(shown.values) > 1 else ("coefficient",))]
    hidden = shown.is_hidden
    arrays = (shown.values.T, shown.standard_errors.T, shown.clear.T, hidden.T)
    rows = [
        [label, *(_cell(*numbers) for numbers in zip(*several, strict=True))]
        for label, several in zip(shown.names, zip(*arrays, strict=True), strict=True)
    ]
    if shown.intercepts is not None and shown.intercept_errors is not None:
        pairs = zip(shown.intercepts, shown.intercept_errors, strict=True)
        rows.append(["intercept", *(_cell(value, error, True) for value, error in pairs)])
    is_weak = not (shown.clear | hidden).all()
    note = "value ± standard error" + ("; in parentheses: within two of them of zero" if is_weak else "")
    if len(shown.classes) == 1:
        note += f"\nA coefficient is the change of the log odds of {shown.target} = {shown.classes[0]}."
    if shown.comparison is not None:
        note += f"\n{as_sentence(shown.comparison)}"
    show.values_table("Coefficients", header, rows, note, paths["coefficients.csv"])


def _print_components(shown: ComponentResults, paths: dict[str, str]) -> None:
    k = len(shown.variances)
    clear = [place < shown.above_noise for place in range(k)]
    lines = [
        ("variance", shown.variances, ".4g"),
        ("standard error", shown.standard_errors, ".2g"),
        ("share", shown.shares, ".1%"),
    ]
    lines += [(name, numbers, ".3f") for name, numbers in zip(shown.names, shown.loadings.T, strict=True)]
    rows = [
        [
            label,
            *(
                text if seen else f"({text})"
                for text, seen in zip((f"{n:{form}}" for n in numbers), clear, strict=True)
            ),
        ]
        for label, numbers, form in lines
    ]
    header = ["component", *(str(place) for place in range(1, k + 1))]
    note = "" if all(clear) else "In parentheses: components that do not stand above the noise."
    show.values_table("Components", header, rows, note, paths["components.csv"])


def _cell(value: float, error: float, clear: bool, hidden: bool = False) -> str:
    if hidden:
        return HIDDEN
    text = with_error(float(value), float(error))
    return text if clear else f"({text})"
