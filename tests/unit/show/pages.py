"""What is true of every page: balanced tags, ids used once, nothing from outside, and results to fill pages with."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

from pais.data.schema import Schema
from pais.data.sources import source
from pais.linear.page import RegressionResults, Step
from pais.pca.components import PCASettings
from pais.pca.page import ComponentResults
from pais.pipeline import fit
from pais.planning.plan import Fit
from pais.show.page import ReportHeader, report_html, templates
from pais.show.results import Results
from pais.statistics.page import StatisticResults

LONG = "average_monthly_transaction_amount_in_euros_during_the_last_12_months"

VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}
DRAWN = {"line", "rect", "polyline", "circle", "ellipse"}


class Balanced(HTMLParser):
    """Every tag that opens is closed, in order; ids are used once and what is referred to exists."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.wanted: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN, f"<{tag}/> closes itself, and HTML does not know that"
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has a handler {name}"
            if name == "id":
                self.ids.append(value or "")
            if name == "aria-labelledby":
                self.wanted += (value or "").split()


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    return parser


def check(source: str) -> Balanced:
    """Check a page and return what it holds."""
    page = parsed(source)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.wanted) <= set(page.ids)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    outside = r"(src|href|action|data|poster)\s*=|@import|url\(|<script|<link|<base|https?://|//[a-z]+\."
    assert not re.search(outside, source, re.IGNORECASE)
    # An infinite or missing number would be written as one of these, in text or in a drawing.
    assert not re.search(r"\b(nan|inf|None)\b", re.sub(r"<pre>.*?</pre>", "", source, flags=re.DOTALL))
    return page


def rendered(template: str, macro: str, *values: object) -> str:
    """What a macro of a template writes."""
    return str(getattr(templates().get_template(template).module, macro)(*values))


@functools.cache
def moment_fit() -> Fit:
    """A fit of four columns, whose value is replaced by results."""
    rows = np.random.default_rng(0).normal(size=(5_000, 4))
    made = fit(source(rows), PCASettings(epsilon=1.0, delta=1e-6), random_state=None)
    return Fit(value=made.value, certificate=made.certificate, plan=made.plan, survey=made.survey)


def with_results(results: Results) -> Fit:
    return replace(moment_fit(), value=results)


def on_one_line(page: str) -> str:
    """The page without its line breaks, to look for sentences."""
    return " ".join(page.split())


def page_of(results: Results, header: ReportHeader | None = None) -> str:
    return on_one_line(report_html(with_results(results), header=header))


SCHEMA = Schema.of({"age": (18, 100), LONG: (0, 10_000), "premium": bool, "region": ["north", "south"], "visits": 10.0})


def regression(n_classes: int = 0, **changes: object) -> RegressionResults:
    """Coefficients of made-up columns; every second one is clear."""
    steps = tuple(step for column in SCHEMA.columns for step in Step.of(column))
    m, d = max(n_classes, 1), len(SCHEMA.labels)
    effects = np.random.default_rng(1).choice([-1.0, 1.0], size=(m, d)) * np.linspace(1.0, 3.0, d)
    sizes = np.array([step.size for step in steps])
    stated: dict[str, object] = {
        "target": "income",
        "names": SCHEMA.labels,
        "values": effects / sizes,
        "standard_errors": np.abs(effects) / sizes * np.where(np.arange(d) % 2 == 0, 0.1, 0.9),
        "intercepts": np.linspace(1.0, 2.0, m),
        "intercept_errors": np.full(m, 0.125),
        "steps": steps,
        "classes": tuple(f"class {line}" for line in range(n_classes)),
    }
    return RegressionResults(**{**stated, **changes})  # type: ignore[arg-type]  # made up here


def components(k: int = 4, d: int = 6, **changes: object) -> ComponentResults:
    """Components of made-up columns; the first two are above the noise."""
    loadings, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(d, d)))
    variances = 2.0 ** -np.arange(k)
    stated: dict[str, object] = {
        "names": tuple(LONG if j == 0 else f"column {j}" for j in range(d)),
        "loadings": loadings[:k],
        "variances": variances,
        "shares": variances / 2.0,
        "standard_errors": np.full(k, 0.05),
        "noise_level": 0.17,
        "above_noise": 2,
        "captured": 0.987,
    }
    return ComponentResults(**{**stated, **changes})  # type: ignore[arg-type]  # made up here


def description(n_columns: int = 6, **changes: object) -> StatisticResults:
    """A description of made-up columns, with a quartile that does not exist and a date."""
    values = np.outer([10_000.0, 0.5, 0.25, 0.3], 1.0 + np.arange(n_columns))
    values[3, 0] = np.nan
    dates = np.zeros(values.shape, dtype=bool)
    dates[1, -1] = True
    values[1, -1] = 20_000.0
    stated: dict[str, object] = {
        "name": "description",
        "rows": (("count",), ("mean",), ("std",), ("50%",)),
        "columns": tuple(LONG if j == 1 else f"column {j}" for j in range(n_columns)),
        "values": values,
        "lows": values * 0.99,
        "highs": values * 1.01,
        "is_date": dates,
        "noise_in_words": "Laplace noise of scale 2 on each total.",
        "clipping": "No values were clipped.",
    }
    return StatisticResults(**{**stated, **changes})  # type: ignore[arg-type]  # made up here


def histogram(**changes: object) -> StatisticResults:
    counts = np.array([[100.0], [300.0], [50.0], [20.0], [10.0]])
    stated: dict[str, object] = {
        "name": "histogram",
        "rows": (("age", "18 to 40"), ("age", "40 to 70"), ("age", "70 to 100"), (LONG, "a"), (LONG, "b")),
        "columns": (),
        "values": counts,
        "lows": np.maximum(counts - 6.0, 0.0),
        "highs": counts + 6.0,
    }
    return StatisticResults(**{**stated, **changes})  # type: ignore[arg-type]  # made up here


def every_kind() -> dict[str, Results]:
    return {
        "linear": regression(),
        "logistic": regression(1),
        "classes": regression(14),
        "components": components(),
        "many components": components(40, 60),
        "description": description(),
        "histogram": histogram(),
    }
