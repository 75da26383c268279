"""Chooses cluster and user from parsed kubeconfigs, and applies kubectl's global flags to them. No I/O."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from controller.api.objects import Value
from controller.kube.errors import ConfigError


class Access(Value):
    """kubectl's global flags, with the same meaning; None, False and "" mean not given. `cluster` and `user` choose
    other kubeconfig entries than the context's; the fields below them override fields of the chosen entries."""

    kubeconfig: str | None = None
    """One file; only $KUBECONFIG may be a list."""
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    """A URL. With it, no kubeconfig is needed."""
    token: str | None = None
    """A bearer token, which replaces all credentials of the user, including the client certificate."""
    client_certificate: str | None = None
    """A file. With `client_key`, replaces those of the user."""
    client_key: str | None = None
    certificate_authority: str | None = None
    """A file, which replaces the authority in the kubeconfig."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether a flag selects the server, so that a pod's service account is not used."""
        return bool(self.kubeconfig or self.context or self.cluster or self.user or self.server)


KubeconfigEntry: TypeAlias = dict[str, Any]
"""A kubeconfig, or the body of an entry. Not validated: a malformed one may raise TypeError, KeyError and so on."""
Files: TypeAlias = Mapping[str, KubeconfigEntry]
"""By path, in order of precedence."""

AUTHORITY: Final = ("certificate-authority", "certificate-authority-data")
TLS_FIELDS: Final = (*AUTHORITY, "client-certificate", "client-certificate-data", "insecure-skip-tls-verify")
CLUSTER_FILES: Final = ("certificate-authority",)
USER_FILES: Final = ("client-certificate", "client-key", "tokenFile")
IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
HEADER_TOKEN: Final = "!#$&'*+^`|"
"""Characters allowed in a header name besides those that `quote` never escapes."""


class ClusterAndUser(Value):
    """Chosen, with flags applied and paths absolute. As in kubectl, the user has no credentials over plain http."""

    context: str
    """Empty if only flags select the server."""
    namespace: str
    cluster: KubeconfigEntry
    user: KubeconfigEntry
    source: str
    """For messages: `context kind of /home/me/.kube/config`."""


def choose(files: Files, access: Access) -> ClusterAndUser:
    """kubectl's choice. Raises ConfigError for an unknown name, listing the known ones."""
    where = os.pathsep.join(files)
    name = access.context or next(
        (str(current) for file in files.values() if (current := file.get("current-context"))), ""
    )
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


def _entry(files: Files, kind: str, name: str, where: str, paths: Iterable[str] = ()) -> KubeconfigEntry:
    """The first entry of that name; {} for an empty name."""
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
    """`cluster` with a full URL. As in kubectl, a bare host means https if any TLS field is set, else http."""
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
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or the IPv6 address no address
        return False


def checked_proxy(url: str, where: str) -> str:
    """`url`, if such a proxy is supported. Raises ConfigError, naming its place (`where`)."""
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
    """Impersonation headers, with one `Impersonate-Group` per group. As in kubectl, a flag overrides only its own
    field. Raises ConfigError for a group or uid without a user, which the server refuses with an unclear message."""
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
