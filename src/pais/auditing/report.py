"""The results of an audit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from pais._version import __version__

Direction = Literal["present", "absent"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One event, chosen on the first half of the runs and counted in the second half.

    Attributes
    ----------
    direction : {"present", "absent"}
        Whether the event is likelier with the record or without it.
    event : str
        Description of the event.
    hits_with, hits_without : int
        How often the event happened in the second half of the runs, with and without the record.
    lower_bound : float
        The lower bound on epsilon that these counts prove, at the confidence of the report.
    """

    direction: Direction
    event: str
    hits_with: int
    hits_without: int
    lower_bound: float


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """A lower bound on epsilon, together with the claimed epsilon.

    Attributes
    ----------
    target : str
        Name of the audited function, mechanism, plan or fit.
    lower_bound : float
        With probability `confidence`, the true epsilon (at `delta`) is not below this value.
    certified : float or None
        The claimed or certified epsilon, if known.
    delta : float
        Delta of the guarantee that was tested.
    confidence : float
        Confidence of the lower bound, over all events that were tried.
    pair : str
        Name of the neighbouring tables that gave the bound.
    findings : tuple of Finding
        One for each direction.
    runs : int
        Number of runs on each of the two tables that the bound was computed from.
    first_runs : int
        Number of runs on each table of each pair that were used to choose the pair and the events.
    seconds : float
        Duration of the audit.
    """

    target: str
    lower_bound: float
    certified: float | None
    delta: float
    confidence: float
    pair: str
    findings: tuple[Finding, ...]
    runs: int
    first_runs: int
    seconds: float
    version: str = __version__

    @property
    def violates(self) -> bool:
        """Whether the audit refutes the claim at this confidence. False proves nothing."""
        return self.certified is not None and self.lower_bound > self.certified

    @property
    def best(self) -> Finding:
        return max(self.findings, key=lambda finding: finding.lower_bound)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "findings": [asdict(part) for part in self.findings], "violates": self.violates}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        best = self.best
        share_with, share_without = best.hits_with / self.runs, best.hits_without / self.runs
        claim = "no epsilon claimed" if self.certified is None else f"claimed: {self.certified:.6g}"
        if self.violates:
            verdict = "VIOLATED: the audit refutes the claimed epsilon."
        elif self.certified is None:
            verdict = "No epsilon was claimed, so the audit refutes nothing."
        else:
            verdict = "Not refuted. This is no proof: other tables or events may give a larger bound."
        return "\n".join(
            [
                f"audit of {self.target}",
                f"  epsilon is at least {self.lower_bound:.4f} ({self.confidence:.4g} confidence, "
                f"delta {self.delta:.3g}); {claim}",
                f"  pair     {self.pair}, record {best.direction}",
                f"  event    {best.event}",
                f"  happened in {share_with:.4%} of the runs with the record, in {share_without:.4%} without",
                f"  runs     {self.runs:,} on each table, after {self.first_runs:,} to choose; {self.seconds:.1f} s",
                f"  {verdict}",
            ]
        )
