"""Reads DaemonSets with their revisions, pods and nodes, at about the same time."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.api import containers, pod, revision, selector
from controller.api import daemonset as api
from controller.api.in_place import state_of
from controller.api.node import Node
from controller.api.objects import JSONObject, Key, ObjectMeta, Value, View, epoch
from controller.kube import requests
from controller.kube.errors import ApiError, NotFound, Unreadable
from controller.kube.requests import DAEMONSETS, NODES, Query, Resource, T, W
from kubectl_plugin.cluster import documents
from kubectl_plugin.cluster.documents import AnyResource, list_objects, side_by_side, unless_forbidden
from kubectl_plugin.cluster.session import Invocation, Session, check_path_segment
from kubectl_plugin.errors import CommandError, UsageError
from kubectl_plugin.flags import SelectorOptions
from kubectl_plugin.rollout.snapshot import CHANGE_CAUSE, Container, PodDetail, RevisionDetail, Snapshot, Unread
from kubectl_plugin.wording import command

NATIVE = replace(requests.DAEMONSETS, group="apps", version="v1", custom=False)
"""Read as JSON only; never decoded with the view."""
KINDS: Final = frozenset(
    {"ads", "ds", "daemon", "daemonset", "daemonsets", "daemonset.apps.kruise.io", "daemonsets.apps.kruise.io"}
)
"""Names of the kind in lower case: before `/NAME`, or, as kubectl allows, as a separate word."""
_SHOWN = 3
HURRY: Final = 1.0
"""Seconds for optional reads before an urgent write."""
PREVIEW: Final = 5.0
"""Seconds for optional reads before the user confirms a change."""


class _InvolvedView(View):
    uid: str = ""


class EventView(View):
    metadata: ObjectMeta
    involved_object: _InvolvedView = _InvolvedView()
    message: str = ""


EVENTS: Final[Resource[EventView, tuple[str, str]]] = Resource(
    plural="events", wire=EventView, project=lambda view: (view.involved_object.uid, view.message)
)
"""The uid of the involved object, and the message."""


class MetaView(View):
    metadata: ObjectMeta


def _pod_detail(view: pod.PodView) -> PodDetail | None:
    status = view.status
    record = pod.project(view)
    if record is None:
        return None
    state = state_of(view.metadata.annotations)
    ended = state.replaced if state is not None else ()
    refused = (
        condition
        for condition in status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "False"
    )
    return PodDetail(
        pod=record,
        containers=tuple(_containers(status.container_statuses)),
        init_containers=tuple(_containers(status.init_container_statuses)),
        reason=status.reason,
        message=status.message,
        unschedulable=next((one.message or one.reason for one in refused), ""),
        updated=epoch(state.update_timestamp) if state is not None else None,
        replaced=frozenset(one.name for one in status.container_statuses or () if one.container_id in ended),
    )


def _containers(statuses: Iterable[containers.ContainerStatusView] | None) -> Iterable[Container]:
    for status in statuses or ():
        waiting, ended = status.waiting, status.ended
        yield Container(
            name=status.name,
            ready=status.ready,
            restarts=status.restart_count,
            waiting=waiting.reason,
            message=(ended.message.strip() if ended else "") or waiting.message.strip(),
            exit_code=ended.exit_code if ended else None,
            ended=ended.reason if ended else "",
        )


def _revision_detail(view: revision.RevisionView) -> RevisionDetail | None:
    record = revision.project(view)
    if record is None:
        return None
    return RevisionDetail(
        revision=record,
        created=epoch(view.metadata.creation_timestamp) or 0.0,
        change_cause=(view.metadata.annotations or {}).get(CHANGE_CAUSE, ""),
    )


def read_as(resource: Resource[Any, Any], wire: type[W], project: Callable[[W], T | None]) -> Resource[W, T]:
    return replace(resource, wire=wire, project=project)


PODS = read_as(requests.PODS, pod.PodView, _pod_detail)
REVISIONS = read_as(requests.REVISIONS, revision.RevisionView, _revision_detail)
VERSIONS = read_as(requests.DAEMONSETS, MetaView, lambda view: view.metadata.resource_version)
"""The resourceVersions of DaemonSets."""


async def not_found_error(session: Session, key: Key, error: NotFound) -> Exception:
    """The error to raise in place of `error`. If the kind is served, it names a native DaemonSet of that name,
    similar names, or namespaces that have the name, as far as the user may read them."""
    if not error.name:
        return error
    with suppress(ApiError):
        await documents.get(session, NATIVE, key)
        return CommandError(
            f'no Advanced DaemonSet "{key.name}" in namespace "{key.namespace}"; '
            "an apps/v1 DaemonSet with that name exists",
            command("migrate", key, to="make it an Advanced DaemonSet; no pod is restarted"),
        )
    words = f'{DAEMONSETS.name} "{key.name}" not found in namespace "{key.namespace}"'
    return CommandError(words, *(await _similar_names(session, key)))


async def _similar_names(session: Session, key: Key) -> tuple[str, ...]:
    for namespace in ("", key.namespace):
        with suppress(ApiError):
            found = await documents.read_items(session, DAEMONSETS, namespace)
            break
    else:
        return ()
    names = [one for one, document in found.items() if document is not None]
    here = sorted({one.name for one in names if one.namespace == key.namespace})
    close = difflib.get_close_matches(key.name, sorted({one.name for one in names}), n=1)
    if not close:
        return (f"there are: {', '.join(here[:_SHOWN])}",) if here else ()
    meant = close[0]
    spaces = sorted(one.namespace for one in names if one.name == meant)
    if meant == key.name:
        return (f"it exists in: {', '.join(spaces[:_SHOWN])}",)
    return (f"did you mean {meant}?" + (f" It exists in: {', '.join(spaces[:_SHOWN])}" if not namespace else ""),)


def name_of(text: str) -> str:
    """The name `x` in `x`, `ads/x` or `daemonset.apps.kruise.io/x`, as kubectl prints it. Raises UsageError."""
    kind, slash, name = text.rpartition("/")
    kind = kind.lower().removesuffix(".v1beta1.apps.kruise.io").removesuffix(".v1alpha1.apps.kruise.io")
    if slash and kind not in KINDS:
        raise UsageError(f'"{text}" is not an Advanced DaemonSet: use its name, or ads/NAME')
    if not name:
        raise UsageError(f'"{text}" names nothing: use NAME, or ads/NAME')
    check_path_segment(name, "name")
    return name


def key_of(invocation: Invocation, name: str) -> Key:
    return Key(invocation.session.namespace, name_of(name))


class Parts(Value):
    """What to read of a DaemonSet besides its document. `Snapshot.unread` lists what the user may not list."""

    nodes: bool = True
    pods: bool = True
    revisions: bool = True
    within: float | None = None
    """Seconds after which a part is `unread`, as is one that fails; None for no limit, and failures are raised."""


ALL, NO_NODES, REVISIONS_ONLY = Parts(), Parts(nodes=False), Parts(nodes=False, pods=False)
DOCUMENT_ONLY = Parts(nodes=False, pods=False, revisions=False)


async def snapshot(
    invocation: Invocation, name: str, parts: Parts = ALL, *, namespace: str | None = None
) -> Snapshot:
    """Raises CommandError, with similar names, if it does not exist; ApiError."""
    key = Key(namespace or invocation.session.namespace, name_of(name))
    (whole,) = await completed(invocation, [await _document(invocation, key)], parts)
    return whole


async def existing_snapshots(
    invocation: Invocation, keys: Iterable[Key], parts: Parts = ALL
) -> tuple[tuple[Snapshot, ...], tuple[CommandError, ...]]:
    """A snapshot of each DaemonSet in `keys` that exists, and an error for each other one. Raises ApiError."""
    found: list[JSONObject] = []
    absent: dict[str, CommandError] = {}
    for key in dict.fromkeys(keys):
        try:
            found.append(await _document(invocation, key))
        except CommandError as error:
            absent.setdefault(error.message, error)
    return await completed(invocation, found, parts), tuple(absent.values())


async def snapshots(
    invocation: Invocation, names: tuple[str, ...], options: SelectorOptions, parts: Parts = ALL
) -> tuple[Snapshot, ...]:
    """The DaemonSets with `names`, in that order and each once; without names, those selected by `-l` and `-A`.
    Raises CommandError for an unknown name; ApiError."""
    if names:
        keys = dict.fromkeys(key_of(invocation, name) for name in names)
        found = [await _document(invocation, key) for key in keys]
    else:
        listed = await readable_items(invocation, DAEMONSETS, *selection_of(invocation, options))
        found = [listed[key] for key in sorted(listed)]
    return await completed(invocation, found, parts, everywhere=not names and options.all_namespaces)


def selection_of(invocation: Invocation, options: SelectorOptions) -> tuple[str, Query]:
    """The namespace, empty for all, and the query that selects the DaemonSets."""
    namespace = "" if options.all_namespaces else invocation.session.namespace
    return namespace, ((("labelSelector", options.selector),) if options.selector else ())


async def _document(invocation: Invocation, key: Key) -> JSONObject:
    try:
        return await documents.get(invocation.session, DAEMONSETS, key)
    except NotFound as error:
        raise await not_found_error(invocation.session, key, error) from error


async def readable_items(
    invocation: Invocation, resource: AnyResource, namespace: str, query: Query
) -> dict[Key, JSONObject]:
    """The selected objects. Warns of and omits those nested too deeply to decode. Raises ApiError."""
    listed = await documents.read_items(invocation.session, resource, namespace, query)
    for key in (key for key, one in listed.items() if one is None):
        invocation.terminal.warn(f"{resource.name} {key} nests too deeply to be read, and is left out")
    return {key: one for key, one in listed.items() if one is not None}


async def completed(
    invocation: Invocation, found: Sequence[JSONObject], parts: Parts, *, everywhere: bool = False
) -> tuple[Snapshot, ...]:
    """A snapshot of each document. `everywhere`: list revisions once for all namespaces. Raises ApiError."""
    views = [_view(document) for document in found]
    daemonsets = [api.project(view) for view in views]
    within = parts.within
    fleet, histories, owned = await side_by_side(
        _or_unread("nodes", nodes_of(invocation) if parts.nodes and found else _none(), within),
        _histories(invocation, daemonsets if parts.revisions else (), within, everywhere),
        side_by_side(
            *(
                _or_unread("pods", pods_of(invocation, daemonset) if parts.pods else _none(), within)
                for daemonset in daemonsets
            )
        ),
    )
    now = invocation.terminal.now()
    return tuple(
        Snapshot(
            daemonset=daemonset,
            document=document,
            owners=view.metadata.owner_references or (),
            revisions=_unless_unread(history) or (),
            pods=_unless_unread(its_pods) or (),
            nodes=_unless_unread(fleet) if parts.nodes else None,
            now=now,
            unread=tuple(one for one in (fleet, history, its_pods) if isinstance(one, Unread)),
        )
        for document, view, daemonset, its_pods in zip(found, views, daemonsets, owned, strict=True)
        for history in (histories.get(daemonset.uid, ()),)
    )


async def _histories(
    invocation: Invocation, daemonsets: Sequence[api.DaemonSet], within: float | None, everywhere: bool
) -> dict[str, tuple[RevisionDetail, ...] | Unread]:
    """Revisions by the DaemonSet's uid, or why they are unknown; a single DaemonSet's are selected by label."""
    bunches: dict[str, list[api.DaemonSet]] = {}
    for daemonset in daemonsets:
        bunches.setdefault("" if everywhere and len(daemonsets) > 1 else daemonset.namespace, []).append(daemonset)
    answers = await side_by_side(
        *(
            _or_unread("controllerrevisions", _revisions_in(invocation, namespace, bunch), within)
            for namespace, bunch in bunches.items()
        )
    )
    return {
        one.uid: answer if isinstance(answer, Unread) else answer.get(one.uid, ())
        for bunch, answer in zip(bunches.values(), answers, strict=True)
        for one in bunch
    }


async def _or_unread(what: str, read: Coroutine[object, object, T], within: float | None) -> T | Unread:
    """The result, or Unread if forbidden or, with a limit in seconds, after any failure. Raises other ApiErrors."""
    try:
        async with asyncio.timeout(within):
            found = await unless_forbidden(read)
            return Unread(what=what) if found is None else found
    except (ApiError, TimeoutError) as error:
        if within is None:
            raise
        no_answer = f"no answer within {within:g}s"
        return Unread(what=what, why=error.message or str(error) if isinstance(error, ApiError) else no_answer)


def _unless_unread(answer: T | Unread) -> T | None:
    return None if isinstance(answer, Unread) else answer


async def _none() -> tuple[()]:
    return ()


async def nodes_of(invocation: Invocation) -> tuple[Node, ...]:
    """All nodes, sorted by name. Raises ApiError."""
    return tuple(sorted(await list_objects(invocation.session.client, NODES), key=lambda node: node.name))


async def revisions_of(invocation: Invocation, daemonset: api.DaemonSet) -> tuple[RevisionDetail, ...]:
    """The revisions that the DaemonSet controls, highest number first. Raises ApiError."""
    return (await _revisions_in(invocation, daemonset.namespace, (daemonset,))).get(daemonset.uid, ())


async def _revisions_in(
    invocation: Invocation, namespace: str, daemonsets: Sequence[api.DaemonSet]
) -> dict[str, tuple[RevisionDetail, ...]]:
    """Revisions by the uid of the controlling DaemonSet, highest number first."""
    query = owned_query(daemonsets[0]) if len(daemonsets) == 1 else ()
    found = await list_objects(invocation.session.client, REVISIONS, namespace, query)
    owned: dict[str, list[RevisionDetail]] = {}
    for one in sorted(found, key=lambda one: (one.revision.number, one.revision.name), reverse=True):
        owned.setdefault(one.revision.owner_uid, []).append(one)
    return {uid: tuple(ones) for uid, ones in owned.items()}


async def pods_of(invocation: Invocation, daemonset: api.DaemonSet) -> tuple[PodDetail, ...]:
    """The pods that the DaemonSet controls. Raises ApiError."""
    found = await list_objects(invocation.session.client, PODS, daemonset.namespace, owned_query(daemonset))
    return tuple([one for one in found if one.pod.owner_uid == daemonset.uid])


def owned_query(daemonset: api.DaemonSet) -> Query:
    """Selects the pods or revisions of the DaemonSet; empty if its selector matches everything."""
    wanted = daemonset.spec.selector
    return () if wanted.empty else (("labelSelector", selector.as_text(wanted)),)


def with_document(snapshot: Snapshot, document: JSONObject) -> Snapshot:
    """`snapshot` with a newer document of its DaemonSet. Raises Unreadable."""
    view = _view(document)
    owners = view.metadata.owner_references or ()
    return replace(snapshot, daemonset=api.project(view), document=document, owners=owners)


def meta_of(document: JSONObject) -> ObjectMeta:
    return msgspec.convert(document.get("metadata"), ObjectMeta)


def _view(document: JSONObject) -> api.DaemonSetView:
    try:
        return msgspec.convert(document, api.DaemonSetView)
    except msgspec.ValidationError as error:
        raise Unreadable("get", DAEMONSETS.name, str(error)) from error
