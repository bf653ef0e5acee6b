"""Engines: sources of rows (memory, files, Spark) and the two operations on them, `fold` and `thin`."""

from pais.engines.base import Engine, Fold, Thinning, WeightedRows
from pais.engines.blocks import Block
from pais.engines.door import is_streamed, source
from pais.engines.threads import in_threads

__all__ = ["Block", "Engine", "Fold", "Thinning", "WeightedRows", "in_threads", "is_streamed", "source"]
