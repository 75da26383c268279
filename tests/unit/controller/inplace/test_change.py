"""What two templates differ in, and whether a running pod can take it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import fields_of
from controller.inplace.change import InPlaceChange, NotPossible, change_between
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


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (container("v2", imagePullPolicy="Always"), "spec.containers[main].imagePullPolicy added"),
        (container("v2", env=[{"name": "A", "value": "b"}]), "spec.containers[main].env added"),
        (container("v2", args=["-v"]), "spec.containers[main].args added"),
        (container("v2", ports=[{"containerPort": 80}]), "spec.containers[main].ports added"),
        (container("v2", resizePolicy=[{"resourceName": "cpu"}]), "spec.containers[main].resizePolicy added"),
        (container("v2", "other"), "spec.containers[other] added"),
    ],
)
def test_what_a_running_container_cannot_take_is_named(new: Json, why: str) -> None:
    assert why_not(V1, template(new)) == why


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("hostNetwork", True, "spec.hostNetwork added"),
        ("nodeSelector", {"a": "b"}, "spec.nodeSelector added"),
        ("initContainers", [{"name": "init", "image": "x"}], "spec.initContainers added"),
        ("tolerations", [{"operator": "Exists"}], "spec.tolerations added"),
    ],
)
def test_nor_can_the_rest_of_its_spec(field: str, value: Any, why: str) -> None:
    new: Any = template(container("v2"))
    new["spec"][field] = value
    assert why_not(V1, new) == why
    assert why_not(new, V1) == why.replace("added", "removed")


def test_a_pull_policy_that_the_image_implies_is_one() -> None:
    """A pod that was made for a tag would never ask for another `latest` than the node has."""
    why = "spec.containers[main].imagePullPolicy changed, which the image implies"
    assert why_not(V1, template(container("latest"))) == why
    assert why_not(template(container("latest")), V1) == why
    always, latest = template(container("v1", imagePullPolicy="Always")), template(container("latest"))
    assert between(always, latest).restarts == between(latest, always).restarts == ("main",)


def test_an_init_container_that_has_ended_is_not_run_again_by_its_image() -> None:
    old, new = ({"spec": {"initContainers": [{"name": "init", "image": tag}]}} for tag in ("a", "b"))
    assert why_not(old, new) == "spec.initContainers changed"


def test_containers_in_another_order() -> None:
    one, two = container(), container(name="side")
    assert why_not(template(one, two), template(two, one)) == "spec.containers in another order"


def test_a_default_that_is_written_out_is_no_difference() -> None:
    written_out = template(
        container("v1", imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log")
    )
    assert between(V1, written_out) == InPlaceChange()


def test_metadata_that_come_change_and_go_restart_nothing() -> None:
    old = template(container(), annotations={"keep": "1", "change": "1", "go": "1"}, finalizers=["a/go", "a/keep"])
    new = template(
        container(), annotations={"keep": "1", "change": "2", "come": "1"}, finalizers=["a/keep", "a/come"]
    )
    found = between(old, new)
    assert found.annotations == {"change": "2", "come": "1", "go": None}
    assert (found.added_finalizers, found.removed_finalizers) == (("a/come",), ("a/go",))
    assert found.restarts == ()


def test_metadata_of_another_kind_are_none_that_a_pod_can_take() -> None:
    assert why_not(V1, template(container(), name="x")) == "metadata.name added"


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


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (asks(), {"requests": {"cpu": "100m"}}, "requests.memory removed"),
        ({"requests": {"cpu": "100m"}}, asks(), "requests.memory added"),
        (asks(), {**asks(), "limits": {"cpu": "1"}}, "limits.cpu added"),
        ({"limits": {"nvidia.com/gpu": "1"}}, {"limits": {"nvidia.com/gpu": "2"}}, "limits.nvidia.com/gpu changed"),
        (
            {"requests": {"ephemeral-storage": "1Gi"}},
            {"requests": {"ephemeral-storage": "2Gi"}},
            "requests.ephemeral-storage changed",
        ),
        ({"claims": [{"name": "a"}]}, {"claims": [{"name": "b"}]}, "claims changed"),
    ],
)
def test_what_of_resources_takes_a_new_pod(old: Json, new: Json, why: str) -> None:
    assert why_not(template(container(resources=old)), template(container(resources=new))).endswith(why)


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
