"""The flags by which a person says which API server to ask, and as whom.

Chooses cluster and user from parsed kubeconfigs, and applies the flags to them. No I/O.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from controller.api.objects import Value
from controller.kube.errors import ConfigError


class Access(Value):
    """kubectl's global flags, each with kubectl's meaning; None, False and "" mean that the flag was not given.

    `cluster` and `user` choose other entries of the kubeconfig than those of the context; each field below them
    replaces a field of the chosen entry. `Access()` is what kubectl uses without flags.
    """

    kubeconfig: str | None = None
    """The path of one file; a list is allowed in $KUBECONFIG only."""
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    """The URL of the API server. With it, no kubeconfig is needed."""
    token: str | None = None
    """A bearer token. It replaces all credentials of the chosen user, also the client certificate."""
    client_certificate: str | None = None
    """A file, like `client_key`; they replace those of the chosen user."""
    client_key: str | None = None
    certificate_authority: str | None = None
    """A file. The authority in the kubeconfig is then ignored."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    as_user: str | None = None
    """The user to impersonate, if access control allows it."""
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether any flag says where the server is; then the service account of a pod is not used."""
        return bool(self.kubeconfig or self.context or self.cluster or self.user or self.server)


KubeconfigEntry: TypeAlias = dict[str, Any]
"""Parsed YAML with the kubeconfig's own field names: a file, or the body of one entry. Nobody has checked its form:
using one with another form raises TypeError, KeyError and so on."""
Files: TypeAlias = Mapping[str, KubeconfigEntry]
"""Parsed kubeconfigs by path, the most important first."""

AUTHORITY: Final = ("certificate-authority", "certificate-authority-data")
TLS_FIELDS: Final = (*AUTHORITY, "client-certificate", "client-certificate-data", "insecure-skip-tls-verify")
CLUSTER_FILES: Final = ("certificate-authority",)
USER_FILES: Final = ("client-certificate", "client-key", "tokenFile")
IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
"""Fields of a user that say whom it impersonates."""
HEADER_TOKEN: Final = "!#$&'*+^`|"
"""Characters that a header's name may contain, besides those that `quote` always leaves alone."""


class ClusterAndUser(Value):
    """The chosen cluster and user, with the flags applied. All paths in them are absolute.

    For a server over plain http, the user has no credentials, as in kubectl.
    """

    context: str
    """Empty if flags alone choose the server."""
    namespace: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry
    source: str
    """For people: `context kind of /home/me/.kube/config`."""


def choose(files: Files, access: Access) -> ClusterAndUser:
    """The choice that kubectl makes. For a name that is in none of `files`, raises ConfigError, which lists the names
    that are."""
    where = os.pathsep.join(files)
    name = access.context or _current_context(files)
    if not name and not access.cluster and not access.server:
        raise ConfigError(f"kubeconfig {where} names no current-context; choose one with --context")
    context = _entry(files, "context", name, where)
    cluster_name = access.cluster or str(context.get("cluster") or "")
    user_name = access.user or str(context.get("user") or "")
    user = _user(_entry(files, "user", user_name, where, USER_FILES), access)
    cluster = _cluster(_entry(files, "cluster", cluster_name, where, CLUSTER_FILES), access)
    source = _source(name, where, access)
    cluster = _with_url(cluster, user, source)
    if not cluster["server"].startswith("https://"):  # no secrets over an unencrypted connection
        user = {key: user[key] for key in IMPERSONATION if key in user}
    return ClusterAndUser(
        context=name,
        namespace=str(context.get("namespace") or "default"),
        cluster=cluster,
        user=user,
        source=source,
    )


def _current_context(files: Files) -> str:
    """The current-context of the first file that has one, as in kubectl; empty if none has."""
    return next((str(chosen) for file in files.values() if (chosen := file.get("current-context"))), "")


def _entry(files: Files, kind: str, name: str, where: str, paths: Iterable[str] = ()) -> KubeconfigEntry:
    """The entry of that name in the first file that has it. For an empty name, an empty entry."""
    if not name:
        return {}
    names: list[str] = []
    for path, file in files.items():
        for item in file.get(f"{kind}s") or ():
            if str(item["name"]) == name:
                return _with_absolute_paths(dict(item.get(kind) or {}), Path(path).absolute().parent, paths)
            names.append(str(item["name"]))
    there_are = f"there are: {', '.join(dict.fromkeys(names))}" if names else f"it has no {kind}s at all"
    raise ConfigError(f'no {kind} "{name}" in {where or "any kubeconfig"}; {there_are}')


def _with_absolute_paths(body: KubeconfigEntry, folder: Path, paths: Iterable[str]) -> KubeconfigEntry:
    for field in paths:
        if body.get(field):
            body[field] = str(folder / body[field])
    plugin = body.get("exec")
    if plugin and os.sep in str(plugin.get("command", "")):  # a bare name is looked up on the PATH
        body["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return body


def _user(body: KubeconfigEntry, access: Access) -> KubeconfigEntry:
    files = {"client-certificate": access.client_certificate, "client-key": access.client_key}
    for field, path in files.items():
        if path:
            body = {key: value for key, value in body.items() if key != f"{field}-data"}
            body[field] = str(Path(path).absolute())
    if not access.token:
        return body
    return {"token": access.token, **{key: body[key] for key in IMPERSONATION if key in body}}


def _cluster(body: KubeconfigEntry, access: Access) -> KubeconfigEntry:
    authority, insecure = access.certificate_authority, access.insecure_skip_tls_verify
    if authority and insecure:
        raise ConfigError("--certificate-authority and --insecure-skip-tls-verify exclude each other")
    if authority or insecure:
        body = {key: value for key, value in body.items() if key not in AUTHORITY}
        body["insecure-skip-tls-verify"] = insecure
    if authority:
        body["certificate-authority"] = str(Path(authority).absolute())
    if access.server:
        body.pop("tls-server-name", None)  # it is the name of the server in the file
        body["server"] = access.server
    if access.tls_server_name:
        body["tls-server-name"] = access.tls_server_name
    return body


def _with_url(cluster: KubeconfigEntry, user: KubeconfigEntry, source: str) -> KubeconfigEntry:
    """`cluster` with its server as a full URL. As in kubectl, a bare host means http, or https if any TLS field is
    set."""
    server = str(cluster.get("server") or "")
    if not server:
        raise ConfigError(f"{source}: its cluster names no server")
    if "://" not in server:
        scheme = "https" if any(cluster.get(field) or user.get(field) for field in TLS_FIELDS) else "http"
        server = f"{scheme}://{server}"
    if not is_http_url(server):
        raise ConfigError(f'{source}: its server "{server}" is no URL like https://host:6443')
    return {**cluster, "server": server}


def is_http_url(text: str) -> bool:
    """Whether it is a URL by http or https with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or the IPv6 address no address
        return False


def checked_proxy(url: str, where: str) -> str:
    """`url` if it is that of a proxy which can be used. Raises ConfigError, which names `where` it stands."""
    scheme = url.partition("://")[0].lower()
    if scheme.startswith("socks"):
        way_out = "ssh -L 6443:HOST:PORT, then --server=https://localhost:6443 --tls-server-name=HOST"
        raise ConfigError(f"{where}: a {scheme} proxy cannot be used", hint=f"use an HTTP proxy; or {way_out}")
    if not is_http_url(url):
        raise ConfigError(f"{where}: no URL of a proxy, such as http://proxy:3128")
    return url


def _source(context: str, where: str, access: Access) -> str:
    source = f"context {context} of {where}" if context else where or "the command line"
    flags = {"cluster": access.cluster, "user": access.user, "server": access.server}
    changed = ", ".join(f"{flag} {value}" for flag, value in flags.items() if value)
    return f"{source} with {changed}" if changed else source


def impersonation(user: KubeconfigEntry, access: Access) -> tuple[tuple[str, str], ...]:
    """The headers that impersonate somebody else, with one `Impersonate-Group` for each group. As in kubectl, a flag
    replaces only its own field of `user`.

    Raises ConfigError for a group or uid without a user, which the server would refuse with an unclear message.
    """
    name = access.as_user or str(user.get("as") or "")
    uid = access.as_uid or str(user.get("as-uid") or "")
    groups = access.as_groups or tuple(map(str, user.get("as-groups") or ()))
    extra: Mapping[str, list[str]] = user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise ConfigError("a group or uid to act as (--as-group, --as-uid) needs a user to act as (--as)")
        return ()
    headers = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        headers.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe=HEADER_TOKEN)}", value) for value in values]
    return tuple(headers)
