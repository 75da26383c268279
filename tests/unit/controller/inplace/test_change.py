"""What two templates differ in, and whether a running pod can take it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.names import RESTARTED_AT, InPlaceRefusal
from controller.api.objects import JSONObject, fields_of
from controller.inplace.change import (
    InPlaceChange,
    NotPossible,
    change_between,
    quality_of_service,
)
from tests.beds.changing_pod import Json, asks, container, template

V1 = template(container("v1"))


def between(old: Any, new: Any, *, resizable: bool = True) -> InPlaceChange:
    found = change_between(old, new, resizable=resizable)
    assert isinstance(found, InPlaceChange), found
    return found


def why_not(old: Any, new: Any, *, resizable: bool = True) -> str:
    found = change_between(old, new, resizable=resizable)
    assert isinstance(found, NotPossible), found
    return found.why


def reader(path: str, tag: str = "v1", name: str = "main") -> Json:
    variable = {"name": "READS", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return container(tag, name, env=[variable])


def test_an_image_is_taken_and_restarts_its_container_alone() -> None:
    two = (container("v1"), container("v1", "side"))
    found = between(template(*two), template(two[0], container("v2", "side")))
    images = {"side": "registry.example/agent:v2"}
    assert found == InPlaceChange(images=images, old_images={"side": "registry.example/agent:v1"})
    assert found.restarts == ("side",)


def with_spec(**fields: Any) -> Any:
    return {"spec": {"containers": [container("v2")], **fields}}


def sized(*resources: Any) -> Any:
    return template(*(container("v2", name=f"c{n}", resources=one) for n, one in enumerate(resources)))


SIDE = container(name="side")
GPU, DISK, C0 = "nvidia.com/gpu", "ephemeral-storage", "spec.containers[c0].resources"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (V1, template(container("v2", imagePullPolicy="Always")), "spec.containers[main].imagePullPolicy added"),
        (V1, template(container("v2", env=[{"name": "A", "value": "b"}])), "spec.containers[main].env added"),
        (V1, template(container("v2", args=["-v"])), "spec.containers[main].args added"),
        (V1, template(container("v2", ports=[{"containerPort": 80}])), "spec.containers[main].ports added"),
        (V1, template(container("v2", resizePolicy=[{"a": "b"}])), "spec.containers[main].resizePolicy added"),
        (V1, template(container("v2", "other")), "spec.containers[other] added"),
        (template(container("v1"), SIDE), V1, "spec.containers[side] removed"),
        (template(container(), SIDE), template(SIDE, container()), "spec.containers in another order"),
        (with_spec(), with_spec(hostNetwork=True), "spec.hostNetwork added"),
        (with_spec(nodeSelector={"a": "b"}), with_spec(), "spec.nodeSelector removed"),
        (with_spec(tolerations=[{"a": "b"}]), with_spec(tolerations=[{"a": "c"}]), "spec.tolerations changed"),
        (with_spec(initContainers=[V1]), with_spec(initContainers=[SIDE]), "spec.initContainers changed"),
        (V1, template(container(), name="x"), "metadata.name added"),
        (sized(asks()), sized({"requests": {"cpu": "100m"}}), f"{C0}.requests.memory removed"),
        (sized({"requests": {"cpu": "1"}}), sized(asks()), f"{C0}.requests.memory added"),
        (sized(asks()), sized(asks() | {"limits": {"cpu": "1"}}), f"{C0}.limits.cpu added"),
        (sized({"limits": {GPU: "1"}}), sized({"limits": {GPU: "2"}}), f"{C0}.limits.{GPU} changed"),
        (sized({"requests": {DISK: "1"}}), sized({"requests": {DISK: "2"}}), f"{C0}.requests.{DISK} changed"),
        (sized({"claims": [{"name": "a"}]}), sized({"claims": [{"name": "b"}]}), f"{C0}.claims changed"),
    ],
)
def test_what_a_running_pod_cannot_take_is_named(old: Any, new: Any, why: str) -> None:
    assert why_not(old, new) == why


def test_a_pull_policy_that_the_image_implies_is_one() -> None:
    """A pod that was made for a tag would never ask for another `latest` than the node has."""
    why = "spec.containers[main].imagePullPolicy changed, which the image implies"
    assert why_not(V1, template(container("latest"))) == why
    assert why_not(template(container("latest")), V1) == why
    always, latest = template(container("v1", imagePullPolicy="Always")), template(container("latest"))
    assert between(always, latest).restarts == between(latest, always).restarts == ("main",)
    defaults = {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    assert between(V1, template(container("v1", **defaults))) == InPlaceChange(), "defaults that are written out"


def test_metadata_that_come_change_and_go_restart_nothing() -> None:
    old = template(container(), annotations={"keep": "1", "change": "1", "go": "1"}, finalizers=["a/go", "a/keep"])
    new = template(
        container(), annotations={"keep": "1", "change": "2", "come": "1"}, finalizers=["a/keep", "a/come"]
    )
    found = between(old, new)
    assert found.annotations == {"change": "2", "come": "1", "go": None}
    assert (found.added_finalizers, found.removed_finalizers) == (("a/come",), ("a/go",))
    assert found.restarts == ()


@pytest.mark.parametrize(
    ("path", "rereads"),
    [
        ("metadata.labels['track']", ("main",)),
        ("metadata.labels['other']", ()),
        ("metadata.annotations['track']", ()),
        ("metadata.name", ()),
    ],
)
def test_a_label_read_from_the_environment_needs_a_restart(path: str, rereads: tuple[str, ...]) -> None:
    old = template(reader(path), labels={"track": "a"})
    new = template(reader(path), labels={"track": "b"})
    assert between(old, new).rereads == rereads
    with_image = between(old, template(reader(path, "v2"), labels={"track": "b"}))
    assert with_image.rereads == (), "in the same write, so the new one sees it"
    assert with_image.restarts == ("main",)


@pytest.mark.parametrize(
    ("path", "policy", "why"),
    [
        (
            "metadata.labels['track']",
            "Always",
            "spec.initContainers[side] reads a changed label or annotation from its environment, "
            "and no sidecar is restarted in place",
        ),
        ("metadata.labels['track']", "", ""),
        ("metadata.labels['other']", "Always", ""),
    ],
    ids=["a sidecar", "one that has ended", "another label"],
)
def test_a_label_that_a_sidecar_reads_from_its_environment_takes_a_new_pod(path: str, policy: str, why: str) -> None:
    """Nor does a new image of another container restart it."""
    side = {**reader(path, name="side"), **({"restartPolicy": policy} if policy else {})}
    old, new = (template(container(tag), labels={"track": tag}) for tag in ("v1", "v2"))
    for one in (old, new):
        one["spec"] = {**fields_of(one["spec"]), "initContainers": [side]}
    found = change_between(old, new, resizable=True)
    assert (found.why if isinstance(found, NotPossible) else "") == why


@pytest.mark.parametrize("path", [["metadata.labels['track']"], {}, 7, None])
def test_a_path_that_is_no_text_reads_nothing(path: Any) -> None:
    old = template(reader(path), labels={"track": "a"})
    assert between(old, template(reader(path), labels={"track": "b"})).rereads == ()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (asks(cpu="1000m"), asks(cpu="1"), InPlaceChange()),
        (
            asks(cpu="1000m"),
            asks(cpu="2"),
            InPlaceChange(
                resources={"main": {"requests": {"cpu": "2"}}}, old_resources={"main": {"requests": {"cpu": "1"}}}
            ),
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "200m"}},
            InPlaceChange(
                resources={"main": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "200m", "memory": "2Gi"}}},
                old_resources={
                    "main": {
                        "limits": {"memory": str(2**30)},
                        "requests": {"cpu": "0.1", "memory": str(2**30)},
                    }
                },
            ),
        ),
    ],
    ids=["another spelling", "only what differs", "a request that follows its limit"],
)
def test_cpu_and_memory(old: Json, new: Json, found: InPlaceChange) -> None:
    assert between(template(container(resources=old)), template(container(resources=new))) == found


def test_without_the_gate_no_amount_changes_in_place_but_a_spelling_does() -> None:
    old, new, same = (template(container("v2", resources=asks(cpu=cpu))) for cpu in ("100m", "200m", "0.1"))
    assert why_not(old, new, resizable=False) == "spec.containers[main].resources changed"
    assert between(old, same, resizable=False) == InPlaceChange()


@pytest.mark.parametrize("odd", ["x", 7, [], {}, None, [{"cpu": 1}], {"cpu": [1]}, {"cpu": {"a": "b"}}])
def test_odd_resources_are_compared_and_nothing_more(odd: Any) -> None:
    plain = template(container(resources=asks()))
    for strange in (template(container(resources=odd)), template(container(resources={"requests": odd}))):
        change_between(plain, strange, resizable=True)
        change_between(strange, plain, resizable=True)


# the restart annotation, which would restart nothing in a running pod


EARLY, LATE, ELSEWHERE = "2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z", "2026-11-22T13:30:00+02:00"


def stamped(stamp: str | None, image: str = "agent:v1") -> JSONObject:
    annotations: JSONObject = {"team": "agents"} if stamp is None else {"team": "agents", RESTARTED_AT: stamp}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c", "image": image}]}}


@pytest.mark.parametrize(
    ("was", "will"),
    [(None, EARLY), (EARLY, LATE), (LATE, ELSEWHERE), (EARLY, "at noon"), ("at noon", EARLY), (EARLY, "")],
)
@pytest.mark.parametrize("image", ["agent:v1", "agent:v2"])
def test_a_newer_stamp_takes_new_pods_whatever_else_changes(was: str | None, will: str, image: str) -> None:
    found = change_between(stamped(was), stamped(will, image), resizable=False)
    why = f"metadata.annotations[{RESTARTED_AT}] asks for a restart"
    assert found == NotPossible(why=why, refusal=InPlaceRefusal.RESTART)


@pytest.mark.parametrize(("was", "will"), [(EARLY, None), (LATE, EARLY), (EARLY, EARLY)])
def test_going_back_to_before_a_restart_is_none(was: str, will: str | None) -> None:
    found = change_between(stamped(was), stamped(will, "agent:v2"), resizable=False)
    assert isinstance(found, InPlaceChange)
    assert found.restarts == ("c",)
    assert found.annotations == ({} if was == will else {RESTARTED_AT: will})


# which resizes Kubernetes takes, and which restart a container


FULL = {"cpu": "2", "memory": "4Gi"}
HALF = {"cpu": "1", "memory": "2Gi"}


def spec(*resources: Any, **fields: Any) -> Json:
    return {"containers": [container(name=f"c{n}", resources=one) for n, one in enumerate(resources)], **fields}


LOW, HIGH = {"limits": FULL, "requests": HALF}, {"limits": FULL, "requests": FULL}
ZERO, SOME = ({"requests": {"cpu": cpu}} for cpu in ("0", "100m"))


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ((LOW, LOW), (HIGH, HIGH), "Burstable to Guaranteed"),
        ((HIGH, HIGH), (LOW, LOW), "Guaranteed to Burstable"),
        ((ZERO,), (SOME,), "BestEffort to Burstable"),
    ],
)
def test_a_resize_that_would_change_the_class_is_not_possible(old: Any, new: Any, change: str) -> None:
    words = f"spec.containers[].resources: the QoS class would change from {change}"
    assert why_not(sized(*old), sized(*new)) == words
    assert between(sized(LOW, LOW), sized(HIGH, LOW)).resources == {"c0": {"requests": FULL}}, "one of two may"


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ((None,), "BestEffort"),
        (({},), "BestEffort"),
        (({"limits": {"example.com/gpu": "1"}},), "BestEffort"),
        (({"requests": {"cpu": "0", "memory": "0"}},), "BestEffort"),
        (({"requests": {"cpu": "1m"}},), "Burstable"),
        (({"limits": {"cpu": "1"}},), "Burstable"),
        (({"limits": FULL},), "Guaranteed"),
        (({"limits": FULL, "requests": {"cpu": "2000m", "memory": "4096Mi"}},), "Guaranteed"),
        ((LOW,), "Burstable"),
        (({"limits": {"cpu": "0", "memory": "4Gi"}},), "Burstable"),
        (({"limits": FULL}, None), "Burstable"),
        (({"limits": FULL}, {"limits": HALF}), "Guaranteed"),
    ],
)
def test_the_class_of_a_pod(resources: tuple[Any, ...], quality: str) -> None:
    assert quality_of_service(spec(*resources)) == quality
    bare_init = spec(*resources, initContainers=[{"name": "init"}])
    assert quality_of_service(bare_init) == quality.replace("Guaranteed", "Burstable")


@pytest.mark.parametrize(
    ("policies", "new", "restarts"),
    [
        ({}, asks(cpu="200m"), False),
        ({"cpu": "NotRequired"}, asks(cpu="200m"), False),
        ({"cpu": "RestartContainer"}, asks(cpu="200m"), True),
        ({"cpu": "RestartContainer"}, asks(memory="128Mi"), False),
        ({"memory": "RestartContainer"}, asks(memory="128Mi"), True),
        ({"memory": "RestartContainer"}, asks(cpu="200m", memory="128Mi"), True),
        ({"cpu": "RestartContainer", "memory": "NotRequired"}, asks(memory="64Mi"), False),
    ],
)
def test_a_restart_is_what_the_policy_of_the_very_resource_says(policies: Json, new: Json, restarts: bool) -> None:
    listed = [{"resourceName": name, "restartPolicy": policy} for name, policy in policies.items()]
    for policy_of in (0, 1):
        old, changed = sized(asks(), asks()), sized(new, asks())
        for one in (old, changed):
            one["spec"]["containers"][policy_of]["resizePolicy"] = listed
        assert between(old, changed).resized_by_restart == (("c0",) if restarts and policy_of == 0 else ())
