"""`list`: one line each, and only those that are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kit.api import DAEMONSETS, MERGE_PATCH
from tests.plugin.scene import Scene, canary, daemonset, held


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """The canary, a DaemonSet that is held and one that is done."""
    with canary() as opened:
        done = {**daemonset(), "metadata": {"name": "log-shipper", "labels": {"tier": "logs"}}}
        done["spec"]["selector"] = {"matchLabels": {"app": "log-shipper"}}
        done["spec"]["template"] = {
            "metadata": {"labels": {"app": "log-shipper"}},
            "spec": {
                "nodeSelector": {"topology.kubernetes.io/zone": "zone-a"},
                "containers": [{"name": "shipper", "image": "registry.example.com/shipper:3.1"}],
            },
        }
        opened.do(opened.api.create(DAEMONSETS, done))
        opened.pass_time(120.0)
        yield opened


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("form", ["plain", "colour", "ascii"])
def test_all_of_them(scene: Scene, columns: int, form: str) -> None:
    ran = scene.check(
        f"list/all-{form}-{columns}", "list", "-A", columns=columns, colour=form == "colour", ascii=form == "ascii"
    )
    assert ran.code == 0


def test_wide_is_never_cut(scene: Scene) -> None:
    ran = scene.run("list", "-n", "observability", "-o", "wide", columns=60)
    assert "agent:1.9.0" in ran.out
    assert "…" not in ran.out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("-n", "observability"), ["log-shipper", "node-agent"]),
        (("-A", "-l", "tier=logs"), ["log-shipper"]),
        (("-A", "--phase", "healthy"), ["log-shipper"]),
        (("-A", "--phase", "Progressing,stalled"), ["node-agent"]),
        (("-n", "kube-system"), []),
    ],
)
def test_which_ones(scene: Scene, words: tuple[str, ...], names: list[str]) -> None:
    ran = scene.run("list", *words, "-o", "json")
    assert [one["name"] for one in json.loads(ran.out)["items"]] == names


def test_nothing_there_is_said_as_kubectl_says_it(scene: Scene) -> None:
    ran = scene.run("list", "-n", "kube-system")
    assert (ran.code, ran.out, ran.err) == (0, "", "note: No resources found in kube-system namespace.\n")


def test_an_unknown_phase(scene: Scene) -> None:
    ran = scene.run("list", "--phase", "broken")
    assert ran.code == 2
    assert ran.err.startswith('error: invalid --phase "broken": use Pending, Progressing, ')


def test_without_a_record_of_ours_it_says_what_status_says() -> None:
    with held() as scene:
        scene.do(scene.controller.kill())
        merge = {"sub": "status", "content_type": MERGE_PATCH}
        scene.do(scene.api.patch(DAEMONSETS, "node-agent", {"status": {"rollout": None}}, **merge))
        listed = json.loads(scene.run("list", "-n", "observability", "-o", "json").out)["items"][0]
        told = json.loads(scene.run("status", "node-agent", "-n", "observability", "-o", "json").out)
    assert (listed["phase"], listed["done"], listed["target"]) == ("Held", 8, 8)
    assert told["phase"] == "Held"
