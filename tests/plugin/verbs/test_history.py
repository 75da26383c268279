"""`history`: the table, one revision whole, documents, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.beds.api import DAEMONSETS
from tests.plugin.scene import Scene, aborted, canary, first_deployment, opened
from tests.plugin.scene import daemonset as sample

HOME = ("-n", "observability")
WORDS = ("history", "node-agent", *HOME)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with canary() as opened:
        yield opened


def test_how_the_kept_revisions_look(scene: Scene) -> None:
    scene.check("history/kept", *WORDS)
    scene.check("history/kept-colour", *WORDS, colour=True)
    scene.check("history/wide", *WORDS, "-o", "wide")


def test_after_an_abort_the_stable_and_the_aborted_revision_are_marked() -> None:
    with aborted("RollBack") as scene:
        scene.check("history/went-back", *WORDS, columns=120)
        rows = json.loads(scene.run(*WORDS, "-o", "json").out)["items"]
        assert [(one["revision"], one["mark"]) for one in rows] == [
            (8, "stable"),
            (7, "aborted"),
            (5, None),
            (4, None),
        ]
    with aborted() as scene:
        rows = json.loads(scene.run(*WORDS, "-o", "json").out)["items"]
        assert [(one["revision"], one["mark"]) for one in rows][:2] == [(7, "aborted"), (6, "stable")]


def test_one_revision_whole(scene: Scene) -> None:
    assert "sample" not in scene.check("history/revision-7", *WORDS, "--revision", "7").out
    assert "value: sample" in scene.run(*WORDS, "--revision", "7", "--show-values").out


def test_an_unknown_revision(scene: Scene) -> None:
    ran = scene.run(*WORDS, "--revision", "3")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: revision 3 of node-agent is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit 3)\n"


def test_names(scene: Scene) -> None:
    names = scene.run(*WORDS, "-o", "name").out.split()
    assert len(names) == 4
    assert all(name.startswith("controllerrevision.apps/node-agent-") for name in names)
    assert scene.run(*WORDS, "-o", "name", "--revision", "6").out.split() == [names[1]]


def test_for_programs(scene: Scene) -> None:
    found = json.loads(scene.run(*WORDS, "-o", "json").out)
    assert (found["apiVersion"], found["kind"], found["name"]) == ("kruise-ds/v1", "RevisionList", "node-agent")
    assert [(one["revision"], one["nodes"], one["live"]) for one in found["items"]] == [
        (7, 6, True),
        (6, 18, False),
        (5, 0, False),
        (4, 0, False),
    ]
    newest = found["items"][0]
    assert newest["change"] == "image agent 1.8.4 → 1.9.0"
    assert newest["changes"] == [
        {
            "path": "spec.template.spec.containers[agent].image",
            "change": "changed",
            "old": "registry.example.com/agent:1.8.4",
            "new": "registry.example.com/agent:1.9.0",
        }
    ]
    assert (newest["cause"], newest["createdAt"]) == ("JIRA-412", "2025-11-20T11:57:58Z")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_document_of_one_revision_hides_what_may_be_secret(scene: Scene, output: str) -> None:
    ran = scene.run(*WORDS, "--revision", "7", "-o", output)
    found = yaml.safe_load(ran.out)
    (container,) = found["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "LOG_LEVEL", "value": "<hidden, 4 characters, digest 3e3e>"},
        {"name": "API_TOKEN", "value": "<hidden, 6 characters, digest efaa>"},
    ]


def test_only_one_revision() -> None:
    with first_deployment() as scene:
        scene.check("history/first", *WORDS)


def test_before_the_controller_has_come_to_it() -> None:
    with opened() as scene:
        scene.do(scene.controller.kill())
        scene.do(scene.api.create(DAEMONSETS, sample()))
        ran = scene.run(*WORDS)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "note: node-agent has no revision yet: the controller has not handled it yet\n"


def test_without_the_right_to_list_pods() -> None:
    with first_deployment() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*WORDS)
    assert ran.code == 0
    assert "<unknown>" in ran.out
    assert ran.err == "note: not everything could be read: pods: forbidden\n"


def test_without_the_right_to_list_revisions() -> None:
    with first_deployment() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        ran = scene.run(*WORDS)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: cannot read the revisions of node-agent: forbidden\n"
        '  hint: needed: list controllerrevisions.apps in "observability"; ask for ClusterRole kruise-ds-operator\n'
    )
