"""Create, read, replace: names, versions, and how the server says no."""

from __future__ import annotations

import re

import pytest

from tests.beds.api import CONFIGMAPS, DAEMONSETS, EVENTS, LEASES, NAMESPACES, NODES, PODS, REVISIONS
from tests.beds.objects import configmap, demo, pod
from tests.contract.bed import ApiServer, next_events, refused, version_of


async def test_a_new_object_gets_uid_version_and_creation_time(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    metadata = made["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["namespace"] == bed.name
    assert version_of(made) > 1
    assert await bed.api.get(CONFIGMAPS, "one") == made


async def test_versions_rise_with_every_write_of_any_kind(bed: ApiServer) -> None:
    first = await bed.api.create(CONFIGMAPS, configmap("one"))
    second = await bed.api.create(PODS, pod("two"))
    third = await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "2"}})
    assert version_of(first) < version_of(second) < version_of(third)


async def test_the_client_does_not_choose_uid_times_and_generation(bed: ApiServer) -> None:
    lies = {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "generation": 7,
    }
    made = await bed.api.create(DAEMONSETS, demo() | {"metadata": {"name": "demo", **lies}})
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in made["metadata"]
    assert made["metadata"]["generation"] == 1


async def test_a_second_object_of_the_name_is_refused(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one"))
    with refused(409, "AlreadyExists", 'configmaps "one" already exists', name="one", kind="configmaps"):
        await bed.api.create(CONFIGMAPS, configmap("one"))
    await bed.api.create(DAEMONSETS, demo())
    message = 'daemonsets.apps.kruise.io "demo" already exists'
    with refused(409, "AlreadyExists", message, name="demo", kind="daemonsets", group="apps.kruise.io"):
        await bed.api.create(DAEMONSETS, demo())


async def test_a_missing_object_is_not_found(bed: ApiServer) -> None:
    with refused(404, "NotFound", 'pods "nobody" not found', name="nobody", kind="pods"):
        await bed.api.get(PODS, "nobody")
    message = 'daemonsets.apps.kruise.io "nobody" not found'
    details = {"name": "nobody", "kind": "daemonsets", "group": "apps.kruise.io"}
    with refused(404, "NotFound", message, **details):
        await bed.api.get(DAEMONSETS, "nobody")
    with refused(404, "NotFound", message, **details):
        await bed.api.patch(DAEMONSETS, "nobody", {"spec": {"minReadySeconds": 1}})
    with refused(404, "NotFound", message, **details):
        await bed.api.delete(DAEMONSETS, "nobody")
    with refused(404, "NotFound", 'nodes "nobody" not found', name="nobody", kind="nodes"):
        await bed.api.get(NODES, "nobody")


async def test_an_unknown_kind_is_not_found_and_says_so_differently(bed: ApiServer) -> None:
    with refused(404, "NotFound") as caught:
        await bed.api.send("GET", f"/apis/apps/v1/namespaces/{bed.name}/controllerrevisions/x/status/y")
    assert caught[0].message == "the server could not find the requested resource"


async def test_generate_name_appends_five_letters(bed: ApiServer) -> None:
    new = {"metadata": {"generateName": "demo-"}}
    made = [await bed.api.create(CONFIGMAPS, new) for _ in range(3)]
    given = {found["metadata"]["name"] for found in made}
    assert len(given) == 3
    for name in given:
        assert re.fullmatch(r"demo-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


async def test_a_long_generate_name_is_cut_to_63_characters(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, {"metadata": {"generateName": "x" * 80}})
    assert len(made["metadata"]["name"]) == 63


async def test_an_object_needs_a_name(bed: ApiServer) -> None:
    with refused(422, "Invalid", kind="Pod") as caught:
        await bed.api.create(PODS, {"metadata": {}, "spec": pod("x")["spec"]})
    assert [(cause["field"], cause["reason"]) for cause in caught[0].causes] == [
        ("metadata.name", "FieldValueRequired")
    ]
    assert caught[0].message == 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'


async def test_a_name_has_small_letters(bed: ApiServer) -> None:
    with refused(422, "Invalid", kind="Pod", name="Demo_1") as caught:
        await bed.api.create(PODS, pod("Demo_1"))
    assert [(cause["field"], cause["reason"]) for cause in caught[0].causes] == [
        ("metadata.name", "FieldValueInvalid")
    ]


async def test_a_label_value_has_at_most_63_characters(bed: ApiServer) -> None:
    with refused(422, "Invalid") as caught:
        await bed.api.create(CONFIGMAPS, configmap("one", labels={"app": "x" * 64}))
    assert [cause["field"] for cause in caught[0].causes] == ["metadata.labels"]


async def test_an_object_is_not_created_with_a_version(bed: ApiServer) -> None:
    with refused(500, "") as caught:
        await bed.api.create(CONFIGMAPS, configmap("one", resourceVersion="7"))
    assert caught[0].message == "resourceVersion should not be set on objects to be created"


async def test_a_body_for_another_namespace_is_refused(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.send("POST", f"/api/v1/namespaces/{bed.name}/configmaps", configmap("one", namespace="default"))


async def test_a_body_of_another_kind_is_refused(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.send("POST", f"/api/v1/namespaces/{bed.name}/configmaps", pod("one"))


async def test_a_body_that_is_no_json_is_refused(bed: ApiServer) -> None:
    with refused(400, "BadRequest"):
        await bed.api.send("POST", f"/api/v1/namespaces/{bed.name}/configmaps", b'{"metadata":')


async def test_nothing_is_created_in_a_namespace_that_is_not_there(bed: ApiServer) -> None:
    with refused(404, "NotFound", 'namespaces "nowhere" not found', name="nowhere", kind="namespaces"):
        await bed.api.create(CONFIGMAPS, configmap("one", namespace="nowhere"))


async def test_a_terminating_namespace_takes_nothing_new(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("held", finalizers=["kruise-ds/test"]))
    await bed.api.delete(NAMESPACES, bed.name)
    await bed.api.wait_for(
        NAMESPACES,
        lambda found: bool(found) and found[0]["status"]["phase"] == "Terminating",
        "namespace is terminating",
        fieldSelector=f"metadata.name={bed.name}",
    )
    with refused(403, "Forbidden", name="one", kind="configmaps") as caught:
        await bed.api.create(CONFIGMAPS, configmap("one"))
    assert caught[0].message == (
        f'configmaps "one" is forbidden: unable to create new content in namespace {bed.name} '
        "because it is being terminated"
    )
    assert [(cause["reason"], cause["field"]) for cause in caught[0].causes] == [
        ("NamespaceTerminating", "metadata.namespace")
    ]
    await bed.api.patch(CONFIGMAPS, "held", {"metadata": {"finalizers": None}})


async def test_put_replaces_the_whole_object(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}, labels={"x": "y"}))
    replaced = await bed.api.replace(CONFIGMAPS, configmap("one", {"b": "2"}))
    assert replaced["data"] == {"b": "2"}
    assert "labels" not in replaced["metadata"]
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_put_with_an_old_version_is_a_conflict(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "2"}})
    message = (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    with refused(409, "Conflict", message, name="one", kind="configmaps"):
        await bed.api.replace(CONFIGMAPS, made)


async def test_put_with_a_foreign_uid_is_a_conflict(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one"))
    message = (
        'Operation cannot be fulfilled on configmaps "one": StorageError: invalid object, Code: 4, '
        f"Key: /registry/configmaps/{bed.name}/one, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: foreign, UID in object meta: {made['metadata']['uid']}"
    )
    with refused(409, "Conflict", message, name="one", kind="configmaps"):
        await bed.api.replace(CONFIGMAPS, configmap("one", uid="foreign"))


async def test_put_of_a_custom_object_or_lease_needs_a_version(bed: ApiServer) -> None:
    await bed.api.create(DAEMONSETS, demo())
    message = (
        'daemonsets.apps.kruise.io "demo" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    )
    with refused(422, "Invalid", message, kind="daemonsets", group="apps.kruise.io") as caught:
        await bed.api.replace(DAEMONSETS, demo())
    assert [cause["field"] for cause in caught[0].causes] == ["metadata.resourceVersion"]
    await bed.api.create(LEASES, {"metadata": {"name": "one"}, "spec": {}})
    with refused(422, "Invalid", kind="leases", group="coordination.k8s.io") as caught:
        await bed.api.replace(LEASES, {"metadata": {"name": "one"}, "spec": {}})
    assert [cause["field"] for cause in caught[0].causes] == ["metadata.resourceVersion"]


async def test_put_creates_a_lease_but_no_config_map(bed: ApiServer) -> None:
    made = await bed.api.replace(LEASES, {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}})
    assert made["spec"]["holderIdentity"] == "me"
    with refused(404, "NotFound", name="one", kind="configmaps"):
        await bed.api.replace(CONFIGMAPS, configmap("one"))


async def test_put_under_another_name_is_refused(bed: ApiServer) -> None:
    await bed.api.create(CONFIGMAPS, configmap("one"))
    with refused(400, "BadRequest"):
        await bed.api.send("PUT", f"/api/v1/namespaces/{bed.name}/configmaps/one", configmap("two"))


async def test_a_write_that_changes_nothing_is_no_write(bed: ApiServer) -> None:
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    _, events = await bed.follow(CONFIGMAPS)
    assert version_of(await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "1"}})) == version_of(made)
    assert version_of(await bed.api.replace(CONFIGMAPS, made)) == version_of(made)
    await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "2"}})
    assert [event.object["data"]["a"] for event in await next_events(events, 1)] == ["2"]


async def test_a_dry_run_answers_as_if_and_stores_nothing(bed: ApiServer) -> None:
    tried = await bed.api.create(PODS, pod("one"), dryRun="All")
    assert tried["metadata"]["uid"]
    assert tried["status"]["phase"] == "Pending"
    assert await bed.api.find(PODS, "one") is None
    made = await bed.api.create(CONFIGMAPS, configmap("one", {"a": "1"}))
    tried = await bed.api.patch(CONFIGMAPS, "one", {"data": {"a": "2"}}, dryRun="All")
    assert tried["data"] == {"a": "2"}
    await bed.api.delete(CONFIGMAPS, "one", dryRun="All")
    assert await bed.api.get(CONFIGMAPS, "one") == made
    with refused(422, "Invalid"):
        await bed.api.create(PODS, {"metadata": {"name": "one"}, "spec": {"containers": []}}, dryRun="All")


def revision_body(data: bytes) -> bytes:
    head = b'{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"one"},"revision":1,"data":'
    return head + data + b"}"


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"b":2}', b'{"b":2,"a":1}', b'{"a":"\\u003c"}', '{"a":"ü"}'.encode()],
    ids=lambda data: data.decode(),
)
async def test_a_revision_with_compact_data_can_be_renumbered(bed: ApiServer, data: bytes) -> None:
    await bed.api.send("POST", REVISIONS.path(bed.name), revision_body(data))
    renumbered = await bed.api.patch(REVISIONS, "one", [{"op": "replace", "path": "/revision", "value": 2}])
    assert renumbered["revision"] == 2


@pytest.mark.parametrize(
    "data",
    [b'{"a": 1}', b'{"a":"x && y"}', b'{"a":"x>y"}', '{"a":"\u2028"}'.encode()],
    ids=["space", "&", ">", "U+2028"],
)
async def test_a_revision_whose_data_go_would_write_differently_is_frozen(bed: ApiServer, data: bytes) -> None:
    made = await bed.api.send("POST", REVISIONS.path(bed.name), revision_body(data))
    for patch in ({"revision": 2}, {"metadata": {"labels": {"a": "b"}}}):
        with refused(422, "Invalid", kind="ControllerRevision") as caught:
            await bed.api.patch(REVISIONS, "one", patch)
        assert [cause["field"] for cause in caught[0].causes] == ["data"]
    uid = made["metadata"]["uid"]
    await bed.api.delete(REVISIONS, "one", options={"preconditions": {"uid": uid}})
    assert await bed.api.find(REVISIONS, "one") is None


async def test_an_event_lives_in_the_namespace_of_its_object(bed: ApiServer) -> None:
    event = {
        "metadata": {"name": "one"},
        "involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"},
        "reason": "Tried",
        "message": "once",
        "type": "Normal",
    }
    with refused(422, "Invalid", kind="Event", name="one") as caught:
        await bed.api.create(EVENTS, event)
    assert [cause["field"] for cause in caught[0].causes] == ["involvedObject.namespace"]
    event["involvedObject"] = {"kind": "Pod", "name": "x", "namespace": bed.name}
    await bed.api.create(EVENTS, event)
    found = await bed.api.list(EVENTS, fieldSelector="involvedObject.name=x,reason=Tried,type=Normal")
    assert [item["message"] for item in found] == ["once"]


async def test_the_data_of_a_revision_never_changes(bed: ApiServer) -> None:
    revision = {"metadata": {"name": "one"}, "revision": 1, "data": {"spec": {"a": 1}}}
    made = await bed.api.create(REVISIONS, revision)
    renumbered = await bed.api.patch(REVISIONS, "one", [{"op": "add", "path": "/revision", "value": 2}])
    assert renumbered["revision"] == 2
    assert "generation" not in made["metadata"]
    with refused(422, "Invalid", kind="ControllerRevision") as caught:
        await bed.api.patch(REVISIONS, "one", {"data": {"spec": {"a": 2}}})
    assert [cause["field"] for cause in caught[0].causes] == ["data"]
