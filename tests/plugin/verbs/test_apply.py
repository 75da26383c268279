"""apply: a manifest and, with --hold-at, a partition; nothing is written that was not shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.kube.requests import APPLY_PATCH
from tests.beds.api import DAEMONSETS, Object
from tests.plugin.playing import Ran
from tests.plugin.scene import Scene, healthy, manifest, on_delete, written
from tests.plugin.verbs.few_nodes import (
    HOME,
    KIND,
    acted,
    before_request,
    exists,
    few_nodes,
    fresh,
    images,
    rolling_of,
    stored,
    writes,
)

SECRETS = {
    "STORAGE": "AccountName=logs;AccountKey=s3cret==;x",
    "JAVA_OPTS": "-Xmx1g -Ddb.password=s3cret",
    "SETTINGS": '{"user": "u", "password": "s3cret"}',
    "CALLBACK": "https://hooks.example/?token=s3cret",
    "DATABASE": "postgres://u:p@s3cret@host/db",
}


def test_held_at_a_partition_no_node_starts_early(tmp_path: Path) -> None:
    """The question shows every field that is written."""
    wanted = manifest("2.0.0")
    wanted["spec"]["minReadySeconds"] = 10
    wanted["metadata"]["labels"] = {"team": "agents", "app": "node-agent"}
    with healthy() as scene:
        ran = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "22", terminal=True, typed="n\n")
        assert ran.code == 6
        shown = ran.err.replace(str(tmp_path), "").splitlines()
        assert shown[:14] == [
            "Apply to node-agent?",
            "   metadata.labels",
            "  +  team: agents",
            "   spec.template.spec.containers[agent]",
            "  -  image: registry.example.com/agent:1.9.0",
            "  +  image: registry.example.com/agent:2.0.0",
            "   spec.updateStrategy.rollingUpdate",
            "  -  partition: 0",
            "  +  partition: 22",
            "   spec",
            "  -  minReadySeconds: 0",
            "  +  minReadySeconds: 10",
            "  2 of 24 nodes get revision 8: c-08, c-07",
            "  partition 22 keeps 22 nodes (c-06 … a-01) old",
        ]
        assert writes(scene) == []
        before = stored(scene)["metadata"]["generation"]
        ran = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "22", terminal=True, typed="y\n")
        assert (ran.code, ran.out) == (0, "daemonset.apps.kruise.io/node-agent configured\n")
        assert writes(scene) == ["patch", "patch"]
        assert stored(scene)["metadata"]["generation"] == before + 2, "first the partition, then all else"
        scene.pass_time(600.0)
        assert {node for node, image in images(scene).items() if image == "2.0.0"} == {"c-08", "c-07"}
        assert stored(scene)["metadata"]["labels"]["team"] == "agents"
        again = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "22")
        assert again == Ran(0, "daemonset.apps.kruise.io/node-agent unchanged\n", "")


def test_a_person_is_asked_and_a_pipeline_says_yes_beforehand(scene: Scene, tmp_path: Path) -> None:
    path = written(tmp_path, manifest("2.0.0"))
    assert scene.run("apply", "-f", path).code == 6
    assert writes(scene) == []
    assert scene.run("apply", "-f", path, "-y", "--wait").code == 0
    assert set(images(scene).values()) == {"2.0.0"}, "all of it, before the command has ended"


def test_the_pause_of_another_person_is_not_lifted_without_a_question(scene: Scene, tmp_path: Path) -> None:
    scene.door.user = "alice"
    acted(scene, "pause", "--reason", "CVE")
    scene.door.user = "ci"
    path = written(tmp_path, manifest("2.0.0", paused=False))
    refused = scene.run("apply", "-f", path, "-y")
    assert (refused.code, rolling_of(stored(scene))["paused"]) == (6, True)
    assert 'node-agent is paused by alice: "CVE"; the manifest would lift that\n' in refused.err
    assert writes(scene) == ["patch"], "the pause"
    assert scene.run("apply", "-f", path, "-y", "--dry-run=server") == refused
    assert scene.run("apply", "-f", path, "-y", terminal=True).code == 6, "on a terminal nothing is asked either"
    assert scene.run("apply", "-f", path, "-y", "--lift-pause", "--dry-run=server").code == 0
    assert scene.run("apply", "-f", path, "-y", "--lift-pause").code == 0
    assert rolling_of(stored(scene))["paused"] is False


def test_who_sees_it_in_the_question_leaves_it_or_paused_it_is_not_refused(scene: Scene, tmp_path: Path) -> None:
    acted(scene, "pause")
    scene.door.user = "bob@example.com"
    assert scene.run("apply", "-f", written(tmp_path, manifest("1.9.5")), "-y").code == 0
    assert rolling_of(stored(scene))["paused"] is True
    path = written(tmp_path, manifest("2.0.0", paused=False))
    seen = scene.run("apply", "-f", path, terminal=True, typed="y\n")
    assert seen.code == 0
    assert "  -  paused: true\n  +  paused: false\n" in seen.err
    acted(scene, "pause")
    own = scene.run("apply", "-f", path, "-y")
    assert (own.code, rolling_of(stored(scene))["paused"]) == (0, False)


def test_fields_of_others_are_taken_only_from_whom_it_is_said(scene: Scene, tmp_path: Path) -> None:
    """Those of the plugin's other verbs are its own; the question says which."""
    wanted = manifest("2.0.0")
    wanted["spec"]["minReadySeconds"] = 5
    assert scene.run("apply", "-f", written(tmp_path, wanted), "-y").code == 0
    acted(scene, "set-image", "agent=registry.example.com/agent:2.0.1")
    own = scene.run("apply", "-f", written(tmp_path, wanted), terminal=True, typed="y\n")
    field = '.spec.template.spec.containers[name="agent"].image'
    assert (own.code, f"  taken over from kubectl-kruise-ds: {field}\n" in own.err) == (0, True), own.err
    acted(scene, "restart", "-y", "--field-manager", "argocd")
    acted(scene, "set-image", "agent=registry.example.com/agent:2.0.2", "--field-manager", "argocd")
    before = stored(scene)["spec"]
    refused = scene.run("apply", "-f", written(tmp_path, wanted), "-y")
    assert (refused.code, stored(scene)["spec"]) == (6, before)
    assert refused.err.startswith(
        f"error: others manage fields of node-agent that the manifest changes: {field} (argocd)\n"
    )
    forced = scene.run("apply", "-f", written(tmp_path, wanted), "-y", "--force-conflicts")
    assert (forced.code, f"  taken over from argocd: {field}\n" in forced.out) == (0, True)


def test_a_partition_that_promote_has_lifted_is_its_own(scene: Scene, tmp_path: Path) -> None:
    path = written(tmp_path, manifest("2.0.0", partition=3))
    assert scene.run("apply", "-f", path, "-y").code == 0
    assert acted(scene, "promote", "--full", "-y").code == 0
    own = scene.run("apply", "-f", path, "-y")
    assert (own.code, rolling_of(stored(scene))["partition"]) == (0, 3), own.err


def test_one_that_does_not_exist_yet_is_made(scene: Scene, tmp_path: Path) -> None:
    ran = scene.run("apply", "-f", written(tmp_path, fresh()), "--hold-at", "3", "-y", "--wait")
    assert ran.code == 0, ran
    assert ran.out.splitlines()[0] == "daemonset.apps.kruise.io/fresh created"
    assert "  4 of 4 nodes get a first pod" in ran.out.splitlines(), "there is nothing old to keep"
    made = scene.do(scene.api.get(DAEMONSETS, "fresh"))
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3
    assert made["metadata"]["generation"] == 2, "the partition comes after it"
    assert '"verb":"apply"' in made["metadata"]["annotations"]["kruise-ds/last-action"]
    managed, held = (one for one in made["metadata"]["managedFields"] if one["operation"] == "Apply")
    rolling = managed["fieldsV1"]["f:spec"]["f:updateStrategy"]["f:rollingUpdate"]
    assert (managed["manager"], "f:partition" in rolling) == ("kubectl", False), "the next apply must not remove it"
    assert held["manager"] == "kubectl-kruise-ds-hold"


def test_the_server_is_asked_to_refuse_what_the_kind_does_not_have(tmp_path: Path) -> None:
    """As kubectl asks it; else it leaves a misspelt field out, and a rollout goes where a partition was meant."""
    with few_nodes() as scene:
        scene.door.link.seen.clear()
        for wanted in (fresh(), manifest("2.0.0")):
            ran = scene.run("apply", "-f", written(tmp_path, wanted), "-y", *HOME)
            assert ran.code == 0, ran.err
        sent = [one for one in scene.door.link.writes(KIND) if "/status" not in one.request.path]
        mine = [one for one in sent if any(name == "fieldManager" for name, _ in one.request.query)]
    sent_as = {(one.route.verb, ("dryRun", "All") in one.request.query) for one in mine}
    assert sent_as >= {("patch", True), ("patch", False)}
    assert all(("fieldValidation", "Strict") in one.request.query for one in mine)


@pytest.mark.parametrize("dry", ["client", "server"])
def test_a_dry_run_makes_none(scene: Scene, tmp_path: Path, dry: str) -> None:
    ran = scene.run("apply", "-f", written(tmp_path, fresh()), f"--dry-run={dry}", "-y", "-o", "json")
    assert ran.code == 0, ran
    assert yaml.safe_load(ran.out)["metadata"]["name"] == "fresh"
    assert not exists(scene, "fresh")


def test_what_another_client_makes_meanwhile_is_not_overwritten(scene: Scene, tmp_path: Path) -> None:

    async def make() -> None:
        await scene.api.create(DAEMONSETS, {**fresh(), "metadata": {"name": "fresh"}})

    before_request(scene, f"patch {KIND}", 3, make)  # after two dry runs
    ran = scene.run("apply", "-f", written(tmp_path, fresh()), "-y")
    assert ran.code == 6, ran
    assert "fresh changed while you were looking (now another object of that name)" in ran.err


def test_several_are_one_question_and_other_kinds_are_named(scene: Scene, tmp_path: Path) -> None:
    others = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Secret", "ConfigMap")]
    path = written(tmp_path, manifest("2.0.0"), *others, fresh())
    ran = scene.run("apply", "-f", path, "--hold-at", "4", terminal=True, typed="n\n")
    assert ran.code == 6
    assert ran.err.startswith(
        "note: not applied, since only Advanced DaemonSets are: ConfigMap, Secret; kubectl apply does\n"
    )
    assert "2 DaemonSets:\n  observability/node-agent  configured\n     spec.template.spec" in ran.err
    assert writes(scene) == []
    assert not exists(scene, "fresh")
    assert scene.run("apply", "-f", path, "--hold-at", "4", "-y").code == 0
    assert exists(scene, "fresh")


def test_a_partition_of_the_file_counts_and_must_not_contradict_the_flag(scene: Scene, tmp_path: Path) -> None:
    path = written(tmp_path, manifest("2.0.0", partition=3))
    ran = scene.run("apply", "-f", path, "--hold-at", "2", "-y")
    expected = f"error: {path} sets partition 3 for node-agent, --hold-at says 2\n  hint: leave one of them out\n"
    assert ran == Ran(2, "", expected)
    assert scene.run("apply", "-f", path, "--hold-at", "3", "-y").code == 0
    assert rolling_of(stored(scene))["partition"] == 3


def test_a_partition_that_was_set_by_hand_stays(tmp_path: Path) -> None:
    with few_nodes(partition=3) as scene:
        assert scene.run("apply", "-f", written(tmp_path, manifest("2.0.0")), "-y").code == 0
        assert rolling_of(stored(scene))["partition"] == 3


def test_what_the_file_says_no_more_goes(scene: Scene, tmp_path: Path) -> None:
    first = manifest("1.8.0")
    first["metadata"]["labels"] = {"team": "agents"}
    assert scene.run("apply", "-f", written(tmp_path, first), "-y").code == 0
    assert stored(scene)["metadata"]["labels"]["team"] == "agents"
    ran = scene.run("apply", "-f", written(tmp_path, manifest("1.8.0")), "-y")
    assert "  -  team: agents" in ran.out.splitlines()
    assert "team" not in stored(scene)["metadata"]["labels"]


def test_a_label_that_another_client_makes_meanwhile_stays(scene: Scene, tmp_path: Path) -> None:

    async def mark() -> None:
        await scene.edit({"metadata": {"annotations": {"team": "agents"}}})

    before_request(scene, f"patch {KIND}", 2, mark)
    assert scene.run("apply", "-f", written(tmp_path, manifest("2.0.0")), "-y").code == 0
    assert stored(scene)["metadata"]["annotations"]["team"] == "agents"


def test_with_on_delete_it_waits_for_a_deletion_and_nothing_holds(tmp_path: Path) -> None:
    """To be held from the first moment the partition has to come with the strategy."""
    ours, theirs = manifest("2.0.0"), manifest("2.0.0")
    theirs["spec"]["updateStrategy"] = {"type": "OnDelete"}
    words = "error: cannot hold node-agent: updateStrategy is OnDelete, pods change only when you delete them\n"
    with on_delete() as scene:
        for wanted in (theirs, ours):
            ran = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "3", "-y")
            assert (ran.code, writes(scene), ran.err.startswith(words)) == (6, [], True), ran
        ran = scene.run("apply", "-f", written(tmp_path, theirs), "-y")
        assert (ran.code, "is OnDelete: pods change only when you delete them" in ran.err) == (0, True)
        ours["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 3}}
        assert scene.run("apply", "-f", written(tmp_path, ours), "--hold-at", "3", "-y").code == 0
        assert rolling_of(stored(scene))["partition"] == 3
        ran = scene.run("apply", "-f", written(tmp_path, theirs), "--hold-at", "3", "-y")
        assert (ran.code, ran.err.startswith(words)) == (6, True)


def test_a_new_one_that_a_partition_would_keep_from_nodes_gets_it_first(scene: Scene, tmp_path: Path) -> None:
    wanted = fresh()
    wanted["spec"]["scaleStrategy"] = {"partitionedScaling": True}
    ran = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "3", "-y")
    assert (ran.code, exists(scene, "fresh")) == (6, False)
    assert "hint: write spec.updateStrategy.rollingUpdate.partition: 3 in the manifest\n" in ran.err


@pytest.mark.parametrize("number", [3, 4], ids=["before it is held", "before the manifest"])
def test_what_is_deleted_meanwhile_is_not_made_anew(scene: Scene, tmp_path: Path, number: int) -> None:
    async def delete() -> None:
        await scene.api.delete(DAEMONSETS, "node-agent")

    before_request(scene, f"patch {KIND}", number, delete)  # after two dry runs
    ran = scene.run("apply", "-f", written(tmp_path, manifest("2.0.0")), "--hold-at", "3", "-y")
    assert (ran.code, exists(scene, "node-agent")) == (1, False), ran


def test_a_field_that_another_one_takes_meanwhile_stays_theirs(scene: Scene, tmp_path: Path) -> None:
    """They have set the value that there was, so the spec is as before."""
    wanted = manifest("1.8.0")
    assert scene.run("apply", "-f", written(tmp_path, wanted), "-y").code == 0
    theirs = {key: wanted[key] for key in ("apiVersion", "kind", "metadata")}
    theirs["spec"] = {"burstReplicas": 250}

    async def take() -> None:
        path = DAEMONSETS.path(scene.api.namespace, "node-agent")
        await scene.api.send("PATCH", path, theirs, content_type=APPLY_PATCH, fieldManager="argocd")

    wanted["spec"]["burstReplicas"] = 7
    before = stored(scene)["metadata"]["generation"]
    before_request(scene, f"patch {KIND}", 2, take)
    ran = scene.run("apply", "-f", written(tmp_path, wanted), "-y")
    assert (ran.code, stored(scene)["metadata"]["generation"]) == (6, before)
    assert ".spec.burstReplicas (argocd)" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ((), 2, "error: which manifest? use apply -f "),
        (("-f", "FILE", "-n", "other"), 2, "error: FILE is for namespace observability, -n says other"),
        (("-f", "nowhere.yaml"), 1, 'error: the path "nowhere.yaml" does not exist'),
        (("-f", "FILE", "--hold-at", "many"), 2, 'error: invalid --hold-at "many": use a number'),
        (("-f", "FILE", "--timeout", "3s", *HOME), 2, "error: --timeout goes with --wait"),
    ],
)
def test_wrong_usage(scene: Scene, tmp_path: Path, words: tuple[str, ...], code: int, error: str) -> None:
    path = written(tmp_path, manifest("2.0.0"))
    ran = scene.run("apply", *(path if word == "FILE" else word for word in words))
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(error.replace("FILE", path)), ran.err
    assert writes(scene) == []


def test_no_patch_is_printed_of_what_there_is_not(scene: Scene, tmp_path: Path) -> None:
    ran = scene.run("apply", "-f", written(tmp_path, fresh()), "--print-patch")
    assert ran == Ran(1, "", "error: fresh does not exist yet: there is nothing to patch\n")


def test_what_a_manifest_has_no_longer_is_left_to_its_other_owners(scene: Scene, tmp_path: Path) -> None:
    """The partition was written there, was taken out, and was set by hand since: as with kubectl it stays."""
    name, prefix = "fresh", "daemonset.apps.kruise.io/"
    assert scene.run("apply", "-f", written(tmp_path, fresh(partition=0)), "-y").code == 0
    scene.do(scene.edit({"spec": {"updateStrategy": {"rollingUpdate": {"partition": None}}}}, name))
    path = written(tmp_path, fresh())
    assert scene.run("apply", "-f", path, "-y").out == f"{prefix}{name} unchanged\n"
    assert scene.run("set-partition", name, "3", *HOME).code == 0
    assert scene.run("apply", "-f", path, "-y").out == f"{prefix}{name} unchanged\n"
    assert rolling_of(stored(scene, name))["partition"] == 3


@pytest.mark.parametrize(
    "words", [("diff", "node-agent", "-f"), ("apply", "-y", "--dry-run=server", "-f")], ids=" ".join
)
def test_a_secret_of_the_manifest_is_not_shown(scene: Scene, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Neither as a value nor in kubectl's note of the manifest, which comes with the first annotation."""
    wanted = manifest("2.0.0")
    env = [{"name": name, "value": text} for name, text in SECRETS.items()]
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = env
    wanted["spec"]["template"]["metadata"]["annotations"] = {"example.com/api-key": "s3cret"}
    scene.do(scene.edit({"metadata": {"annotations": None}}))
    ran = scene.run(*words, written(tmp_path, wanted), *HOME)
    assert (ran.code, "STORAGE" in ran.out, "s3cret" in ran.out + ran.err) == (0, True, False), ran
    assert "last-applied" not in ran.out


UNKNOWN = "unknown field spec.template.spec.containers[0].livenesProbe "
ALLOW = {"kruise-ds/unknown-fields": "allow"}


def misspelt(name: str = "node-agent") -> Object:
    found = manifest("2.0.0") if name == "node-agent" else fresh(name)
    found["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    return found


@pytest.mark.parametrize("name", ["node-agent", "fresh"])
def test_fields_that_no_pod_has_are_reported_before_the_write(name: str, tmp_path: Path) -> None:
    """As the controller would not act on them; `plan` and `diff` tell it too."""
    file = tmp_path / "new.yaml"
    with healthy() as scene:
        file.write_text(yaml.safe_dump(misspelt(name)))
        ran = scene.run("apply", "-f", str(file), *HOME, "--yes")
        assert (ran.code, UNKNOWN in ran.err) == (1, True), ran.err
        assert not writes(scene)
        ran = scene.run("plan", "-f", str(file), *HOME)
        assert f"the server refuses pods of this template: {UNKNOWN}" in " ".join((ran.out + ran.err).split())
        if name == "node-agent":
            ran = scene.run("diff", name, "-f", str(file), *HOME)
            assert f"warning: no pod would be created of {file}: {UNKNOWN}" in ran.err


def test_where_they_are_allowed_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    with healthy() as scene:
        wanted = misspelt()
        wanted["metadata"]["annotations"] = ALLOW
        file.write_text(yaml.safe_dump(wanted))
        ran = scene.run("diff", "node-agent", "-f", str(file), *HOME)
        assert UNKNOWN not in ran.err
        ran = scene.run("apply", "-f", str(file), *HOME, "--yes")
        assert ran.code == 0, ran.err
        assert writes(scene)
