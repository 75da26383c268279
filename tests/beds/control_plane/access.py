"""Who may speak to the API server: users with bearer tokens, and the kubeconfig files that carry them."""

from __future__ import annotations

import base64
import csv
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class User:
    """A name that RBAC rules can bind to, with its groups and a bearer token of its own."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def service_account(namespace: str, name: str) -> User:
    """The user that pods of this service account are, so that its role bindings can be tried from outside."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def administrator() -> User:
    """May do everything."""
    return User("admin", ("system:masters",))


def write_tokens(path: Path, users: Sequence[User]) -> None:
    """Write the file that `--token-auth-file` reads."""
    with open(path, "w", newline="") as file:
        for user in users:
            csv.writer(file).writerow([user.token, user.name, user.name, ",".join(user.groups)])


def write_kubeconfig(path: Path, *, url: str, certificates: Path, user: User) -> None:
    """Write a kubeconfig (JSON, which is YAML too) with everything inside, so that the file can be moved."""
    authority = base64.b64encode(certificates.read_bytes()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kruise-ds", "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": "kruise-ds", "context": {"cluster": "kruise-ds", "user": user.name}}],
        "current-context": "kruise-ds",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2))
