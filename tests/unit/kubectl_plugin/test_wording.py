"""Commands to be typed as they stand, all made by one function; and lengths of time, names and numbers of nodes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import kubectl_plugin
from controller.api.formats import IntOrPercent
from controller.api.objects import Key
from kubectl_plugin.wording import between, command, for_cluster, new_nodes, short_duration

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


M, H, D = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * M + 59, "9m59s"),
        (10 * M + 5, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 5 * M, "3h5m"),
        (8 * H - 1, "7h59m"),
        (8 * H + 5 * M, "8h"),
        (2 * D - 1, "47h"),
        (2 * D, "2d"),
        (2 * D + H, "2d1h"),
        (8 * D - 1, "7d23h"),
        (8 * D + H, "8d"),
    ],
)
def test_an_age_has_its_second_unit_only_where_the_first_is_small(seconds: float, words: str) -> None:
    assert short_duration(seconds) == words


@pytest.mark.parametrize(
    ("names", "words"),
    [(["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a … d")],
)
def test_more_than_three_nodes_are_named_by_the_first_and_the_last(names: list[str], words: str) -> None:
    assert between(names) == words


@pytest.mark.parametrize(("partition", "new"), [(0, 5), (5, 0), (9, 0), ("50%", 3), ("100%", 0)])
def test_a_partition_never_keeps_more_than_there_are(partition: IntOrPercent, new: int) -> None:
    assert new_nodes(partition, 5) == f"{new} of 5 new"
