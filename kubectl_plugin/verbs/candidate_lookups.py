"""Candidates for <TAB> that have to be looked up; `candidates` calls them by the names of these functions.

A person waits with a half-typed line, so nothing takes longer than `TAB_SECONDS`. Errors are raised, and
`main.candidates` then offers nothing without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import typer

from controller.api.base import View
from controller.api.meta import ObjectMeta
from controller.api.wellknown import GROUP, KIND
from controller.kube.config import kubeconfigs, read_files
from controller.kube.kinds import DAEMONSETS, REVISIONS
from kubectl_plugin.cluster.documents import ask
from kubectl_plugin.cluster.session import access_of, open_session
from kubectl_plugin.flags import GLOBAL_NAMES, GlobalFlags
from kubectl_plugin.host import Host

TAB_SECONDS: Final = 2.0
"""Seconds for all that one completion reads."""
AT_MOST: Final = (("limit", "500"),)


class _Rollout(View):
    phase: str = ""


class _Status(View):
    rollout: _Rollout | None = None


class _Item(View):
    """The fields of any object that completion reads."""

    metadata: ObjectMeta
    revision: int = 0
    status: _Status = _Status()


class _Items(View):
    items: tuple[_Item, ...] | None = None


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of DaemonSets, each with its phase, without those already typed. The word may begin with `ads/` or the
    like."""
    if ctx.params.get("words"):  # the name is typed already; a partition or an image follows
        return []
    prefix, slash, _ = incomplete.rpartition("/")
    typed = {word.rpartition("/")[2] for word in _typed_words(ctx)}
    return [
        _offer(f"{prefix}{slash}{item.metadata.name}", item.status.rollout.phase if item.status.rollout else "")
        for item in _items(ctx, DAEMONSETS.collection, DAEMONSETS.name)
        if item.metadata.name not in typed
    ]


def namespaces(ctx: typer.Context, _: str) -> list[str]:
    return [item.metadata.name for item in _items(ctx, lambda _: "/api/v1/namespaces", "namespaces")]


def revisions(ctx: typer.Context, _: str) -> list[str]:
    """Revision numbers, the newest first, each with the hash of its template."""
    name = next((word.rpartition("/")[2] for word in _typed_words(ctx)), "")
    if not name:
        return []
    found = [item for item in _items(ctx, REVISIONS.collection, REVISIONS.name) if _is_owned_by(item, name)]
    found.sort(key=lambda item: item.revision, reverse=True)
    return [_offer(str(item.revision), item.metadata.name) for item in found]


def contexts(ctx: typer.Context, _: str) -> list[str]:
    """Contexts, each with its cluster, from all files that kubectl would read."""
    files = read_files(kubeconfigs(_global_flags(ctx).kubeconfig))
    entries = [entry for file in files.values() for entry in file.get("contexts") or ()]
    return [_offer(str(entry["name"]), str(entry["context"]["cluster"])) for entry in entries]


def _items(ctx: typer.Context, path: Callable[[str], str], what: str) -> tuple[_Item, ...]:
    """`path`: of the list, for the namespace that is asked for."""
    flags = _global_flags(ctx)

    async def found() -> _Items:
        async with (
            asyncio.timeout(TAB_SECONDS),
            open_session(Host(), access_of(flags), namespace=flags.namespace, request_timeout=TAB_SECONDS) as session,
        ):
            return await ask(session, path(session.namespace), what, _Items, query=AT_MOST, verb="list")

    return asyncio.run(found()).items or ()


def _global_flags(ctx: typer.Context) -> GlobalFlags:
    """The flags typed before the verb and after it; the later ones win."""
    typed: dict[str, Any] = {}
    for one in (ctx.parent, ctx):
        values = one.params if one is not None else {}
        typed |= {name: value for name, value in values.items() if name in GLOBAL_NAMES and value}
    return GlobalFlags(**typed)


def _typed_words(ctx: typer.Context) -> list[str]:
    """The words typed for the verb's own arguments. Behind a flag that still lacks its value typer leaves them in
    `args`."""
    values = (ctx.params.get(field) for field in ("name", "names", "words"))
    given = (value for value in values if value)
    return [str(word) for value in given for word in ([value] if isinstance(value, str) else value)] or [*ctx.args]


def _is_owned_by(item: _Item, name: str) -> bool:
    owners = item.metadata.owner_references or ()
    return any((owner.group, owner.kind, owner.name) == (GROUP, KIND, name) for owner in owners)


def _offer(value: str, words: str) -> str:
    return f"{value}\t{words}" if words else value
