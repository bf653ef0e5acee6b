"""The section of the report about the noise of each round of k-means."""

from __future__ import annotations

from pais.mechanisms import KMeans, NoiseLaw, ResidualRound, Round
from pais.planning import Fit
from pais.report.text import TIMES, escaped, number, paragraph, section, table


def noise(fit: Fit) -> str:
    """Render the standard deviations of the noise in each round."""
    mechanism = fit.plan.mechanism
    assert isinstance(mechanism, KMeans)
    rows = []
    if mechanism.moment is not None:
        moment = f"{number(mechanism.moment.noise.deviation(1))} on the second moment"
        rows.append(("start", "mean and directions of spread", "", "", moment))
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    for position, round_ in enumerate(rounds):
        rows.append((str(position + 1), _phase(mechanism, position), *_deviations(round_, mechanism.n_features)))
    return section(
        "noise",
        "Noise by round",
        paragraph("Standard deviation of the noise on each count, each distance and each coordinate of each sum."),
        table("Noise added", ("Round", "Purpose", "on counts", "on distances", "on sums"), rows, n_text=2),
        "" if mechanism.explore == 0 else _residuals(),
    )


def _residuals() -> str:
    return paragraph(
        "Rounds release residuals: sums of row minus center. The clip of a cell is the largest residual that "
        "counts in full. It follows from the distances that earlier rounds released, so the noise shrinks with the "
        "cells.",
        "soft",
    )


def _deviations(round_: Round | ResidualRound, d: int) -> tuple[str, str, str]:
    """Deviations of the noise on counts, on distances and on coordinates of sums, with their laws."""
    counts = f"{number(round_.count_noise.deviation(1))} ({_law(round_.count_noise)})"
    if isinstance(round_, Round):
        return counts, "", f"{number(round_.sum_noise.deviation(d))} ({_law(round_.sum_noise)})"
    distances = f"{number(round_.distance_noise.deviation(1))} {TIMES} clip"
    deviation = round_.residual_noise.deviation(d)
    sums = number(deviation * round_.radius) if round_.whole_rows else f"{number(deviation)} {TIMES} clip"
    return counts, distances, f"{sums} ({_law(round_.residual_noise)})"


def _law(law: NoiseLaw) -> str:
    described = law.to_dict()
    name = described["law"]
    return escaped(f"l{described['p']} law" if name == "lp" else name).replace(".0", "")


def _phase(mechanism: KMeans, position: int) -> str:
    if mechanism.explore == 0:
        return f"move {mechanism.n_clusters} centers"
    first = 1 if mechanism.moment is None else 0
    if position < first:
        return f"start from {mechanism.cells} sectors"
    if position < first + mechanism.explore:
        return f"explore with {mechanism.cells} cells"
    return f"polish {'up to ' if mechanism.choose else ''}{mechanism.n_clusters} centers"
