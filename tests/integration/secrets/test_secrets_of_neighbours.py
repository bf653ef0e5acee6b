"""Neighbouring tables give public objects of the same keys, types and shapes."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest

from pais.accounting.certificate import digest
from pais.show.page import report_html
from tests.integration.secrets.planted import N_ROWS, NAMES, ROUTES, ROWS, fitted

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
