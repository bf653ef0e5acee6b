"""Neighbouring tables give public objects of the same keys, types and shapes."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pais
from pais.accounting.certificate import digest
from pais.show.page import report_html
from tests.integration.secrets.planted import N_ROWS, NAMES, ROUTES, ROWS, SEED, STATED, fitted

Floats = NDArray[np.float64]
routes = pytest.mark.parametrize("route", ROUTES)


# ---------------------------------------------------------------- neighbours


def shape_of(value: object) -> object:
    """What an object looks like without its protected numbers: keys, types, shapes, words."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape)
    if isinstance(value, (bool, type(None), str)):
        return value
    if isinstance(value, (int, float, np.generic)):
        return type(value).__name__
    if isinstance(value, dict):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shape_of, value)]
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, {name: shape_of(item) for name, item in vars(value).items()})
    return type(value).__name__


def without_digits(page: str) -> str:
    return re.sub(r" *-?[\d.,]+(e[-+]\d+)?", "#", page)


NEIGHBOUR = np.delete(ROWS, N_ROWS // 2, axis=0)


def without_fingerprint(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a fitted model, with certificates that do not name its values."""
    certificate = dataclasses.replace(attributes["certificate_"], values_sha256=None)
    fit = dataclasses.replace(attributes["fit_"], certificate=certificate)
    return {**attributes, "certificate_": certificate, "fit_": fit}


@pytest.mark.parametrize("route", ["stated", "every row"])
def test_neighbours_with_stated_facts_differ_only_in_the_released_value(
    route: str,
) -> None:
    one, other = (fitted(rows, **ROUTES[route]) for rows in (ROWS, NEIGHBOUR))
    # The fingerprint is a function of the released value, and of nothing else.
    assert [model.certificate_.values_sha256 for model in (one, other)] == [
        digest(model.fit_.value) for model in (one, other)
    ]
    certificates = [dataclasses.replace(model.certificate_, values_sha256=None) for model in (one, other)]
    assert certificates[0] == certificates[1]
    assert certificates[0].to_json() == certificates[1].to_json()
    assert one.plan_.explain() == other.plan_.explain()
    assert one.plan_.rule == other.plan_.rule
    assert one.plan_.mechanism == other.plan_.mechanism
    assert repr(one) == repr(other)
    assert sorted(vars(one)) == sorted(vars(other))
    assert shape_of(without_fingerprint(vars(one))) == shape_of(without_fingerprint(vars(other)))
    assert len(pickle.dumps(one)) == len(pickle.dumps(other))
    assert not np.array_equal(one.cluster_centers_, other.cluster_centers_)
    pages = [report_html(model.fit_, feature_names=NAMES) for model in (one, other)]
    assert json.loads(one.certificate_.to_json())["rule"] == json.loads(other.certificate_.to_json())["rule"]
    assert len(re.findall("<tr", pages[0])) == len(re.findall("<tr", pages[1]))


@routes
def test_neighbours_give_objects_of_the_same_keys_types_and_shapes(route: str) -> None:
    one, other = (fitted(rows, **ROUTES[route]) for rows in (ROWS, NEIGHBOUR))
    words = [json.loads(model.certificate_.to_json()) for model in (one, other)]
    for planted_in in words:
        # The profile is written as text with its numbers, the fingerprint as text.
        planted_in["rule"].pop("profile", None)
        assert len(planted_in.pop("values_sha256")) == 64
    assert shape_of(words[0]) == shape_of(words[1])
    assert sorted(vars(one)) == sorted(vars(other))
    # Which cells stand above the noise follows from noisy counts, so their number is released too.
    values = [dataclasses.replace(model.fit_.value, cells=None) for model in (one, other)]
    assert shape_of(vars(values[0])) == shape_of(vars(values[1]))
    assert shape_of(one.plan_.norms) == shape_of(other.plan_.norms)
    assert len(one.plan_.mechanism.to_dict()["rounds"]) == len(other.plan_.mechanism.to_dict()["rounds"])
    assert without_digits(one.plan_.explain()) == without_digits(other.plan_.explain())


def test_ledgers_of_neighbours_differ_only_in_time_and_name() -> None:
    books = []
    for rows in (ROWS, NEIGHBOUR):
        ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
        fitted(rows, ledger=ledger, **STATED)
        (entry,) = [entry.to_dict() for entry in ledger.entries]
        books.append({name: value for name, value in entry.items() if name not in ("when", "id")})
    assert books[0] == books[1]


def test_a_survey_of_neighbours_has_the_same_keys_types_and_shapes() -> None:
    one, other = (pais.survey(rows, epsilon=0.5, random_state=SEED) for rows in (ROWS, NEIGHBOUR))
    # Names are random, and do not depend on the rows.
    other = dataclasses.replace(other, name=one.name)
    assert shape_of(one) == shape_of(other)
    assert shape_of(one.to_dict()) == shape_of(other.to_dict())
