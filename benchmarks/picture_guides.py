"""The pictures of the guides: segments, principal components, the tops of reports, and the studio.

``python -m benchmarks.picture_guides`` writes segments-*.png, pca.png, *-report.png and studio-*.png to docs/guide in
about two minutes; with ``--studio``, those of the studio alone. The pictures of segments show the model of
docs/guide/segments.md: the Python blocks of the page are run. It needs the `plots` extra, and Chromium for the pictures
of reports; for those of the studio also ChromeDriver and selenium.

NOT PRIVATE: the draws are seeded, so that the pictures can be drawn again. The rows are made up.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import pais
from benchmarks.data import DELTA, FloatArray
from benchmarks.picture import PLACE, draw_report, save
from pais.pca.components import PCAFit

GUIDE = PLACE / "segments.md"

# Width of the window in which the report is opened, and how much of it is shown.
WIDTH, HEIGHT = 1100, 1140


def model_of_guide(folder: Path) -> Any:
    """Run the guide's Python blocks in a folder, and return the model that it fits."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "__main__"}
    home = Path.cwd()
    os.chdir(folder)
    try:
        exec(compile("\n".join(blocks), GUIDE.name, "exec"), names)
    finally:
        os.chdir(home)
    return names["model"]


REGIONS = ["north", "south", "east", "west"]


def write_reports(folder: Path) -> dict[str, int]:
    """Write one report for each page; return the height of its picture by the name of the page."""
    people = pais.example_people(10_000)
    bounds = {"age": (18, 100), "visits": (0, 100), "premium": bool, "income": (0, 200_000)}
    stated = {"date": "2026-01-31", "data_name": "example people"}
    regression = pais.DPLinearRegression(
        epsilon=1.0, columns={**bounds, "region": REGIONS}, target="income", unit="customer_id", random_state=0
    )
    regression.fit(people).write_report(folder / "regression.html", **stated)
    columns = {"age": (18, 100), "income": (0, 250_000), "balance": (0, 100_000), "visits": (0, 50), "premium": bool}
    pca = pais.DPPCA(n_components=4, epsilon=0.02, columns=columns, unit="customer_id", random_state=0)
    pca.fit(people).write_report(folder / "pca.html", **stated)
    described = pais.describe(people, columns=columns, epsilon=1.0, random_state=0)
    described.write_report(folder / "describe.html", **stated)
    return {"regression": 1700, "pca": 1600, "describe": 890}


ROWS, FEATURES, SHOWN, NUMBER = 60_000, 60, 30, 5
EPSILONS = (0.03, 0.1, 0.3, 1.0)
SEEDS = range(5)
SMALL = 0.02 * ROWS
KINDS: dict[str, dict[str, Any]] = {
    "all rows": {"sampling": "none"},
    "2 % of the rows": {"sample_size": SMALL},
    "2 %, uniform": {"sampling": "uniform", "sample_size": SMALL},
}


def rows_of() -> FloatArray:
    """Rows with a falling spectrum and norms of different sizes."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0]
    length = rng.lognormal(sigma=0.5, size=(ROWS, 1))
    rows: FloatArray = length * (rng.normal(size=(ROWS, FEATURES)) / np.sqrt(np.arange(1.0, FEATURES + 1.0))) @ turn
    return rows


def draw_spectrum(axes: Any, rows: FloatArray, covariance: FloatArray) -> None:
    model = pais.DPPCA(epsilon=0.1, delta=DELTA, sampling="none", random_state=1).fit(rows)
    assert isinstance(model.fit_, PCAFit)
    exact = np.einsum("ki,ij,kj->k", model.components_, covariance, model.components_)
    number = np.arange(1, SHOWN + 1)
    axes.plot(number, model.fit_.spectrum.noisy_variances[:SHOWN], "o", ms=4, color="#b0b0b0", label="eigenvalues")
    axes.plot(number, model.explained_variance_[:SHOWN], "o", ms=4, color="#1f6f8b", label="explained_variance_")
    axes.plot(number, exact[:SHOWN], "-", lw=1.2, color="#222222", label="variance of the rows")
    axes.set(xlabel="component", ylabel="variance", yscale="log", title="Spectrum at epsilon 0.1")
    axes.legend(frameon=False)


def draw_captured(axes: Any, rows: FloatArray, covariance: FloatArray) -> None:
    best = np.linalg.eigvalsh(covariance)[-NUMBER:].sum()
    for (name, options), color in zip(KINDS.items(), ("#222222", "#1f6f8b", "#c0762b"), strict=True):
        medians = []
        for epsilon in EPSILONS:
            ratios = []
            for seed in SEEDS:
                model = pais.DPPCA(NUMBER, epsilon=epsilon, delta=DELTA, random_state=seed, **options).fit(rows)
                ratios.append(np.einsum("ki,ij,kj->", model.components_, covariance, model.components_) / best)
            medians.append(float(np.median(ratios)))
        axes.plot(EPSILONS, medians, "o-", ms=4, lw=1.2, color=color, label=name)
    axes.set(
        xscale="log", xlabel="epsilon", ylabel="captured variance", title=f"First {NUMBER} of {FEATURES} components"
    )
    axes.set_xticks(EPSILONS, labels=[f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.legend(frameon=False)


def figure_of(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=130, layout="constrained", facecolor="white")


STATED = "age: 18:100\nincome: 0:250000\nvisits: 0:50\npremium: bool\nregion: [north, south, east, west]\n"

#: A script that fills in the first three steps of the page.
STEPS = """const [yaml, done] = arguments;
    const choose = (form, name, values) => {
        const body = new URLSearchParams([["form", form], ["only", name], ...values.map((value) => [name, value])]);
        return fetch("/save", { method: "POST", body });
    };
    const send = (path, fields) => fetch(path, { method: "POST", body: new URLSearchParams(fields) });
    (async () => {
        await choose("file", "unit", ["customer_id"]);
        await choose("file", "rows_each", ["6"]);
        await send("/paste", { yaml });
        await choose("question", "by", ["region"]);
        await send("/ledger", { budget_epsilon: "4", budget_delta: "1e-5" });
    })().then(done)"""


def draw_studio(folder: Path, place: Path) -> None:
    """Take pictures of the studio, about made-up people, in a browser that is driven as a user's."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    pais.example_people(10_000).to_pandas().to_csv(folder / "people.csv", index=False)
    words = [sys.executable, "-m", "pais.cli", "studio", "people.csv", "--no-browser"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().split()[-1]
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", f"user-data-dir={folder / 'browser'}"):
            options.add_argument(f"--{flag}")
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

        def waited(script: str) -> Any:
            return WebDriverWait(driver, 60).until(lambda one: one.execute_script(f"return {script}"))

        def picture(name: str, first: str, last: str, width: int) -> None:
            """The part of the page from one section to another."""
            size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.execute_script("document.querySelector('nav').style.position = 'static'; scrollTo(0, 0)")
            edges = "[arguments[0], arguments[1]].map((id) => document.querySelector(id).getBoundingClientRect())"
            top, end = driver.execute_script(f"const [a, b] = {edges}; return [a.top - 12, b.bottom + 12]", first, last)
            clip = {"x": 0, "y": top, "width": width, "height": end - top, "scale": 1}
            found = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
            image = Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")
            image.quantize(128, dither=Image.Dither.NONE).save(place / f"{name}.png", optimize=True)

        try:
            driver.get(address)
            waited("!!document.querySelector('#slider')")
            driver.execute_async_script(STEPS, STATED)
            driver.refresh()
            waited("document.querySelector('#prediction').textContent.includes('The ledger before and after')")
            picture("studio-budget", "#budget", "#budget", 1200)
            driver.execute_script("document.querySelector('#used-only').click()")
            driver.execute_script("document.querySelector('#file strong').textContent = 'people.csv'")  # not its folder
            picture("studio-columns", "header", "#question", 1200)
            picture("studio-phone", "#columns", "#question", 400)
        finally:
            driver.quit()
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLACE, help="directory of the pictures")
    parser.add_argument("--studio", action="store_true", help="draw the pictures of the studio alone")
    asked = parser.parse_args()
    place = asked.out.absolute()
    with tempfile.TemporaryDirectory() as folder:
        draw_studio(Path(folder), place)
    if asked.studio:
        return
    mpl.use("agg")
    warnings.simplefilter("ignore", UserWarning)
    rows = rows_of()
    covariance = np.cov(rows, rowvar=False)
    figure = figure_of(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    draw_spectrum(left, rows, covariance)
    draw_captured(right, rows, covariance)
    save(figure, place / "pca.png")
    with tempfile.TemporaryDirectory() as folder:
        model = model_of_guide(Path(folder))
        centers = figure_of(7.0, 4.8)
        model.plot(centers.subplots())
        save(centers, place / "segments-centers.png")
        elbow = figure_of(6.0, 3.4)
        model.plot_elbow(elbow.subplots())
        save(elbow, place / "segments-elbow.png")
        draw_report(Path(folder) / "report.html", place / "segments-report.png", WIDTH, HEIGHT)
        for name, height in write_reports(Path(folder)).items():
            draw_report(Path(folder) / f"{name}.html", place / f"{name}-report.png", WIDTH, height)


if __name__ == "__main__":
    main()
