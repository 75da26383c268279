"""Facts about the API server: its version, and in which versions it serves Advanced DaemonSets."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from controller.api.names import GROUP
from controller.api.objects import View
from controller.kube.errors import NotFound
from controller.kube.requests import DAEMONSETS
from controller.kube.sender import Call
from controller.kube.typed import typed
from kubectl_plugin.cluster.documents import ask
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.side_by_side import side_by_side

T = TypeVar("T")


class _GroupVersion(View):
    version: str


class _Group(View):
    versions: tuple[_GroupVersion, ...] | None = None


class _ServedKind(View):
    name: str = ""


class _ServedKinds(View):
    resources: tuple[_ServedKind, ...] | None = None


class _DefinedVersion(View):
    name: str
    storage: bool = False


class _DefinitionSpec(View):
    versions: tuple[_DefinedVersion, ...]


class _Definition(View):
    spec: _DefinitionSpec


async def server_version(session: Session) -> str:
    """Such as `v1.34.1`; empty if the server does not tell. Raises ApiError."""
    call = Call(verb="get", what="version")
    answer = await typed(session.sender, call, lambda k8s, api: k8s.VersionApi(api).get_code())
    return str(answer.git_version)


async def served_versions(session: Session) -> tuple[str, ...]:
    """The versions in which the server serves Advanced DaemonSets; empty if it does not. Raises ApiError.

    Each version of the group is asked for its kinds, because the group may be served for other kinds alone.
    """
    group = await _if_there(ask(session, f"/apis/{GROUP}", GROUP, _Group))
    names = [one.version for one in (group.versions if group is not None else None) or ()]
    lists = await side_by_side(
        *(_if_there(ask(session, f"/apis/{GROUP}/{name}", f"{GROUP}/{name}", _ServedKinds)) for name in names)
    )
    return tuple(sorted(name for name, one in zip(names, lists, strict=True) if one is not None and _serves(one)))


async def stored_version(session: Session) -> str:
    """The version in which etcd stores them. Raises NotFound where the kind does not come from a CRD; ApiError."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DAEMONSETS.name}"
    definition = await ask(session, path, f"customresourcedefinitions {DAEMONSETS.name}", _Definition)
    return next(one.name for one in definition.spec.versions if one.storage)


async def _if_there(answer: Awaitable[T]) -> T | None:
    """The answer; None if the server has nothing at that path."""
    try:
        return await answer
    except NotFound:
        return None


def _serves(kinds: _ServedKinds) -> bool:
    return any(one.name == DAEMONSETS.plural for one in kinds.resources or ())
