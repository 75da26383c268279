"""Suggests what was meant when a DaemonSet does not exist."""

from __future__ import annotations

import difflib
from contextlib import suppress

from controller.api.objects import Key
from controller.kube.errors import ApiError, NotFound
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.cluster import documents
from kubectl_plugin.cluster.kinds import NATIVE
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.commands import command
from kubectl_plugin.failures import CommandError

_SHOWN = 3


async def not_found_error(session: Session, key: Key, error: NotFound) -> Exception:
    """The error to raise in place of `error`: itself where the whole kind is not served. Else it names a native
    DaemonSet of that name, similar names, or the namespaces that have the name, as far as the rights allow to look.
    """
    if not error.name:
        return error
    if await _is_native(session, key):
        return CommandError(
            f'no Advanced DaemonSet "{key.name}" in namespace "{key.namespace}"; '
            "an apps/v1 DaemonSet with that name exists",
            hints=(command("migrate", key, to="make it one of ours, no pod is restarted"),),
        )
    words = f'{DAEMONSETS.name} "{key.name}" not found in namespace "{key.namespace}"'
    return CommandError(words, hints=await _similar_names(session, key))


async def _is_native(session: Session, key: Key) -> bool:
    with suppress(ApiError):
        await documents.get(session, NATIVE, key)
        return True
    return False


async def _similar_names(session: Session, key: Key) -> tuple[str, ...]:
    for namespace in ("", key.namespace):
        with suppress(ApiError):
            found = await documents.read_items(session, DAEMONSETS, namespace)
            break
    else:
        return ()
    names = [key for key, one in found.items() if one is not None]
    here = sorted({one.name for one in names if one.namespace == key.namespace})
    close = difflib.get_close_matches(key.name, sorted({one.name for one in names}), n=1)
    if not close:
        return (f"there are: {', '.join(here[:_SHOWN])}",) if here else ()
    meant = close[0]
    spaces = sorted(one.namespace for one in names if one.name == meant)
    if meant == key.name:
        return (f"it exists in: {', '.join(spaces[:_SHOWN])}",)
    return (f"did you mean {meant}?" + (f" It exists in: {', '.join(spaces[:_SHOWN])}" if not namespace else ""),)
