"""Which ImagePullJobs a rollout wants, case by case."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.selector import LabelSelector
from controller.imagepull.wanted import WantedImages, annotation_notes, images_of, manifest, wanted_images
from controller.planner.plan import plan
from controller.planner.validation import compiled
from tests.beds.worlds import ds, in_place, pod, revision, template, world

NODES = tuple(f"node-{number}" for number in range(4))


def wanted(daemonset: DaemonSet, revisions: list[Revision], pods: list[Pod]) -> WantedImages | None:
    return wanted_images(daemonset, compiled(daemonset), revisions, pods)


def asked(daemonset: DaemonSet, *old: str, known: tuple[str, ...] = ("v1", "v2")) -> WantedImages | None:
    revisions = [revision(name, number=number) for number, name in enumerate(known)]
    updated = [pod(node, "v2") for node in NODES if node not in old]
    return wanted(daemonset, revisions, [*(pod(node, "v1") for node in old), *updated])


def annotated(**values: str) -> DaemonSet:
    names = {f"apps.kruise.io/image-predownload-{name.replace('_', '-')}": value for name, value in values.items()}
    return replace(ds(rev="v2"), annotations=names)


def images(found: WantedImages | None) -> list[str]:
    assert found is not None
    return [job.image for job in found.jobs]


def test_one_for_each_image_that_nodes_with_an_old_pod_do_not_have() -> None:
    assert len(images(asked(ds(rev="v2"), "node-0"))) == 1
    assert images(asked(ds(rev="v2"))) == [], "no old pod"
    kept = [revision("v0"), revision("v1", of=template("v2", hostNetwork=True)), revision("v2")]
    assert images(wanted(ds(rev="v2"), kept, [pod("node-0", "v0"), pod("node-1", "v1")])) == ["demo:v2"]
    assert images(wanted(ds(rev="v2"), kept, [pod(node, "v1") for node in NODES])) == [], "they have it"


def test_nothing_is_known_before_the_current_revision_is_stored() -> None:
    assert asked(ds(rev="v2"), "node-0", known=("v1",)) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"max_unavailable": "abc"},
        {"max_surge": "most"},
        {"partition": "half"},
        {"pods": LabelSelector()},
        {"nodeSelector": {"zone": "a/b/c"}},
    ],
    ids=["maxUnavailable", "maxSurge", "partition", "a selector of all pods", "placement"],
)
def test_a_spec_that_the_planner_refuses_wants_none(spec: dict[str, Any]) -> None:
    daemonset = ds(rev="v2", **spec)
    assert plan(world(daemonset)).summary is None, "the planner refuses it"
    current = replace(revision("v2", number=1), identity=daemonset.identity)
    assert wanted(daemonset, [revision("v1"), current], [pod("node-0", "v1")]) is None


def test_the_current_revision_is_never_one_that_is_being_deleted() -> None:
    twin = replace(revision("v2", number=3), name="demo-v2-x", labels={}, terminating=True)
    for revisions in ([revision("v2", number=2), twin], [twin, revision("v2", number=2)]):
        found = wanted(ds(rev="v2"), revisions, [pod("node-0", "v1")])
        assert found is not None
        assert (found.revision.name, found.revision.hash) == ("demo-v2", "v2")
    assert wanted(ds(rev="v2"), [twin], [pod("node-0", "v1")]) is None


def test_an_old_revision_that_is_not_stored_may_have_had_any_image() -> None:
    assert len(images(asked(ds(rev="v2"), "node-0", known=("v2",)))) == 1


@pytest.mark.parametrize(
    ("rolling", "jobs"),
    [
        ({}, 1),
        ({"max_unavailable": 4}, 0),
        ({"max_unavailable": "100%"}, 0),
        ({"max_unavailable": 3}, 1),
        ({"max_unavailable": 4, "partition": 1}, 1),
        ({"max_surge": "100%"}, 0),
        ({"paused": True}, 1),
        ({"on_delete": True, "max_unavailable": 4}, 1),
    ],
)
def test_one_wave_wants_none(rolling: dict[str, Any], jobs: int) -> None:
    assert len(images(asked(ds(rev="v2", **rolling), *NODES))) == jobs


def test_it_waits_for_as_many_updated_pods_as_are_asked_for() -> None:
    for threshold, waits in (("1", False), ("2", True), ("25%", False), ("26%", True)):
        found = asked(annotated(min_updated_ready_pods=threshold), *NODES[:3])
        assert found is not None
        assert found.deferred is waits, threshold


def test_updated_pods_that_are_not_ready_bring_it_no_nearer() -> None:
    updated = [replace(pod(node, "v2"), ready=node == "node-3") for node in NODES[1:]]
    for threshold, waits in (("1", False), ("2", True)):
        daemonset = annotated(min_updated_ready_pods=threshold)
        found = wanted(daemonset, [revision("v1"), revision("v2", number=1)], [pod("node-0", "v1"), *updated])
        assert found is not None
        assert found.deferred is waits, threshold


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("parallelism", "3", 3),
        ("parallelism", "0", 0),
        ("parallelism", "garbage", 1),
        ("parallelism", "-1", 1),
        ("parallelism", "200%", 1),
        ("parallelism", "1" * 5000, 1),
        ("timeout_seconds", "600", 600),
        ("timeout_seconds", "86400", 86400),
        ("timeout_seconds", "0", 300),
        ("timeout_seconds", "10%", 300),
        ("timeout_seconds", "ten", 300),
    ],
)
def test_the_default_replaces_an_invalid_annotation_and_a_note_says_so(
    name: str, text: str, wanted: int | str
) -> None:
    daemonset = annotated(**{name: text})
    found = asked(daemonset, "node-0")
    assert found is not None
    spec: Any = manifest(daemonset, found, found.jobs[0])["spec"]
    assert (spec["parallelism"] if name == "parallelism" else spec["pullPolicy"]["timeoutSeconds"]) == wanted
    notes = annotation_notes(daemonset)
    assert bool(notes) == (str(wanted) != text)
    assert all(note.warning and len(note.message) < 500 for note in notes)


def test_each_note_says_what_is_taken_instead() -> None:
    daemonset = replace(ds(rev="v2"), annotations={"kruise-ds/image-predownload-wait": "True"})
    (note,) = annotation_notes(daemonset)
    assert note.message.endswith("image-predownload-wait: 'True' is not true or false, so false is used")
    (note,) = annotation_notes(annotated(parallelism="200%"))
    assert note.message.endswith("'200%' is not a whole number or a percentage up to 100%, so 1 is used")
    (note,) = annotation_notes(annotated(timeout_seconds="ten"))
    assert note.message.endswith("'ten' is not a number of seconds from 1 to 86400, so 300 is used")


def test_a_percentage_is_of_all_nodes_and_not_of_those_that_are_left() -> None:
    daemonset = annotated(parallelism="60%")
    found = asked(daemonset, "node-0")
    assert found is not None
    spec: Any = manifest(daemonset, found, found.jobs[0])["spec"]
    assert (spec["parallelism"], annotation_notes(daemonset)) == (3, ())


def test_the_job_names_nodes_of_old_pods_and_takes_from_the_template() -> None:
    spec = {"imagePullSecrets": [{"name": "key"}], "containers": [{"name": "a", "image": "b"}]}
    daemonset = ds(rev="v2")
    template = {"metadata": {"annotations": {"x": "y"}}, "spec": spec}
    daemonset = replace(daemonset, spec=replace(daemonset.spec, template=template))
    found = asked(ds(rev="v2"), "node-0")
    assert found is not None
    made: Any = manifest(daemonset, found, found.jobs[0])["spec"]
    assert made["pullSecrets"] == ["key"]
    assert made["sandboxConfig"] == {"annotations": {"x": "y"}}, "no labels: budgets and services would select them"
    hash_ = {"key": "controller-revision-hash", "operator": "NotIn", "values": ["v2"]}
    assert made["podSelector"] == {"matchLabels": {"app": "demo"}, "matchExpressions": [hash_]}


@pytest.mark.parametrize(
    ("daemonset", "lasts"),
    [
        (ds(rev="v2"), "Always"),
        (ds(rev="v2", annotations={"kruise-ds/image-predownload-wait": "true"}), "Never"),
        (in_place(), "Never"),
        (in_place(annotations={"kruise-ds/image-predownload-wait": "false"}), "Always"),
    ],
    ids=["no node waits", "nodes wait", "in place they do", "unless they are not to"],
)
def test_the_job_lasts_as_long_as_nodes_wait_for_it(daemonset: DaemonSet, lasts: str) -> None:
    found = asked(ds(rev="v2"), "node-0")
    assert found is not None
    made: Any = manifest(daemonset, found, found.jobs[0])["spec"]
    assert made["completionPolicy"]["type"] == lasts


@pytest.mark.parametrize(
    ("spec", "account"),
    [
        ({"serviceAccountName": "agent"}, {"kruise-ds/service-account-name": "agent"}),
        ({"serviceAccount": "agent"}, {"kruise-ds/service-account-name": "agent"}),
        ({"serviceAccountName": "agent", "serviceAccount": "x"}, {"kruise-ds/service-account-name": "agent"}),
        ({"serviceAccountName": ""}, None),
        ({}, None),
    ],
)
def test_the_job_names_the_account_of_the_template(spec: dict[str, Any], account: dict[str, str] | None) -> None:
    daemonset, found = ds(rev="v2", **spec), asked(ds(rev="v2"), "node-0")
    assert found is not None
    made: Any = manifest(daemonset, found, found.jobs[0])["metadata"]
    assert made.get("annotations") == account


@pytest.mark.parametrize("length", [30, 236, 237, 241, 253])
def test_names_fit_any_daemonset_and_differ_by_revision(length: int) -> None:
    """One name for the jobs of two revisions is one job: the first one's image would be taken for the other's."""
    old, hashes = [pod("node-0", "v1"), pod("node-1", "v1")], ("2spjb2kr94", "2spjb2kr95", "7v9zxphm2z")
    names = []
    for one in hashes:
        found = wanted(ds(rev="v2"), [replace(revision("v2"), name="x" * length + "-" + one)], old)
        assert found is not None
        names += [job.name for job in found.jobs]
    assert len(set(names)) == len(hashes)
    assert all(len(name) <= 253 for name in names)


def test_init_containers_have_images_and_malformed_ones_have_none() -> None:
    init: Any = {"name": "i", "image": "setup"}
    template: Any = {
        "spec": {"initContainers": [init, 7], "containers": [{"name": "a"}, {"name": "b", "image": "c"}]}
    }
    assert images_of(template) == {"i": "setup", "b": "c"}
    assert images_of({}) == {}
