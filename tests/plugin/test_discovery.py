"""kubectl finds both programs by their names: the commands, and what <TAB> offers. Real kubectl, real API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.processes import free_port
from tests.beds.native import NATIVE
from tests.beds.objects import demo
from tests.plugin.in_process import Ran

pytestmark = pytest.mark.real

PROGRAMS = Path(sys.executable).parent
CRDS = Path(__file__).parents[2] / "manifests" / "crds"
NAMESPACE = "discovery"
BUSY = 60.0
"""Seconds in which even a busy machine once answers a completion in the two seconds that it waits."""
MACHINES = shutil.which("kubectl", path=os.defpath)
"""The kubectl of this machine, which may be an older one."""


Kubectl = Callable[..., Ran]


def run(kubectl: str | Path, kubeconfig: Path, *words: str) -> Ran:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "_KRUISE"))}
    env |= {
        "PATH": os.pathsep.join((str(PROGRAMS), os.defpath)),
        "KUBECONFIG": str(kubeconfig),
        "KUBECTL_KUBERC": "false",
    }
    done = subprocess.run([str(kubectl), *words], env=env, capture_output=True, text=True, timeout=120)
    return Ran(done.returncode, done.stdout, done.stderr)


def revision(number: int, owner: str, uid: str) -> dict[str, object]:
    reference = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": owner, "uid": uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": f"{owner}-{number}", "namespace": NAMESPACE, "ownerReferences": [reference]},
        "revision": number,
        "data": {},
    }


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """Two DaemonSets and a native one in namespace `discovery`; one has revisions 3 and 11, another owner 5."""

    def kubectl(*words: str, stdin: str = "") -> str:
        command = [str(control_plane.kubectl), f"--kubeconfig={control_plane.kubeconfig}", *words]
        return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True, timeout=60).stdout

    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CRDS))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd/daemonsets.apps.kruise.io")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(space))  # a process may come back to this file
    for name in ("node-agent", "log-shipper"):
        kubectl("apply", "--server-side", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(demo(name)))
    native = demo("old-agent", resource=NATIVE)
    kubectl("apply", "--server-side", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(native))
    uid = kubectl("get", "-n", NAMESPACE, "ads/node-agent", "-o", "jsonpath={.metadata.uid}")
    for number, owner in ((3, "node-agent"), (11, "node-agent"), (5, "somebody-else")):
        kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(revision(number, owner, uid)))
    return control_plane


@pytest.fixture(params=["control plane's", *(["machine's"] if MACHINES else [])])
def kubectl(request: pytest.FixtureRequest, plane: ControlPlane) -> Kubectl:
    program = plane.kubectl if request.param == "control plane's" else str(MACHINES)
    return lambda *words: run(program, plane.kubeconfig, *words)


def offered(ran: Ran) -> list[str]:
    """The words that kubectl offers; its last line must say that file names are none of them."""
    lines = ran.out.splitlines()
    assert lines[-1:] == [":4"], ran
    return [line.partition("\t")[0] for line in lines[:-1]]


@pytest.mark.parametrize("name", ["kruise-ds", "kruise_ds"])
def test_kubectl_finds_it_by(kubectl: Kubectl, name: str) -> None:
    ran = kubectl(name, "version", "--client")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Client: ")


def test_the_plugin_is_listed_and_hides_no_other(kubectl: Kubectl) -> None:
    ran = kubectl("plugin", "list", "--name-only")
    assert "kubectl-kruise_ds" in ran.out.split()
    assert "kruise" not in ran.err


def test_exit_codes_come_through(kubectl: Kubectl) -> None:
    assert kubectl("kruise-ds", "version", "--nonsense").code == 2


def test_flags_before_its_name_are_refused_by_kubectl(kubectl: Kubectl) -> None:
    ran = kubectl("-n", NAMESPACE, "kruise-ds", "version")
    assert ran.code == 1
    assert "flags cannot be placed before plugin name" in ran.err


def test_version_on_a_cluster_without_a_controller(kubectl: Kubectl) -> None:
    ran = kubectl("kruise-ds", "version", "-o", "json")
    assert ran.code == 0, ran
    found = json.loads(ran.out)
    assert found["crd"] == {"served": ["v1alpha1", "v1beta1"], "stored": "v1beta1"}
    assert found["server"].startswith("v1.")
    assert found["controller"] == {"leader": "", "reason": "no controller pods in kruise-ds-system", "version": ""}


def test_the_doctor_of_a_cluster_without_a_controller(kubectl: Kubectl) -> None:
    ran = kubectl("kruise-ds", "doctor", "-o", "json", "-n", NAMESPACE)
    assert ran.code == 1, ran
    levels = {check["about"]: check["level"] for check in json.loads(ran.out)["checks"]}
    levels.pop("drain", None)  # it looks at the kubectl that is first on the PATH
    assert levels == {
        "cluster": "ok",
        "versions": "warn",
        "crd": "ok",
        "controller": "fail",
        "rights": "ok",
        "rival": "ok",
        "completion": "ok",
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-n", NAMESPACE, "roll"], ["rollback"]),
        (["status", "--req"], ["--require-full", "--request-timeout"]),
        (["pause", "-n", NAMESPACE, "--reason", 'two words and a " quote', "node-agent", ""], ["log-shipper"]),
        (["status", "-n", "disc"], [NAMESPACE]),
        (["rollback", "node-agent", "-n", NAMESPACE, "--to-revision", ""], ["11", "3"]),
        (["migrate", "-n", NAMESPACE, ""], ["old-agent"]),
    ],
    ids=" ".join,
)
def test_tab(kubectl: Kubectl, words: list[str], expected: list[str]) -> None:
    """What kubectl hands on and the server answers; what is offered where: test_tab.py."""
    found, deadline = offered(kubectl("__complete", "kruise-ds", *words)), time.monotonic() + BUSY
    while expected and not found and time.monotonic() < deadline:  # it gave up, which on a busy machine may be
        found = offered(kubectl("__complete", "kruise-ds", *words))
    assert sorted(found) == sorted(expected)


def test_a_container_is_followed_by_its_image_and_no_blank(kubectl: Kubectl) -> None:
    words, deadline = ("set-image", "-n", NAMESPACE, "node-agent", "n"), time.monotonic() + BUSY
    while (ran := kubectl("__complete", "kruise-ds", *words)).out == ":4\n" and time.monotonic() < deadline:
        pass  # it gave up, which on a busy machine may be
    container, directive = ran.out.splitlines()
    assert (container.partition("\t")[0], directive) == ("node-agent=", ":6")


def test_every_verb_is_offered_with_its_help(kubectl: Kubectl) -> None:
    lines = kubectl("__complete", "kruise-ds", "").out.splitlines()
    assert "status\tWhere the rollout is, why it waits, what to do" in lines
    assert not [line for line in lines if line.startswith("undo")], "an alias is not offered"


def test_file_names_are_left_to_the_shell(kubectl: Kubectl) -> None:
    assert kubectl("__complete", "kruise-ds", "plan", "-f", "man").out.splitlines()[-1] == ":0"


def test_another_kubeconfig_is_asked_instead(kubectl: Kubectl, plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(plane.kubeconfig.read_text())
    config["contexts"][0]["name"] = config["current-context"] = "elsewhere"
    path = tmp_path / "a folder" / "config"
    path.parent.mkdir()
    path.write_text(json.dumps(config))
    assert offered(kubectl("__complete", "kruise-ds", "--kubeconfig", str(path), "--context", "")) == ["elsewhere"]


def test_a_silent_cluster_offers_nothing_and_says_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    began = time.monotonic()
    ran = run(PROGRAMS / "kubectl_complete-kruise_ds", path, "status", "")
    assert (ran.code, ran.out, ran.err) == (0, ":4\n", "")
    assert time.monotonic() - began < 25, "seconds: Python's start, and less than other verbs wait for an answer"


def until_all_writers_are_gone(pipe: int) -> bytes:
    """What was written, once no process has the other end any more."""
    said, deadline = b"", time.monotonic() + BUSY
    while time.monotonic() < deadline:
        try:
            some = os.read(pipe, 100)
        except BlockingIOError:  # a process has the other end still
            continue
        said += some
        if not some:
            return said
    pytest.fail("what the login has started lives on")


def test_a_login_that_hangs_is_ended_with_all_that_it_has_started(plane: ControlPlane, tmp_path: Path) -> None:
    """At every <TAB> one more would stay behind."""
    login, pipe, path = tmp_path / "login", tmp_path / "pipe", tmp_path / "config"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    login.write_text(f"#!/bin/sh\nexec 3>{pipe}\necho begun >&3\nsleep 300\necho never\n")
    login.chmod(0o700)
    config = json.loads(plane.kubeconfig.read_text())
    settings = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(login), "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": settings}
    path.write_text(json.dumps(config))
    said, deadline = b"", time.monotonic() + BUSY
    while not said and time.monotonic() < deadline:  # it gave up before the login had begun, as on a busy machine
        assert offered(run(plane.kubectl, path, "__complete", "kruise-ds", "status", "")) == []
        said = until_all_writers_are_gone(held)
    os.close(held)
    assert said == b"begun\n"
