"""Engines: rows wherever they are, and two verbs over them, fold and thin."""

from pais.engines.base import Engine, Fold, Thinning, WeightedRows
from pais.engines.blocks import Block
from pais.engines.door import is_streamed, source
from pais.engines.threads import in_threads

__all__ = ["Block", "Engine", "Fold", "Thinning", "WeightedRows", "in_threads", "is_streamed", "source"]
