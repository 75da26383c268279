"""What runs for a change and for a release is pinned, may do no more than it must, and an error in it is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.workflows.rules import ROOT, WORKFLOWS, broken_rules

COMMIT = "de0fac2e4500dabe0009e67214ff5f5447ce83dd"
SOUND = f"""\
name: sound
on: push
permissions:
  contents: read
concurrency:
  group: sound
jobs:
  one:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions:
      packages: write
    steps:
      - uses: actions/checkout@{COMMIT} # v6.0.2
        with:
          persist-credentials: false
      - uses: docker/setup-qemu-action@{COMMIT} # v3.7.0
        with:
          image: docker.io/tonistiigi/binfmt:qemu-v10.2.3@sha256:{"0a" * 32}
      - env:
          TAG: ${{{{ github.ref_name }}}}
          TOKEN: ${{{{ github.token }}}}
        run: echo "$TAG"
  other:
    permissions:
      contents: read
    uses: ./.github/workflows/check.yml
"""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_ours_keep_the_rules(path: Path) -> None:
    assert broken_rules(path.read_text()) == []


def test_the_workflows_are_those_that_the_manual_tells_of() -> None:
    assert {path.name for path in WORKFLOWS} == {"check.yml", "fresh.yml", "release.yml"}
    assert not list((ROOT / ".github").rglob("*.yaml")), "only *.yml is looked at"


def test_a_sound_workflow_is_left_alone() -> None:
    assert broken_rules(SOUND) == []


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (f"checkout@{COMMIT} # v6.0.2", "checkout@v6", "actions/checkout@v6 is not pinned by the digest of a commit"),
        (f"checkout@{COMMIT}", f"checkout@{COMMIT[:7]}", f"actions/checkout@{COMMIT[:7]} is not pinned"),
        (f"- uses: actions/checkout@{COMMIT} # v6.0.2", "- {uses: a/b@v6}\n      - id: one", "a/b@v6 is not pinned"),
        (f"checkout@{COMMIT}", "checkout@main", "actions/checkout@main is not pinned by the digest of a commit"),
        (" # v6.0.2", "", f"actions/checkout@{COMMIT} does not say of which release it is"),
        (" # v6.0.2", " # v6", f"actions/checkout@{COMMIT} does not say of which release it is"),
        (f"@sha256:{'0a' * 32}", "", "one: image is not pinned by a digest"),
        (
            f"image: docker.io/tonistiigi/binfmt:qemu-v10.2.3@sha256:{'0a' * 32}",
            "sbom: true",
            "one: sbom is not pinned",
        ),
        ("permissions:\n  contents: read\n", "", "what all jobs may do is not said"),
        ("permissions:\n  contents: read\n", "permissions: write-all\n", "what all jobs may do is not said"),
        ("permissions:\n  contents: read\n", "permissions:\n  contents: write\n", "or more than to read"),
        ("concurrency:\n  group: sound\n", "", "it has no concurrency"),
        ("    timeout-minutes: 5\n", "", "one has no timeout-minutes"),
        ("github.token", "secrets.PYPI_TOKEN", "one uses a secret"),
        ("check.yml\n", "check.yml\n    secrets: inherit\n", "other uses a secret"),
        ('echo "$TAG"', "echo ${{ github.ref_name }}", "one puts an expression into a script"),
        ("persist-credentials: false", "fetch-depth: 0", "one leaves the token in the checkout"),
    ],
)
def test_each_broken_rule_is_reported(was: str, now: str, told: str) -> None:
    assert SOUND.count(was) == 1
    (said,) = broken_rules(SOUND.replace(was, now))
    assert told in said
