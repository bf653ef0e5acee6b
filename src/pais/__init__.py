"""Differentially private analysis: models and statistics of tables, each with a certificate of its guarantee.

`DPKMeans`, `DPPCA`, `DPLinearRegression` and `DPLogisticRegression` are estimators as in scikit-learn, and statistics
are functions such as `mean`. All take the path of `pais.pipeline.fit`::

    table ─► columns ─► units ─► ball ─► sampler ─► mechanism ─► release
             vectors    masses   clipped  rows, 1/q   noised       value + certificate

The table is opened, and a private survey finds the facts that the user does not state. A `Plan` follows from public
numbers alone. Its rule decides the probability with which each row is kept, and may keep all. A mechanism computes on
the rows that are kept and adds noise. The result has a `Certificate` of the worst loss of any record.

Each step can also be taken by hand: `source`, `survey`, `Plan` and `run`, or `sample` and `release`. `calibrate`
computes noise, sample size or guarantee from the other two.
"""

import lazy_loader

# The stub beside this file lists the public names. A module is imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
