"""The style sheet of the page, for light and dark mode, screen and paper; it loads no external resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pais.show.grid import N_STEPS

#: Background and text colours of each step of the diverging scale, blue to orange, which is safe for colour blindness.
LIGHT_HEAT: Sequence[tuple[str, str]] = (
    ("#1f5f9e", "#ffffff"),
    ("#5a9fd0", "#10151b"),
    ("#9cc8e3", "#10151b"),
    ("#d3e5f1", "#10151b"),
    ("#f5f5f4", "#10151b"),
    ("#fbe3c4", "#10151b"),
    ("#f7bd76", "#10151b"),
    ("#e28a2b", "#10151b"),
    ("#a8500a", "#ffffff"),
)
DARK_HEAT: Sequence[tuple[str, str]] = (
    ("#8cc8f2", "#10151b"),
    ("#4a97cf", "#10151b"),
    ("#1f5f93", "#ffffff"),
    ("#203d55", "#ffffff"),
    ("#252a31", "#ffffff"),
    ("#4b361c", "#ffffff"),
    ("#7d4c10", "#ffffff"),
    ("#d1852c", "#10151b"),
    ("#f8bd76", "#10151b"),
)

LIGHT: Mapping[str, str] = {
    "page": "#f4f5f7",
    "card": "#ffffff",
    "text": "#1b2129",
    "soft": "#525c69",
    "line": "#d9dee5",
    "accent": "#0b5fa5",
    "empty": "#e6eaef",
    "weak": "#dcdee1",
    "weak-text": "#5a5f66",
    "alarm": "#8f1d14",
    "alarm-text": "#ffffff",
    "code": "#f0f2f5",
    "edge": "#b4bdc8",
}
DARK: Mapping[str, str] = {
    "page": "#12161b",
    "card": "#1b2027",
    "text": "#e8ecf1",
    "soft": "#a9b4c1",
    "line": "#333b46",
    "accent": "#79bdf2",
    "empty": "#2c343e",
    "weak": "#3a3e44",
    "weak-text": "#b3b8bf",
    "alarm": "#ffb4a8",
    "alarm-text": "#2b0703",
    "code": "#12161b",
    "edge": "#6b7787",
}
# Okabe and Ito's colours, with dark and light alternating so that neighbours differ in brightness too.
_PARTS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")


def style_sheet() -> str:
    light, dark = _variables(LIGHT, LIGHT_HEAT), _variables(DARK, DARK_HEAT)
    heat = "\n".join(
        f".heat-{step} {{ background: var(--heat-{step}); color: var(--heat-text-{step}); }}"
        for step in range(2 * N_STEPS + 1)
    )
    parts = "\n".join(
        f".part-{position} {{ fill: {colour}; background: {colour}; }}" for position, colour in enumerate(_PARTS)
    )
    # Dark colours apply to screens only: print is always light.
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{_SHEET}\n{heat}\n{parts}\n{_PAPER}"
    )


def _variables(colours: Mapping[str, str], heat: Sequence[tuple[str, str]]) -> str:
    steps = "".join(f"--heat-{step}: {back}; --heat-text-{step}: {ink}; " for step, (back, ink) in enumerate(heat))
    return "".join(f"--{name}: {value}; " for name, value in colours.items()) + steps.rstrip()


_SHEET = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; padding-bottom: .75rem; }
h1 { font-size: clamp(1.6rem, 4vw, 2.2rem); line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; max-width: 48rem; }
sup { line-height: 0; font-size: .75em; }
.soft, caption, figcaption, footer { color: var(--soft); }
.soft { font-size: .93rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.25rem 1.4rem; margin: 1rem 0; }
.banner { background: var(--alarm); color: var(--alarm-text); border-radius: .75rem; padding: 1rem 1.4rem;
  margin: 1rem 0; font-size: 1.05rem; }
.banner strong { display: block; font-size: 1.35rem; letter-spacing: .01em; }
.banner p { margin: .15rem 0 0; }
.verdict { border: 1px solid var(--line); border-left: .45rem solid var(--accent); background: var(--card);
  border-radius: .75rem; padding: .9rem 1.4rem; margin: 1rem 0; }
.verdict .answer { font-size: 1.3rem; line-height: 1.35; font-weight: 650; margin: 0; max-width: none; }
.verdict.poor { border-left-color: var(--alarm); }
.verdict.mixed { border-left-color: #e69f00; }
.stated { display: flex; flex-wrap: wrap; gap: .35rem 1.8rem; margin: .8rem 0 0; font-size: .93rem; }
.stated dt { color: var(--soft); font-size: .82rem; }
.stated dd { margin: 0; overflow-wrap: anywhere; }
.stated code { font-size: .82rem; }
.warning { border-left: .3rem solid var(--alarm); padding-left: .8rem; font-weight: 600; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.facts div { border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem; display: flex;
  flex-direction: column-reverse; justify-content: flex-end; }
.facts dt { color: var(--soft); font-size: .88rem; line-height: 1.35; }
.facts dd { margin: 0; font-size: 1.5rem; font-weight: 650; line-height: 1.3; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1.25rem; }
figure { margin: .5rem 0 0; max-width: 36rem; }
figcaption { font-weight: 600; font-size: .93rem; margin-bottom: .25rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 13px; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); }
svg .axis { stroke: var(--soft); }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 2.5; stroke-linejoin: round; }
svg .limit { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .column { fill: var(--accent); fill-opacity: .75; }
svg .weak-column { fill: var(--soft); fill-opacity: .4; }
svg .released { stroke: #e69f00; stroke-width: 2.5; }
svg .whisker { stroke: var(--text); stroke-width: 1.5; }
svg .empty { fill: var(--empty); }
svg .mark { fill: var(--accent); stroke: var(--card); stroke-width: 2; }
svg .frame { fill: none; stroke: var(--line); }
.map .center circle { fill: var(--accent); fill-opacity: .22; stroke: var(--accent); stroke-width: 1.2; }
.map .error { fill: none; stroke: var(--text); stroke-width: 1.2; }
.map .error.dashed { stroke-dasharray: 3 3; }
.map text.center { fill: var(--text); font-size: 12px; paint-order: stroke; stroke: var(--card); stroke-width: 2.5px;
  stroke-linejoin: round; }
.map .weak circle { fill: var(--soft); fill-opacity: .18; stroke: var(--soft); }
.map text.weak { fill: var(--soft); }
.axes { list-style: none; padding: 0; font-size: .9rem; color: var(--soft); overflow-wrap: anywhere; }
svg.bar { height: 1.75rem; border-radius: .4rem; margin: .9rem 0 .6rem; }
.swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .5rem;
  vertical-align: -.05rem; }
.swatch.rest { background: var(--empty); border: 1px solid var(--soft); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; padding: 0; list-style: none; margin: .25rem 0 .5rem; }
.scroll { overflow-x: auto; margin: .75rem 0; max-width: 100%;
  background: linear-gradient(to right, var(--card) 40%, transparent) 0 0 / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) 100% 0 / 2.5rem 100% no-repeat local,
    linear-gradient(to right, var(--edge), transparent) 0 0 / .7rem 100% no-repeat,
    linear-gradient(to left, var(--edge), transparent) 100% 0 / .7rem 100% no-repeat; }
.scroll:focus-visible, summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; }
.scroll > table:not(.heat) { width: 100%; max-width: 48rem; }
caption span { display: inline-block; max-width: min(48rem, 80vw); }
.heat .counts td { text-align: center; }
caption { text-align: left; font-size: .88rem; padding-bottom: .35rem; }
th, td { padding: .38rem .8rem .38rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, th.words, td.words { text-align: left; }
tbody th { font-weight: 500; }
thead th { color: var(--soft); font-weight: 600; font-size: .86rem; vertical-align: bottom; }
tfoot th, tfoot td { font-weight: 650; border-bottom: 0; border-top: 2px solid var(--line); }
.heat { border-collapse: separate; border-spacing: 2px; }
.heat th, .heat td { border: 0; padding: .4rem .55rem; }
.heat th:first-child { position: sticky; left: 0; background: var(--card); z-index: 1; text-align: left;
  padding-left: 0; }
.heat td[class^=heat] { border-radius: .25rem; min-width: 3.4rem; text-align: center; }
.heat thead th { text-align: center; min-width: 3.4rem; }
.heat thead th:first-child, .heat thead th.count { min-width: 0; }
.heat thead th.count { text-align: right; white-space: normal; }
.heat thead th span { display: inline-block; width: max-content; max-width: 9rem; white-space: normal;
  overflow-wrap: anywhere; }
.heat thead th:first-child { text-align: left; }
.heat thead .upright span { writing-mode: vertical-rl; transform: rotate(180deg); width: auto; max-width: none;
  max-height: 14rem; text-align: left; line-height: 1.25; }
.heat tbody th span { display: inline-block; white-space: normal; overflow-wrap: anywhere; width: max-content;
  max-width: min(24rem, 38vw); }
.heat small { display: block; font-size: .74rem; line-height: 1.2; max-width: 8rem; margin: 0 auto;
  white-space: normal; }
.heat small span { white-space: nowrap; }
.heat .drowned span { color: var(--soft); font-weight: 400; font-style: italic; }
.weak { background: var(--weak); color: var(--weak-text); }
.heat td.weak { border-radius: .25rem; min-width: 3.4rem; text-align: center; }
.heat td.drawn, .heat th.drawn { padding: .2rem .3rem; width: 12rem; }
.heat thead th.drawn .ends { display: flex; justify-content: space-between; width: auto; max-width: none;
  min-width: 11rem; font-weight: 400; }
.heat thead th.drawn .ends span { width: auto; white-space: nowrap; }
.with-bars tbody th span { max-width: min(20rem, 30vw); }
.wide-charts { grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
.wide-charts .with-bars tbody th span { max-width: min(10rem, 30vw); }
svg.bars { width: 11rem; height: 1.25rem; }
svg.bars line { vector-effect: non-scaling-stroke; }
svg.bars .zero { stroke: var(--edge); }
svg.bars .span { stroke: var(--text); stroke-width: 1.5; }
svg.bars .filled { fill: var(--accent); fill-opacity: .45; }
svg.bars .dot { stroke: var(--accent); stroke-width: 9; stroke-linecap: round; }
svg.weak-bars .span { stroke: var(--soft); }
svg.weak-bars .dot { stroke: var(--soft); }
svg.weak-bars .filled { fill: var(--soft); }
.with-bars td.words, .with-bars thead th.words { text-align: left; white-space: normal; min-width: 14rem;
  font-size: .92rem; padding-left: .8rem; vertical-align: middle; }
h2.appendix { margin: 2rem 0 0; padding-top: 1rem; border-top: 2px solid var(--line); }
.with-bars td.count { text-align: right; font-size: .88rem; }
.doubt { font-size: .78rem; color: var(--alarm); display: block; }
.legend { display: flex; flex-wrap: wrap; align-items: center; gap: .2rem .6rem; font-size: .88rem;
  color: var(--soft); }
.legend .entry { display: inline-flex; align-items: center; gap: .6rem; }
.legend .entry:first-child { white-space: nowrap; }
.legend .scale { display: inline-flex; border: 1px solid var(--line); border-radius: .25rem; overflow: hidden;
  flex: none; }
.legend .scale span { width: 1.3rem; height: .9rem; }
.on-paper { display: none; }
ul { margin: .5rem 0; padding-left: 1.2rem; max-width: 46rem; }
li { margin: .3rem 0; }
.key li { margin: 0; }
details { margin: .75rem 0 0; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: .5rem; padding: .9rem 1rem;
  overflow-x: auto; font: .82rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { padding-top: .25rem; padding-bottom: 2.5rem; font-size: .88rem; }
@media (max-width: 34rem) {
  main, header, footer { padding-left: .75rem; padding-right: .75rem; }
  header { padding-top: 1.25rem; }
  section, .banner { padding: 1rem; }
  .facts { grid-template-columns: 1fr 1fr; }
  .facts dd { font-size: 1.25rem; }
  .heat { font-size: .84rem; }
  .heat th, .heat td { padding: .35rem .3rem; }
  .heat .count { font-size: .8rem; }
  .legend .scale span { width: 1rem; }
  .heat td.drawn, .heat th.drawn { width: 6rem; padding: .2rem 0; }
  .heat thead th.drawn .ends { min-width: 6rem; }
  svg.bars { width: 6rem; }
  .wide caption span::after { content: " (scroll sideways)"; }
  table:not(.heat) td.words, table:not(.heat) th { white-space: normal; }
  table:not(.heat) td.words { min-width: 6rem; }
  svg text, .map text.center { font-size: 15px; }
  .heat thead th.drawn .ends span:nth-child(2) { display: none; }
  .with-words thead th.words { display: none; }
  .with-words tbody tr { display: grid; grid-template-columns: 5rem 7rem 1fr; align-items: center; }
  .with-words thead tr { display: grid; grid-template-columns: 5rem 7rem 1fr; align-items: end; }
  .with-words tbody td.words { grid-column: 1 / -1; padding: .1rem 0 .8rem; min-width: 0; }
  .verdict { padding: .8rem 1rem; }
  .verdict .answer { font-size: 1.15rem; }
}"""

_PAPER = """@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  :root { font-size: 10.5pt; }
  body { background: #fff; }
  main, header, footer { max-width: none; padding-left: 0; padding-right: 0; }
  section { border: 0; padding: .25rem 0; margin: .4rem 0 .7rem; }
  h2.appendix { margin-top: 1rem; }
  .facts, figure, tr, svg, .banner { break-inside: avoid; }
  h2, h3, caption, p:has(+ .scroll) { break-after: avoid; }
  details:not([open]), section[aria-labelledby=certificate] { display: none; }
  table:not(.heat) { break-inside: avoid; }
  .scroll { overflow: visible; background: none; }
  .heat { font-size: 8.5pt; }
  .heat th, .heat td { padding: .2rem .3rem; }
  .heat td[class^=heat], .heat td.weak, .heat thead th { min-width: 2.6rem; }
  .heat small { font-size: 7pt; }
  .heat tbody th span { max-width: 15rem; }
  .heat th:first-child { position: static; }
  .heat thead { display: table-header-group; }
  .on-screen { display: none; }
  .heat td.drawn, .heat th.drawn { width: 8.5rem; }
  .heat thead th.drawn .ends { min-width: 8rem; }
  svg.bars { width: 8rem; }
  .on-paper { display: block; }
  .on-paper table { margin-bottom: 1rem; }
  .charts { grid-template-columns: 1fr 1fr; }
  .verdict { break-inside: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}"""
