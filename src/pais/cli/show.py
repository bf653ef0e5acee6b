"""Output for people: tables on stdout, progress and warnings on stderr."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pais._base.numerics import lowered, raised
from pais.accounting.certificate import person_of, units_of
from pais.accounting.ledger import Ledger
from pais.cli.guard import spelled
from pais.data.cells import listed, with_article
from pais.planning.explain import survey_text
from pais.planning.facts import Survey
from pais.planning.plan import Fit, Plan
from pais.privacy.guarantee import STATED, delta_concern, epsilon_concern
from pais.privacy.rules import NormDistribution
from pais.show.results import Results, TextTable
from pais.statistics.result import Statistic

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

# Larger tables of values are not printed: lines, and letters of the first column and of the others. Chosen by eye.
_MOST_DOWN, _NAME_WIDTH, _CELL_WIDTH = 60, 16, 10

# Characters of the id of a ledger's entry, and of its time, that are shown.
_ID, _MINUTES = 8, len("2026-01-31T23:59")

#: Names and values, one pair in each line of a table.
Facts = list[tuple[str, str]]


def plain(text: str, style: str = "") -> Text:
    """Return a text without interpreting markup; bytes of a file name that cannot be decoded are shown as numbers."""
    return Text(text.encode(errors="backslashreplace").decode(), style=style)


def warn(text: str, console: Console | None = None) -> None:
    """Print a warning on stderr, which names options; with the console of a progress bar, above the bar."""
    (console or Console(stderr=True)).print(plain(f"warning: {spelled(text)}", "bold red"), soft_wrap=True)


def note(text: str) -> None:
    """Print a line on stderr that is no warning, so that stdout holds only the result."""
    Console(stderr=True).print(plain(text), soft_wrap=True)


def warn_of_weak(epsilon: float, plan: Plan) -> None:
    """Warn if the total epsilon or the delta of a plan gives a weak guarantee."""
    weak_delta = None if plan.norms is None else delta_concern(plan.delta, plan.norms.n_rows)
    for concern in (epsilon_concern(epsilon), weak_delta):
        if concern is not None:
            warn(concern)


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


def facts_table(title: str, facts: Facts) -> None:
    """Print names and values."""
    console = Console()
    table = Table(title=title, title_justify="left", show_header=False)
    # A long name is broken, so that there is room for numbers beside it.
    table.add_column(max_width=console.width // 2 - 4, overflow="fold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(plain(name), plain(value))
    console.print(table)


def values_table(values: TextTable) -> None:
    """Print released values. Columns that do not fit beside each other are printed below each other."""
    console = Console()
    widths = [max(map(cell_len, column)) + 3 for column in zip(values.header, *values.rows, strict=True)]
    names = min(widths[0], console.width // 2)
    blocks: list[list[int]] = [[]]
    used = names
    for place, width in enumerate(widths[1:], 1):
        if blocks[-1] and used + width > console.width:
            blocks.append([])
            used = names
        blocks[-1].append(place)
        used += width
    for number, block in enumerate(blocks):
        title = values.title if number == 0 else None
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(plain(values.header[0]), overflow="fold")
        for place in block:
            table.add_column(plain(values.header[place]), justify="right", no_wrap=True)
        for row in values.rows:
            table.add_row(*(plain(row[place]) for place in (0, *block)))
        console.print(table)
    if values.note:
        say(values.note)


def price(part: Any) -> str:
    """Epsilon and delta of a certificate or of a part of it, rounded up."""
    return f"epsilon {raised(part.epsilon)}, delta {raised(part.delta, 3)}"


def release(title: str, fit: Fit, results: Results, own: Facts, files: dict[str, str]) -> None:
    """Print a release: the guarantee, the facts that only such a release has, the files and the released values."""
    certificate, plan = fit.certificate, fit.plan
    facts = [("guarantee", price(certificate)), *((f"  {part.what}", price(part)) for part in certificate.parts)]
    if certificate.epsilon_if_kept > certificate.epsilon * (1.0 + 1e-6):
        one = with_article(person_of(plan.neighbours))
        facts.append(("if the sample leaks", f"epsilon {raised(certificate.epsilon_if_kept)} for {one} in it"))
    facts += [
        *([] if certificate.delta_basis == STATED else [("delta", certificate.delta_basis)]),
        ("neighbours", certificate.neighbours),
        ("randomness", certificate.note),
        *own,
        *([] if results.verdict is None else [("verdict", results.verdict)]),
        *([] if fit.quality is None else [("predicted", str(fit.quality))]),
    ]
    expected = plan.expected_rows
    if plan.norms is not None and expected is not None:
        n_rows = plan.norms.n_rows
        size = f"about {expected:,.0f} of about {n_rows:,.0f} ({expected / n_rows:.1%})"
        saw_nothing = fit.survey is not None and not fit.survey.above_noise
        facts.append((f"{units_of(plan.neighbours)} kept", UNKNOWN if saw_nothing else size))
    facts_table(title, [*facts, ("radius", f"{plan.ball.radius:.6g}"), *files.items()])
    width = max(3, (Console().width - _NAME_WIDTH) // _CELL_WIDTH)
    values = results.text_table(width)
    # The first column holds names, and up to two more hold sizes.
    if len(values.rows) > _MOST_DOWN or len(values.header) > width + 3:
        say(f"{fit.in_words()}: see {files[f'{results.table}.csv']}")
        return
    values_table(values)


def statistic(result: Statistic, out: Path | None) -> None:
    """Print a released statistic with its guarantee."""
    certificate = result.certificate
    parts = [(f"  {part.what}", price(part)) for part in certificate.parts]
    facts = [
        *result.lines(),
        *([("±", "standard errors")] if result.name == "description" else []),
        *(("caution", caution.text) for caution in result.cautions),
        ("about", result.about),
        *(("note", note) for note in result.notes),
        ("guarantee", price(certificate)),
        *(parts if len(parts) > 1 else []),
        ("neighbours", certificate.neighbours),
        ("randomness", certificate.note),
        ("noise", result.noise),
        ("clipping", result.clipping),
        *([] if out is None else [("file", str(out))]),
    ]
    facts_table(f"Private {result.name}" + (f" of {result.subject}" if result.subject else ""), facts)


def ledger(book: Ledger) -> None:
    """Print the entries of a ledger, and how much of its budget remains."""
    table = Table(title=plain(f"Ledger {book.path}", "italic"), title_justify="left")
    table.add_column("release")
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("delta", justify="right", no_wrap=True)
    table.add_column("randomness")
    table.add_column("when", no_wrap=True)
    # Certificates state the whole id; its first characters are enough to find the entry.
    table.add_column("id", no_wrap=True)
    for entry in book.entries:
        when = entry.when[:_MINUTES].replace("T", " ")
        cells = (entry.what, raised(entry.epsilon), raised(entry.delta, 3), entry.note, when, entry.id[:_ID])
        table.add_row(*map(plain, cells))
    table.add_section()
    totals = (("spent", book.spent, raised), ("remaining", book.remaining, lowered), ("budget", book.budget, lowered))
    for what, total, rounded in totals:
        table.add_row(what, rounded(total.epsilon), rounded(total.delta, 3), "", "", "")
    Console().print(table)


def survey(survey: Survey) -> None:
    """Print the results of a survey, its price and the norms it found."""
    say(survey_text(survey.to_dict()))
    if survey.columns is not None:
        say(f"Features: {listed(survey.columns)}.")
    if survey.above_noise:
        unit, n_rows = survey.unit, survey.norms.n_rows
        if unit is not None and unit.full_rows > 1:
            say(f"Rows: about {n_rows * unit.full_rows:,.0f}, counting at most {unit.full_rows} of each {unit.column}.")
        say(histogram(survey.norms))


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
