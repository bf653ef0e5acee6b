"""The work of the commands of statistics: open the table, release, print and write."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

import pais
from pais._base import files as formats, validate
from pais._base.numerics import raised
from pais.accounting.ledger import Ledger
from pais.accounting.part import Part
from pais.accounting.words import units_of
from pais.cli import files, ledgers, options, show
from pais.cli.app import MODELS, Classification, Components, Histogram, Model, People, Quantile, Statistic, Table
from pais.cli.columns import columns_of, names_of
from pais.cli.explain import explain_file, explanation, require_values
from pais.cli.guard import FAILED, spelled
from pais.cli.options import EngineName
from pais.cli.rows import center_of, found, numbers, open_rows, passes, people_hint, sample_table, stated_norms
from pais.data.checking import MARK, check as compared
from pais.data.checks import listed
from pais.data.engines.base import Engine
from pais.data.engines.local import LocalEngine
from pais.data.example import example_people
from pais.data.kinds import Boolean, Categories, Column, Scale
from pais.data.schema import Schema
from pais.data.sources import Opening, cells, opened
from pais.data.units import unit_of
from pais.errors import ArgumentError
from pais.kmeans.labels import LABEL_COLUMN, CenterModel
from pais.kmeans.mechanism import KMeans
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.linear.coefficients import with_intervals
from pais.linear.page import HIDDEN, RegressionResults
from pais.pca.page import ComponentResults
from pais.pipeline import fit, run as run_plan, sample as draw
from pais.planning.facts import Facts, Survey
from pais.planning.fit import Fit
from pais.planning.norm_survey import survey as survey_rows
from pais.planning.plan import Plan
from pais.show.page import ReportHeader, today
from pais.show.text import as_sentence
from pais.statistics.table import Selection, with_error


@dataclass(frozen=True, kw_only=True)
class SurveyRequest:
    """A survey that the user asks for."""

    epsilon: float
    center: str | None
    quantile: float | None
    mechanism: str
    ledger: Path | None


@dataclass(frozen=True, kw_only=True)
class Work:
    """A k-means that is ready to run, with the prices that the ledger must pay and the passes of its survey."""

    prices: tuple[Part, ...]
    survey_passes: int
    run: Callable[[Engine, Ledger | None], Fit]
    schema: Schema | None


def warn_of_seed(seed: int | None) -> None:
    if seed is not None:
        show.warn(show.SEED_WARNING)


def example(path: Path, *, n_people: int, seed: int, overwrite: bool) -> None:
    """Write the table as CSV or Parquet, by the ending of the file name, and say what it holds."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"{path} must end in .csv or .parquet. Pass a name such as people.csv.")
    files.require_free([path], overwrite=overwrite, option="FILE")
    table = example_people(n_people, random_state=seed)
    files.write_table(path, table)
    show.say(
        f"{path}: {table.num_rows:,} rows about {n_people:,} people who do not exist, with missing cells.\n"
        f"Columns: {', '.join(table.column_names)}."
    )


def check(wanted: options.Checked, out: Path | None, *, as_json: bool, overwrite: bool) -> None:
    """Read the file once and print what was found. No ledger is charged, and nothing is written unless asked."""
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    if not wanted.columns:
        raise ArgumentError(
            "--columns is missing. Write what you will state about each column, such as --columns "
            "'age=18:100,premium=bool,region=[north|south]'."
        )
    columns = columns_of(wanted.columns)
    if not isinstance(columns, Schema):
        raise ArgumentError(
            "--columns states nothing about the columns. Write bounds or a kind for each, such as age=18:100."
        )
    if wanted.engine is options.EngineName.spark or wanted.master is not None:
        raise ArgumentError("`pais check` does not read with Spark. Leave --engine and --master out.")
    with show.watch(quiet=as_json) as bar:
        bar.begin("check")
        data, _ = found(wanted)
        result = compared(data, columns, unit=wanted.unit, target=wanted.target)
    if out is not None:
        files.write_json(out, result.to_dict(), secret=True)
        show.warn(f"{MARK}{out} holds exact numbers and cells. Keep it as secret as the data.")
    if as_json:
        show.print_json(result.to_dict())
        return
    for line in result.lines():
        show.say(spelled(line))


def survey(
    wanted: options.Rows, request: SurveyRequest, run: options.Run, out: Path | None, *, overwrite: bool
) -> None:
    warn_of_seed(run.seed)
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    elif run.quiet and not run.as_json:
        raise ArgumentError("--quiet would hide a survey that is paid for. Pass --out or --json, or leave out --quiet.")
    center = center_of(request.center)
    book = ledgers.opened(request.ledger, Part(what="survey", epsilon=request.epsilon, unit=wanted.unit or ""))
    with ledgers.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        rows = open_rows(wanted, bar)
        bar.begin("survey")
        bar.expect(passes(rows, surveys=2 if center is None else 1))
        result = survey_rows(
            rows,
            epsilon=request.epsilon,
            center=center,
            quantile=request.quantile,
            order=1.0 if request.mechanism == "laplace" else 2.0,
            random_state=run.seed,
            ledger=book,
        )
        bar.begin("write")
        if out is not None:
            files.write_json(out, result.to_dict())
    if not result.above_noise:
        show.warn(show.NOISE_WARNING)
    if run.as_json:
        show.print_json(result.to_dict())
    elif not run.quiet:
        show.survey_summary(result, out)


def settings_of(wanted: options.KMeans) -> KMeansSettings:
    """Settings of k-means from the options of the same names."""
    needed = {"--n-clusters": wanted.n_clusters, "--epsilon": wanted.epsilon}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        subject = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise ArgumentError(f"{subject}. Pass both options, or --plan where a command takes one.")
    names = {field.name for field in fields(KMeansSettings)}
    stated: dict[str, Any] = {name: value for name, value in vars(wanted).items() if name in names}
    stated |= {name: value.value for name, value in stated.items() if isinstance(value, Enum)}
    stated["center"] = center_of(wanted.center)
    stated["norms"] = stated_norms(wanted.norms, wanted.n_rows, wanted.radius)
    return KMeansSettings(**stated)


def surveyed(wanted: options.KMeans, *, rehearsal: bool) -> Survey | None:
    """The survey that the user passes, if any. It contains all facts, so no other may be stated."""
    if wanted.survey is None:
        return None
    if any(value is not None for value in (wanted.radius, wanted.center, wanted.norms, wanted.n_rows)):
        raise ArgumentError("--survey contains all facts. Leave out --radius, --center, --norms and --n-rows.")
    survey = Survey.load(wanted.survey)
    _require_secure(wanted.survey, survey.price, rehearsal=rehearsal)
    return survey


def _require_secure(path: Path, price: Part, *, rehearsal: bool) -> None:
    """Raise if a seeded survey would be used for a release, since a certificate could not include it."""
    if not price.secure_randomness and not rehearsal:
        raise ArgumentError(f"{path} was made with a seed and is not private. Survey again without --seed.")


def plan(
    wanted: options.KMeans,
    units: options.Units,
    output: options.Output,
    n_features: int | None,
    out: Path | None,
    *,
    overwrite: bool,
) -> None:
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    settings, survey = settings_of(wanted), surveyed(wanted, rehearsal=True)
    if survey is None and (settings.radius is None or settings.norms is None):
        raise ArgumentError("a plan needs facts. State --radius, --norms and --n-rows, or pass --survey survey.json.")
    unit = unit_of(units.unit, units.max_rows_per_unit)
    if survey is None:
        facts = settings.facts(None).about(unit, None)
    else:
        facts = Facts.of(survey) if units.unit is None else Facts.of(survey).about(unit, survey.schema)
    center = facts.ball.center
    if n_features is None and center is None:
        raise ArgumentError("the number of columns is not known. Pass --n-features.")
    result = settings.plan(facts, len(center or ()) if n_features is None else n_features)
    show.warn_of_weak(settings.epsilon, result)
    content = result.to_dict()
    if out is not None:
        files.write_json(out, content)
    show.plan_or_json(content, as_json=output.as_json, quiet=output.quiet)


def sample(
    wanted: options.Rows, run: options.Run, path: Path, out: Path, *, carry: str | None, overwrite: bool
) -> None:
    warn_of_seed(run.seed)
    files.require_free([out], overwrite=overwrite)
    with show.watch(quiet=run.quiet) as bar:
        bar.begin("plan")
        plan = Plan.load(path)
        bar.begin("open")
        rows = opened(open_rows(wanted, bar, carry, default=plan.schema), plan.schema, plan.unit)
        names = files.require_names(rows.names, files.WEIGHT_COLUMN, *(names_of("--carry", carry) or ()))
        plan.require_columns(rows)
        bar.begin("sample")
        bar.expect(passes(rows, samples=1))
        content = draw(rows, ball=plan.ball, rule=plan.rule, random_state=run.seed).spend("a sample file")
        bar.begin("write")
        files.write_secret_sample(out, sample_table(content, plan.ball, names, run.seed, rows.schema))
    show.warn(show.SAMPLE_WARNING)
    expected = plan.expected_rows
    if run.as_json:
        show.print_json({"sample": str(out), "expected_rows": expected, "warning": show.SAMPLE_WARNING})
    elif not run.quiet:
        size = "rows" if expected is None else f"about {expected:,.0f} {units_of(plan.neighbours)} expected,"
        show.say(f"{out}: {size} clipped to the ball, each with its weight 1/probability")


def prepare_release(out: Path, *, overwrite: bool, seed: int | None) -> None:
    """Warn about a seed, and refuse to replace an earlier release unless `overwrite` is set."""
    warn_of_seed(seed)
    files.require_free([out / name for name in files.RELEASE], overwrite=overwrite)


def work_of_settings(wanted: options.KMeans, *, seed: int | None) -> Work:
    """Prepare a k-means from settings and, if given, an earlier survey."""
    settings, survey = settings_of(wanted), surveyed(wanted, rehearsal=seed is not None)
    facts = None if survey is None else Facts.of(survey)
    prices: tuple[Part, ...] = (settings.price,)
    if survey is not None and survey.shift == 0.0:
        own = Part(what="k-means", epsilon=settings.epsilon_after(survey), delta=settings.price.delta)
        prices = (survey.price, own)
    return Work(
        prices=prices,
        survey_passes=settings.survey_passes if survey is None else 0,
        schema=None if survey is None else survey.schema,
        # Not counted among fits without a ledger: a command is a separate process and makes one fit.
        run=lambda rows, ledger: fit(rows, settings, random_state=seed, ledger=ledger, facts=facts, counted=False),
    )


def work_of_plan(path: Path, *, seed: int | None) -> Work:
    """Prepare the k-means that a plan file describes."""
    plan = Plan.load(path)
    if not isinstance(plan.mechanism, KMeans):
        raise ArgumentError(f"{path} is a plan for {plan.mechanism.name!r}, not for k-means. Run it with pais.run.")
    for part in plan.spent:
        _require_secure(path, part, rehearsal=seed is not None)
        if not part.release:
            raise ArgumentError(f"{path} has a survey without a name, which no ledger recognises. Plan again.")
    show.warn_of_weak(sum(part.epsilon for part in (*plan.spent, plan.price)), plan)
    return Work(
        prices=plan.due,
        survey_passes=0,
        schema=plan.schema,
        run=lambda rows, ledger: Fit.of(plan, run_plan(plan, rows, random_state=seed, ledger=ledger)),
    )


def refuse_beside_plan(context: typer.Context) -> None:
    """Raise if an option repeats or contradicts a setting of the plan."""
    decided = {field.name for field in fields(options.KMeans)}
    given = [name for name in context.params if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"]
    conflicts = [f"--{name.replace('_', '-')}" for name in given if name in decided]
    if conflicts:
        raise ArgumentError(f"--plan decides {', '.join(conflicts)}. Leave these options out, or plan again.")


def kmeans(
    wanted: options.Rows, work: Work, run: options.Run, ledger: Path | None, out: Path, report: options.Report
) -> None:
    """Open the rows, run the k-means and write the files; then print the release, its columns and the paths."""
    book = ledgers.opened(ledger, *work.prices)
    header = ReportHeader(data_name=report.data_name, owner=report.owner, date=today())
    with ledgers.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        rows = open_rows(wanted, bar, default=work.schema)
        names = files.require_names(rows.names, files.COUNT_COLUMN)
        bar.begin("survey, plan, sample, rounds")
        bar.expect(passes(rows, surveys=work.survey_passes, samples=1))
        result = work.run(rows, book)
        assert isinstance(result, KMeansFit)
        bar.begin("write")
        model = CenterModel(
            centers=result.value.centers,
            columns=rows.feature_columns,
            schema=result.schema,
            fills_missing=wanted.missing.value == "midpoint",
        )
        paths = files.write_release(out, result, names, header, model=model)
    if result.survey is not None and not result.survey.above_noise:
        show.warn(show.NOISE_WARNING)
    show.warn_of(None if result.survey is None else result.survey.columns_concern)
    show.warn_of(result.concern)
    show.release_or_json(result, names, paths, as_json=run.as_json, quiet=run.quiet)


# Runs on each table and seconds of an audit by runs, unless they are stated.
_RUNS, _SECONDS = 100_000, 60.0


def audit(
    path: Path,
    output: options.Output,
    *,
    method: options.AuditMethod,
    runs: int | None,
    seconds: float | None,
    confidence: float | None,
    seed: int | None,
) -> None:
    from pais.auditing.auditor import audit as run_audit  # it imports scikit-learn, which takes a second

    plan = Plan.load(path)
    wanted: dict[str, Any] = {"runs": runs, "seconds": seconds, "confidence": confidence, "random_state": seed}
    if method is options.AuditMethod.runs:
        wanted |= {"runs": runs or _RUNS, "seconds": seconds or _SECONDS}
    with show.stages(total=1, quiet=output.quiet) as begin:
        begin("audit")
        report = run_audit(plan, method=method.value, **wanted)
    if output.as_json:
        show.print_json(report.to_dict())
    elif not output.quiet:
        show.say(str(report))
    if report.violates:
        raise typer.Exit(FAILED)


def explain(file: Path, values: Path | None, *, as_json: bool) -> None:
    if values is not None:
        require_values(file, values)
    if as_json:
        show.print_json(explanation(file))
        return
    show.say(explain_file(file))
    if values is not None:
        show.say(f"\n{values} holds the values that this certificate was issued for.")


def label(
    place: options.Place, output: options.Output, path: Path, to: Path, *, carry: str | None, overwrite: bool
) -> None:
    """Read the rows with the columns of a model and write their labels."""
    by_spark = place.engine is options.EngineName.spark or place.master is not None
    if to.suffix != ".parquet" and not by_spark:
        raise ArgumentError(f"{to} does not end in .parquet. Pass the path of a Parquet file with --to.")
    if not (by_spark and overwrite):
        files.require_free([to], overwrite=overwrite, option="--to")
    carried = names_of("--carry", carry) or ()
    if LABEL_COLUMN in carried:
        raise ArgumentError(f"--carry names {LABEL_COLUMN!r}, which is the column of the labels. Rename it.")
    model = files.read_model(path)
    with show.watch(quiet=output.quiet) as bar:
        bar.begin("open")
        data, csv = found(place)
        rows = model.open(data, carry=carried, on_rows=bar.rows, **csv)
        bar.begin("label")
        bar.expect(passes(rows, samples=1))
        if isinstance(rows, LocalEngine):
            files.write_labels(to, model.tables(rows), rows.carried_schema)
        else:
            _write_by_spark(rows, model, carried, to, overwrite=overwrite)
    show.warn(show.LABEL_WARNING)
    if output.as_json:
        show.print_json({"labels": str(to), "carried": list(carried), "warning": show.LABEL_WARNING})
    elif not output.quiet:
        show.say(f"{to}: the number of the nearest center of each row, from 0; null if a value of the row is missing")


def _write_by_spark(rows: Engine, model: CenterModel, carried: tuple[str, ...], to: Path, *, overwrite: bool) -> None:
    """Let Spark write the labels: a directory of Parquet files, which is complete once Spark has committed it."""
    from pais.data.engines.spark import guarded

    frame: Any = rows.labelled(model.centers, LABEL_COLUMN)  # type: ignore[attr-defined]  # the engine for Spark
    columns = [f"`{name.replace('`', '``')}`" for name in (*carried, LABEL_COLUMN)]
    writer = frame.select(*columns).write.mode("overwrite" if overwrite else "error")
    guarded(lambda: writer.parquet(str(to.absolute())))
    with contextlib.suppress(OSError):
        to.chmod(0o700)


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
    model.ledger = book = ledgers.opened(ledger)
    with ledgers.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
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
        _print_model(model, paths)


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


def _print_model(model: Any, paths: dict[str, str]) -> None:
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


#: The kind of a file with a released statistic.
KIND = "statistic"

_TABLES = (".csv", ".parquet")


def statistic(
    name: str, wanted: Table, run: options.Run, ledger: Path | None, out: Path | None, *, overwrite: bool
) -> None:
    """Release a statistic; then print or write its values with the certificate."""
    warn_of_seed(run.seed)
    if out is not None:
        files.require_free(_outputs(out), overwrite=overwrite)
    elif run.quiet and not run.as_json:
        raise ArgumentError("--quiet would hide a result that is paid for. Pass --out or --json, or leave it out.")
    validate.target_epsilon(wanted.epsilon)
    more, (schema, by) = _arguments(wanted), _stated(name, wanted)
    book = ledgers.opened(ledger, Part(what=name, epsilon=wanted.epsilon, unit=wanted.unit or ""))
    with ledgers.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        selection = Selection.of(data, schema, by, wanted.unit)
        engine = cells(
            data,
            columns=selection.schema,
            unit=wanted.unit,
            max_rows_per_unit=wanted.max_rows_per_unit,
            missing=wanted.missing.value,
            # A row with a missing value has no covariances; other statistics leave out the cell alone.
            by_cell=name != "covariance",
            on_rows=bar.rows,
            **csv,
        )
        engine = engine.held() if wanted.engine is EngineName.memory else engine
        opened = Selection(rows=engine, schema=selection.schema, columns=selection.columns, by=selection.by)
        bar.begin(name)
        bar.expect(passes(engine, surveys=2 if engine.schema is not None and engine.schema.open else 0, samples=1))
        function: Callable[..., pais.Statistic] = getattr(pais, name)
        result = function(opened, epsilon=wanted.epsilon, ledger=book, random_state=run.seed, **more)
        hint = people_hint(wanted, data, (*selection.columns, *selection.by))
        if hint is not None:
            bar.warn(hint)
        bar.begin("write")
        if out is not None:
            _write(out, result)
    if run.as_json:
        show.print_json(described(result))
    elif not run.quiet:
        _print_statistic(result, out)


def _outputs(out: Path) -> list[Path]:
    """The files that --out asks for. Raises if its ending is that of no kind of file."""
    if out.suffix.lower() not in (".json", ".html", *_TABLES):
        raise ArgumentError(f"--out names {out.name!r}. Pass a file that ends in .json, .csv, .parquet or .html.")
    return [out, files.certificate_beside(out)] if out.suffix.lower() in _TABLES else [out]


def _write(out: Path, result: pais.Statistic) -> None:
    """Write a statistic as JSON, as a page or as a table, by the ending of the file name."""
    if out.suffix.lower() == ".html":
        files.write_page(out, result.write_report)
    elif out.suffix.lower() in _TABLES:
        files.write_table(out, _table(described(result)["values"]), result.certificate.to_json())
    else:
        files.write_json(out, described(result))


def _table(values: list[dict[str, Any]]) -> pa.Table:
    """One line for each value. A column with dates among numbers is text."""
    columns = {name: [value[name] for value in values] for name in values[0]}
    for name, cells_of in columns.items():
        if any(isinstance(cell, str) for cell in cells_of):
            columns[name] = [None if cell is None else str(cell) for cell in cells_of]
    return pa.table(columns).replace_schema_metadata({files.CONTENT_KEY: files.STATISTIC})


def _stated(name: str, wanted: Table) -> tuple[Schema | None, tuple[str, ...]]:
    """What --columns and --by state about columns, and the names of those that form groups."""
    has_facts = "=" in (wanted.by or "")
    columns, groups = columns_of(wanted.columns), columns_of(wanted.by, "--by") if has_facts else None
    if isinstance(columns, tuple):
        raise ArgumentError(
            f"--columns states nothing about {columns[0]!r}. Write bounds, such as {columns[0]}=18:100."
        )
    facts = [column for schema in (columns, groups) if isinstance(schema, Schema) for column in schema.columns]
    by = groups.names if isinstance(groups, Schema) else names_of("--by", wanted.by) or ()
    _require_groups([column for column in facts if column.name in by], by)
    summarised = [column for column in facts if column.name not in by]
    if summarised and name == "count_people":
        raise ArgumentError(
            f"--columns states {summarised[0].name!r}, but `pais count-people` counts people. Leave it out, or put it "
            "in --by."
        )
    if not summarised and name not in ("count", "count_people"):
        raise ArgumentError(
            f"`pais {name}` needs at least one column. State it, such as --columns age=18:100, or age=auto for bounds "
            "that are found privately."
        )
    for column in summarised:
        if isinstance(column, Scale):
            raise ArgumentError(
                f"--columns states a number to divide {column.name!r} by, but `pais {name}` needs bounds. Write "
                f"bounds, such as {column.name}=18:100, or {column.name}=auto for bounds that are found privately."
            )
    return Schema(tuple(facts)) if facts else None, by


def _require_groups(facts: list[Column], by: tuple[str, ...]) -> None:
    """Raise unless each column of --by has categories that are stated once."""
    for name in by:
        stated = [fact for fact in facts if fact.name == name]
        if by.count(name) > 1 or len(stated) > 1:
            raise ArgumentError(f"column {name!r} is stated twice. State it once, in --by or in --columns.")
        if not stated or not isinstance(stated[0], (Boolean, Categories)):
            raise ArgumentError(
                f"--by needs public categories of {name!r}. Write --by '{name}=[a|b]', '{name}=ranges(0,18,65)' for "
                f"numbers, '{name}=months(2024-01-01,2024-12-31)' for dates, or state a list or bool in --columns."
            )


def _arguments(wanted: Table) -> dict[str, Any]:
    """The arguments that only some statistics have."""
    more: dict[str, Any] = {"missing": wanted.missing.value}
    if isinstance(wanted, Statistic):
        if wanted.sample_size is not None and wanted.sampling.value not in ("constrained", "uniform"):
            raise ArgumentError(
                "--sample-size needs --sampling constrained or --sampling uniform. State both, or neither."
            )
        more |= {"delta": wanted.delta, "sampling": wanted.sampling.value, "sample_size": wanted.sample_size}
    if isinstance(wanted, People):
        more["delta"] = wanted.delta
    if isinstance(wanted, Histogram):
        bins = wanted.bins.strip()
        more["bins"] = int(bins) if bins.isdecimal() else list(numbers("--bins", bins))
    if isinstance(wanted, Quantile):
        levels = numbers("--q", wanted.q)
        more |= {"q": levels[0] if len(levels) == 1 else levels, "step": wanted.step}
    return more


def described(result: pais.Statistic) -> dict[str, Any]:
    """A released statistic with its certificate, for files: one entry for each value, with its 95 % interval."""
    rows, columns = result.rows, result.columns
    only: dict[str, Any] = {} if columns is not None or not result.subject else {"column": result.subject}
    if result.level is not None:
        only["quantile"] = str(result.level)
    places = [
        {**only, **_labels(rows, row, "row"), **_labels(columns, column, "column")}
        for row in range(result.estimates.shape[0])
        for column in range(result.estimates.shape[1])
    ]
    low, high = result.interval(0.95)
    numbers_of = {"value": result.value, "standard_error": result.standard_error, "low": low, "high": high}
    cells_of = {key: np.asarray(value, dtype=object).ravel().tolist() for key, value in numbers_of.items()}
    return {
        "kind": KIND,
        "format": formats.FORMAT,
        "statistic": result.name,
        "values": [
            place | {key: _plain(values[number]) for key, values in cells_of.items()}
            for number, place in enumerate(places)
        ],
        "about": result.about,
        "level": 0.95,
        "noise": result.noise,
        "clipping": result.clipping,
        "notes": [*result.notes],
        "cautions": [caution.text for caution in result.cautions],
        "certificate": json.loads(result.certificate.to_json()),
    }


def _labels(axis: Any, place: int, other: str) -> dict[str, str]:
    """The labels of a place on an axis, by the names of its levels."""
    if axis is None:
        return {}
    return {name or other: str(level[place]) for name, level in zip(axis.names, axis.levels, strict=True)}


def _plain(value: Any) -> Any:
    """A number or a date as JSON holds it; a value that is not defined is null."""
    if isinstance(value, (int, float, np.number)):
        return float(value) if np.isfinite(value) else None
    return None if value is None or str(value) == "NaT" else str(value)


def _print_statistic(result: pais.Statistic, out: Path | None) -> None:
    certificate = result.certificate
    parts = [(f"  {part.what}", show.price(part.to_dict())) for part in certificate.parts]
    facts = [
        *result.lines(),
        *([("±", "standard errors")] if result.name == "description" else []),
        *(("caution", caution.text) for caution in result.cautions),
        ("about", result.about),
        *(("note", note) for note in result.notes),
        ("guarantee", f"epsilon {raised(certificate.epsilon)}, delta {raised(certificate.delta, 3)}"),
        *(parts if len(parts) > 1 else []),
        ("neighbours", certificate.neighbours),
        ("randomness", certificate.note),
        ("noise", result.noise),
        ("clipping", result.clipping),
        *([] if out is None else [("file", str(out))]),
    ]
    show.facts_table(f"Private {result.name}" + (f" of {result.subject}" if result.subject else ""), facts)
