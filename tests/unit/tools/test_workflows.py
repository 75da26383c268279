"""What runs for a change and for a release is pinned, may do no more than it must, and an error in it is told."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.tools.workflows.__main__ import main
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
def test_each_broken_rule_is_told(was: str, now: str, told: str) -> None:
    assert SOUND.count(was) == 1
    (said,) = broken_rules(SOUND.replace(was, now))
    assert told in said


class Machine:
    """One with a `go` that does what a test wants, and workflows of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.environ = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "XDG_CACHE_HOME": str(folder / "cache")}

    def looks_at(self, *texts: str) -> int:
        paths = [self.folder / f"{number}.yml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return main(paths, root=self.folder, environ=self.environ)

    def go(self, build: str) -> None:
        """`build` is shell, run in the folder that is to be filled."""
        script = f"""\
            #!/bin/sh
            test "$1" = version && echo go version go1.26.0 linux/amd64 && exit
            while test "$1" != -o; do shift; done
            cd "$2"; {build}
            """
        (self.folder / "bin" / "go").write_text(textwrap.dedent(script))
        (self.folder / "bin" / "go").chmod(0o755)

    def go_builds_one_that_ends_with(self, code: int) -> None:
        said = self.folder / "asked"
        lines = r"'#!/bin/sh\necho $* > %s\nexit %s\n'"
        self.go(f"printf {lines} {said} {code} > actionlint; chmod 755 actionlint")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("code", [0, 1])
def test_actionlint_sees_every_workflow_and_what_it_finds_fails(machine: Machine, code: int) -> None:
    machine.go_builds_one_that_ends_with(code)
    assert machine.looks_at(SOUND, SOUND) == code
    assert (machine.folder / "asked").read_text().split()[-2:] == [
        f"{machine.folder}/0.yml",
        f"{machine.folder}/1.yml",
    ]


def test_it_is_built_once(machine: Machine) -> None:
    machine.go_builds_one_that_ends_with(0)
    assert machine.looks_at(SOUND) == 0
    machine.go("exit 1")
    assert machine.looks_at(SOUND) == 0


def test_a_broken_rule_fails_whatever_actionlint_says(machine: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.go_builds_one_that_ends_with(0)
    assert machine.looks_at(SOUND, SOUND.replace(f"{COMMIT} # v6.0.2", "v6")) == 1
    assert "1.yml: actions/checkout@v6 is not pinned by the digest of a commit" in capfd.readouterr().err


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_where_it_cannot_be_built_a_loud_line_says_so_and_ci_fails(
    machine: Machine, capfd: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    machine.go("echo this machine has no room >&2; exit 1")
    machine.environ["CI"] = ci
    assert machine.looks_at(SOUND) == code
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("NOT CHECKED: ")]
    assert len(told) == 1
    assert "this machine has no room" in told[0]
