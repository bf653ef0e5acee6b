"""Output for people: tables on stdout, progress and warnings on stderr."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pais._base.numerics import raised
from pais.accounting.words import person_of, units_of
from pais.cli.guard import spelled
from pais.data.checks import listed, with_article
from pais.kmeans.result import KMeansFit
from pais.kmeans.view import segment_lines, sizes_of, view_of
from pais.planning.facts import Survey
from pais.planning.fit import Fit
from pais.planning.plan import Plan
from pais.privacy.guarantee import STATED, delta_concern, epsilon_concern
from pais.privacy.norms import NormDistribution

SEED_WARNING = (
    "NOT PRIVATE: --seed was given. Anyone who knows or guesses the seed can remove the noise. "
    "This is a rehearsal; leave --seed out for a release."
)
NOISE_WARNING = (
    "The survey found nothing above its noise, so its facts are assumptions. "
    "Raise --epsilon, or state --radius, --norms and --n-rows. "
    "Check also that the columns hold what --columns states: cells that cannot be read count as missing."
)
SAMPLE_WARNING = (
    "NOT A PRIVATE RELEASE: the sample contains rows of the data, clipped but without noise. Keep it secret."
)
LABEL_WARNING = "NOT PROTECTED: a label depends on its row. Keep the labels as secret as the data."
UNKNOWN = "unknown: the survey saw nothing above its noise"
HISTOGRAM_BINS = 12
_BAR = 36
_LINE = 100

# Larger tables of centers are not printed.
_MOST_DOWN, _NAME_WIDTH, _CELL_WIDTH = 60, 16, 10


def plain(text: str, style: str = "") -> Text:
    """Return a text without interpreting markup; bytes of a file name that cannot be decoded are shown as numbers."""
    return Text(text.encode(errors="backslashreplace").decode(), style=style)


def warn(text: str, console: Console | None = None) -> None:
    """Print a warning on stderr, which names options; with the console of a progress bar, above the bar."""
    (console or Console(stderr=True)).print(plain(f"warning: {spelled(text)}", "bold red"), soft_wrap=True)


def note(text: str) -> None:
    """Print a line on stderr that is no warning, so that stdout holds only the result."""
    Console(stderr=True).print(plain(text), soft_wrap=True)


def warn_of(concern: str | None) -> None:
    """Print the concern on stderr, if there is one."""
    if concern is not None:
        warn(concern)


def warn_of_weak(epsilon: float, plan: Plan) -> None:
    """Warn if the total epsilon or the delta of a plan gives a weak guarantee."""
    warn_of(epsilon_concern(epsilon))
    if plan.norms is not None:
        warn_of(delta_concern(plan.delta, plan.norms.n_rows))


def say(text: str) -> None:
    """Print plain lines without markup or wrapping."""
    Console(soft_wrap=True).print(plain(text))


def print_json(content: dict[str, Any]) -> None:
    """Print JSON, with short objects and lists on one line each."""
    typer.echo(re.sub(r"[\[{]\n[^\[\]{}]*[\]}]", _on_one_line, json.dumps(content, indent=2)))


def _on_one_line(match: re.Match[str]) -> str:
    """Replace the line breaks of an object or list by spaces, if it is short. No text in JSON contains a line break."""
    text = re.sub(r"\n *", " ", match.group())
    return match.group() if len(text) > _LINE else f"{text[0]}{text[1:-1].strip()}{text[-1]}"


@contextlib.contextmanager
def stages(*, total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a progress bar with the name of the current stage, on stderr, only if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda stage: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("start", total=total)
        begun = 0

        def begin(stage: str) -> None:
            nonlocal begun
            progress.update(task, description=stage, completed=begun)
            begun += 1

        yield begin


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Callbacks of a progress bar: the command reports each stage and the rows processed. The defaults show no bar."""

    begin: Callable[[str], None] = lambda stage: None
    rows: Callable[[int], None] = lambda n: None
    expect: Callable[[int | None], None] = lambda n: None
    warn: Callable[[str], None] = warn


@contextlib.contextmanager
def watch(*, quiet: bool) -> Iterator[Watch]:
    """Show rows per second and time left, for the data's owner, on stderr, only if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Watch()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), RowRate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("start", total=None)
        yield Watch(
            begin=lambda stage: progress.update(task, description=stage),
            rows=lambda n: progress.advance(task, n),
            expect=lambda n: progress.update(task, total=n),
            warn=lambda text: warn(text, console),
        )


class RowRate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} rows/s")


def facts_table(title: str, facts: list[tuple[str, str]]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(plain(name), plain(value))
    Console().print(table)


def release_or_json(
    fit: KMeansFit, names: tuple[str, ...], paths: dict[str, str], *, as_json: bool, quiet: bool
) -> None:
    if as_json:
        print_json(
            {
                "certificate": json.loads(fit.certificate.to_json()),
                "columns": list(names),
                "effective_centers": fit.value.effective_centers,
                "expected_rows": fit.plan.expected_rows,
                "predicted_quality": None if fit.quality is None else fit.quality.to_dict(),
                "files": paths,
            }
        )
    elif not quiet:
        release_table("Private k-means", fit, _of_kmeans(fit, names), paths)
        centers_table(fit, names, paths.get("centers.csv", ""))


def plan_or_json(described: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Print a plan as a table, or as JSON without the fields that only pais reads from the plan file."""
    if as_json:
        left_out = ("explanation", "norms", "sample_choice")
        print_json({name: value for name, value in described.items() if name not in left_out})
    elif not quiet:
        say("\n".join(described["explanation"]))


def price(part: Mapping[str, Any]) -> str:
    """Price of a part of a certificate, rounded up."""
    return f"epsilon {raised(part['epsilon'])}, delta {raised(part['delta'], 3)}"


def release_table(title: str, fit: Fit, own: list[tuple[str, str]], files: dict[str, str]) -> None:
    """Print the summary of a release: the guarantee, the facts that only such a release has, and the files."""
    certificate, plan = fit.certificate, fit.plan
    facts = [("guarantee", f"epsilon {raised(certificate.epsilon)}, delta {raised(certificate.delta, 3)}")]
    facts += [(f"  {part.what}", price(part.to_dict())) for part in certificate.parts]
    if certificate.epsilon_if_kept > certificate.epsilon * (1.0 + 1e-6):
        facts.append(
            (
                "if the sample leaks",
                f"epsilon {raised(certificate.epsilon_if_kept)} for {with_article(person_of(plan.neighbours))} in it",
            )
        )
    facts += [
        *([] if certificate.delta_basis == STATED else [("delta", certificate.delta_basis)]),
        ("neighbours", certificate.neighbours),
        ("randomness", certificate.note),
        *own,
    ]
    expected = plan.expected_rows
    if plan.norms is not None and expected is not None:
        n_rows = plan.norms.n_rows
        size = f"about {expected:,.0f} of about {n_rows:,.0f} ({expected / n_rows:.1%})"
        saw_nothing = fit.survey is not None and not fit.survey.above_noise
        facts.append((f"{units_of(plan.neighbours)} kept", UNKNOWN if saw_nothing else size))
    facts += [("radius", f"{plan.ball.radius:.6g}"), *((name, path) for name, path in files.items())]
    facts_table(title, facts)


def _of_kmeans(fit: KMeansFit, names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        ("features", listed(names)),
        ("clusters", clusters(fit)),
        *([] if fit.readability is None else [("verdict", fit.readability.verdict)]),
        *([] if fit.quality is None else [("predicted", str(fit.quality))]),
    ]


def centers_table(fit: KMeansFit, names: tuple[str, ...], path: str) -> None:
    """Print the centers in own units, with values that noise may explain in parentheses; of large tables, the path.

    Features are rows and centers are columns, unless there are many centers of few features.
    """
    view = view_of(fit, names)
    n_clusters, n_features = view.values.shape
    most = max(3, (Console().width - _NAME_WIDTH) // _CELL_WIDTH)
    if min(n_clusters, n_features) > most or max(n_clusters, n_features) > _MOST_DOWN:
        say(f"{n_clusters} centers of {n_features} features: see {path}")
        return
    sizes = sizes_of(fit)
    columns = [(sizes.share_name.lower(), [text for text, _ in sizes.share_texts()])]
    if not sizes.split:
        columns.append(("noisy count", [text for text, _ in sizes.count_texts()]))
    for feature, name in enumerate(view.names):
        shown = view.texts(feature)[0]
        clear = view.cells[:, feature]
        columns.append((name, [text if above else f"({text})" for text, above in zip(shown, clear, strict=True)]))
    labels = [str(center) for center in range(n_clusters)]
    if n_clusters <= most:
        header, rows = ["segment", *labels], [[name, *texts] for name, texts in columns]
    else:
        header = ["segment", *(name for name, _ in columns)]
        rows = [[label, *(texts[center] for _, texts in columns)] for center, label in enumerate(labels)]
    note = "In parentheses: within two standard errors of the average, or a feature that noise drowns."
    _columns("Segments", header, rows, "" if view.cells.all() else note)
    say("\n".join(segment_lines(fit, names)))


def values_table(title: str, header: list[str], rows: list[list[str]], note: str, path: str) -> None:
    """Print released values with a note below; of a table that does not fit the screen, print the path."""
    if len(rows) > _MOST_DOWN or _NAME_WIDTH + _CELL_WIDTH * (len(header) - 1) > max(Console().width, 80):
        say(f"{title}, {len(rows)} lines: see {path}")
        return
    _columns(title, header, rows, note)


def _columns(title: str, header: list[str], rows: list[list[str]], note: str) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        side: Any = "left" if position == 0 else "right"
        table.add_column(plain(name), justify=side, no_wrap=position == 0, overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    Console().print(table)
    if note:
        say(note)


def clusters(fit: KMeansFit) -> str:
    """Number of clusters, and how many of them are above the noise."""
    wanted, effective = len(fit.value.centers), fit.value.effective_centers
    return str(wanted) if effective == wanted else f"{wanted}, of which {effective} above the noise"


def survey_summary(survey: Survey, out: Path | None) -> None:
    """Print the results of a survey and its price."""
    origin = "the origin" if survey.ball.center is None else f"a center of {len(survey.ball.center)} numbers"
    neighbours = survey.neighbours
    open_radius = "" if survey.quantile_asked else "; a plan may choose a smaller one"
    facts_table(
        "Norm survey",
        [
            ("price", f"epsilon {raised(survey.epsilon)}, delta 0"),
            ("randomness", "secure randomness" if survey.secure_randomness else "seeded, not private"),
            *([] if survey.columns is None else [("features", listed(survey.columns))]),
            ("protects", neighbours),
            *_sizes(survey),
            *([("mean square norm", f"about {survey.norms.mean_square_norm:.6g}")] if survey.above_noise else []),
            ("radius", f"{survey.ball.radius:.6g} (l{survey.ball.order:g}) about {origin}{open_radius}"),
        ],
    )
    if survey.above_noise:
        say(histogram(survey.norms))
    say(
        f"This spent epsilon {survey.epsilon:g} of every {person_of(neighbours)}'s budget. It counts in every later "
        + (f"release from these rows: pass --survey {out}." if out is not None else "release from these rows.")
    )


def _sizes(survey: Survey) -> list[tuple[str, str]]:
    """The noisy number of rows, or of units if each of them counts once."""
    n_rows, unit = survey.norms.n_rows, survey.unit
    if not survey.above_noise:
        return [(units_of(survey.neighbours), UNKNOWN)]
    if unit is None or unit.full_rows == 1:
        return [(units_of(survey.neighbours), f"about {n_rows:,.0f}")]
    return [("rows", f"about {n_rows * unit.full_rows:,.0f}, counting at most {unit.full_rows} of each {unit.column}")]


def histogram(norms: NormDistribution) -> str:
    """Noisy shares of the rows by norm, drawn as bars."""
    edges = np.linspace(0.0, norms.radius, HISTOGRAM_BINS + 1)
    masses, _ = np.histogram(norms.norms, bins=edges, weights=norms.masses)
    shares = masses / norms.n_rows
    longest = float(shares.max())
    lines = ["norm up to     rows (noisy share)"]
    for edge, share in zip(edges[1:], shares, strict=True):
        lines.append(f"{edge:<14.6g} {share:6.1%} {'█' * round(_BAR * float(share) / longest)}".rstrip())
    return "\n".join(lines)
