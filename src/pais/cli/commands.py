"""The work of the commands: read options, follow the pipeline, write files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from pais.accounting import Ledger, Part
from pais.accounting.words import units_of
from pais.cli import books, files, options, show
from pais.cli.columns import columns_of, names_of
from pais.cli.explain import explain_file, explanation, require_values
from pais.cli.guard import FAILED
from pais.cli.rows import center_of, found, open_rows, passes, sample_table, stated_norms
from pais.cli.spelling import spelled
from pais.data.checking import MARK, check as compared
from pais.data.engines import Engine
from pais.data.engines.local import LocalEngine
from pais.data.example import example_people
from pais.data.labels import LABEL_COLUMN, CenterModel
from pais.data.schema import Schema
from pais.data.sources import opened
from pais.data.units import unit_of
from pais.errors import ArgumentError
from pais.mechanisms import KMeans
from pais.norm_survey import survey as survey_rows
from pais.pipeline import fit, run as run_plan
from pais.planning import Facts, Fit, KMeansSettings, Plan, Survey
from pais.report import ReportHeader, today
from pais.sampler import sample as draw


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
    if path.exists() and not overwrite:
        raise ArgumentError(f"{path} exists. Pass another name, or --overwrite to replace it.")
    files.require_free([path], overwrite=True)
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
    book = books.opened(request.ledger, Part(what="survey", epsilon=request.epsilon, unit=wanted.unit or ""))
    with books.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
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
    book = books.opened(ledger, *work.prices)
    header = ReportHeader(data_name=report.data_name, owner=report.owner, date=today())
    with books.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        rows = open_rows(wanted, bar, default=work.schema)
        names = files.require_names(rows.names, files.COUNT_COLUMN)
        bar.begin("survey, plan, sample, rounds")
        bar.expect(passes(rows, surveys=work.survey_passes, samples=1))
        result = work.run(rows, book)
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
    from pais.auditing import audit as run_audit  # it imports scikit-learn, which takes a second

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
    from pais.data.engines.spark_actions import guarded

    frame: Any = rows.labelled(model.centers, LABEL_COLUMN)  # type: ignore[attr-defined]  # the engine for Spark
    columns = [f"`{name.replace('`', '``')}`" for name in (*carried, LABEL_COLUMN)]
    writer = frame.select(*columns).write.mode("overwrite" if overwrite else "error")
    guarded(lambda: writer.parquet(str(to.absolute())))
    with contextlib.suppress(OSError):
        to.chmod(0o700)
