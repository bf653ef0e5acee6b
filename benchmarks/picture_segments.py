"""The pictures of the guide to segments: centers, elbow, and the top of the report.

``python -m benchmarks.picture_segments`` runs the Python blocks of docs/guide/segments.md, so that the pictures show
the model of the page, and writes segments-*.png to docs/guide in about half a minute. It needs the `plots` extra, and
Chromium for the picture of the report.

NOT PRIVATE: the draws are seeded, so that the pictures can be drawn again. The rows are made up.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.picture import PLACE, save

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


def figure_of(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=130, layout="constrained", facecolor="white")


def draw_report(page: Path, place: Path, height: int = HEIGHT) -> None:
    """Take a picture of the top of the report, with a profile of the browser that is thrown away."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("the picture of the report needs Chromium")
    with tempfile.TemporaryDirectory() as profile:
        picture = Path(profile) / "report.png"
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *(f"--user-data-dir={profile}", f"--screenshot={picture}", f"--window-size={WIDTH},{height}"),
                page.as_uri(),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        colours = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        colours.save(place, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLACE, help="directory of the pictures")
    place = parser.parse_args().out.absolute()
    mpl.use("agg")
    with tempfile.TemporaryDirectory() as folder:
        model = model_of_guide(Path(folder))
        centers = figure_of(7.0, 4.8)
        model.plot(centers.subplots())
        save(centers, place / "segments-centers.png")
        elbow = figure_of(6.0, 3.4)
        model.plot_elbow(elbow.subplots())
        save(elbow, place / "segments-elbow.png")
        draw_report(Path(folder) / "report.html", place / "segments-report.png")


if __name__ == "__main__":
    main()
