"""`diff`: which two are compared, how the difference is drawn, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.beds.api import Object
from tests.plugin.scene import Scene, abandoned, canary, daemonset, first_deployment, on_delete, template

HOME = ("-n", "observability")
WORDS = ("diff", "node-agent", *HOME)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with canary() as opened:
        yield opened


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The live template with another image and another secret, between other objects."""
    path = tmp_path / "new.yaml"
    changed = template("1.9.1")
    changed["spec"]["containers"][0]["env"][1]["value"] = "other"
    documents: list[Object] = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}]
    documents.append(wanted(changed))
    path.write_text(yaml.safe_dump_all(documents))
    return path


def wanted(pods: Object, api: str = "apps.kruise.io/v1beta1") -> Object:
    whole = daemonset()
    return {"apiVersion": api, "kind": "DaemonSet", **whole, "spec": {**whole["spec"], "template": pods}}


def test_how_the_difference_of_two_revisions_looks(scene: Scene) -> None:
    scene.check("diff/4-7", "diff", "node-agent", "4", "7", *HOME)
    scene.check("diff/4-7-colour", "diff", "node-agent", "4", "7", *HOME, colour=True)
    scene.check("diff/left-out", *WORDS)


def test_one_revision_is_compared_with_the_live_one(scene: Scene) -> None:
    ran = scene.run("diff", "node-agent", "5", *HOME)
    heads = [line.split(" (")[0] for line in ran.out.splitlines()[:2]]
    assert heads == ["--- node-agent revision 5", "+++ node-agent revision 7"]
    assert ran.out.splitlines()[1].endswith(", live")


def test_a_file(scene: Scene, manifest: Path) -> None:
    ran = scene.run(*WORDS, "-f", str(manifest))
    lines = ran.out.splitlines()
    assert lines[1] == f"+++ node-agent {manifest}"
    assert lines[2:] == [
        " spec.template.spec.containers[agent].env[API_TOKEN]",
        "-  value: <hidden, 6 characters, digest efaa>",
        "+  value: <hidden, 5 characters, digest d448>",
        " spec.template.spec.containers[agent]",
        "-  image: registry.example.com/agent:1.9.0",
        "+  image: registry.example.com/agent:1.9.1",
        "2 changes: pods are re-created",
    ]
    shown = scene.run(*WORDS, "-f", str(manifest), "--show-values").out.splitlines()
    assert shown[3:5] == ["-  value: sample", "+  value: other"]


@pytest.mark.parametrize("secret", ["redis-cli -a {}", "{}"])
@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_a_value_that_may_be_a_secret_is_not_printed(
    scene: Scene, tmp_path: Path, secret: str, output: tuple[str, ...]
) -> None:
    path, changed = tmp_path / "new.yaml", template("1.9.0")
    agent = changed["spec"]["containers"][0]
    agent["env"].append({"name": "SETTINGS", "value": secret.format("q7Xw")})
    agent["args"] = ["-c", secret.format("q7Xw")]
    changed["metadata"]["annotations"] = {"example.com/settings": secret.format("q7Xw")}
    path.write_text(yaml.safe_dump(wanted(changed)))
    ran = scene.run(*WORDS, "-f", str(path), *output)
    assert "q7Xw" not in ran.out
    assert ran.out.count("<hidden, ") >= 3
    assert "q7Xw" in scene.run(*WORDS, "-f", str(path), *output, "--show-values").out


def test_a_native_manifest_from_standard_input(scene: Scene) -> None:
    typed = json.dumps(wanted(template("1.9.0"), "apps/v1"), indent="\t")
    ran = scene.run(*WORDS, "-f", "-", "--exit-code", typed=typed)
    assert (ran.code, ran.out, ran.err) == (
        0,
        "node-agent: no difference between revision 7 and standard input\n",
        "",
    )


def test_a_revision_and_a_file(scene: Scene, manifest: Path) -> None:
    ran = scene.run("diff", "node-agent", "6", *HOME, "-f", str(manifest))
    assert ran.out.startswith("--- node-agent revision 6 (")


def test_a_file_without_it(scene: Scene, manifest: Path) -> None:
    ran = scene.run("diff", "node-agent", *HOME, "-f", str(manifest.with_name("other.yaml")))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f'error: the path "{manifest.with_name("other.yaml")}" does not exist\n'
    manifest.write_text("kind: ConfigMap\nmetadata: {name: settings}\n")
    ran = scene.run(*WORDS, "-f", str(manifest))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f'error: {manifest} has no DaemonSet "node-agent" for namespace "observability"; it has: ConfigMap settings\n'
    )


def test_equal_ones(scene: Scene) -> None:
    ran = scene.run("diff", "node-agent", "7", *HOME, "--exit-code")
    assert (ran.code, ran.out) == (0, "node-agent: no difference, both are revision 7\n")


@pytest.mark.parametrize("extra", [(), ("-o", "json")])
def test_exit_code_seven_for_a_difference(scene: Scene, extra: tuple[str, ...]) -> None:
    assert scene.run(*WORDS, *extra, "--exit-code").code == 7
    assert scene.run(*WORDS, *extra).code == 0


def test_for_programs(scene: Scene) -> None:
    found = json.loads(scene.run(*WORDS, "-o", "json").out)
    assert (found["apiVersion"], found["kind"]) == ("kruise-ds/v1", "RevisionDifference")
    assert [(found[side]["revision"], found[side]["nodes"], found[side]["live"]) for side in ("old", "new")] == [
        (6, 18, False),
        (7, 6, True),
    ]
    assert found["imageOnly"] is True
    assert [(one["path"], one["new"]) for one in found["changes"]] == [
        ("spec.template.spec.containers[agent].image", "registry.example.com/agent:1.9.0")
    ]


@pytest.mark.parametrize(
    ("words", "error", "code"),
    [
        (("3", "7"), "error: revision 3 of node-agent is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit 3)", 1),
        (("1", "2", "3"), "error: no more than two revisions can be compared", 2),
        (("1", "2", "-f", "x"), "error: no more than one revision and a file can be compared", 2),
    ],
)
def test_mistakes(scene: Scene, words: tuple[str, ...], error: str, code: int) -> None:
    ran = scene.run("diff", "node-agent", *words, *HOME)
    assert (ran.code, ran.out, ran.err.splitlines()[0]) == (code, "", error)


def test_a_template_that_the_controller_has_not_stored_yet() -> None:
    with abandoned() as scene:
        ran = scene.run(*WORDS)
    lines = ran.out.splitlines()
    assert lines[0].startswith("--- node-agent revision 6 (")
    assert lines[1] == "+++ node-agent live, not stored as a revision yet"


def test_with_on_delete_only_a_person_changes_pods() -> None:
    with on_delete() as scene:
        ran = scene.run(*WORDS)
    assert ran.out.splitlines()[-1] == "1 change, image only: a pod changes only when you delete it (OnDelete)"


def test_a_file_needs_no_right_to_list_revisions(manifest: Path) -> None:
    with first_deployment() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        from_file = scene.run(*WORDS, "-f", str(manifest))
        from_history = scene.run(*WORDS)
    assert from_file.code == 0
    assert from_file.out.splitlines()[0] == "--- node-agent live"
    assert from_history.err.startswith("error: cannot read the revisions of node-agent: forbidden\n")
