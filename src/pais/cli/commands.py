"""The work of the commands: open the data and the ledger, release, write files and print."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

import pais
from pais._base import files as formats, validate
from pais.accounting.certificate import units_of
from pais.accounting.ledger import Ledger, accounts
from pais.accounting.part import Part
from pais.cli import files, options, show
from pais.cli.explain import explanation, require_values
from pais.cli.guard import FAILED, spelled
from pais.cli.rows import (
    center_of,
    columns_of,
    fact_of,
    found,
    names_of,
    numbers,
    open_rows,
    passes,
    sample_table,
    stated_norms,
)
from pais.data.cells import listed
from pais.data.checking import MARK, check as compared
from pais.data.engines.base import Engine
from pais.data.engines.files import files_of
from pais.data.engines.local import LocalEngine
from pais.data.example import example_people
from pais.data.kinds import Names
from pais.data.schema import Schema
from pais.data.sources import Opening, cells, names_of as header_of, opened
from pais.data.units import people_concern, unit_of
from pais.errors import ArgumentError, PaisError
from pais.kmeans.labels import LABEL_COLUMN, CenterModel
from pais.kmeans.planning import KMeansSettings
from pais.pca.page import FILE_COLUMNS
from pais.pipeline import fit, run as run_plan, sample as draw
from pais.planning.facts import Facts, Survey
from pais.planning.norm_survey import survey as survey_rows
from pais.planning.plan import Fit, Plan
from pais.show.page import ReportHeader, today
from pais.show.results import Results
from pais.statistics.table import Selection

#: Delta of a new ledger: enough for ten releases with the largest default delta, 1e-6.
DEFAULT_DELTA = 1e-5

# Runs on each table and seconds of an audit by runs, unless they are stated: about a minute. Chosen by eye.
_RUNS, _SECONDS = 100_000, 60.0

# The estimators behind the commands of models.
_ESTIMATORS = {"regression": "DPLinearRegression", "classification": "DPLogisticRegression", "pca": "DPPCA"}

_TABLES = (".csv", ".parquet")


def run(name: str, wanted: Any) -> None:
    """Carry out a command with its options."""
    if isinstance(wanted, options.Run) and wanted.seed is not None:
        show.warn(show.SEED_WARNING)
    if isinstance(wanted, options.Table):
        statistic(name, wanted)
    elif isinstance(wanted, options.Model):
        model(name, wanted)
    elif isinstance(wanted, options.Demo):
        from pais.cli.demo import demo  # it imports scikit-learn, which takes a second

        demo(wanted)
    else:
        # A function of this module has the name of each of the other commands.
        globals()[name](wanted)


def example(wanted: options.Example) -> None:
    """Write the table as CSV or Parquet, by the ending of the file name, and say what it holds."""
    path = wanted.file
    if path.suffix.lower() not in _TABLES:
        raise ArgumentError(f"{path} must end in .csv or .parquet. Pass a name such as people.csv.")
    files.require_free([path], overwrite=wanted.overwrite, option="FILE")
    table = example_people(wanted.people, random_state=wanted.seed)
    files.write(path, table)
    show.say(
        f"{path}: {table.num_rows:,} rows about {wanted.people:,} people who do not exist, with missing cells.\n"
        f"Columns: {', '.join(table.column_names)}."
    )


def check(wanted: options.Check) -> None:
    """Read the file once and print what was found. No ledger is charged, and nothing is written unless asked."""
    if wanted.out is not None:
        files.require_free([wanted.out], overwrite=wanted.overwrite)
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
    if wanted.engine == "spark" or wanted.master is not None:
        raise ArgumentError("`pais check` does not read with Spark. Leave --engine and --master out.")
    with show.watch(quiet=wanted.as_json) as bar:
        bar.begin("check")
        data, _ = found(wanted)
        result = compared(data, columns, unit=wanted.unit, target=wanted.target)
    if wanted.out is not None:
        files.write(wanted.out, result.to_dict(), secret=True)
        show.warn(f"{MARK}{wanted.out} holds exact numbers and cells. Keep it as secret as the data.")
    if wanted.as_json:
        show.print_json(result.to_dict())
        return
    for line in result.lines():
        show.say(spelled(line))


def survey(wanted: options.Survey) -> None:
    _require_visible(wanted, "survey", [] if wanted.out is None else [wanted.out])
    center = None if wanted.center is None else center_of(wanted.center)
    price = Part(what="survey", epsilon=wanted.epsilon, unit=wanted.unit or "")
    with paying(wanted.ledger, price) as book, show.watch(quiet=wanted.quiet) as bar:
        bar.begin("open")
        rows = open_rows(wanted, bar)
        bar.begin("survey")
        bar.expect(passes(rows, surveys=2 if center is None else 1))
        result = survey_rows(
            rows,
            epsilon=wanted.epsilon,
            center=center,
            quantile=wanted.quantile,
            order=1.0 if wanted.mechanism == "laplace" else 2.0,
            random_state=wanted.seed,
            ledger=book,
        )
        bar.begin("write")
        if wanted.out is not None:
            files.write(wanted.out, result.to_dict())
    if not result.above_noise:
        show.warn(show.NOISE_WARNING)
    if wanted.as_json:
        show.print_json(result.to_dict())
    elif not wanted.quiet:
        show.survey(result)


def _require_visible(wanted: Any, noun: str, outputs: list[Path]) -> None:
    """Raise, before anything is paid, if a result could not be written, or would be neither written nor printed."""
    files.require_free(outputs, overwrite=wanted.overwrite)
    if not outputs and wanted.quiet and not wanted.as_json:
        raise ArgumentError(
            f"--quiet would hide a {noun} that is paid for. Pass --out or --json, or leave out --quiet."
        )


@contextlib.contextmanager
def paying(path: Path | None, *prices: Part) -> Iterator[Ledger | None]:
    """Open the ledger at a path, and check that it can pay these prices before other work. Never create a ledger.

    If the work fails after the charge, a message says that the charge stays, because noise may have been drawn.
    """
    if path is None:
        yield None
        return
    if not _exists(path):
        raise ArgumentError(f"there is no ledger at {path}. Create it: `pais ledger {path} --epsilon E`.")
    book = Ledger(path=path)
    accounts(book).check(*prices)
    before = book.spent
    try:
        yield book
    except BaseException:
        with contextlib.suppress(PaisError):
            if book.spent != before:
                show.warn(f"The ledger was charged while this ran. See `pais ledger {path}`.")
        raise


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # The file name is too long.
        return False


def plan(wanted: options.Plan) -> None:
    if wanted.out is not None:
        files.require_free([wanted.out], overwrite=wanted.overwrite)
    settings, survey = settings_of(wanted), survey_of(wanted, rehearsal=True)
    if survey is None and (settings.radius is None or settings.norms is None):
        raise ArgumentError("a plan needs facts. State --radius, --norms and --n-rows, or pass --survey survey.json.")
    unit = unit_of(wanted.unit, wanted.max_rows_per_unit)
    if survey is None:
        facts = settings.facts(None).about(unit, None)
    else:
        facts = Facts.of(survey) if wanted.unit is None else Facts.of(survey).about(unit, survey.schema)
    center = facts.ball.center
    if wanted.n_features is None and center is None:
        raise ArgumentError("the number of columns is not known. Pass --n-features.")
    result = settings.plan(facts, len(center or ()) if wanted.n_features is None else wanted.n_features)
    show.warn_of_weak(settings.epsilon, result)
    content = result.to_dict()
    if wanted.out is not None:
        files.write(wanted.out, content)
    if wanted.as_json:
        # Only pais reads the other fields, from the file of the plan.
        left_out = ("explanation", "norms", "sample_choice")
        show.print_json({name: value for name, value in content.items() if name not in left_out})
    elif not wanted.quiet:
        show.say("\n".join(content["explanation"]))


def _stated(wanted: Any, names: Any) -> dict[str, Any]:
    """The parameters of these names that options state, as the package takes them."""
    stated = {name: getattr(wanted, name) for name in names if hasattr(wanted, name) and name != "ledger"}
    if "random_state" in names:
        stated["random_state"] = wanted.seed
    if "norms" in stated and not wanted.norms is wanted.n_rows is None:
        stated["norms"] = stated_norms(wanted.norms, wanted.n_rows, wanted.radius)
    parsers: dict[str, Callable[[Any], Any]] = {"columns": columns_of, "center": center_of, "classes": _classes}
    for name, value in stated.items():
        if name in parsers and value is not None:
            stated[name] = parsers[name](value)
    return stated


def _classes(text: str) -> list[str]:
    classes = [each.strip() for each in text.strip().removeprefix("[").removesuffix("]").split("|")]
    if len(classes) < 2 or not all(classes) or len(set(classes)) < len(classes):
        raise ArgumentError("--classes needs two or more classes, each once. Write --classes 'yes|no'.")
    return classes


def settings_of(wanted: options.Clusters) -> KMeansSettings:
    """Settings of k-means from the options of the same names."""
    needed = {"--n-clusters": wanted.n_clusters, "--epsilon": wanted.epsilon}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        subject = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise ArgumentError(f"{subject}. Pass both options, or --plan where a command takes one.")
    return KMeansSettings(**_stated(wanted, [field.name for field in fields(KMeansSettings)]))


def survey_of(wanted: options.Clusters, *, rehearsal: bool) -> Survey | None:
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


def sample(wanted: options.Sample) -> None:
    files.require_free([wanted.out], overwrite=wanted.overwrite)
    with show.watch(quiet=wanted.quiet) as bar:
        bar.begin("plan")
        plan = Plan.load(wanted.plan)
        bar.begin("open")
        rows = opened(open_rows(wanted, bar, wanted.carry, default=plan.schema), plan.schema, plan.unit)
        names = files.require_names(rows.names, files.WEIGHT_COLUMN, *_carried(wanted))
        plan.require_columns(rows)
        bar.begin("sample")
        bar.expect(passes(rows, samples=1))
        content = draw(rows, ball=plan.ball, rule=plan.rule, random_state=wanted.seed).spend("a sample file")
        bar.begin("write")
        table = sample_table(content, plan.ball, names, wanted.seed, rows.schema)
        files.write(wanted.out, files.marked(table, files.SAMPLE), secret=True)
    show.warn(show.SAMPLE_WARNING)
    expected = plan.expected_rows
    if wanted.as_json:
        show.print_json({"sample": str(wanted.out), "expected_rows": expected, "warning": show.SAMPLE_WARNING})
    elif not wanted.quiet:
        size = "rows" if expected is None else f"about {expected:,.0f} {units_of(plan.neighbours)} expected,"
        show.say(f"{wanted.out}: {size} clipped to the ball, each with its weight 1/probability")


def kmeans(wanted: options.KMeans) -> None:
    """Release centers, from settings and facts or from a plan."""
    files.require_free([wanted.out / name for name in files.RELEASE], overwrite=wanted.overwrite)
    settings, survey, plan, survey_passes = None, None, None, 0
    if wanted.plan is not None:
        plan = _plan_of_file(wanted, wanted.plan)
        prices, schema = plan.due, plan.schema
    else:
        settings, survey = settings_of(wanted), survey_of(wanted, rehearsal=wanted.seed is not None)
        prices, schema, survey_passes = (settings.price,), None, settings.survey_passes
        if survey is not None:
            own = Part(what="k-means", epsilon=settings.epsilon_after(survey), delta=settings.price.delta)
            prices = (survey.price, own) if survey.shift == 0.0 else prices
            schema, survey_passes = survey.schema, 0
    with paying(wanted.ledger, *prices) as book, show.watch(quiet=wanted.quiet) as bar:
        bar.begin("open")
        rows = open_rows(wanted, bar, default=schema)
        names = files.require_names(rows.names, files.COUNT_COLUMN)
        bar.begin("survey, plan, sample, rounds")
        bar.expect(passes(rows, surveys=survey_passes, samples=1))
        if plan is not None:
            made = Fit.of(plan, run_plan(plan, rows, random_state=wanted.seed, ledger=book))
        else:
            assert settings is not None
            facts = None if survey is None else Facts.of(survey)
            # Not counted among fits without a ledger: a command is a separate process and makes one fit.
            made = fit(rows, settings, random_state=wanted.seed, ledger=book, facts=facts, counted=False)
        found_nothing = made.survey is not None and not made.survey.above_noise
        columns_concern = None if made.survey is None else made.survey.columns_concern
        unlisted = () if made.survey is None else (one.concern for one in made.survey.categories)
        for concern in (show.NOISE_WARNING if found_nothing else None, columns_concern, *unlisted, made.concern):
            if concern is not None:
                bar.warn(concern)
        if made.schema is not None:
            names = made.schema.labels
        value, results = made.value, made.results(names)
        model = CenterModel(
            centers=value.centers,
            columns=rows.feature_columns,
            schema=made.schema,
            fills_missing=wanted.missing == "midpoint",
        )
        bar.begin("write")
        header = ReportHeader(data_name=wanted.data_name, owner=wanted.owner, date=today())
        paths = files.write_release(wanted.out, made, results, names, model.to_dict(), header)
    n_clusters, above = len(value.centers), value.effective_centers
    summary = {
        "columns": list(names),
        "effective_centers": above,
        "expected_rows": made.plan.expected_rows,
        "predicted_quality": None if made.quality is None else made.quality.to_dict(),
    }
    number = str(n_clusters) + f", of which {above} above the noise" * (above < n_clusters)
    facts_of_fit = [("features", listed(names)), ("clusters", number)]
    _print_release(wanted, "Private k-means", made, results, facts_of_fit, summary, paths)


def _plan_of_file(wanted: options.KMeans, path: Path) -> Plan:
    """The plan of k-means in a file. No option may repeat or contradict a setting of the plan."""
    decided = {field.name for field in fields(options.Clusters)}
    conflicts = [f"--{name.replace('_', '-')}" for name in options.GIVEN.get() if name in decided]
    if conflicts:
        raise ArgumentError(f"--plan decides {', '.join(conflicts)}. Leave these options out, or plan again.")
    plan = Plan.load(path)
    if plan.mechanism.name != "k-means":
        raise ArgumentError(f"{path} is a plan for {plan.mechanism.name!r}, not for k-means. Run it with pais.run.")
    for part in plan.spent:
        _require_secure(path, part, rehearsal=wanted.seed is not None)
        if not part.release:
            raise ArgumentError(f"{path} has a survey without a name, which no ledger recognises. Plan again.")
    show.warn_of_weak(sum(part.epsilon for part in (*plan.spent, plan.price)), plan)
    return plan


def _print_release(
    wanted: options.KMeans | options.Model,
    title: str,
    made: Fit,
    results: Results,
    facts: show.Facts,
    summary: dict[str, Any],
    paths: dict[str, str],
) -> None:
    if wanted.as_json:
        show.print_json({"certificate": json.loads(made.certificate.to_json()), **summary, "files": paths})
    elif not wanted.quiet:
        show.release(title, made, results, facts, paths)


def model(name: str, wanted: options.Model) -> None:
    """Release what an estimator fits."""
    table = "components" if name == "pca" else "coefficients"
    files.require_free([wanted.out / file for file in files.release_files(table)], overwrite=wanted.overwrite)
    kind = getattr(pais, _ESTIMATORS[name])
    estimator = kind(**_stated(wanted, kind().get_params()))
    with paying(wanted.ledger) as book, show.watch(quiet=wanted.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        if name == "pca":
            # Features become columns of the released table.
            stated = estimator.columns
            names = stated.labels if isinstance(stated, Schema) else stated or header_of(data)
            files.require_names(tuple(names or ()), *FILE_COLUMNS)
        bar.begin(f"survey, plan, sample, {name}")
        # The estimator checks the price against the ledger before it opens the rows.
        estimator.ledger = book
        held = wanted.engine == "memory"
        estimator.fit(Opening(data=data, options={**csv, "on_rows": bar.rows}, held=held))
        made, names = estimator._shown(), tuple(map(str, estimator.feature_names_in_))
        results: Results = made.value
        facts: dict[str, Any] = {"verdict": results.verdict, "caution": results.concern}
        shown = [("features", listed(names))]
        if isinstance(wanted, options.Supervised):
            facts["target"] = target = wanted.target
            if hasattr(estimator, "classes_"):
                facts["classes"] = list(map(str, estimator.classes_.tolist()))
                target += f" ({listed(facts['classes'])})"
            shown.append(("target", target))
        if hasattr(estimator, "mean_"):
            facts["mean"] = dict(zip(made.value.names, map(_finite, estimator.mean_.tolist()), strict=True))
        described = {
            "kind": name,
            "format": formats.FORMAT,
            **facts,
            "columns": list(names),
            "schema": None if made.schema is None else made.schema.to_dict(),
            "fills_missing": estimator.missing == "midpoint",
            "values": [
                {key: _finite(value) for key, value in line.items()}
                for line in files.table_of(results.value_columns()).to_pylist()
            ],
        }
        bar.begin("write")
        header = ReportHeader(data_name=wanted.data_name, owner=wanted.owner, date=today())
        paths = files.write_release(wanted.out, made, results, names, described, header)
    _print_release(wanted, results.title, made, results, shown, described, paths)


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def statistic(command: str, wanted: options.Table) -> None:
    """Release a statistic; then print or write its values with the certificate."""
    name, out = command.replace("-", "_"), wanted.out
    _require_visible(wanted, "result", [] if out is None else _outputs(out))
    validate.target_epsilon(wanted.epsilon)
    more, (schema, by) = _arguments(name, wanted), _columns_and_groups(wanted)
    price = Part(what=name, epsilon=wanted.epsilon, unit=wanted.unit or "")
    with paying(wanted.ledger, price) as book, show.watch(quiet=wanted.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        selection = Selection.of(data, schema, by, wanted.unit)
        engine = cells(
            data,
            columns=selection.schema,
            unit=wanted.unit,
            max_rows_per_unit=wanted.max_rows_per_unit,
            missing=wanted.missing,
            # A row with a missing value has no covariances; other statistics leave out the cell alone.
            by_cell=name != "covariance",
            on_rows=bar.rows,
            **csv,
        )
        engine = engine.held() if wanted.engine == "memory" else engine
        opened = Selection(rows=engine, schema=selection.schema, columns=selection.columns, by=selection.by)
        bar.begin(name)
        surveys = 0 if engine.schema is None else 2 * bool(engine.schema.open) + bool(engine.schema.unlisted)
        bar.expect(passes(engine, surveys=surveys, samples=1))
        function: Callable[..., pais.Statistic] = getattr(pais, name)
        result = function(opened, epsilon=wanted.epsilon, ledger=book, random_state=wanted.seed, **more)
        concern = None if wanted.unit else people_concern(header_of(data), (*selection.columns, *selection.by))
        if concern is not None:
            bar.warn(concern)
        bar.begin("write")
        if out is not None:
            _write_statistic(out, result)
    if wanted.as_json:
        show.print_json(described(result))
    elif not wanted.quiet:
        show.statistic(result, out)


def _outputs(out: Path) -> list[Path]:
    """The files that --out asks for. Raises if its ending is that of no kind of file."""
    if out.suffix.lower() not in (".json", ".html", *_TABLES):
        raise ArgumentError(f"--out names {out.name!r}. Pass a file that ends in .json, .csv, .parquet or .html.")
    return [out, files.certificate_beside(out)] if out.suffix.lower() in _TABLES else [out]


def _arguments(name: str, wanted: Any) -> dict[str, Any]:
    """The arguments of a statistic that options state, beside its table, its price and its ledger."""
    given = {"rows", "columns", "by", "unit", "max_rows_per_unit", "epsilon", "ledger", "random_state"}
    names = inspect.signature(getattr(pais, name)).parameters.keys() - given
    more: dict[str, Any] = _stated(wanted, names)
    if more.get("sample_size") is not None and more["sampling"] not in ("constrained", "uniform"):
        raise ArgumentError("--sample-size needs --sampling constrained or --sampling uniform. State both, or neither.")
    if isinstance(wanted, options.Description):
        more["statistics"] = [part.strip() for part in wanted.statistics.split(",")]
    if isinstance(wanted, options.Histogram):
        bins = wanted.bins.strip()
        more["bins"] = int(bins) if bins.isdecimal() else list(numbers("--bins", bins))
    if isinstance(wanted, options.Quantile):
        levels = numbers("--q", wanted.q)
        more["q"] = levels[0] if len(levels) == 1 else levels
    return more


def _columns_and_groups(wanted: options.Table) -> tuple[Schema | None, tuple[str, ...]]:
    """What --columns and --by state about columns, and the names of those that form groups."""
    columns = columns_of(wanted.columns)
    if isinstance(columns, tuple):
        raise ArgumentError(
            f"--columns states nothing about {columns[0]!r}. Write bounds, such as {columns[0]}=18:100."
        )
    groups = columns_of(wanted.by, "--by") or ()
    if not isinstance(groups, Schema):
        return columns, groups
    stated = () if columns is None else columns.columns
    known = {column.name for column in stated}
    # A group without a fact may be a column that --columns states.
    new = [one for one in groups.columns if not (one.name in known and one == Names(name=one.name))]
    return Schema((*stated, *new)), groups.names


def _write_statistic(out: Path, result: pais.Statistic) -> None:
    """Write a statistic as JSON, as a page or as a table, by the ending of the file name."""
    if out.suffix.lower() == ".html":
        files.write(out, result.write_report)
    elif out.suffix.lower() == ".json":
        files.write(out, described(result))
    else:
        values = described(result)["values"]
        columns = {name: [value[name] for value in values] for name in values[0]}
        for name, column in columns.items():
            # A column with dates among numbers is text.
            if any(isinstance(cell, str) for cell in column):
                columns[name] = [None if cell is None else str(cell) for cell in column]
        table = files.marked(pa.table(columns), files.STATISTIC)
        certificate = result.certificate.to_json()
        files.write_all(out.absolute().parent, {out.name: table, files.certificate_beside(out).name: certificate})


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
        "kind": "statistic",
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


def _carried(wanted: options.Sample | options.Label) -> tuple[str, ...]:
    return () if wanted.carry is None else names_of("--carry", wanted.carry)


def label(wanted: options.Label) -> None:
    """Read the rows with the columns of a model and write their labels."""
    to, by_spark = wanted.to, wanted.engine == "spark" or wanted.master is not None
    if to.suffix != ".parquet" and not by_spark:
        raise ArgumentError(f"{to} does not end in .parquet. Pass the path of a Parquet file with --to.")
    if not (by_spark and wanted.overwrite):
        files.require_free([to], overwrite=wanted.overwrite, option="--to")
    carried = _carried(wanted)
    if LABEL_COLUMN in carried:
        raise ArgumentError(f"--carry names {LABEL_COLUMN!r}, which is the column of the labels. Rename it.")
    model = files.read_model(wanted.model)
    with show.watch(quiet=wanted.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        rows = model.open(data, carry=carried, on_rows=bar.rows, **csv)
        bar.begin("label")
        bar.expect(passes(rows, samples=1))
        if isinstance(rows, LocalEngine):
            write = files.label_writer(model.tables(rows), rows.carried_schema)
            files.write(to, write, secret=True, option="--to")
        else:
            _label_by_spark(rows, model, carried, wanted)
    show.warn(show.LABEL_WARNING)
    if wanted.as_json:
        show.print_json({"labels": str(to), "carried": list(carried), "warning": show.LABEL_WARNING})
    elif not wanted.quiet:
        show.say(f"{to}: the number of the nearest center of each row, from 0; null if a value of the row is missing")


def _label_by_spark(rows: Engine, model: CenterModel, carried: tuple[str, ...], wanted: options.Label) -> None:
    """Let Spark write the labels: a directory of Parquet files, which is complete once Spark has committed it."""
    from pais.data.engines.spark import guarded

    frame: Any = model.labels(rows)
    columns = [f"`{name.replace('`', '``')}`" for name in (*carried, LABEL_COLUMN)]
    writer = frame.select(*columns).write.mode("overwrite" if wanted.overwrite else "error")
    guarded(lambda: writer.parquet(str(wanted.to.absolute())))
    with contextlib.suppress(OSError):
        wanted.to.chmod(0o700)


def audit(wanted: options.Audit) -> None:
    from pais.auditing.auditor import audit as run_audit  # it imports scikit-learn, which takes a second

    plan = Plan.load(wanted.plan)
    runs, seconds = wanted.runs, wanted.seconds
    if wanted.method == "runs":
        runs, seconds = runs or _RUNS, seconds or _SECONDS
    limits: dict[str, Any] = {"runs": runs, "seconds": seconds, "confidence": wanted.confidence}
    with show.watch(quiet=wanted.quiet) as bar:
        bar.begin("audit")
        report = run_audit(plan, method=wanted.method, random_state=wanted.seed, **limits)
    if wanted.as_json:
        show.print_json(report.to_dict())
    elif not wanted.quiet:
        show.say(str(report))
    if report.violates:
        raise typer.Exit(FAILED)


def explain(wanted: options.Explain) -> None:
    if wanted.values is not None:
        require_values(wanted.file, wanted.values)
    content = explanation(wanted.file)
    if wanted.as_json:
        show.print_json(content)
        return
    show.say("\n".join(content["explanation"]))
    if wanted.values is not None:
        show.say(f"\n{wanted.values} holds the values that this certificate was issued for.")


def ledger(wanted: options.Ledger) -> None:
    """Create or open a ledger, and show it. A new ledger without a stated delta gets the default."""
    path, epsilon, delta, exists = wanted.file, wanted.epsilon, wanted.delta, _exists(wanted.file)
    if epsilon is not None and delta is None:
        delta = Ledger(path=path).budget.delta if exists else DEFAULT_DELTA
    book = Ledger(epsilon=epsilon, delta=delta or 0.0, path=path)
    if not exists and delta == DEFAULT_DELTA:
        show.note(f"The ledger has epsilon {epsilon:g} and delta {DEFAULT_DELTA:g}. Pass --delta to choose another.")
    if epsilon is not None and delta == 0.0:
        show.warn("The ledger has delta 0, so it will refuse releases with Gaussian noise, which is the default.")
    if wanted.as_json:
        show.print_json(ledger_description(book))
    else:
        show.ledger(book)


def studio(wanted: options.Studio) -> None:
    """Serve the page until the user stops it."""
    try:
        from pais.studio.serve import serve  # an extra; nothing of it is loaded by other commands
    except ModuleNotFoundError as error:
        raise ArgumentError(f"the studio needs {error.name}. Install it: pip install 'pais[studio]'.") from None
    files_of(wanted.data)  # raises if there is no such file
    book = wanted.ledger or wanted.data.with_suffix(".ledger")
    serve(wanted.data, book, port=wanted.port, browser=wanted.browser, read=fact_of, say=show.say)


def ledger_description(ledger: Ledger) -> dict[str, Any]:
    """Describe a ledger and its totals. Public values only: the losses of individual rows are left out."""
    spent, left = ledger.spent, ledger.remaining
    return {
        "kind": "ledger",
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
        "remaining": {"epsilon": left.epsilon, "delta": left.delta},
        "entries": [entry.to_dict() for entry in ledger.entries],
    }
