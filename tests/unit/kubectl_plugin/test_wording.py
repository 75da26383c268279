"""Commands to be typed as they stand, all made by one function."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import kubectl_plugin
from controller.api.objects import Key
from kubectl_plugin.wording import command, for_cluster

HOME = Path(kubectl_plugin.__file__).parent
OFFLINE = {"commands/completion.py", "rollout/doctor_checks.py"}
"""They tell of the completion, which needs no cluster."""


def test_the_namespace_stands_before_the_flags() -> None:
    typed = command("set-partition", Key("default", "demo"), "8", "--reason", "it is late", to="to stop")
    assert typed == "to stop: kubectl kruise-ds set-partition demo 8 -n default --reason 'it is late'"


def test_without_an_object_it_has_no_namespace() -> None:
    assert command("doctor") == "kubectl kruise-ds doctor"


def test_the_flags_of_the_cluster_stand_behind_the_program() -> None:
    hint = command("delete ads", Key("default", "demo"), to="keep the native one", program="kubectl")
    assert for_cluster(hint, ("--context=a b",)) == (
        "keep the native one: kubectl '--context=a b' delete ads demo -n default"
    )


def test_no_other_module_writes_a_command_of_its_own() -> None:
    found = []
    for path in sorted(HOME.rglob("*.py")):
        name = path.relative_to(HOME).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told]
        found += [name for one in texts if re.search(r"kubectl kruise-ds [a-z]", str(one.value))]
    assert set(found) <= OFFLINE
