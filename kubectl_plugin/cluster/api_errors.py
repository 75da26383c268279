"""API errors in kubectl's words, with hints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from controller.api.names import GROUP
from controller.kube.errors import (
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    NotFound,
    Unauthorized,
    UnknownOutcome,
    Unreachable,
)
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.errors import CommandError, ExitCode

ROLES: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "kruise-ds-operator": {
        f"daemonsets.{GROUP}": frozenset({"get", "list", "watch", "patch"}),
        "controllerrevisions.apps": frozenset({"get", "list"}),
        "pods": frozenset({"get", "list", "watch"}),
        "nodes": frozenset({"get", "list"}),
        "events": frozenset({"get", "list"}),
        "pods/log": frozenset({"get"}),
        "leases.coordination.k8s.io": frozenset({"get"}),
    },
    "kruise-ds-edit": {
        f"daemonsets.{GROUP}": frozenset(
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
        ),
        f"daemonsets.{GROUP}/status": frozenset({"get"}),
    },
}
"""ClusterRoles of manifests/base/user-roles.yaml to request, the least privileged first."""

_BRINGS: Final = {
    f"daemonsets.{GROUP}": ("kubectl apply --server-side -k manifests/overlays/default",),
    f"imagepulljobs.{GROUP}": ("manifests/components/image-pull brings them: see docs/image-pre-download.md",),
}
_DENIED = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"/]+)(?P<sub>/[^"]+)?" in API group "(?P<group>[^"]*)" '
    r'(?:in the namespace "(?P<namespace>[^"]+)"|at the cluster scope)'
)
"""RBAC's refusal; quotas and admission policies use other words."""


def explained_error(error: ApiError | ConfigError, session: Session | None = None) -> CommandError:
    match error:
        case ConfigError():
            return CommandError(str(error), *((error.hint,) if error.hint else ()))
        case Unauthorized():
            return _not_logged_in(error)
        case Forbidden():
            return _from_server(error, *_needed_right(error.message))
        case NotFound(name=""):
            return _not_served(error, session)
        case Conflict():
            return _from_server(
                error, "run the command again: it then starts from what is there now", code=ExitCode.REFUSED
            )
        case Unreachable():
            return _unreachable(error, session)
        case UnknownOutcome():
            return _from_server(error, "look whether it was done before you try again")
        case ApiError():
            return _from_server(error)


def _from_server(error: ApiError, *hints: str, code: ExitCode = ExitCode.FAILED) -> CommandError:
    """The server's message as kubectl prints it, or the client's own if the server did not respond."""
    if not error.status:
        return CommandError(str(error), *hints, exit_code=code)
    reason = f" ({error.reason})" if error.reason else ""
    words = f"Error from server{reason}: {error.message}"
    return CommandError(words, *hints, exit_code=code, prefix="")


def _not_logged_in(error: Unauthorized) -> CommandError:
    why = error.__cause__
    words = f"You must be logged in to the server ({error.reason or 'Unauthorized'})"
    hint = "log in again, or choose another user with --context or --user"
    if isinstance(why, ConfigError):
        words, hint = f"{words}: {why}", why.hint or hint
    return CommandError(words, hint)


def _needed_right(message: str) -> tuple[str, ...]:
    denied = _DENIED.search(message)
    if denied is None:
        return ()
    if denied["verb"].startswith("impersonate"):  # since 1.36 `impersonate-on:user-info:get` and the like
        return ("needed: the right to impersonate; ask an administrator, or act as yourself",)
    group = f".{denied['group']}" if denied["group"] else ""
    resource = f"{denied['resource']}{group}{denied['sub'] or ''}"
    where = f'in "{denied["namespace"]}"' if denied["namespace"] else "at the cluster scope"
    role = next((name for name, rules in ROLES.items() if denied["verb"] in rules.get(resource, ())), "")
    ask = f"ask for ClusterRole {role}" if role else "ask an administrator"
    return (f"needed: {denied['verb']} {resource} {where}; {ask}",)


def _not_served(error: NotFound, session: Session | None) -> CommandError:
    """A 404 without a name: the kind is not served."""
    resource = error.what.split()[0].partition("/")[0]
    words = f"this cluster has no {resource}"
    if session is not None:
        context = f'context "{session.context}", ' if session.context else ""
        words = f"{words} ({context}{session.server})"
    return CommandError(words, *_BRINGS.get(resource, ()))


def _unreachable(error: Unreachable, session: Session | None) -> CommandError:
    server, context = (session.server, session.context) if session is not None else ("the server", "")
    words = error.message.removeprefix(f"{_address(server)}: ")
    if words[1:2].islower():
        words = words[0].lower() + words[1:]
    named = f' (context "{context}")' if context else ""
    return CommandError(f"cannot reach {server}{named}: {words}", _hint_for(words))


def _hint_for(words: str) -> str:
    if "certificate verify failed" not in words:
        return "kubectl config current-context; kubectl cluster-info"
    if "mismatch" in words:
        return "the server's certificate is for another name: see --tls-server-name"
    if "expired" in words or "not yet valid" in words:
        return "either the server's certificate has to be renewed, or the clock of this machine is wrong"
    return "the server's certificate is of an unknown authority: see --certificate-authority"


def _address(server: str) -> str:
    """`host:port`, the prefix of the transport's messages."""
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
