"""Certificates in words."""

from __future__ import annotations

import pytest

import pais
from pais.accounting.certificate import certificate_text


def content() -> dict[str, object]:
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0, order=1),
        rule=pais.UniformRule(rate=0.5),
        mechanism=pais.WeightedSum(noise=pais.laplace_noise(4.0)),
        epsilon=1.0,
    )
    return pais.run(plan, [[0.5], [0.2]], random_state=0).certificate.to_dict()


def test_a_certificate_of_a_sample_says_that_the_sample_must_stay_secret() -> None:
    assert "sample must stay secret" in certificate_text(content())


def test_a_kept_record_cannot_pay_less_than_the_certificate_states() -> None:
    described = content()
    described["epsilon_if_kept"] = 0.5 * float(str(described["epsilon"]))
    with pytest.raises(ValueError):  # noqa: PT011  # it has no message
        certificate_text(described)
