"""The list of planted faults fits the code: every fault can be planted, names its tests, and no module is left out."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.support.faults import ROOT, SOURCE, Fault, faults

FAULTS = faults()

# Their proofs are about the errors of values, or about audits, and not about the guarantee.
ABOUT_VALUES = {
    "auditing/auditor.py",
    "auditing/runs.py",
    "data/kinds.py",
    "pca/components.py",
    "linear/coefficients.py",
    "statistics/people.py",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.name}")
def test_a_fault_can_be_planted_and_names_tests_that_exist(fault: Fault) -> None:
    planted = fault.planted_in((SOURCE / fault.file).read_text(encoding="utf-8"))
    ast.parse(planted)
    assert fault.text != fault.becomes
    assert bool(fault.tests) != bool(fault.equivalent), "state tests, or why the fault breaks nothing"
    for test in fault.tests:
        file, _, function = test.partition("::")
        content = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {re.escape(function.partition('[')[0])}\(", content, re.MULTILINE), test


def test_every_fault_has_a_name_of_its_own() -> None:
    names = Counter((fault.file, fault.name) for fault in FAULTS)
    assert [name for name, times in names.items() if times > 1] == []


def test_a_text_that_occurs_twice_or_not_at_all_is_refused() -> None:
    fault = Fault(name="a fault", file="a.py", text="x = 1", becomes="x = 2")
    assert fault.planted_in("y = 0\nx = 1\n") == "y = 0\nx = 2\n"
    for content in ("y = 0\n", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match="times, not once"):
            fault.planted_in(content)


def test_every_module_that_the_proof_of_a_guarantee_relies_on_has_a_fault() -> None:
    relied_on = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"\[note: [a-z-]+-\d+\]", path.read_text(encoding="utf-8"))
    }
    assert relied_on - ABOUT_VALUES - {fault.file for fault in FAULTS} == set()
