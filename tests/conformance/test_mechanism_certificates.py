"""Every mechanism through one suite: what its certificate says."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import pais
from pais import Ball, CoresetRule, Plan, UniformRule, run
from tests.support.mechanism_cases import RADIUS, built, cases, delta_of, flat, order_of, released, some_rows

# -- certificates ----------------------------------------------------------------------------------------------


def without_fingerprint(certificate: pais.Certificate) -> str:
    return dataclasses.replace(certificate, values_sha256=None).to_json()


@cases
def test_certificate_does_not_depend_on_the_rows(mechanism_name: str, noise_name: str) -> None:
    """Byte for byte on neighbouring data, on other data, and on more of it, but for the fingerprint of the values."""
    rows = some_rows()
    plan = Plan(
        ball=Ball(radius=RADIUS, order=order_of(noise_name), center=(0.5, 0.0, -0.5)),
        rule=CoresetRule(sample_size=6.0, n_rows=60.0, mean_square_norm=4.0, radius=RADIUS),
        mechanism=built(mechanism_name, noise_name, 20.0),
        epsilon=100.0,
        delta=delta_of(noise_name),
    )
    tables = [rows, np.vstack([rows, [3.0, -3.0, 3.0]]), rows[1:], np.repeat(1e6 * rows, 5, axis=0), 0.0 * rows[:1]]
    releases = [run(plan, table) for table in tables]
    texts = {without_fingerprint(each.certificate) for each in releases}
    assert len(texts) == 1
    assert all(each.certificate.secure_randomness for each in releases)
    # The values differ all the same: the noise is fresh.
    assert not np.any(flat(releases[0].value) == flat(run(plan, rows).value))
    # And a certificate of another plan is another one.
    wider = dataclasses.replace(plan, mechanism=built(mechanism_name, noise_name, 21.0))
    assert without_fingerprint(run(wider, rows).certificate) not in texts


@cases
def test_the_certificate_is_json_and_says_what_was_run(mechanism_name: str, noise_name: str) -> None:
    rule = UniformRule(rate=0.25)
    got = released(mechanism_name, noise_name, rule=rule, scale=5.0, center=(1.0, 2.0, 3.0), seed=6).certificate
    read = json.loads(got.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert read["epsilon"] == got.epsilon
    assert read["delta"] == delta_of(noise_name)
    assert read["rule"] == rule.to_dict()
    assert read["mechanism"] == built(mechanism_name, noise_name, 5.0).to_dict()
    order = order_of(noise_name)
    assert read["ball"] == {
        "radius": RADIUS,
        "order": "infinity" if math.isinf(order) else order,
        "center": [1.0, 2.0, 3.0],
    }
    assert "row" in read["neighbours"]


def test_a_seeded_run_repeats_itself_and_a_secure_one_does_not() -> None:
    plan = Plan(
        ball=Ball(radius=RADIUS), rule=UniformRule(rate=0.5), mechanism=built("joint", "l2", 1.0), epsilon=100.0
    )
    rows = some_rows()
    assert np.array_equal(flat(run(plan, rows, random_state=3).value), flat(run(plan, rows, random_state=3).value))
    assert not np.any(flat(run(plan, rows, random_state=3).value) == flat(run(plan, rows, random_state=4).value))
    assert not np.any(flat(run(plan, rows).value) == flat(run(plan, rows).value))
