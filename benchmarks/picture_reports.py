"""The pictures of reports in the guides to regression, PCA, and means and counts.

``python -m benchmarks.picture_reports`` fits models like those of these pages, writes their reports, and takes pictures
of their tops: *-report.png in docs/guide, in about half a minute. It needs Chromium.

NOT PRIVATE: the draws are seeded, so that the pictures can be drawn again. The rows are made up.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import pais
from benchmarks.picture import PLACE
from benchmarks.picture_segments import draw_report

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLACE, help="directory of the pictures")
    place = parser.parse_args().out.absolute()
    warnings.simplefilter("ignore", pais.QualityWarning)
    with tempfile.TemporaryDirectory() as folder:
        for name, height in write_reports(Path(folder)).items():
            draw_report(Path(folder) / f"{name}.html", place / f"{name}-report.png", height)


if __name__ == "__main__":
    main()
