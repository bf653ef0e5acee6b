"""The report in a browser: wide, on a phone and on paper, with few and many centers and long names."""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

import pais
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.show.page import ReportHeader, report_html, write_report
from tests.unit.show.pages import LONG, every_kind, with_results

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: the page is not opened in a browser"
)

NAMES = ["age", "<b>&", '"quoted" onload=x', "height"]
HEADER = ReportHeader(
    title="Customer segments",
    data_name="Customers of the northern region, extract of 31 March 2026",
    owner="Data protection office",
    date="2026-04-02",
)


def fitted(n_clusters: int, n_features: int) -> KMeansFit:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(n_clusters, n_features)) * 3.0
    rows = np.repeat(centers, 20_000 // n_clusters, axis=0)
    rows = rows + rng.normal(size=rows.shape)
    return pais.fit(rows, KMeansSettings(n_clusters=n_clusters, epsilon=1.0, delta=1e-6), random_state=0)


SHAPES = {"25 by 10": (25, 10), "3 by 60": (3, 60), "2 by 2": (2, 2)}
KINDS = ("linear", "classes", "many components", "description", "histogram")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """A page for each shape of k-means centers, and for each other kind of result."""
    made = {kind: report_html(with_results(every_kind()[kind]), header=HEADER) for kind in KINDS}
    for name, (k, d) in SHAPES.items():
        names = [LONG if j % 4 == 0 else f"column {j} of the table" for j in range(d)]
        made[name] = report_html(fitted(k, d), feature_names=names, header=HEADER)
    return made


def chromium(page: Path, folder: Path, *options: str) -> bytes:
    """Standard output of a headless Chromium that opens the page with a profile of its own."""
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", *quiet.split(), "--disable-sync", "--disable-dev-shm-usage"]
    where = [f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run([*command, *where], check=True, capture_output=True, timeout=120).stdout


def pixels(picture: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the distinct lines of a PNG, filters left as they are."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", picture[16:26])
    data, at = b"", 8
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        if picture[at + 4 : at + 8] == b"IDAT":
            data += picture[at + 8 : at + 8 + length]
        at += 12 + length
    lines = zlib.decompress(data)
    size = 1 + width * (depth // 8) * {2: 3, 6: 4}[kind]
    return width, height, {lines[i : i + size] for i in range(0, len(lines), size)}


@pytest.mark.parametrize(("width", "height"), [(1200, 2400)])
def test_a_browser_shows_the_page(tmp_path: Path, width: int, height: int) -> None:
    page = write_report(tmp_path / "report.html", fitted(3, 4), feature_names=NAMES)
    picture = tmp_path / "page.png"
    chromium(page, tmp_path, f"--screenshot={picture}", f"--window-size={width},{height}", "--hide-scrollbars")
    shown_width, shown_height, lines = pixels(picture.read_bytes())
    assert (shown_width, shown_height) == (width, height)
    assert len(lines) > height / 10, "the page is blank"
    shown = chromium(page, tmp_path, "--dump-dom").decode()
    assert "The guarantee" in shown
    assert "<strong>any one row</strong>" in shown
    assert "&lt;b&gt;&amp;" in shown


# Measures the report in a frame of a given width. The report itself allows no script.
FRAME = """<!DOCTYPE html><html><body style="margin:0"><pre id="out"></pre>
<iframe id="page" style="border:0;width:{width}px;height:2000px" srcdoc="{page}"></iframe>
<script>
document.getElementById("page").addEventListener("load", (event) => {{
  const page = event.target.contentDocument;
  const shown = (node) => node.getClientRects().length > 0;
  const names = [...page.querySelectorAll(".heat th span")].filter(shown);
  const texts = [...page.querySelectorAll("p, td, th, li, dt, dd, small, figcaption, code")].filter(shown);
  document.getElementById("out").textContent = JSON.stringify({{
    width: page.documentElement.scrollWidth,
    cut: names.filter((name) => name.scrollWidth > name.clientWidth + 1 || name.scrollHeight > name.clientHeight + 1)
      .map((name) => name.textContent),
    names: names.map((name) => name.textContent),
    smallest: Math.min(...texts.map((node) => parseFloat(page.defaultView.getComputedStyle(node).fontSize))),
    smallest_in_pictures: Math.min(...[...page.querySelectorAll("svg text")].filter(shown).map((node) =>
      parseFloat(page.defaultView.getComputedStyle(node).fontSize) * node.getScreenCTM().a)),
    wide: [...page.querySelectorAll("section > *, header > *")].filter(shown)
      .filter((node) => node.getBoundingClientRect().right > page.documentElement.clientWidth + 1)
      .map((node) => node.className),
    words: [...page.querySelectorAll(".with-words td.words")].filter(shown).map((node) =>
      node.getBoundingClientRect().right / page.documentElement.clientWidth),
  }});
}});
</script></body></html>"""


def measured(page: str, folder: Path, width: int) -> dict:
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, page=html.escape(page, quote=True)), encoding="utf-8")
    shown = chromium(frame, folder, "--dump-dom", "--window-size=1400,2200", "--virtual-time-budget=5000").decode()
    found = re.search(r'<pre id="out">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize(("name", "width"), [*((name, 400) for name in [*SHAPES, *KINDS]), ("25 by 10", 1200)])
def test_page_fits_the_screen_and_cuts_no_name(pages: dict[str, str], tmp_path: Path, name: str, width: int) -> None:
    layout = measured(pages[name], tmp_path, width)
    assert layout["width"] <= width
    assert layout["wide"] == []
    assert layout["cut"] == []
    assert LONG in layout["names"] or name == "histogram"
    if name in SHAPES:
        shown = [text for text in layout["names"] if text == LONG or text.startswith("column ")]
        assert len(shown) == SHAPES[name][1]
    assert layout["smallest"] >= 11.0
    assert layout["smallest_in_pictures"] is None or layout["smallest_in_pictures"] >= 11.0


@pytest.mark.parametrize("width", [1200, 400])
def test_the_sentences_about_segments_are_seen_without_scrolling(tmp_path: Path, width: int) -> None:
    page = report_html(fitted(3, 4), feature_names=["age", "stay_days", "cost", LONG], header=HEADER)
    words = measured(page, tmp_path, width)["words"]
    assert len(words) == 3
    assert max(words) <= 1.0


@pytest.mark.parametrize("name", ["25 by 10", "many components", "description"])
def test_page_prints_on_few_sheets(pages: dict[str, str], tmp_path: Path, name: str) -> None:
    page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(pages[name], encoding="utf-8")
    chromium(page, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    sheets = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
    assert 2 <= sheets <= (12 if name == "many components" else 8)
