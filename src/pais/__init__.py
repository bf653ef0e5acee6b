"""Differentially private analysis: a small weighted sample, a private result, a certificate.

The path of the data::

    rows ─► ball ─► profile ─► rule ─► sampler ─► mechanism ─► release
    secret  bounded  cost(w)   q(norm)  rows, 1/q  noised       value + certificate

A `Ball` bounds the rows. A profile gives the privacy loss of a record from its norm and its weight. A rule turns the
profile into an inclusion probability, and `sample` keeps each row with that probability. A mechanism computes on the
sample and adds noise. `release` returns the noised value with a `Certificate` of the worst loss of any record.
`calibrate` computes noise, sample size or guarantee from the other two. `run` executes all stages of a `Plan`.
`DPKMeans` is the main entry point: it surveys the facts that the user does not state, plans, and runs.
"""

import lazy_loader

# The stub beside this file lists the public names. A module is imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
