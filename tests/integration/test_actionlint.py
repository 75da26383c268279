"""actionlint is built once and run over the workflows, and where it cannot be built that is reported."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.tools.workflows.__main__ import main
from tests.unit.tools.test_workflows import COMMIT, SOUND


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
    machine.go("exit 1")
    assert machine.looks_at(SOUND) == code, "it is built once"


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
