"""docs/cli.md tells the verbs and flags of the program."""

from __future__ import annotations

from kubectl_plugin.runner import SHOWN
from tests.tools.cli_manual import PAGE, page


def test_the_manual_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "stale: make docs"


def test_every_verb_is_described_once_and_so_are_flags_that_verbs_share() -> None:
    lines = PAGE.read_text().splitlines()
    verbs = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert sorted(verbs) == sorted(entry.name for entry in SHOWN)
    for flag in ("--kubeconfig", "--print-patch", "--wait", "--all"):
        assert sum(line.startswith((f"| `{flag}`", f"| `{flag} ")) for line in lines) == 1, flag
