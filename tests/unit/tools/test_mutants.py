"""The lists of planted faults. That each entry fits the code is reported by `make test-mutants`, every night."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.tools.mutants.faults import ROOT, Fault, faults

FAULTS = faults()
AT_LEAST = 3
"""Faults for each package."""


def _packages() -> list[str]:
    """The folders of both programs, each program's top level, and the manifests."""
    found = ["controller", "kubectl_plugin", "manifests"]
    for program in ("controller", "kubectl_plugin"):
        found += [
            f"{program}/{path.name}" for path in sorted((ROOT / program).iterdir()) if (path / "__init__.py").exists()
        ]
    return found


@pytest.mark.parametrize("package", _packages())
def test_each_package_has_some(package: str) -> None:
    assert Counter(one.package for one in FAULTS)[package] >= AT_LEAST


def test_no_fault_is_there_twice() -> None:
    assert len({(one.file, one.was, one.now) for one in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(("text", "why"), [("a b", "0 times"), ("x x", "2 times")])
def test_an_entry_that_does_not_fit_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Fault("", "file", "x", "y", "").planted(text)


@pytest.mark.parametrize("tests", ["tests/unit/nowhere.py", "tests/unit/tools/test_mutants.py::test_nothing"])
def test_tests_that_are_not_there_are_told(tests: str) -> None:
    assert "no such tests" in Fault("", "pyproject.toml", "[build-system]", "[]", tests).misfit()


def test_a_fault_that_changes_nothing_is_told() -> None:
    with pytest.raises(ValueError, match="changes nothing"):
        Fault("", "file", "x", "x", "").planted("x")


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("controller/planner/slot.py", "controller/planner"),
        ("controller/app.py", "controller"),
        ("manifests/crds/daemonsets.apps.kruise.io.yaml", "manifests"),
    ],
)
def test_a_fault_belongs_to_the_package_of_its_file(file: str, package: str) -> None:
    assert Fault("", file, "x", "y", "").package == package
