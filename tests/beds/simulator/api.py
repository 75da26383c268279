"""Requests of the Kubernetes API as bytes, carried out on a `Cluster`. Synchronous: no request overlaps another."""

from __future__ import annotations

import copy
from email.utils import formatdate
from typing import Any

import msgspec

from controller.api.objects import FIELD_MANAGER, rfc3339
from controller.kube.requests import Request, Response
from tests.beds.simulator import patching, refusal
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.deletion import DeleteOptions
from tests.beds.simulator.discovery import discover
from tests.beds.simulator.fields import daemonset_shape, drop_unknown, is_as_written_by_go, pod_shape
from tests.beds.simulator.kinds import DAEMONSETS, PODS, REVISIONS
from tests.beds.simulator.objects import Kind, Object, Stored
from tests.beds.simulator.patching import APPLY_PATCH, applied, updated
from tests.beds.simulator.reading import Asked, list_document, list_objects, open_watch
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.route import Route, route
from tests.beds.simulator.selection import selector
from tests.beds.simulator.store import Watch
from tests.beds.simulator.updates import UpdateRequest

SUBRESOURCES = {"pods": ("binding", "eviction", "resize"), "namespaces": ("finalize",)}

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def post(cluster: Cluster, where: Route, request: Request) -> Response:
    """Bind a pod to a node, or evict it."""
    body: Object = msgspec.json.decode(request.body)
    if where.subresource == "binding":
        _bind(cluster, where, body)
    else:
        options = body.get("deleteOptions") or {}
        uid = (options.get("preconditions") or {}).get("uid") or ""
        grace = options.get("gracePeriodSeconds")
        cluster.delete(PODS, where.namespace, where.name, DeleteOptions(uid=uid, grace=grace))
    return Response(status=201, body=msgspec.json.encode(_SUCCESS))


def _bind(cluster: Cluster, where: Route, binding: Object) -> None:
    node = binding["target"]["name"]

    def bind(pod: Object) -> Object:
        if pod["metadata"].get("deletionTimestamp"):
            raise _cannot_bind(where.name, f"pod {where.name} is being deleted, cannot be assigned to a host")
        if assigned := pod["spec"].get("nodeName"):
            raise _cannot_bind(where.name, f'pod {where.name} is already assigned to node "{assigned}"')
        pod["spec"]["nodeName"] = node
        conditions = [c for c in pod["status"].get("conditions") or [] if c["type"] != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(cluster.clock()),
        }
        pod["status"]["conditions"] = [*conditions, scheduled]
        return pod

    cluster.update(PODS, where.namespace, where.name, UpdateRequest(bind, subresource="binding"))


def _cannot_bind(name: str, why: str) -> Refused:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return Refused(409, "Conflict", message, refusal.details(PODS, name, "pods/binding"))


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

SHAPES = {PODS: pod_shape, DAEMONSETS: daemonset_shape}
"""The kinds of which fields that they do not have are dropped, or refused, when an object is created."""


def handle(cluster: Cluster, request: Request, *, stale_version: int | None = None) -> Response:
    """Answer anything but a watch. `stale_version` makes a list answer from the past."""
    try:
        response = _handle(cluster, request, stale_version)
    except Refused as refused:
        response = Response(status=refused.code, body=refused.body(), retry_after=refused.retry_after)
    return msgspec.structs.replace(response, date=formatdate(cluster.clock(), usegmt=True))


def watch(cluster: Cluster, request: Request) -> Watch:
    """Open a watch. Raises Refused."""
    where = route(request)
    return open_watch(cluster, Asked(_kind(cluster, where), where.version, where.namespace, dict(request.query)))


def _handle(cluster: Cluster, request: Request, stale_version: int | None) -> Response:
    where, query = route(request), dict(request.query)
    if not where.plural:
        return discover(cluster, request.path)
    kind = _kind(cluster, where)
    asked = Asked(kind, where.version, where.namespace, query)
    dry_run = query.get("dryRun") == "All"
    match where.verb:
        case "get":
            return _answer(200, cluster.get(kind, where.namespace, where.name), where)
        case "list":
            return Response(status=200, body=list_objects(cluster, asked, stale_version=stale_version))
        case "create":
            return _create(cluster, kind, where, request, dry_run=dry_run)
        case "update":
            return _put(cluster, kind, where, request, dry_run=dry_run)
        case "patch" if request.content_type == APPLY_PATCH and kind is DAEMONSETS:
            return _apply(cluster, kind, where, request, dry_run=dry_run)
        case "patch":
            change = _patch(kind, where, request)
            stored = cluster.update(kind, where.namespace, where.name, change, dry_run=dry_run)
            return _answer(200, stored, where)
        case "delete":
            return _delete(cluster, kind, where, _delete_options(request, query))
        case "deletecollection":
            return _delete_collection(cluster, asked, _delete_options(request, query))
        case _:
            raise refusal.method_not_allowed()


def _kind(cluster: Cluster, where: Route) -> Kind:
    kind = cluster.find_kind(where.group, where.plural)
    if kind is None or where.version not in kind.versions:
        raise refusal.no_such_path()
    if where.subresource and not _has_subresource(kind, where):
        raise refusal.no_such_path()
    return kind


def _has_subresource(kind: Kind, where: Route) -> bool:
    if where.subresource == "status":
        return kind.status
    return where.subresource in SUBRESOURCES.get(kind.plural, ())


def _answer(status: int, stored: Stored, where: Route) -> Response:
    return Response(status=status, body=stored.encoded(where.version) + b"\n")


def _body(request: Request, kind: Kind) -> Object:
    """The object of a POST or PUT, without apiVersion and kind. Raises 400."""
    try:
        found: Any = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise refusal.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(found, dict):
        raise refusal.bad_request("couldn't get version/kind; json parse error: json: cannot unmarshal")
    sent, api_version = found.pop("kind", kind.kind), found.pop("apiVersion", "")
    versions = [kind.api_version(version) for version in kind.versions]
    if sent != kind.kind or api_version not in ("", *versions):
        message = f"{sent} in version {api_version!r} cannot be handled as a {kind.kind}: no match"
        raise refusal.bad_request(message)
    if not isinstance(found.get("metadata", {}), dict) or not isinstance(found.get("spec", {}), dict):
        raise refusal.bad_request(
            f"{kind.kind} in version {api_version!r} cannot be handled as a {kind.kind}: json: cannot unmarshal"
        )
    return found


def _create(cluster: Cluster, kind: Kind, where: Route, request: Request, *, dry_run: bool) -> Response:
    if where.subresource in ("binding", "eviction"):
        return post(cluster, where, request)
    if where.name:
        raise refusal.method_not_allowed()
    new = _body(request, kind)
    _validate_fields(kind, where, new, strict=dict(request.query).get("fieldValidation") == "Strict")
    sent = (new.get("metadata") or {}).get("namespace") or where.namespace
    if sent != where.namespace:
        raise refusal.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    made = cluster.create(kind, where.namespace, new, dry_run=dry_run)
    if kind is REVISIONS and not is_as_written_by_go(request.body):
        cluster.frozen.add(made.uid)
    return _answer(201, made, where)


def _validate_fields(kind: Kind, where: Route, new: Object, *, strict: bool) -> None:
    """Drop what the kind does not have; `strict`: raise 400 instead. Before anything else is checked."""
    shape = SHAPES.get(kind)
    unknown = list(drop_unknown(new, shape())) if shape is not None else []
    if unknown and strict:
        version = where.version
        words = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise refusal.bad_request(
            f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: strict decoding error: {words}'
        )


def _put(cluster: Cluster, kind: Kind, where: Route, request: Request, *, dry_run: bool) -> Response:
    new = _body(request, kind)
    sent = (new.get("metadata") or {}).get("name") or ""
    if sent != where.name:
        found = sent or "based on URL was undeterminable"
        raise refusal.bad_request(
            f"the name of the object ({found}) does not match the name on the URL ({where.name})"
        )
    if kind.create_on_update and cluster.store.get(kind, (where.namespace, where.name)) is None:
        return _answer(201, cluster.create(kind, where.namespace, new, dry_run=dry_run), where)
    change = UpdateRequest(lambda _: new, where.subresource, put=True, manager=_manager(request))
    return _answer(200, cluster.update(kind, where.namespace, where.name, change, dry_run=dry_run), where)


def _apply(cluster: Cluster, kind: Kind, where: Route, request: Request, *, dry_run: bool) -> Response:
    """Server-side apply, which makes an object that is not there."""
    body, query = _body(request, kind), dict(request.query)
    manager, force = query["fieldManager"], query.get("force") == "true"
    if "managedFields" in body["metadata"]:
        raise refusal.bad_request("metadata.managedFields must be nil")
    if unknown := list(drop_unknown(msgspec.json.decode(msgspec.json.encode(body)), SHAPES[kind]())):
        named = f"{where.namespace}/{where.name}; {kind.api_version(where.version)}, Kind={kind.kind}"
        words = f"failed to create typed patch object ({named}): .{unknown[0]}: field not declared in schema"
        raise Refused(500, "", words)

    def apply(old: Object) -> Object:
        new = applied(kind, where.version, old, body, manager, force=force)
        meta = body["metadata"]
        guards = {key: meta[key] for key in ("uid", "resourceVersion") if key in meta}
        return {**new, "metadata": {**new["metadata"], **guards}}

    if cluster.store.get(kind, (where.namespace, where.name)) is None:
        new = apply({"metadata": {"name": where.name}})
        if uid := body["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise refusal.conflict(kind, where.name, why)
        new["metadata"].pop("resourceVersion", None)  # it only says that there must be no other object
        return _answer(201, cluster.create(kind, where.namespace, new, dry_run=dry_run), where)
    change = UpdateRequest(apply, where.subresource, manager=manager)
    return _answer(200, cluster.update(kind, where.namespace, where.name, change, dry_run=dry_run), where)


def _patch(kind: Kind, where: Route, request: Request) -> UpdateRequest:
    accepted = (JSON_PATCH, MERGE_PATCH) if kind.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
    if request.content_type not in accepted:
        raise refusal.unsupported_media(accepted)
    try:
        patch: Any = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise refusal.bad_request(f"error decoding patch: {error}") from error

    def apply(old: Object) -> Object:
        before = copy.deepcopy(old) if kind is DAEMONSETS else old
        document = {"kind": kind.kind, "apiVersion": kind.api_version(where.version), **old}
        if request.content_type == JSON_PATCH:
            document = patching.json_patch(document, patch)
        elif request.content_type == MERGE_PATCH:
            document = patching.merge_patch(document, patch)
        else:
            document = patching.strategic_merge_patch(document, patch)
        document.pop("kind", None)
        document.pop("apiVersion", None)
        followed = kind is DAEMONSETS and not where.subresource
        return updated(kind, where.version, before, document, _manager(request)) if followed else document

    return UpdateRequest(apply, where.subresource, manager=_manager(request))


def _manager(request: Request) -> str:
    """Who writes. Where no name is given the server takes that of the User-Agent: in tests that is the controller."""
    return dict(request.query).get("fieldManager", FIELD_MANAGER)


def _delete_options(request: Request, query: dict[str, str]) -> DeleteOptions:
    try:
        body: Any = msgspec.json.decode(request.body) if request.body.strip() else {}
    except msgspec.DecodeError as error:
        raise refusal.bad_request(f"error decoding DeleteOptions: {error}") from error
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        grace=None if grace is None else int(grace),
        propagation=propagation,
        dry_run=query.get("dryRun") == "All" or body.get("dryRun") == ["All"],
    )


def _delete(cluster: Cluster, kind: Kind, where: Route, options: DeleteOptions) -> Response:
    result = cluster.delete(kind, where.namespace, where.name, options)
    if not result.gone or kind.answers_with_deleted:
        return _answer(200, result.object, where)
    return Response(
        status=200,
        body=msgspec.json.encode(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": refusal.details(kind, where.name) | {"uid": result.object.uid},
            }
        ),
    )


def _delete_collection(cluster: Cluster, asked: Asked, options: DeleteOptions) -> Response:
    kind, query = asked.kind, asked.query
    selected = selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    chosen = [
        found
        for found in cluster.store.objects[kind].values()
        if asked.namespace in ("", found.name[0]) and (selected is None or selected(found.object))
    ]
    deleted = [cluster.delete(kind, *found.name, options).object for found in chosen]
    return Response(status=200, body=list_document(asked, {"resourceVersion": str(cluster.store.version)}, deleted))
