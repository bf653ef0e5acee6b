"""What the runs of one package in one setting gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.tables import Cell


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Costs over the floor and seconds of the fits that finished, and what a reader must know beside them."""

    ratios: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    version: str = ""
    rows_used: int | None = None
    notes: tuple[str, ...] = ()

    def cells(self) -> dict[str, Cell]:
        low, median, high = np.quantile(self.ratios, [0.25, 0.5, 0.75]).tolist() if self.ratios else (None,) * 3
        return {
            "rows used": self.rows_used,
            "lower quartile": low,
            "median": median,
            "upper quartile": high,
            "seconds": round(float(np.median(self.seconds)), 3) if self.seconds else None,
            "fewest seconds": round(min(self.seconds), 3) if self.seconds else None,
            "seeds": len(self.seconds) or None,
            "note": "; ".join(self.notes),
        }
