"""What is written is shown before: every field with its path and both values, and what matters for security."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.scene import Ran, Scene, canary, healthy, manifest, written
from tests.plugin.verbs.few_nodes import HOME

EVIL = "evil.example/agent:2.0.0"
GOOD = "registry.example.com/agent:1.9.0"
CONTAINERS = "spec.template.spec.containers"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with healthy() as opened:
        yield opened


def lines(ran: Ran) -> list[str]:
    return [line.strip() for line in (ran.err + ran.out).splitlines()]


def test_another_registry_is_shown_in_full_and_marked(scene: Scene, tmp_path: Path) -> None:
    wanted = manifest()
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = EVIL
    applied = scene.run("apply", "-f", written(tmp_path, wanted), terminal=True, typed="n\n")
    tried = scene.run("set-image", "node-agent", f"agent={EVIL}", "--dry-run=server", *HOME)
    compared = scene.run("diff", "node-agent", "-f", written(tmp_path, wanted), *HOME)
    for ran in (applied, tried, compared):
        expected = [f"{CONTAINERS}[agent]", f"-  image: {GOOD}", f"+  image: {EVIL}  # security: registry"]
        at = lines(ran).index(expected[0])
        assert lines(ran)[at : at + 3] == expected


def test_each_added_field_has_its_value_and_perhaps_a_mark(scene: Scene, tmp_path: Path) -> None:
    wanted = manifest()
    pod = wanted["spec"]["template"]["spec"]
    miner = {"name": "miner", "image": "evil/miner:1", "args": ["--key=s3cret"], "ports": [{"containerPort": 9}]}
    security = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    pod["containers"].append({**miner, "securityContext": security})
    pod["volumes"].append({"name": "root", "hostPath": {"path": "/", "type": ""}})
    pod.update(hostNetwork=True, serviceAccountName="admin")
    ran = scene.run("apply", "-f", written(tmp_path, wanted), terminal=True, typed="n\n")
    shown = [line[2:] for line in ran.err.splitlines()]
    assert shown[shown.index(f" {CONTAINERS}") :][:12] == [
        f" {CONTAINERS}",
        "+  - name: miner",
        "+    args:",
        "+    - <hidden, 12 characters, digest 79cc>",
        "+    image: evil/miner:1  # security: registry",
        "+    ports:",
        "+    - containerPort: 9",
        "+    securityContext:",
        "+      capabilities:",
        "+        add:",
        "+        - SYS_ADMIN  # security",
        "+      privileged: true  # security",
    ]
    marked = [line[1:].strip() for line in shown if line.endswith("# security")]
    assert sorted(marked[2:]) == [
        "hostNetwork: true  # security",
        "path: /  # security",
        "serviceAccountName: admin  # security",
        "type: ''  # security",
    ]


def test_fields_beside_the_template_have_path_and_both_values(scene: Scene, tmp_path: Path) -> None:
    wanted = manifest(maxUnavailable=3)
    wanted["metadata"]["annotations"] = {"example.com/settings": "s3cret"}
    ran = scene.run("apply", "-f", written(tmp_path, wanted), terminal=True, typed="n\n")
    assert [line[2:] for line in ran.err.splitlines()[1:6]] == [
        " metadata.annotations",
        "+  example.com/settings: <hidden, 6 characters, digest 1c1a>",
        " spec.updateStrategy.rollingUpdate",
        "-  maxUnavailable: 2",
        "+  maxUnavailable: 3",
    ]
    ran = scene.run("apply", "-f", written(tmp_path, wanted), "--show-values", terminal=True, typed="n\n")
    assert "+  example.com/settings: s3cret" in lines(ran)


def test_what_changes_nothing_for_pods_is_shown_as_it_is_stored(scene: Scene, tmp_path: Path) -> None:
    wanted = manifest()
    wanted["spec"]["template"]["spec"]["containers"][0].update(stdin=False, securityContext={})
    ran = scene.run("apply", "-f", written(tmp_path, wanted), terminal=True, typed="n\n")
    assert [line[2:] for line in ran.err.splitlines()[1:4]] == [
        f" {CONTAINERS}[agent]",
        "+  securityContext: {}  # security",
        "+  stdin: false",
    ]
    assert "only the manager" not in ran.err


def test_a_rollback_shows_what_goes_back() -> None:
    with canary() as scene:
        ran = scene.run("rollback", "node-agent", "--to-revision", "4", *HOME, terminal=True, typed="n\n")
    shown = lines(ran)
    assert shown[0] == "Roll back node-agent to revision 4 (60d ago, agent:1.8.2)?"
    assert {f"-  image: {GOOD}", "+  image: registry.example.com/agent:1.8.2"} <= {*shown}
    assert {"-  - name: certs", "-    configMap:", "-      name: agent-certs"} <= {*shown}


def test_a_question_for_several_shows_it_even_with_quiet(scene: Scene, tmp_path: Path) -> None:
    fresh = manifest("2.0.0", name="fresh")
    path = written(tmp_path, manifest("2.0.0"), fresh)
    ran = scene.run("apply", "-f", path, "-q", terminal=True, typed="n\n")
    assert f"-  image: {GOOD}" in lines(ran)
    assert lines(ran).count("+  image: registry.example.com/agent:2.0.0") == 1
    assert "image: registry.example.com/agent:2.0.0  # security: registry" in ran.err
