"""Format numbers and text as HTML: all text in the page goes through `escaped`."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from decimal import Decimal

from pais._base.numerics import raised

TIMES = "\u00d7"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def escaped(text: object) -> str:
    return html.escape(str(text), quote=True)


def breakable(name: object) -> str:
    """Escaped text that may be broken after punctuation, as the names of columns often have no blanks."""
    return re.sub(r"([_.:/=-]+)(?=\w)", r"\1<wbr>", escaped(name))


def number(value: float, digits: int = 4) -> str:
    """Format a number: significant digits, separated thousands, powers of ten as superscripts."""
    if not math.isfinite(value):
        return "unbounded" if value > 0.0 else str(value)
    if 1e3 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    shown = f"{value:.{digits}g}"
    if "e" not in shown:
        return shown
    mantissa, exponent = shown.split("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1" else f"{mantissa} {TIMES} {power}"


def whole(value: float) -> str:
    """Format a count, which may be noisy or expected, as a whole number."""
    return f"{round(value):,}" if abs(value) < 1e12 else number(value)


def price(value: float, digits: int = 5) -> str:
    """Format a privacy loss: never below the loss itself, except for the rounding of a double."""
    if not math.isfinite(value) or value <= 0.0:
        return number(value)
    shown = Decimal(raised(value, digits))
    return f"{shown.normalize():,f}" if 1e3 <= shown < 1e12 else number(float(shown), digits)


def percent(share: float) -> str:
    return f"{100.0 * share:.3g}%" if share < 0.9995 else f"{100.0 * share:.4g}%"


def section(identity: str, heading: str, *content: str) -> str:
    return f'<section aria-labelledby="{identity}">\n<h2 id="{identity}">{escaped(heading)}</h2>\n' + (
        "\n".join(part for part in content if part) + "\n</section>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """Wrap HTML text in a paragraph."""
    return f'<p class="{kind}">{text}</p>' if kind else f"<p>{text}</p>"


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, foot: Sequence[str] = (), n_text: int = 1
) -> str:
    """Build a table from HTML cells: the first cell of a row is its heading, the first `n_text` cells hold text."""
    kinds = [' class="words"' if column < n_text else "" for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        others = "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True))
        return f'<tr><th scope="row">{cells[0]}</th>{others}</tr>'

    columns = "".join(f'<th scope="col"{kind}>{cell}</th>' for cell, kind in zip(head, kinds, strict=True))
    body = "\n".join(line(row) for row in rows)
    end = f"\n<tfoot>{line(foot)}</tfoot>" if foot else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(caption)}">\n'
        f"<table><caption><span>{escaped(caption)}</span></caption>\n<thead><tr>{columns}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>{end}</table>\n</div>"
    )


def details(summary: str, content: str) -> str:
    return f"<details>\n<summary>{escaped(summary)}</summary>\n{content}\n</details>"
