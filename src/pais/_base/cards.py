"""Cards: short descriptions of results, as one line in a terminal and as a small table in a notebook."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

# Colours are those of the notebook, in light and in dark mode. Only the alarm has fixed colours.
_FRAME = (
    "display:inline-block;max-width:42em;padding:.6em .9em;border:1px solid rgba(128,128,128,.45);border-radius:.5em;"
    "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;color:inherit;background:transparent"
)
_HEAD = "font-weight:600;font-size:14px;margin:0 0 .35em;text-align:left"
_KIND = "font-weight:600;opacity:.7;margin-right:.5em"
_ALARM = "background:#a3180e;color:#ffffff;padding:.3em .6em;border-radius:.3em;margin:0 0 .5em;font-weight:600"
_TABLE = "border-collapse:collapse;border:0;margin:0;background:transparent;color:inherit;font-size:13px"
_ROW = "background:transparent;border:0"
_LABEL = (
    "text-align:left;vertical-align:top;font-weight:400;opacity:.7;padding:.1em 1em .1em 0;border:0;white-space:nowrap;"
    "background:transparent;color:inherit"
)
_VALUE = (
    "text-align:left;vertical-align:top;padding:.1em 0;border:0;background:transparent;color:inherit;"
    "overflow-wrap:anywhere;white-space:normal;max-width:30em"
)

TIMES = "\u00d7"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a reader needs to know about an object first. Public values only.

    Attributes
    ----------
    kind : str
        Name of the class.
    summary : str
        The most important fact, on one line.
    facts : tuple of (label, value)
        Further facts, for a notebook.
    alarm : str
        A warning that must not be missed, such as "seeded, not private"; empty if there is none.
    """

    kind: str
    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    alarm: str = ""

    def line(self) -> str:
        """The card on one line, for `repr`."""
        return f"<{self.kind}: {self.summary}{f'; {self.alarm}' if self.alarm else ''}>"

    def html(self) -> str:
        """The card as HTML that needs nothing from outside; all texts are escaped."""
        rows = "".join(
            f'<tr style="{_ROW}"><th scope="row" style="{_LABEL}">{html.escape(label)}</th>'
            f'<td style="{_VALUE}">{html.escape(value)}</td></tr>'
            for label, value in self.facts
        )
        alarm = f'<div style="{_ALARM}">{html.escape(self.alarm)}</div>' if self.alarm else ""
        return (
            f'<div class="pais-card" style="{_FRAME}"><div style="{_HEAD}"><span style="{_KIND}">'
            f"{html.escape(self.kind)}</span>{html.escape(self.summary)}</div>{alarm}"
            f'<table style="{_TABLE}"><tbody>{rows}</tbody></table></div>'
        )


class Carded:
    """A class that describes itself with a card: on one line in a terminal, as a small table in a notebook."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().line()

    def _repr_html_(self) -> str:
        return self._card().html()


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
