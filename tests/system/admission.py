"""Admission on both beds: a webhook that is down, one that changes what is written, and a quota of pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager

import pytest

from tests.beds.api import CONFIGMAPS, Api, Object, Refusal, Resource, closing
from tests.beds.api import PODS as ALL_PODS
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.bed import Bed
from tests.beds.objects import pod
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.refusal import Refused, forbidden

WEBHOOKS = Resource(
    "/apis/admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = Resource(REGISTRATION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False)
BINDINGS = Resource(
    REGISTRATION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False
)
NAME = "policy.example.com"
POLL = 0.02


@contextmanager
def judged(bed: Bed, judge: Callable[[Attempt], None]) -> Iterator[None]:
    """A webhook sees every write of a pod; it may change what is to be stored, or refuse it."""

    def admit(attempt: Attempt) -> None:
        if attempt.kind == PODS:
            judge(attempt)

    admission = bed.simulator.cluster.admission
    admission.append(admit)
    yield
    admission.remove(admit)


@asynccontextmanager
async def webhook_down(bed: Bed, verb: str, of: Resource = ALL_PODS) -> AsyncIterator[None]:
    """While the block runs every write of such an object in the namespace by `verb`, create or update, is refused
    with 500.

    Dry runs too, and no others: kubelets write the status.
    """
    if bed.simulation is not None:
        admission = bed.simulation.cluster.admission

        def admit(attempt: Attempt) -> None:
            if (attempt.kind.plural, attempt.verb, attempt.subresource) == (of.plural, verb, ""):
                raise Refused(500, "InternalError", f'Internal error occurred: failed calling webhook "{NAME}"')

        admission.append(admit)
        yield
        admission.remove(admit)
        return
    await bed.api.create(WEBHOOKS, configuration(bed.api.namespace, verb.upper(), of))
    try:
        await _until(bed, refused=True)
        yield
    finally:
        await bed.api.delete(WEBHOOKS, bed.api.namespace)
    await _until(bed, refused=False)


@asynccontextmanager
async def mutated(bed: Bed, patch: str, when: str, *writes: tuple[str, str]) -> AsyncIterator[None]:
    """While the block runs, the real server makes this JSON patch (CEL) of pods for which `when` holds, at these
    writes: pairs of operation and resource, the first of them the creation of pods."""
    name = bed.api.namespace
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
        for operation, resource in writes
    ]
    spec = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "resourceRules": rules,
        },
        "matchConditions": [{"name": "asked", "expression": when}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    try:
        await bed.api.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    except Refusal as refusal:
        if refusal.status == 404:
            pytest.skip("this server has no MutatingAdmissionPolicy")
        raise
    await bed.api.create(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}})
    try:
        async with asyncio.timeout(bed.patience):
            while not await _mutates(bed):
                await asyncio.sleep(POLL)
        yield
    finally:
        await bed.api.delete(BINDINGS, name)
        await bed.api.delete(POLICIES, name)


async def _mutates(bed: Bed) -> bool:
    new = pod("asked")
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    made = await bed.api.create(ALL_PODS, new, dryRun="All")
    sent, found = new["spec"]["containers"][0], made["spec"]["containers"][0]
    return any(found[field] != sent[field] for field in ("image", "resources"))


def configuration(namespace: str, operation: str, of: Resource) -> Object:
    """Asked about ConfigMaps too, by which a test sees whether the server has taken notice of it."""
    group = of.api_version.rpartition("/")[0]
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "resources": [of.plural], "operations": [operation]},
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
    ]
    webhook = {
        "name": NAME,
        "rules": rules,
        "clientConfig": {"url": f"https://{LOOPBACK}:{free_port()}/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": namespace}, "webhooks": [webhook]}


async def _until(bed: Bed, *, refused: bool) -> None:
    """The server takes notice of a configuration after it has stored it, and nothing tells when."""
    async with asyncio.timeout(bed.patience):
        while await _refuses(bed) is not refused:
            await asyncio.sleep(POLL)


async def _refuses(bed: Bed) -> bool:
    try:
        await bed.api.create(CONFIGMAPS, {"metadata": {"name": "asked"}}, dryRun="All")
        return False
    except Refusal as refusal:
        if refusal.status != 500:
            raise
        return True


QUOTAS = Resource("/api/v1", "resourcequotas", "ResourceQuota")
COUNTED, QUOTA = "pods", "full"
LONG = 3600.0
"""Seconds for which nothing may happen to any pod."""


@asynccontextmanager
async def full_quota(bed: Bed, count: int) -> AsyncIterator[None]:
    """No more than that many pods at a time, while the block runs; none is made or deleted as it begins."""
    if bed.simulation is None:
        there = await bed.api.page(ALL_PODS)
        await _store(bed.api, {COUNTED: count}, used=len(there["items"]))
        async with asyncio.TaskGroup() as group:
            counting = group.create_task(_count_off(bed.api, there["metadata"]["resourceVersion"]))
            yield
            counting.cancel()
        await bed.api.delete(QUOTAS, QUOTA)
        return
    cluster = bed.simulation.cluster

    def admit(attempt: Attempt) -> None:
        new = attempt.kind is PODS and attempt.verb == "create"
        if new and len(cluster.store.objects[PODS]) >= count:
            raise forbidden(PODS, attempt.name, "exceeded quota: pods")

    cluster.admission.append(admit)
    yield
    cluster.admission.remove(admit)


async def _store(server: Api, hard: Mapping[str, int], *, used: int) -> None:
    limits = {what: str(most) for what, most in hard.items()}
    status = {"hard": limits, "used": dict.fromkeys(hard, str(used))}
    await server.create(QUOTAS, {"metadata": {"name": QUOTA}, "spec": {"hard": limits}})
    await server.patch(QUOTAS, QUOTA, {"status": status}, sub="status")


async def _count_off(server: Api, version: str) -> None:
    """The server itself counts only the pods that it lets in. Until cancelled."""
    async with aclosing(closing(server.watch(ALL_PODS, resourceVersion=version, silence=LONG))) as events:
        async for event in events:
            if event.type == "DELETED":
                await _one_less(server)


async def _one_less(server: Api) -> None:
    while True:
        quota: Object = await server.get(QUOTAS, QUOTA)
        used = quota["status"]["used"]
        used[COUNTED] = str(int(used[COUNTED]) - 1)
        try:
            await server.replace(QUOTAS, quota, sub="status")
            return
        except Refusal as refusal:
            if refusal.status != 409:  # it has just let another one in
                raise
