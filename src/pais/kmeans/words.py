"""The rounds of k-means in words: in a plan, in a certificate and in the table of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pais._base.cards import TIMES, number
from pais.kmeans.rounds import ResidualRound, Round
from pais.mechanisms.noise import NoiseLaw
from pais.planning.explain import law_in_words

if TYPE_CHECKING:
    from pais.kmeans.mechanism import KMeans


def phases_in_words(mechanism: KMeans) -> str:
    """The phases of k-means on one line."""
    k, cells, explore = _clusters(mechanism), mechanism.cells, mechanism.explore
    total = len(mechanism.rounds)
    if explore == 0:
        return f"k-means, {total} rounds on {k} centers"
    first = _n_sector_rounds(mechanism)
    sectors = f"1 on {cells} sectors, " if first else ""
    polish = f", {total - first - explore} on {k} centers" if total > first + explore else ""
    return f"k-means, {total} rounds: {sectors}{explore} on {cells} cells, which are then merged{polish}"


def lines_of_plan(mechanism: KMeans) -> list[str]:
    """What a plan says about the start and each round. Noise is given by its scale."""
    lines, moment = [], mechanism.moment
    if moment is not None:
        lines.append(
            f"start       mean and second moment of the rows clipped to norm {moment.radius:.6g}, "
            f"{_law_name(moment.noise)} noise {moment.noise.scale:.6g}"
        )
    last = mechanism.rounds[-1]
    if isinstance(last, ResidualRound):
        lines += [
            "each round releases for each cell, with noise: the number of rows, the sum of their distances to the "
            "center,",
            "and the sum of their residuals (row minus center). Residuals longer than the clip of the cell are "
            "shortened.",
        ]
        if last.flat_share < 1.0:
            lines.append("The clip is smaller for rows of small norm, which are sampled less often.")
        lines.append(
            "The clip follows from distances released before, so the noise on residuals shrinks with the cells."
        )
    else:
        lines.append("each round releases the number of rows and the sum of the rows of each cell, with noise")
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    for place, round_ in enumerate(rounds, 1):
        counts, distances, sums = _amounts(round_, lambda law, _, unit: f"{law.scale * unit:.6g}", "x")
        law, law_of_sums = (law_in_words(law.to_dict()) for law in (round_.count_noise, round_.laws[-1]))
        if isinstance(round_, ResidualRound):
            named = "" if law == law_of_sums else f"{law_of_sums} "
            what = "sums of rows" if round_.whole_rows else "residuals"
            rest = f"{distances} on distances, {named}{sums} on {what}"
        else:
            rest = f"{law_of_sums} noise {sums} on sums"
        lines.append(f"round {place:<2d}    {law} noise {counts} on counts, {rest}")
    return lines


def lines_of_certificate(mechanism: KMeans) -> list[str]:
    """What a certificate says about the rounds. Noise is given by its scale in the last round."""
    last = mechanism.rounds[-1]
    counts = f"{_law_name(last.count_noise)} noise of scale {last.count_noise.scale:.6g} on counts"
    lines = [f"Then {_clusters(mechanism)} clusters in {len(mechanism.rounds)} rounds."]
    if mechanism.moment is not None:
        lines.append("The first centers come from a noisy mean and second moment of the rows.")
    if not isinstance(last, ResidualRound):
        sums = f"{_law_name(last.sum_noise)} {last.sum_noise.scale:.6g} on sums"
        return [*lines, f"Each round has noisy counts and sums: in the last, {counts}, {sums}."]
    residuals = f"{_law_name(last.residual_noise)} {last.residual_noise.scale:.6g} x clip on residuals"
    return [
        *lines,
        "Each round has a noisy count, a noisy sum of distances and a noisy sum of residuals (row minus center)",
        f"for each cell: in the last, {counts}, and {residuals}.",
    ]


def rows_of_page(mechanism: KMeans) -> list[tuple[str, ...]]:
    """Number, purpose and noise of the start and of each round. Noise is given by its standard deviation."""
    rows: list[tuple[str, ...]] = []
    if mechanism.moment is not None:
        deviation = f"{number(mechanism.moment.noise.deviation(1))} on the second moment"
        rows.append(("start", "mean and directions of spread", "", "", deviation))
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    d = mechanism.n_features
    for place, round_ in enumerate(rounds):
        counts, distances, sums = _amounts(
            round_, lambda law, is_sum, unit: number(law.deviation(d if is_sum else 1) * unit), TIMES
        )
        laws = [
            law_in_words(law.to_dict()) + " law" * (_law_name(law) == "lp")
            for law in (round_.count_noise, round_.laws[-1])
        ]
        rows.append(
            (str(place + 1), _purpose(mechanism, place), f"{counts} ({laws[0]})", distances, f"{sums} ({laws[1]})")
        )
    return rows


def _purpose(mechanism: KMeans, place: int) -> str:
    first = _n_sector_rounds(mechanism)
    if mechanism.explore == 0:
        return f"move {mechanism.n_clusters} centers"
    if place < first:
        return f"start from {mechanism.cells} sectors"
    if place < first + mechanism.explore:
        return f"explore with {mechanism.cells} cells"
    return f"polish {_clusters(mechanism)} centers"


def _clusters(mechanism: KMeans) -> str:
    return f"{'up to ' * mechanism.choose}{mechanism.n_clusters}"


def _n_sector_rounds(mechanism: KMeans) -> int:
    """Without a second moment, the first round measures sectors."""
    return int(mechanism.moment is None)


def _law_name(law: NoiseLaw) -> str:
    return str(law.to_dict()["law"])


def _amounts(
    round_: Round | ResidualRound, amount: Callable[[NoiseLaw, bool, float], str], times: str
) -> tuple[str, str, str]:
    """Amounts of noise on counts, on distances if the round releases them, and on sums.

    `amount` takes a law, whether it is that of sums, and the unit of the noise.
    """
    counts = amount(round_.count_noise, False, 1.0)
    if not isinstance(round_, ResidualRound):
        return counts, "", amount(round_.sum_noise, True, 1.0)
    clip = f" {times} clip"
    sums = amount(round_.residual_noise, True, round_.radius if round_.whole_rows else 1.0)
    return counts, amount(round_.distance_noise, False, 1.0) + clip, sums + clip * (not round_.whole_rows)
