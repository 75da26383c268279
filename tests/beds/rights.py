"""What the manifests let the controller do, rule by rule, and a token that may do just that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.beds.control_plane import ControlPlane, User
from tests.beds.control_plane.access import service_account

NAMESPACE, NAME = "kruise-ds-system", "kruise-ds-controller"
GROUPS = service_account(NAMESPACE, NAME).groups
USER = service_account(NAMESPACE, NAME).name


class Right(NamedTuple):
    """One cell of a rule: what it takes for one request. `resource` has the subresource behind a slash."""

    group: str
    resource: str
    verb: str


OLD_SERVERS = {
    Right(group, resource, "list")
    for group, resource in (
        ("apps.kruise.io", "daemonsets"),
        ("apps", "controllerrevisions"),
        ("", "pods"),
        ("", "nodes"),
    )
}
"""Only where the server cannot send the first list as a watch; test_start.py has one that cannot."""


def granted(built: Iterable[Any]) -> set[Right]:
    """All that the controller's account may do once these documents (a built overlay) are applied."""
    documents = list(built)
    bound = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in documents if _is_ours(one)}
    roles = [one for one in documents if (one["kind"], one["metadata"]["name"]) in bound]
    return {right for role in roles for rule in role["rules"] for right in _rights(rule)}


async def token_account(plane: ControlPlane) -> User:
    """The account with a token that the server itself has signed, as the kubelet asks for it; for a day."""
    done = await plane.run_kubectl("create", "token", NAME, f"--namespace={NAMESPACE}", "--duration=24h")
    assert done.returncode == 0, done.stderr
    return User(USER, GROUPS, done.stdout.strip())


def _is_ours(document: Any) -> bool:
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    return account in (document.get("subjects") or ())


def _rights(rule: Any) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(group, resource, verb)
