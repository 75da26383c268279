"""Server-side apply: who has which field, and what becomes of it."""

from __future__ import annotations

from typing import Any

from tests.beds.api import DAEMONSETS, Object
from tests.beds.objects import demo
from tests.contract.bed import ApiServer, refused

APPLY = "application/apply-patch+yaml"


def wanted(**spec: Any) -> Object:
    found = demo()
    kind = {"apiVersion": DAEMONSETS.api_version, "kind": "DaemonSet"}
    return {**kind, "metadata": {"name": "demo"}, "spec": {**found["spec"], **spec}}


async def apply(bed: ApiServer, body: Object, manager: str = "one", **query: str) -> Object:
    path = DAEMONSETS.path(bed.api.namespace, "demo")
    return await bed.api.send("PATCH", path, body, content_type=APPLY, fieldManager=manager, **query)


def fields(found: Object, manager: str) -> Object:
    for one in found["metadata"]["managedFields"]:
        if (one["manager"], one["operation"]) == (manager, "Apply"):
            return dict(one["fieldsV1"]["f:spec"])
    return {}


async def test_an_object_that_is_not_there_is_made(bed: ApiServer) -> None:
    made = await apply(bed, wanted(minReadySeconds=3))
    assert (made["spec"]["minReadySeconds"], made["metadata"]["generation"]) == (3, 1)
    assert "f:minReadySeconds" in fields(made, "one")


async def test_a_field_that_is_not_applied_any_more_goes(bed: ApiServer) -> None:
    made = await apply(bed, wanted(minReadySeconds=3, burstReplicas=7))
    again = await apply(bed, wanted(minReadySeconds=3))
    assert again["spec"].get("burstReplicas") != 7
    assert again["metadata"]["uid"] == made["metadata"]["uid"]
    assert "f:burstReplicas" not in fields(again, "one")


async def test_a_field_that_another_one_has_as_well_stays(bed: ApiServer) -> None:
    await apply(bed, wanted(minReadySeconds=3))
    await apply(bed, wanted(minReadySeconds=3), "two")
    assert (await apply(bed, wanted()))["spec"]["minReadySeconds"] == 3


async def test_a_value_of_another_is_a_conflict_unless_forced(bed: ApiServer) -> None:
    await apply(bed, wanted(minReadySeconds=3))
    with refused(409, "Conflict") as refusals:
        await apply(bed, wanted(minReadySeconds=4), "two")
    (cause,) = refusals[0].causes
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.minReadySeconds")
    assert cause["message"].startswith('conflict with "one"')
    forced = await apply(bed, wanted(minReadySeconds=4), "two", force="true")
    assert forced["spec"]["minReadySeconds"] == 4
    assert ("f:minReadySeconds" in fields(forced, "one"), "f:minReadySeconds" in fields(forced, "two")) == (
        False,
        True,
    )


async def test_another_write_takes_what_it_changes(bed: ApiServer) -> None:
    await apply(bed, wanted(minReadySeconds=3))
    change = [{"op": "replace", "path": "/spec/minReadySeconds", "value": 9}]
    await bed.api.patch(DAEMONSETS, "demo", change, fieldManager="hand")
    assert "f:minReadySeconds" not in fields(await bed.api.get(DAEMONSETS, "demo"), "one")
    assert (await apply(bed, wanted()))["spec"]["minReadySeconds"] == 9


async def test_a_version_that_no_object_has_means_a_new_one(bed: ApiServer) -> None:
    body = wanted()
    body["metadata"]["resourceVersion"] = "1"
    await apply(bed, body)
    with refused(409, "Conflict"):
        await apply(bed, body)


async def test_what_is_for_an_object_that_is_gone_makes_none(bed: ApiServer) -> None:
    meta = (await apply(bed, wanted()))["metadata"]
    body = wanted(minReadySeconds=3)
    body["metadata"] |= {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    await bed.api.delete(DAEMONSETS, "demo")
    with refused(409, "Conflict"):
        await apply(bed, body)
    assert await bed.api.list(DAEMONSETS) == []
    made = await apply(bed, wanted())
    with refused(409, "Conflict"):
        await apply(bed, body)
    assert await bed.api.get(DAEMONSETS, "demo") == made


async def test_an_unknown_field_is_refused(bed: ApiServer) -> None:
    with refused(500, "") as refusals:
        await apply(bed, wanted(minReadySecond=1))
    assert ".spec.minReadySecond: field not declared in schema" in refusals[0].body["message"]
