"""What somebody is told to type goes to the cluster that was asked, though the current context is another."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.plugin.scene import NAMESPACE, canary
from tests.plugin.verbs.few_nodes import HOME, acted, few_nodes

FLAGS = ("--kubeconfig=/home/me/my clusters", "--context=prod")


def test_a_printed_patch_and_nothing_in_it() -> None:
    with few_nodes() as scene:
        ran = acted(scene, "set-image", "*=agent:2", "--reason", "see kubectl get ads", "--print-patch", *FLAGS)
    words = shlex.split(ran.out)
    assert words[:5] == ["kubectl", *FLAGS, "patch", "daemonsets.apps.kruise.io"]
    assert json.loads(words[-1])[-1]["value"] == {"kubernetes.io/change-cause": "see kubectl get ads"}


@pytest.mark.parametrize("flags", [(), FLAGS, ("--cluster", "b"), ("-s", "https://127.0.0.1:7")], ids=" ".join)
def test_a_hint(flags: tuple[str, ...]) -> None:
    with few_nodes() as scene:
        acted(scene, "pause")
        ran = scene.run("status", "node-agent", *flags, *HOME, columns=200)
        promoted = scene.run("promote", "node-agent", *flags, *HOME)
    chosen = {"--cluster": "--cluster=b ", "-s": "--server=https://127.0.0.1:7 "}
    where = chosen.get("".join(flags[:1]), f"{shlex.join(flags)} " if flags else "")
    assert promoted.code == 6, promoted
    assert f"kubectl kruise-ds {where}resume node-agent -n {NAMESPACE}" in promoted.err
    assert f"kubectl kruise-ds {where}resume node-agent -n {NAMESPACE}\n" in ran.out


def test_what_to_look_at() -> None:
    with canary() as scene:
        ran = scene.run("status", "node-agent", "--context", "prod", "-n", NAMESPACE, columns=120)
    assert "kubectl --context=prod " in ran.out
    assert "kubectl kruise-ds --context=prod rollback node-agent" in ran.out
