"""The commands of the `pais` program."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from pais._version import __version__
from pais.accounting import Ledger
from pais.cli import books, demo as demonstration, facts, files, fit, options, plans, show
from pais.cli.audit import audit
from pais.cli.explain import explain_file, explanation, require_values
from pais.cli.guard import guarded
from pais.cli.rows import Wanted, names_of, passes, sample_table
from pais.errors import ArgumentError
from pais.norm_survey import survey as survey_rows
from pais.planning.fit import KMeansSettings
from pais.sampler import sample as draw

app = typer.Typer(
    name="pais",
    help="Differentially private analysis: a small weighted sample, a private result, a certificate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the script `pais`. Termination signals are handled like Ctrl-C: partly written files are removed."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Leave a signal alone if it is set to be ignored, as nohup does.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pais {__version__}")
        raise typer.Exit


@app.callback()
def entry(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory for the report and the centers.")] = Path("out"),
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of each way to keep rows.")] = 9,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare four sampling methods at the same privacy guarantee, on a bundled public sample."""
    _warn_of_seed(seed)
    files.require_free([out / name for name in files.RELEASE], overwrite=True)
    steps = len(demonstration.SAMPLINGS) * repeats + 2
    with show.stages(total=steps, quiet=quiet) as begin:
        table = demonstration.bundled_sample()
        names = files.require_names(table.names, files.COUNT_COLUMN)
        found = demonstration.compare(table, repeats=repeats, seed=seed, begin=begin)
        begin("write")
        paths = files.write_release(out, found.fit, names)
    if as_json:
        show.print_json({**found.describe(), "files": paths})
    elif not quiet:
        demonstration.demo_table(found)
        show.say(f"The first constrained run as a report: open {paths['report.html']}")


@app.command()
@guarded
def survey(
    data: options.Data,
    epsilon: options.Epsilon,
    center: options.Center = None,
    quantile: Annotated[float, typer.Option("--quantile", help="Share of rows within the radius.")] = 0.975,
    mechanism: options.Mechanism = options.MechanismChoice.gaussian,
    columns: options.Columns = None,
    missing: options.Missing = options.MissingChoice.drop,
    drop_missing: options.DropMissing = False,
    engine: options.Engine = options.EngineName.auto,
    master: options.Master = None,
    ledger: options.Ledger = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write, e.g. survey.json.")] = None,
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Release noisy statistics of the norms of the rows. This spends --epsilon of the rows' budget."""
    _warn_of_seed(seed)
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    elif quiet and not as_json:
        raise ArgumentError("the survey would be spent and not shown. Pass --out or --json, or leave out --quiet.")
    stated, order = facts.center_of(center), plans.order_of(mechanism.value)
    book = books.opened(ledger, epsilon=epsilon)
    wanted = Wanted(data=data, columns=columns, missing=missing, engine=engine, master=master)
    with books.told(book), show.watch(quiet=quiet) as bar:
        bar.begin("open")
        rows = wanted.open(bar)
        bar.begin("survey")
        bar.expect(passes(rows, 3 if stated is None else 1))
        found = survey_rows(
            rows, epsilon=epsilon, center=stated, quantile=quantile, order=order, random_state=seed, ledger=book
        )
        bar.begin("write")
        if out is not None:
            files.write_json(out, facts.survey_description(found, rows.names))
    if not found.above_noise:
        show.warn(show.NOISE_WARNING)
    if as_json:
        show.print_json(facts.survey_description(found, rows.names))
    elif not quiet:
        show.survey_summary(found, rows.names, out)


@app.command()
@guarded
def plan(
    n_clusters: options.NClusters,
    epsilon: options.Epsilon,
    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of columns; a stated or surveyed center tells it.")
    ] = None,
    delta: options.Delta = None,
    radius: options.Radius = None,
    center: options.Center = None,
    norms: options.Norms = None,
    n_rows: options.NRows = None,
    survey: options.SurveyFile = None,
    sampling: options.Sampling = options.SamplingName.constrained,
    sample_size: options.SampleSize = None,
    max_epsilon_if_kept: options.MaxEpsilonIfKept = None,
    mechanism: options.Mechanism = options.MechanismChoice.gaussian,
    algorithm: options.Algorithm = options.AlgorithmChoice.refined,
    out: Annotated[Path | None, typer.Option("--out", help="File to write, e.g. plan.json.")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a private k-means from public facts. No data is read and no budget is spent."""
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    known = _facts(radius, center, norms, n_rows, survey, epsilon, mechanism)
    request = plans.PlanRequest(
        n_clusters=n_clusters,
        n_features=_width(n_features, known),
        facts=known,
        delta=delta,
        sampling=sampling.value,
        sample_size=sample_size,
        mechanism=mechanism.value,
        algorithm=algorithm.value,
        max_epsilon_if_kept=max_epsilon_if_kept,
    )
    made = request.plan()
    show.warn_of_weak(epsilon, made)
    described = plans.plan_description(request, made, facts.surveyed_columns(survey))
    if out is not None:
        files.write_json(out, described)
    show.plan_or_json(described, as_json=as_json, quiet=quiet)


@app.command()
@guarded
def sample(
    data: options.Data,
    plan: Annotated[Path, typer.Option("--plan", help="The plan to sample for: from `pais plan --out plan.json`.")],
    out: Annotated[Path, typer.Option("--out", help="Parquet file to write; secret.")],
    carry: Annotated[
        str | None, typer.Option("--carry", help="Columns to keep beside the features, with commas; secret too.")
    ] = None,
    columns: options.Columns = None,
    missing: options.Missing = options.MissingChoice.drop,
    drop_missing: options.DropMissing = False,
    engine: options.Engine = options.EngineName.auto,
    master: options.Master = None,
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw the weighted sample of a plan, for the data's owner. It is NOT a private release; no ledger is charged."""
    _warn_of_seed(seed)
    files.require_free([out], overwrite=overwrite)
    request = plans.read_request(plan)
    wanted = Wanted(data=data, columns=columns, missing=missing, engine=engine, master=master, carry=carry)
    with show.watch(quiet=quiet) as bar:
        bar.begin("plan")
        made = request.plan()
        bar.begin("open")
        rows = wanted.open(bar)
        names = files.require_names(rows.names, files.WEIGHT_COLUMN, *(names_of("--carry", carry) or ()))
        plans.require_planned_columns(plan, request, rows)
        bar.begin("sample")
        bar.expect(passes(rows, 1))
        kept = draw(rows, ball=made.ball, rule=made.rule, random_state=seed).spend("a file of its owner")
        bar.begin("write")
        files.write_secret_sample(out, sample_table(kept, made.ball, names, seed))
    show.warn(show.SAMPLE_WARNING)
    expected = request.facts.norms.expected_size(made.rule)
    if as_json:
        show.print_json({"sample": str(out), "expected_rows": expected, "warning": show.SAMPLE_WARNING})
    elif not quiet:
        show.say(f"{out}: about {expected:,.0f} rows expected, clipped to the ball, each with its weight 1/probability")


@app.command()
@guarded
def kmeans(
    context: typer.Context,
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", help="Directory for centers, certificate and report.")],
    n_clusters: options.NClustersOrPlan = None,
    epsilon: options.EpsilonOrPlan = None,
    plan: options.PlanFile = None,
    delta: options.Delta = None,
    radius: options.Radius = None,
    center: options.Center = None,
    norms: options.Norms = None,
    n_rows: options.NRows = None,
    survey: options.SurveyFile = None,
    sampling: options.Sampling = options.SamplingName.constrained,
    sample_size: options.SampleSize = None,
    max_epsilon_if_kept: options.MaxEpsilonIfKept = None,
    mechanism: options.Mechanism = options.MechanismChoice.gaussian,
    algorithm: options.Algorithm = options.AlgorithmChoice.refined,
    columns: options.Columns = None,
    missing: options.Missing = options.MissingChoice.drop,
    drop_missing: options.DropMissing = False,
    engine: options.Engine = options.EngineName.auto,
    master: options.Master = None,
    ledger: options.Ledger = None,
    overwrite: options.Overwrite = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Release cluster centers with a certificate and a report. Facts not stated are surveyed and paid for."""
    _require_free_release(out, overwrite=overwrite, seed=seed)
    if plan is not None:
        work = fit.planned(plan, context, seed=seed)
    elif n_clusters is None or epsilon is None:
        raise ArgumentError("nothing to run. Pass --plan, or --n-clusters and --epsilon.")
    else:
        settings = KMeansSettings(
            n_clusters=n_clusters,
            epsilon=epsilon,
            delta=delta,
            **facts.stated(radius, center, norms, n_rows),
            sampling=sampling.value,
            sample_size=sample_size,
            mechanism=mechanism.value,
            algorithm=algorithm.value,
            max_epsilon_if_kept=max_epsilon_if_kept,
        )
        work = fit.stated(settings, survey=survey, seed=seed)
    rows = Wanted(data=data, columns=columns, missing=missing, engine=engine, master=master)
    _release(rows, work, ledger, out, as_json=as_json, quiet=quiet)


app.command()(audit)


@app.command()
@guarded
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, plan or survey: a JSON file of pais.")],
    values: Annotated[
        Path | None, typer.Option("--values", help="Released centers (CSV or Parquet) to check against a certificate.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain a certificate, a plan or a survey in plain words."""
    if values is not None:
        require_values(file, values)
    if as_json:
        show.print_json(explanation(file))
    else:
        show.say(explain_file(file))
        if values is not None:
            show.say(f"\n{values} holds the values that this certificate was issued for.")


@app.command()
@guarded
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The ledger; made if it is not there, with --epsilon.")],
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="All that may ever be spent on the rows; goes into a new ledger.")
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="The same for delta.")] = 0.0,
    as_json: options.AsJson = False,
) -> None:
    """Create the ledger of a set of rows, or show how much was spent and how much remains."""
    found = Ledger(epsilon=epsilon, delta=delta, path=file)
    if epsilon is not None and delta == 0.0:
        show.warn("Its delta is 0: releases with Gaussian noise, the default, will be refused.")
    if as_json:
        show.print_json(books.ledger_description(found))
    else:
        books.ledger_table(found)


def _warn_of_seed(seed: int | None) -> None:
    if seed is not None:
        show.warn(show.SEED_WARNING)


def _release(wanted: Wanted, work: fit.Work, ledger: Path | None, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Open the rows, run the k-means and write the files; then print the release, its columns and the paths."""
    book = books.opened(ledger, epsilon=work.epsilon, delta=work.delta)
    with books.told(book), show.watch(quiet=quiet) as bar:
        bar.begin("open")
        rows = wanted.open(bar)
        names = files.require_names(rows.names, files.COUNT_COLUMN)
        bar.begin("survey, plan, sample, rounds")
        bar.expect(passes(rows, work.passes))
        found = work.run(rows, book)
        bar.begin("write")
        paths = files.write_release(out, found, names)
    if found.survey is not None and not found.survey.above_noise:
        show.warn(show.NOISE_WARNING)
    show.release_or_json(found, names, paths, as_json=as_json, quiet=quiet)


def _require_free_release(out: Path, *, overwrite: bool, seed: int | None) -> None:
    """Warn about a seed, and refuse to replace an earlier release unless `overwrite` is set."""
    _warn_of_seed(seed)
    files.require_free([out / name for name in files.RELEASE], overwrite=overwrite)


def _facts(
    radius: float | None,
    center: str | None,
    norms: str | None,
    n_rows: float | None,
    survey: Path | None,
    epsilon: float,
    mechanism: options.MechanismChoice,
) -> facts.Facts:
    """Facts for a plan: stated by the user or taken from an earlier survey, not both."""
    if survey is None:
        return plans.stated_facts(
            radius=radius,
            center=facts.center_of(center),
            norms=facts.stated_norms(norms, n_rows, radius),
            epsilon=epsilon,
            mechanism=mechanism.value,
        )
    if not (radius is None and center is None and norms is None and n_rows is None):
        raise ArgumentError("--survey brings radius, center and norms along. Leave out what you state beside it.")
    found = facts.read_survey(survey, rehearsal=True)
    return facts.surveyed(found, epsilon=epsilon, order=plans.order_of(mechanism.value))


def _width(n_features: int | None, known: facts.Facts) -> int:
    if n_features is not None:
        return n_features
    if known.ball.center is None:
        raise ArgumentError("the number of columns is not known. Pass --n-features.")
    return len(known.ball.center)
