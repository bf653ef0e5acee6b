"""Released values and their certificates, which state the privacy cost, and the words for both."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pais._base import files, validate
from pais._base.cards import Card, Carded
from pais._base.numerics import raised
from pais.accounting.part import Part
from pais.accounting.stores import SECURE, SEEDED
from pais.data.cells import with_article
from pais.data.units import Unit, people_word
from pais.errors import ArgumentError
from pais.mechanisms.base import Mechanism
from pais.privacy.amplification import delta_after

ONE_ROW = "one row added or removed"

#: Explains the words "Gaussian shift" where a plan, a survey or a certificate uses them.
SHIFT_IN_WORDS = "A Gaussian shift s means: one {unit} moves the result by at most s standard deviations of its noise."


def unit_of(neighbours: str) -> str:
    """Name the protected unit in a certificate's `neighbours`: "row" for "one row added or removed"."""
    return neighbours.removeprefix("one ").removesuffix(" added or removed")


def person_of(neighbours: str) -> str:
    """Return the noun for the protected unit: "row", or "patient" if the column of the unit is ``patient_id``."""
    return "row" if neighbours == ONE_ROW else people_word(unit_of(neighbours))[0]


def units_of(neighbours: str) -> str:
    """Return the plural noun for the protected units: "rows", or for example "patients"."""
    return "rows" if neighbours == ONE_ROW else people_word(unit_of(neighbours))[1]


def price_in_words(content: Mapping[str, Any]) -> str:
    """Epsilon and delta, rounded up."""
    return f"epsilon {raised(content['epsilon'])}, delta {raised(content['delta'], 3)}"


def price_of(content: Mapping[str, Any]) -> tuple[float, float]:
    """Read epsilon and delta of a file or of a part of it; raise unless both are non-negative numbers."""
    return validate.non_negative("epsilon", content["epsilon"]), validate.target_delta(content.get("delta", 0.0))


def certificate_text(content: Mapping[str, Any]) -> str:
    """Describe a certificate, given as its dictionary: the guarantee, its parts, the mechanism and the limits."""
    epsilon, delta = price_of(content)
    parts = [price_of(part) for part in content["parts"]]
    for total, prices in zip((epsilon, delta), zip(*parts, strict=True), strict=True):
        if not math.isclose(total, sum(prices), rel_tol=1e-9, abs_tol=1e-300):
            raise ValueError
    about = content["about"]
    lines = ["This is the certificate of a release.", *([f"The release is about: {about}."] if about else [])]
    if content["secure_randomness"] is not True:
        lines += [
            "",
            "NOT PRIVATE: a seed was given, so this was a rehearsal. The numbers below are not a guarantee.",
        ]
    neighbours = str(content["neighbours"])
    lines += ["", "Guarantee", *guarantee_lines(epsilon, delta, neighbours), *delta_lines(content)]
    kept, unit = float(content["epsilon_if_kept"]), person_of(neighbours)
    if not kept >= epsilon:
        raise ValueError
    lines.append(
        "  It does not depend on keeping the sample secret."
        if kept <= epsilon * (1.0 + 1e-6)
        else f"  The sample must stay secret: if it becomes known that {with_article(unit)} was kept, that {unit} has "
        f"epsilon {raised(kept)}."
    )
    lines += ["", "Parts"]
    lines += [f"  {part['what']}: {price_in_words(part)}" for part in content["parts"]]
    lines += joint_lines(content, neighbours)
    lines += ["", "How", *how_lines(content)]
    if content["schema"] is not None:
        lines += ["", "Columns", *(f"  {name}: {words}" for name, words in columns_in_words(content["schema"]))]
    limit = "one row. For a person with k rows, it is (k epsilon, k e^((k-1) epsilon) delta)"
    if neighbours != ONE_ROW:
        limit = f"one {unit}: all rows with the same {unit_of(neighbours)} together"
    lines += [
        "",
        "Limits",
        f"  The guarantee is for {limit}.",
        "  It does not cover steps that were fitted to the rows before this release, such as a scaler.",
        "  It does not cover other releases from the same rows: add their epsilons and deltas.",
        f"  Randomness: {content['note']}. Issued by pais {content['version']}.",
    ]
    return "\n".join(lines)


def guarantee_lines(epsilon: float, delta: float, neighbours: str) -> list[str]:
    """Explain (epsilon, delta) to a reader who does not know the terms."""
    unit = person_of(neighbours)
    lines = [
        f"  epsilon {raised(epsilon)}, delta {raised(delta, 3)}; neighbours: {neighbours}.",
        f"  Adding or removing one {unit} changes the probability of any outcome",
        f"  by a factor of at most e^epsilon = {raised(math.exp(min(epsilon, 700.0)), 4)}"
        + (f", plus at most delta = {raised(delta, 3)}." if delta > 0.0 else "."),
        f"  This holds for every {unit}, whatever its values.",
    ]
    # Posterior odds are at most e^epsilon times the prior odds; shown for even prior odds.
    guess = 1.0 / (1.0 + math.exp(-epsilon))
    sure = raised(100.0 * guess, 3)
    lines.append(
        f"  Someone who gave {with_article(unit)} a 50 % chance to be in the data is at most {sure} % sure of it "
        "afterwards."
    )
    if delta > 0.0:
        lines[-1] = lines[-1].removesuffix(".") + ", apart from delta."
    return lines


def delta_lines(content: Mapping[str, Any]) -> list[str]:
    """Explain how delta was chosen, if the user did not state it."""
    basis = str(content["delta_basis"])
    if not basis.startswith("default"):
        return []
    used = validate.target_delta(content["delta_used"])
    return [f"  The noise was calibrated for delta {raised(used, 3)}: the {basis}."]


def joint_lines(content: Mapping[str, Any], neighbours: str = ONE_ROW) -> list[str]:
    """Explain how a price divides between the survey and the release, if it includes a survey."""
    if not content["survey_shift"]:
        return []
    shift = validate.positive("survey_shift", content["survey_shift"])
    rounds = validate.target_delta(content["release_delta"])
    return [
        f"  Survey and release have one price. The survey has the Gaussian shift {raised(shift)}.",
        f"  {SHIFT_IN_WORDS.format(unit=person_of(neighbours))}",
        f"  The release alone meets the same epsilon at delta {raised(rounds, 3)}.",
    ]


def how_lines(content: Mapping[str, Any]) -> list[str]:
    """Describe how the rows were bounded, sampled and measured."""
    ball, rule, mechanism = content["ball"], content["rule"], content["mechanism"]
    origin = "the origin" if ball["center"] is None else "a center that was stated or surveyed"
    # A mechanism may clip something else than rows.
    norm = f"norm {ball['radius']:.6g} ({norm_in_words(ball['order'])})"
    lines = [f"{mechanism.get('clips', 'Rows')} are clipped to {norm} about {origin}."]
    if "constant" in ball:
        lines.append(f"Every row has a constant coordinate of length {ball['constant']:.6g}, which counts in its norm.")
    # What the mechanism says about itself, or its name if it says nothing or is not a class of this package.
    own = Mechanism.from_dict(mechanism).certificate_lines() if files.is_complete(mechanism) else None
    if own is None:
        rounds = mechanism.get("rounds")
        steps = f" in {len(rounds)} rounds" if isinstance(rounds, list) else ""
        own = [f"Then: {mechanism['mechanism']}{steps}, with noise."]
    return [f"  {line}" for line in (*lines, _rule_in_words(rule), *own)]


def columns_in_words(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name of each column of a schema, given as its dictionary, and what is public about it."""
    return [(str(column["name"]), _column_in_words(column)) for column in schema["columns"]]


def _column_in_words(column: Mapping[str, Any]) -> str:
    kind = column["kind"]
    if kind == "categories":
        return f"categories {', '.join(map(str, column['values']))}"
    if kind in ("names", "found categories"):
        return f"{len(column['values']) - 1:,} names that were found privately; all others are 'other'"
    if kind == "ranges":
        ends = ["no limit" if end is None else f"{end:,.10g}" for end in column["ends"]]
        return f"ranges with the edges {', '.join(ends)}; values beyond are in none of them"
    if kind == "periods":
        return f"every {column['period']} from {column['first']} to {column['last']}; dates beyond are in none of them"
    if kind == "boolean":
        return "true or false"
    if kind in ("bounds", "dates"):
        ends = [
            f"{end:,.10g}" if isinstance(end, (int, float)) else str(end) for end in (column["low"], column["high"])
        ]
        return f"from {ends[0]} to {ends[1]}; values beyond are clipped"
    if kind == "auto" and column["scale"] is not None:
        return f"center {_amount(column['center'])} and scale {_amount(column['scale'])}, found privately"
    return "scale not known yet" if kind == "auto" else f"divided by {_amount(column['scale'])}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def norm_in_words(order: object) -> str:
    return f"l{order:g}" if isinstance(order, (int, float)) else f"l-{order}"


def _rule_in_words(rule: Mapping[str, Any]) -> str:
    kind = rule["rule"]
    if kind == "uniform" and rule.get("probability") == 1.0:
        return "All rows are used."
    if kind == "uniform":
        return f"Each row is kept with the same probability, {rule['probability']:.4g}."
    if kind == "bins":
        ends = f"from {min(rule['rates']):.4g} to {max(rule['rates']):.4g}"
        return f"In each step, each record joins with the probability of its bin, {ends}."
    kinds = {
        "constrained": "that is as small as the limits on its loss allow",
        "coreset": "that grows with its squared norm",
    }
    return f"Each row is kept with a probability {kinds.get(kind, 'given by a public function of its norm')}."


def digest(value: object) -> str | None:
    """Return the SHA-256 of a released value in a canonical form, or None if this kind of value is not supported.

    Supported are numbers, texts, arrays of numbers, tuples, lists, dictionaries with text keys, and dataclasses of
    these. A field of a dataclass with the metadata ``{"fingerprint": False}`` is left out. The digest is the same on
    every machine. Numbers are hashed as little-endian doubles, so numbers that round to the same double have the same
    digest, while 0.0 and -0.0 have different digests.

    Examples
    --------
    >>> from pais.accounting.certificate import digest
    >>> digest(1.5) == digest(1.5), digest(1.5) == digest(1.25)
    (True, False)
    """
    sha = hashlib.sha256(b"pais/values/1")
    try:
        _feed(sha, value)
    except (TypeError, UnicodeEncodeError):
        return None
    return sha.hexdigest()


def _feed(sha: Any, value: object) -> None:
    """Hash a value with a mark for its kind and with its length, so that successive values cannot run together."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.metadata.get("fingerprint", True)]
        _feed(sha, {name: getattr(value, name) for name in names})
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        sha.update(b"{" + struct.pack("<q", len(value)))
        for key in sorted(value):
            _feed(sha, key)
            _feed(sha, value[key])
    elif isinstance(value, (tuple, list)):
        sha.update(b"(" + struct.pack("<q", len(value)))
        for item in value:
            _feed(sha, item)
    elif isinstance(value, str):
        content = value.encode()
        sha.update(b"s" + struct.pack("<q", len(content)) + content)
    elif isinstance(value, (bool, int, float, np.ndarray, np.number, np.bool_)):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        sha.update(b"a" + struct.pack(f"<q{array.ndim}q", array.ndim, *array.shape))
        sha.update(array.astype("<f8", order="C").tobytes())
    elif value is None:
        sha.update(b"n")
    else:
        raise TypeError


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Carded):
    """The privacy guarantee of one release. All values are public, and each one is an upper bound.

    Attributes
    ----------
    epsilon, delta : float
        The presence or absence of any one record changes the distribution of all released values by at most this.
    epsilon_if_kept : float
        Largest loss of any record, at `delta_used`, given that the record was kept in the sample, under the plan that
        was run. If the plan depends on a survey, another table could have led to another plan; `max_epsilon_if_kept`
        is the bound for all of them. Only the secrecy of the sample protects the difference to `epsilon`.
    max_epsilon_if_kept : float
        The limit on `epsilon_if_kept` that holds for every table.
    delta_used : float
        The delta that the noise of this release was calibrated for. It is below `delta` if it was chosen from a
        surveyed number of rows, because a neighbouring table could have led to another value, up to `delta`.
    delta_basis : str
        How it was chosen: "stated", "pure noise", or a default for a stated or surveyed number of rows.
    survey_shift : float
        Gaussian shift of a survey whose loss is in the price of the last part; 0 if there is none.
    release_delta : float
        The delta, at the epsilon of the last part, that the mechanism meets by itself. It is below `delta_used` if
        there is a `survey_shift`: the rest pays for the survey.
    parts : tuple of Part
        The releases on these rows, each with its own epsilon and delta; `epsilon` and `delta` are their sums.
    neighbours : str
        The meaning of "presence or absence": one row added or removed, or one unit with all of its rows.
    unit : dict, optional
        The column that names the units, and the number of rows of a unit that count in full; None for single rows.
    schema : dict, optional
        What is public about the columns: see `Schema`. The ball then bounds scaled vectors. None if nothing is stated.
    secure_randomness : bool
        False if any draw came from a seed: then the numbers describe a rehearsal, not a guarantee.
    about : str
        A sentence that says what the released numbers describe. It contains stated and released values only, and is
        empty if the release has no such sentence.
    note : str
        `secure_randomness` in words: "secure randomness", or "seeded, not private".
    mechanism, rule, ball : dict
        Public descriptions of the mechanism, of the sampling rule, and of the bounds on the rows.
    values_sha256 : str or None
        Fingerprint of the released values; `matches` compares it. None if a user-defined mechanism returns a type of
        value that has no fingerprint.
    ledger_entries : list of str
        Ids of the ledger entries charged for this release and for the survey before it; empty if there was no ledger.
    version : str
        Version of the package that issued the certificate.
    """

    epsilon: float
    delta: float
    epsilon_if_kept: float
    max_epsilon_if_kept: float
    delta_used: float
    delta_basis: str
    survey_shift: float
    release_delta: float
    parts: tuple[Part, ...]
    neighbours: str
    unit: dict[str, object] | None
    schema: dict[str, object] | None
    about: str
    note: str
    secure_randomness: bool
    mechanism: dict[str, object]
    rule: dict[str, object]
    ball: dict[str, object]
    values_sha256: str | None
    ledger_entries: list[str]
    version: str

    def to_dict(self) -> dict[str, Any]:
        """The certificate as a dictionary, for files: see ``docs/certificate.schema.json``."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            "kind": "certificate",
            "format": files.FORMAT,
            **content,
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Certificate:
        """Rebuild a certificate from its dictionary."""
        files.require_format(described, "certificate")
        content = {name: value for name, value in described.items() if name not in ("kind", "format")}
        parts = tuple(Part.from_dict(part) for part in content.pop("parts"))
        certificate = cls(**content, parts=parts)
        for name in ("epsilon", "delta"):
            amount = validate.non_negative(name, content[name])
            summed = math.fsum(getattr(part, name) for part in parts)
            if not math.isclose(amount, summed, rel_tol=1e-9, abs_tol=1e-300):
                raise ArgumentError(f"the parts do not add up to {name}. Ask for the certificate as it was issued.")
        certificate._require_consistent()
        return certificate

    def _require_consistent(self) -> None:
        """Raise if fields that were read from a file contradict each other or have other types."""
        secure = validate.flag("secure_randomness", self.secure_randomness)
        kept = validate.non_negative("epsilon_if_kept", self.epsilon_if_kept)
        used = validate.target_delta(self.delta_used)
        validate.positive("max_epsilon_if_kept", self.max_epsilon_if_kept)
        validate.instance("about", self.about, str, "Ask for the certificate as it was issued.")
        files.texts(self.ledger_entries)
        described = all(isinstance(value, dict) for value in (self.mechanism, self.rule, self.ball))
        rounding = 1.0 - 1e-9
        smaller = kept < self.epsilon * rounding or self.delta < used * rounding
        if smaller or not described or self.note != (SECURE if secure else SEEDED):
            raise ArgumentError("its fields contradict each other. Ask for the certificate as it was issued.")
        unit = None if self.unit is None else Unit.from_dict(self.unit)
        if self.neighbours != (ONE_ROW if unit is None else unit.neighbours):
            raise ArgumentError("its neighbours contradict its unit. Ask for the certificate as it was issued.")
        # The price of the last part covers the survey whose shift is stated.
        shift = validate.non_negative("survey_shift", self.survey_shift)
        rounds = validate.target_delta(self.release_delta)
        covered = rounds == used
        if shift > 0.0:
            largest = delta_after(self.parts[-1].epsilon, used, survey_shift=shift)
            covered = 0.0 < rounds <= largest * (1.0 + 1e-9)
        if not covered:
            raise ArgumentError("its delta does not cover the survey. Ask for the certificate as it was issued.")

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate from a JSON file."""
        return files.load(path, "certificate", cls.from_dict)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def explain(self) -> str:
        """Describe the certificate in words: the guarantee and its meaning, its parts, the mechanism and the limits."""
        return certificate_text(self.to_dict())

    def _card(self) -> Card:
        unit = person_of(self.neighbours)
        secret = self.epsilon_if_kept > self.epsilon * (1.0 + 1e-6)
        factor = raised(math.exp(min(self.epsilon, 700.0)), 3)
        return Card(
            kind="Certificate",
            summary=f"epsilon {raised(self.epsilon)}, delta {raised(self.delta, 3)} for {self.neighbours}",
            facts=(
                ("meaning", f"one {unit} changes the probability of any outcome by at most a factor {factor}"),
                *((part.what, price_in_words(part.to_dict())) for part in self.parts),
                *(
                    [("if the sample leaks", f"epsilon {raised(self.epsilon_if_kept)} for {with_article(unit)} in it")]
                    * secret
                ),
                ("randomness", self.note),
                ("ledger entries", ", ".join(self.ledger_entries) or "none: no ledger was charged"),
                ("issued by", f"pais {self.version}"),
            ),
            alarm="" if self.secure_randomness else "seeded, not private",
        )

    def matches(self, value: object) -> bool:
        """Whether the certificate was issued for this value.

        Parameters
        ----------
        value : object
            The released value, or an object that holds it: a `Release`, a `Statistic`, or a fitted model. A model from
            `with_clusters` matches the certificate of the release that its centers were computed from; the centers of
            that release are in ``model.fit_.value.released``.
        """
        if getattr(value, "released", None) is None:
            # A fitted model holds its value in `fit_.value`, a fit or a release in `value`.
            value = getattr(getattr(value, "fit_", value), "value", value)
        # A statistic, and a model with other clusters, hold the value that was released.
        released = getattr(value, "released", None)
        value = value if released is None else released
        return self.values_sha256 is not None and digest(value) == self.values_sha256


@dataclass(frozen=True, kw_only=True, repr=False)
class Release(Carded):
    """A protected value and its certificate."""

    value: object
    certificate: Certificate

    def explain(self) -> str:
        """Describe the release in words: what it holds, and its certificate."""
        return f"This release holds {value_in_words(self.value)}. It may be published.\n\n{self.certificate.explain()}"

    def _card(self) -> Card:
        card = self.certificate._card()
        value = value_in_words(self.value)
        return replace(card, kind="Release", summary=f"{value}; {card.summary}", facts=(("value", value), *card.facts))


def value_in_words(value: object) -> str:
    """A released value in a few words: its own, if it has `in_words()`, or a number, or a shape, or the class."""
    if isinstance(value, (bool, int, float, np.integer, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple):
        return f"{len(value)} values"
    in_words = getattr(value, "in_words", None)
    return str(in_words()) if callable(in_words) else type(value).__name__
