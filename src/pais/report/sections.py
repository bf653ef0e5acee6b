"""The sections of the report page, each built from public values of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pais._base.numerics import FloatArray
from pais.accounting.certificate import Certificate
from pais.mechanisms import KMeans, NoiseLaw
from pais.planning import KMeansFit, record_losses
from pais.planning.explain import assumption_lines
from pais.report.charts import LineChart, stacked_bar, swatch
from pais.report.heat import heat_map
from pais.report.text import TIMES, details, escaped, number, paragraph, percent, price, section, table

_CURVE_POINTS = 201

# If a survey counts less than this share of the rows that the clusters contain, it has missed the data.
_FOUND_SHARE = 0.5


def banner(fit: KMeansFit) -> str:
    """Render a prominent warning if any random draw came from a seed."""
    if is_secure(fit):
        return ""
    return (
        '<div class="banner" role="alert"><strong>Seeded, not private</strong>'
        "<p>A seed was given, so whoever knows it can take the noise off again. This is a rehearsal: the numbers below "
        "say what the same run would guarantee without a seed. Do not publish the centers.</p></div>"
    )


def is_secure(fit: KMeansFit) -> bool:
    return fit.certificate.secure_randomness and (fit.survey is None or fit.survey.secure_randomness)


def guarantee(fit: KMeansFit) -> str:
    """Explain (epsilon, delta): the factor on the odds, and the success of the best guess from even odds."""
    certificate = fit.certificate
    epsilon, delta = certificate.epsilon, certificate.delta
    factor = price(math.exp(epsilon), 3) if epsilon < 700.0 else f"e^{price(epsilon)}"
    guess = best_guess(epsilon, delta)
    but = ", but for delta" if delta > 0.0 else ""
    facts = [
        ("epsilon, the privacy loss of the costliest possible row", price(epsilon)),
        ("delta, what may come on top of it" if delta > 0.0 else "delta: the guarantee has no exception", price(delta)),
        (f"the most by which the release changes the odds that a row is in the data{but}", f"{TIMES} {factor}"),
        ("right at most this often, guessing from 50% whether a row is in the data", guess),
    ]
    boxes = "".join(f"<div><dt>{escaped(words)}</dt><dd>{escaped(value)}</dd></div>" for words, value in facts)
    extra = "" if delta == 0.0 else f", plus {price(delta)}"
    verb = "changes" if is_secure(fit) else "would change"
    return section(
        "guarantee",
        "The guarantee",
        paragraph(
            f"Adding or removing <strong>any one row</strong>, whatever it holds, {verb} the probability of any "
            f"outcome by at most a factor of e<sup>epsilon</sup> = <strong>{factor}</strong>{extra}. This holds for "
            "everything on this page together, against anyone, whatever else they know and compute."
        ),
        f'<dl class="facts">{boxes}</dl>',
        paragraph(kept_sentence(certificate)),
        paragraph(
            f"Neighbours: {escaped(certificate.neighbours)}. Randomness: {escaped(certificate.note)}. What is common "
            "to many rows can be learned from the centers, and that is their purpose; what one row adds to it is what "
            "is bounded.",
            "soft",
        ),
    )


def kept_sentence(certificate: Certificate) -> str:
    """Say how much of the guarantee depends on a secret sample."""
    if certificate.epsilon_if_kept <= certificate.epsilon * (1.0 + 1e-6):
        return "The guarantee does not rest on a secret sample."
    return (
        "The guarantee rests on the sample staying secret. If it becomes known that a row was kept in the sample, that "
        f"row has epsilon <strong>{price(certificate.epsilon_if_kept)}</strong>."
    )


def best_guess(epsilon: float, delta: float) -> str:
    """Success of the best test between two equally likely neighbours, rounded up.

    It is (e^epsilon + delta)/(e^epsilon + 1).
    """
    success = (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))
    return f"{min(math.ceil(1000.0 * success - 1e-9) / 10.0, 100.0):.1f}%"


def budget(certificate: Certificate) -> str:
    """Render the price of each release on these rows, as a bar and a table."""
    parts = [(str(part["what"]), _real(part["epsilon"]), _real(part["delta"])) for part in certificate.parts]
    bar = stacked_bar(
        "budget-bar",
        f"epsilon {price(certificate.epsilon)} by release",
        [(f"{what}: epsilon {price(epsilon)}", epsilon) for what, epsilon, _ in parts],
        math.fsum(epsilon for _, epsilon, _ in parts),
    )
    rows = [
        (swatch(position) + escaped(what), price(epsilon), price(delta), percent(epsilon / certificate.epsilon))
        for position, (what, epsilon, delta) in enumerate(parts)
    ]
    return section(
        "budget",
        "Budget spent",
        paragraph("Each release on these rows has its price, and the prices add up to the guarantee."),
        bar,
        table(
            "Parts of the certificate",
            ("Release", "epsilon", "delta", "share of epsilon"),
            rows,
            foot=("Together", price(certificate.epsilon), price(certificate.delta), ""),
        ),
    )


def _real(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def curves(fit: KMeansFit) -> str:
    """Plot the sampling probability and the loss of a record by norm: properties of the plan, not of the rows."""
    plan = fit.plan
    share = np.linspace(0.0, 1.0, _CURVE_POINTS)
    kept, losses = plan.rule.probability(share * plan.ball.radius), record_losses(plan, share * plan.ball.radius)
    picked = range(0, _CURVE_POINTS, _CURVE_POINTS // 4)
    rows = [(f"{share[i]:.2f}", number(kept[i]), number(1.0 / kept[i]), price(losses[i])) for i in picked]
    earlier = sum(part.epsilon for part in plan.spent)
    added = f" The earlier releases add {price(earlier)} to every record." if earlier > 0.0 else ""
    reading = (
        "Every row is kept as rarely as the guarantee allows, so the loss is the same at all norms."
        if losses.min() > 0.999 * plan.epsilon
        else "Below the dashed line, a record pays less than is certified."
    )
    return section(
        "norms",
        "Who is kept, and what it costs them",
        paragraph(
            f"Norms are distances from the center in the l{plan.ball.order:g} norm; rows beyond the radius "
            f"{number(plan.ball.radius)} are scaled back to it. Rows near the center are kept more rarely, and "
            "weighted up by one over the probability."
            if kept[0] < kept[-1]
            else f"Rows beyond the radius {number(plan.ball.radius)} (l{plan.ball.order:g} norm) are scaled back to it."
        ),
        _charts(share, kept, losses, plan.epsilon),
        paragraph(reading + added, "soft"),
        details(
            "The same in numbers",
            table("By norm", ("norm / radius", "kept with probability", "weight", "epsilon"), rows),
        ),
    )


def _charts(share: FloatArray, kept: FloatArray, losses: FloatArray, epsilon: float) -> str:
    probability = LineChart(
        name="kept",
        title="Probability of being kept",
        description=f"From {number(kept[0])} at norm 0 to {number(kept[-1])} at the radius.",
        x=share,
        y=kept,
    )
    loss = LineChart(
        name="loss",
        title="Loss of a record (epsilon)",
        description=f"From {price(losses[0])} at norm 0 to {price(losses[-1])} at the radius, "
        f"never above {price(epsilon)}.",
        x=share,
        y=losses,
        limit=epsilon,
        limit_label=f"certified: {price(epsilon)}",
    )
    return f'<div class="charts">\n{probability.svg()}\n{loss.svg()}\n</div>'


def sampling(fit: KMeansFit) -> str:
    """Render the expected sample size and the noisy or stated number of rows."""
    norms = fit.plan.norms
    if norms is None:
        return ""
    n_rows, kept = norms.n_rows, norms.expected_size(fit.plan.rule)
    rounds = len(_mechanism(fit).rounds)
    source = "noisy number from the survey" if fit.survey is not None else "as stated"
    share = min(kept / n_rows, 1.0)
    text = (
        f"Each of the {rounds} rounds goes over about <strong>{number(kept)}</strong> rows instead of "
        f"{number(n_rows)}: the other {percent(1.0 - share)} are left out."
        if share < 1.0
        else f"All rows are used in each of the {rounds} rounds: this plan does not sample."
    )
    bar = stacked_bar("sampling-bar", "Rows kept", [(f"about {number(kept)} of {number(n_rows)} rows", share)], 1.0)
    return section(
        "sampling",
        "What sampling saved",
        paragraph(text),
        bar,
        f'<ul class="key"><li>{swatch(0)}kept: about {number(kept)} ({percent(share)})</li>'
        f'<li><span class="swatch rest" aria-hidden="true"></span>all rows: about {number(n_rows)} '
        f"({source})</li></ul>",
        paragraph("Both are expectations. How many rows were kept in fact is secret.", "soft"),
        _survey_words(fit, n_rows),
    )


def _survey_words(fit: KMeansFit, n_rows: float) -> str:
    """Say how reliable the survey's number of rows is."""
    if fit.survey is None:
        return ""
    counted = float(fit.value.noisy_counts.sum())
    words = paragraph(
        "The survey counts only norms that stand out of its noise and may miss rows; the noisy counts of the clusters "
        f"add up to {number(counted)}.",
        "soft",
    )
    if n_rows >= _FOUND_SHARE * counted:
        return words
    return words + paragraph(
        "The survey found few of the rows above its noise, so radius, center and sample may be far off. The "
        "guarantee holds all the same. State radius and norms, raise epsilon, or bring more rows.",
        "warning",
    )


def centers(fit: KMeansFit, names: Sequence[str]) -> str:
    return section(
        "centers",
        "Centers",
        paragraph(
            f"{fit.value.centers.shape[0]} centers of {len(names)} features, by noisy count. Center numbers are those "
            "of the model. Colour compares the centers with each other, one feature at a time; the numbers are in the "
            "units of the data."
        ),
        heat_map(fit.value, _mechanism(fit), names),
        paragraph(
            "<b>Noisy count</b>: rows of the cluster in the last round, with noise. <b>Noise</b>: deviation that the "
            "noise of the last round alone gives each coordinate of the center, a rough scale for differences worth "
            "reading; sampling and clipping come on top.",
            "soft",
        ),
    )


def noise(fit: KMeansFit) -> str:
    """Render the standard deviations of the noise in each round."""
    mechanism = _mechanism(fit)
    d = mechanism.n_features
    rows = []
    if mechanism.moment_noise is not None:
        moment = f"{mechanism.moment_noise.deviation(1):,.4g} on the second moment"
        rows.append(("start", "directions of spread", "", moment))
    for position, round_ in enumerate(mechanism.rounds):
        rows.append(
            (
                str(position + 1),
                _phase(mechanism, position),
                f"{number(round_.count_noise.deviation(1))} ({_law(round_.count_noise)})",
                f"{number(round_.sum_noise.deviation(d))} ({_law(round_.sum_noise)})",
            )
        )
    return section(
        "noise",
        "Noise by round",
        paragraph("Standard deviations of what was added: to each count, and to each coordinate of each sum."),
        table("Noise added", ("Round", "Purpose", "on counts", "on sums"), rows, words=2),
    )


def _law(law: NoiseLaw) -> str:
    described = law.to_dict()
    name = described["law"]
    return escaped(f"l{described['p']} law" if name == "lp" else name).replace(".0", "")


def _phase(mechanism: KMeans, position: int) -> str:
    if mechanism.explore == 0:
        return f"move {mechanism.n_clusters} centers"
    first = 1 if mechanism.moment_noise is None else 0
    if position < first:
        return f"start from {mechanism.cells} sectors"
    if position < first + mechanism.explore:
        return f"explore with {mechanism.cells} cells"
    return f"polish {mechanism.n_clusters} centers"


def limits(fit: KMeansFit) -> str:
    """Render the assumptions of the guarantee, and how to read the page."""
    plan = fit.plan
    if fit.survey is None:
        facts = "Center, radius and norms were stated. They must not have been read off these rows."
    else:
        found = "radius and norms" if fit.survey.ball == plan.ball else "norms"
        facts = (
            f"A survey released the {found} with noise, and its price is in the budget. What was stated beside it "
            "(a center, a radius) must not have been read off these rows."
        )
    lines = [
        f"<strong>Public facts.</strong> {facts}",
        "<strong>Per row.</strong> Someone who owns k rows has at worst k times epsilon, and k &middot; "
        "e<sup>(k&minus;1) epsilon</sup> times delta. Aggregate to one row per person first.",
        "<strong>Preprocessing.</strong> Whatever was fitted to the rows before this release, such as a scaler, is not "
        "covered.",
        "<strong>Other releases add up.</strong> Add the epsilons and deltas of all certificates on the same rows; a "
        "ledger does it for you.",
        "<strong>Labels are not protected.</strong> Which training row belongs to which center, and errors measured on "
        "training rows, are not part of this release.",
        "<strong>Small clusters.</strong> A count within its noise is no evidence of a cluster: the noise alone could "
        "give it.",
        "<strong>Running time and memory</strong> depend on the rows and are not covered.",
    ]
    # Lines with a condition are not indented and become headings; lines about the condition are indented.
    checked = "".join(
        f"<li>{escaped(line)}</li>" if line.startswith(" ") else f"</ul><p>{escaped(line)}</p><ul>"
        for line in assumption_lines(plan)
        if line
    )
    return section(
        "limits",
        "What this rests on",
        "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>",
        paragraph("The full list, with what to do about each, is in LIMITS, beside the documentation of pais.", "soft"),
        details("Assumptions on the loss, and what is known of each", checked.removeprefix("</ul>") + "</ul>"),
    )


def certificate_json(certificate: Certificate) -> str:
    return section(
        "certificate",
        "Certificate",
        paragraph("What was run and what it guarantees, for programs and for the files. Public values only."),
        details("Certificate as JSON", f"<pre>{escaped(certificate.to_json())}</pre>"),
    )


def _mechanism(fit: KMeansFit) -> KMeans:
    assert isinstance(fit.plan.mechanism, KMeans)
    return fit.plan.mechanism
