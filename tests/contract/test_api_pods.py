"""Pods: what is filled in, what may change, binding, status, and how they go."""

from __future__ import annotations

import pytest

from controller.api.objects import epoch
from controller.runtime.clock import system_clock
from tests.beds.api import NODES, PODS, Object
from tests.beds.objects import pod
from tests.contract.bed import ApiServer, next_events, refused, version_of


async def test_a_new_pod_is_complete_and_pending(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, pod("one"))
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1
    spec = made["spec"]
    assert {key: spec.get(key) for key in ("restartPolicy", "dnsPolicy", "schedulerName", "priority")} == {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "priority": 0,
    }
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert spec["containers"] == [
        {
            "name": "main",
            "image": "busybox",
            "imagePullPolicy": "Always",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    eviction = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert spec["tolerations"] == [
        {"key": "node.kubernetes.io/not-ready", **eviction},
        {"key": "node.kubernetes.io/unreachable", **eviction},
    ]


async def test_tolerations_for_eviction_are_not_added_twice(bed: ApiServer) -> None:
    new = pod("one")
    given = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ]
    new["spec"]["tolerations"] = given
    assert (await bed.api.create(PODS, new))["spec"]["tolerations"] == given
    new = pod("two")
    new["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert (await bed.api.create(PODS, new))["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"cpu": "100m", "memory": "64Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "100m"}}, "Burstable"),
    ],
)
async def test_resources_decide_the_quality_of_service(bed: ApiServer, resources: Object, quality: str) -> None:
    new = pod("one", image="busybox:1.36")
    new["spec"]["containers"][0]["resources"] = resources
    made = await bed.api.create(PODS, new)
    assert made["status"]["qosClass"] == quality
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    wanted = resources.get("requests") or resources["limits"]
    assert made["spec"]["containers"][0]["resources"]["requests"] == wanted


async def test_host_network_makes_ports_host_ports(bed: ApiServer) -> None:
    new = pod("one")
    new["spec"]["hostNetwork"] = True
    new["spec"]["containers"][0]["ports"] = [{"containerPort": 9100}]
    made = await bed.api.create(PODS, new)
    expected = [{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]
    assert made["spec"]["containers"][0]["ports"] == expected


async def test_a_pod_needs_containers_with_name_and_image(bed: ApiServer) -> None:
    with refused(422, "Invalid", kind="Pod", name="one") as caught:
        await bed.api.create(PODS, {"metadata": {"name": "one"}, "spec": {"containers": []}})
    assert caught[0].message == 'Pod "one" is invalid: spec.containers: Required value'
    assert caught[0].causes == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}
    ]
    with refused(422, "Invalid") as caught:
        await bed.api.create(PODS, {"metadata": {"name": "one"}, "spec": {"containers": [{}]}})
    fields = {cause["field"] for cause in caught[0].causes}
    assert {"spec.containers[0].name", "spec.containers[0].image"} <= fields


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
async def test_the_account_of_a_pod_has_a_former_name_too(bed: ApiServer, field: str) -> None:
    new = pod("one")
    new["spec"][field] = "agent"
    made = (await bed.api.create(PODS, new))["spec"]
    assert (made["serviceAccountName"], made["serviceAccount"]) == ("agent", "agent")


async def test_the_name_of_an_account_is_a_subdomain(bed: ApiServer) -> None:
    new = pod("one")
    new["spec"]["serviceAccountName"] = "Not valid"
    with refused(422, "Invalid", kind="Pod", name="one") as caught:
        await bed.api.create(PODS, new)
    assert [cause["field"] for cause in caught[0].causes] == ["spec.serviceAccountName"]
    assert caught[0].message.startswith(
        'Pod "one" is invalid: spec.serviceAccountName: Invalid value: "Not valid": a lowercase RFC 1123 subdomain'
    )


async def test_a_field_of_the_wrong_type_is_a_bad_request(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.create(PODS, {"metadata": {"name": "one"}, "spec": "none"})


async def test_the_status_is_written_through_its_subresource_only(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    patch = {"status": {"phase": "Running"}, "metadata": {"annotations": {"a": "1"}}}
    patched = await bed.api.patch(PODS, "one", patch)
    assert patched["status"]["phase"] == "Pending"
    assert patched["metadata"]["annotations"] == {"a": "1"}
    patch = {
        "status": {"phase": "Running"},
        "metadata": {"annotations": {"a": "2"}},
        "spec": {"activeDeadlineSeconds": 5},
    }
    patched = await bed.api.patch(PODS, "one", patch, sub="status")
    assert patched["status"]["phase"] == "Running"
    assert patched["metadata"]["annotations"] == {"a": "2"}
    assert "activeDeadlineSeconds" not in patched["spec"]
    assert patched["metadata"]["generation"] == 1


async def test_binding_puts_a_pod_on_a_node(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    binding = {"metadata": {"name": "one"}, "target": {"apiVersion": "v1", "kind": "Node", "name": bed.nowhere}}
    answer = await bed.api.create(PODS, binding | {"apiVersion": "v1", "kind": "Binding"}, sub="binding")
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    bound = await bed.api.get(PODS, "one")
    assert bound["spec"]["nodeName"] == bed.nowhere
    assert bound["metadata"]["generation"] == 1
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    with refused(409, "Conflict", name="one", kind="pods/binding") as caught:
        await bed.api.create(PODS, binding | {"apiVersion": "v1", "kind": "Binding"}, sub="binding")
    assert caught[0].message == (
        f'Operation cannot be fulfilled on pods/binding "one": pod one is already assigned to node "{bed.nowhere}"'
    )


async def test_a_pod_without_node_is_gone_at_once(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"))
    _, events = await bed.follow(PODS)
    deleted = await bed.api.delete(PODS, "one")
    assert await bed.api.find(PODS, "one") is None
    marked, gone = await next_events(events, 2)
    assert marked.type == "MODIFIED", "the mark comes first, also when nothing has to wait"
    assert marked.object["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked.object["metadata"]["generation"] == 2
    assert (gone.type, gone.object) == ("DELETED", deleted)
    assert version_of(gone.object) > version_of(marked.object)


async def test_a_pod_on_a_node_waits_for_its_node(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere))
    _, events = await bed.follow(PODS)
    before = system_clock()
    terminating = await bed.api.delete(PODS, "one")
    after = system_clock()
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 30
    assert terminating["metadata"]["generation"] == 2
    due = epoch(terminating["metadata"]["deletionTimestamp"])
    assert due is not None
    assert int(before) + 30 <= due <= after + 30
    assert await bed.api.delete(PODS, "one") == terminating
    last = await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 0})
    assert last["metadata"]["deletionGracePeriodSeconds"] == 0
    told, hurried, gone = await next_events(events, 3)
    assert (told.type, told.object) == ("MODIFIED", terminating)
    assert hurried.type == "MODIFIED"
    assert hurried.object["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (gone.type, gone.object) == ("DELETED", last)
    assert await bed.api.find(PODS, "one") is None


async def test_a_second_delete_may_shorten_the_grace_and_never_lengthens_it(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere))
    first = await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 20})
    second = await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 60})
    assert second == first
    third = await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 5})
    assert third["metadata"]["deletionGracePeriodSeconds"] == 5
    assert (epoch(third["metadata"]["deletionTimestamp"]) or 0) < (epoch(first["metadata"]["deletionTimestamp"]) or 0)


async def test_a_pod_that_has_ended_needs_no_grace(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere))
    await bed.api.patch(PODS, "one", {"status": {"phase": "Failed"}}, sub="status")
    await bed.api.delete(PODS, "one")
    assert await bed.api.find(PODS, "one") is None


async def test_finalizers_hold_a_pod_that_its_node_has_let_go(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere, finalizers=["kruise-ds/test"]))
    await bed.api.delete(PODS, "one")
    held = await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 0})
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["finalizers"] == ["kruise-ds/test"]
    await bed.api.patch(PODS, "one", {"metadata": {"finalizers": None}})
    assert await bed.api.find(PODS, "one") is None


async def test_a_node_holds_a_pod_whose_finalizers_are_gone(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere, finalizers=["kruise-ds/test"]))
    await bed.api.delete(PODS, "one")
    waiting = await bed.api.patch(PODS, "one", {"metadata": {"finalizers": None}})
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 30
    assert await bed.api.find(PODS, "one") is not None
    await bed.api.delete(PODS, "one", options={"gracePeriodSeconds": 0})
    assert await bed.api.find(PODS, "one") is None


async def test_a_terminating_object_takes_no_new_finalizer(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere, finalizers=["kruise-ds/test"]))
    await bed.api.delete(PODS, "one")
    with refused(422, "Invalid", kind="Pod") as caught:
        await bed.api.patch(PODS, "one", {"metadata": {"finalizers": ["kruise-ds/test", "kruise-ds/late"]}})
    assert {(cause["field"], cause["reason"]) for cause in caught[0].causes} == {
        ("metadata.finalizers", "FieldValueForbidden")
    }


async def test_delete_is_guarded_by_uid_and_version(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, pod("one"))
    uid = made["metadata"]["uid"]
    foreign = "00000000-0000-0000-0000-000000000000"
    message = (
        f'Operation cannot be fulfilled on Pod "one": the UID in the precondition ({foreign}) does not match the '
        f"UID in record ({uid}). The object might have been deleted and then recreated"
    )
    with refused(409, "Conflict", message, name="one", kind="Pod"):
        await bed.api.delete(PODS, "one", options={"preconditions": {"uid": foreign}})
    message = (
        'Operation cannot be fulfilled on Pod "one": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({version_of(made)}). The object might have been modified"
    )
    with refused(409, "Conflict", message, name="one", kind="Pod"):
        await bed.api.delete(PODS, "one", options={"preconditions": {"resourceVersion": "1"}})
    guards = {"uid": uid, "resourceVersion": made["metadata"]["resourceVersion"]}
    await bed.api.delete(PODS, "one", options={"preconditions": guards})
    assert await bed.api.find(PODS, "one") is None


async def test_a_collection_is_deleted_by_label(bed: ApiServer) -> None:
    for name in ("one", "two", "three"):
        await bed.api.create(PODS, pod(name, labels={"app": "a" if name != "two" else "b"}))
    gone = await bed.api.delete_all(PODS, labelSelector="app=a")
    assert gone["kind"] == "PodList"
    assert sorted(item["metadata"]["name"] for item in gone["items"]) == ["one", "three"]
    assert [item["metadata"]["name"] for item in await bed.api.list(PODS)] == ["two"]


async def test_an_eviction_is_a_delete(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one", on=bed.nowhere))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
    await bed.api.create(PODS, eviction, sub="eviction")
    assert (await bed.api.get(PODS, "one"))["metadata"]["deletionTimestamp"]


async def test_other_deletes_answer_with_a_status(bed: ApiServer) -> None:
    async with bed.nodes() as (_, (name,)):
        uid = (await bed.api.get(NODES, name))["metadata"]["uid"]
        answer = await bed.api.delete(NODES, name)
        assert answer["status"] == "Success"
        assert answer["details"] == {"name": name, "kind": "nodes", "uid": uid}


def misspelt() -> Object:
    """A pod with fields at four places that no pod has there, one of which differs in case only."""
    new = pod("one")
    new["metadata"]["annotation"] = {"a": "b"}
    new["spec"]["containers"][0] |= {"livenesProbe": {}, "env": [{"name": "A", "valueForm": {}}]}
    new["spec"]["hostnetwork"] = True
    return new


async def test_fields_that_a_pod_does_not_have_are_dropped(bed: ApiServer) -> None:
    made = await bed.api.create(PODS, misspelt() | {"nodeSelector": {"a": "b"}}, dryRun="All")
    assert "nodeSelector" not in made
    assert "annotation" not in made["metadata"]
    assert not {"hostnetwork", "hostNetwork"} & made["spec"].keys()
    assert made["spec"]["containers"][0]["env"] == [{"name": "A"}]


async def test_asked_strictly_they_are_refused_before_anything_else(bed: ApiServer) -> None:
    new = misspelt()
    new["spec"]["serviceAccountName"] = "NOT VALID"
    new["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": ""}]
    fields = ("metadata.annotation", "spec.containers[0].livenesProbe", "spec.containers[0].env[0].valueForm")
    listed = ", ".join(f'unknown field "{field}"' for field in (*fields, "spec.hostnetwork"))
    message = f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {listed}'
    with refused(400, "BadRequest", message):
        await bed.api.create(PODS, new, dryRun="All", fieldValidation="Strict")


async def test_beside_the_spec_too(bed: ApiServer) -> None:
    message = 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "nodeSelector"'
    with refused(400, "BadRequest", message):
        await bed.api.create(PODS, pod("one") | {"nodeSelector": {}}, dryRun="All", fieldValidation="Strict")


async def test_the_fields_that_a_pod_has_are_accepted_strictly(bed: ApiServer) -> None:
    await bed.api.create(PODS, pod("one"), dryRun="All", fieldValidation="Strict")
