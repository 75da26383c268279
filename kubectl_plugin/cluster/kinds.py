"""Pods and ControllerRevisions with the details that people read, besides what the controller decides by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from controller.api import containers, pod, revision
from controller.api.in_place import state_of
from controller.api.objects import ObjectMeta, View, epoch
from controller.kube import requests
from controller.kube.requests import Resource, T, W
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, Container, PodDetail, RevisionDetail


class MetaView(View):
    """Any object."""

    metadata: ObjectMeta


def _pod_detail(view: pod.PodView) -> PodDetail | None:
    status = view.status
    record = pod.project(view)
    if record is None:
        return None
    state = state_of(view.metadata.annotations)
    ended = state.replaced if state is not None else ()
    refused = (one for one in status.conditions or () if one.type == "PodScheduled" and one.status == "False")
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
    for one in statuses or ():
        state, last = one.state or containers.ContainerStateView(), one.last_state or containers.ContainerStateView()
        waiting, ended = state.waiting, state.terminated or last.terminated
        yield Container(
            name=one.name,
            ready=one.ready,
            restarts=one.restart_count,
            waiting=waiting.reason if waiting else "",
            message=_first_of(ended.message if ended else "", waiting.message if waiting else ""),
            exit_code=ended.exit_code if ended else None,
            ended=ended.reason if ended else "",
        )


def _first_of(*texts: str) -> str:
    return next((text.strip() for text in texts if text.strip()), "")


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
    """`resource`, decoded as `wire` and converted by `project`."""
    return replace(resource, wire=wire, project=project)


PODS = read_as(requests.PODS, pod.PodView, _pod_detail)
REVISIONS = read_as(requests.REVISIONS, revision.RevisionView, _revision_detail)
VERSIONS = read_as(requests.DAEMONSETS, MetaView, lambda view: view.metadata.resource_version)
"""Of DaemonSets: whether one has changed."""
NATIVE = replace(requests.DAEMONSETS, group="apps", version="v1", custom=False)
"""Read as JSON documents only; its view is never decoded."""
