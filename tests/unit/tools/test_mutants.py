"""The planted faults, and the verdict on mutants."""

from __future__ import annotations

import pytest

from tests.tools.mutants.faults import Fault, faults
from tests.tools.mutants.survivors import judged


def test_each_planted_fault_fits_the_code_and_names_tests() -> None:
    """Who changes such a line brings the entry up to date with it."""
    assert [words for one in faults() if (words := one.misfit())] == []


def test_the_hand_made_faults_are_at_most_a_hundred() -> None:
    assert len({(one.file, one.was, one.now) for one in faults()}) == len(faults()) <= 100


@pytest.mark.parametrize(
    ("text", "now", "why"), [("a b", "y", "0 times"), ("x x", "y", "2 times"), ("x", "x", "nothing")]
)
def test_an_entry_that_does_not_fit_says_why(text: str, now: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Fault("", "file", "x", now, "").planted(text)


def test_tests_that_are_not_there_are_named() -> None:
    fault = Fault(
        "", "pyproject.toml", "[build-system]", "[]", "tests/unit/nowhere.py tests/unit/tools/test_mutants.py"
    )
    assert fault.misfit() == "pyproject.toml: no such tests: tests/unit/nowhere.py"


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["killed"] * 9 + ["survived"], 0),
        (["killed"] * 8 + ["survived"] * 2, 1),
        (["killed"] * 8 + ["timeout", "survived"], 0),
        (["killed"] * 9 + ["not checked"], 1),
        ([], 1),
    ],
    ids=["few survive", "many survive", "an endless loop was noticed", "one was not tried", "none was made"],
)
def test_too_many_survivors_fail(outcomes: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert judged([(f"m{number}", outcome) for number, outcome in enumerate(outcomes)]) == code
    assert ("survived: m9" in capsys.readouterr().out) is ("survived" in outcomes)
