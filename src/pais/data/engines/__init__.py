"""Access to rows wherever they are stored: in memory, in files, in a cluster."""

from pais.data.engines.base import AllRows, Engine, Fold, Thinning, WeightedRows
from pais.data.engines.blocks import Block

__all__ = ["AllRows", "Block", "Engine", "Fold", "Thinning", "WeightedRows"]
