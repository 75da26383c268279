"""Connects to the API server by a kubeconfig or by a pod's service account."""

from __future__ import annotations

import base64
import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from controller.kube.connection import Connection, Credentials, ReloadedTLS, TokenFile, tls_context
from controller.kube.credentials import Console, Credential, ExecPlugin, Program
from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import (
    Access,
    ClusterAndUser,
    Files,
    KubeconfigEntry,
    checked_proxy,
    choose,
    impersonation,
)

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of this pod. Raises ConfigError outside of a pod with a service account. Token and CA are each
    read again when the kubelet has rotated them."""
    host, port = environ.get(HOST, ""), environ.get(PORT, "") or "443"
    if not host:
        raise ConfigError(f"not in a cluster: {HOST} is not set")
    ca_file = folder / "ca.crt"
    try:
        authority = ReloadedTLS(partial(tls_context, str(ca_file)), ca_file)
    except OSError as error:
        raise ConfigError(f"cannot read the cluster's CA {ca_file}: {error}") from error

    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=authority.context(),
        tls_now=authority.context,
        credentials=TokenFile(folder / "token"),
        namespace=_namespace(folder),
        source="the service account of this pod",
    )


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


async def load(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Connection:
    """In a pod, the connection by its service account unless an argument is given; else as `connection_for`."""
    access = Access(kubeconfig=kubeconfig, context=context)
    if not access.chooses and environ.get(HOST):
        return in_cluster(environ)
    return await connection_for(access, environ=environ, clock=clock)


async def connection_for(
    access: Access,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Callable[[], float] = time.time,
    console: Console | None = None,
    login_seconds: float | None = None,
) -> Connection:
    """The connection that kubectl would use: by the files of --kubeconfig, $KUBECONFIG or ~/.kube/config; without
    any, to --server, or in a pod by its service account. An empty file, such as /dev/null, counts as absent. May run
    an exec plugin (`Program` explains `console` and `login_seconds`). Raises ConfigError, one line that names the
    file or context."""
    paths = access.kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    existing = kubeconfigs(access.kubeconfig, environ)
    hint = "choose another file with --kubeconfig or $KUBECONFIG, or a server with --server"
    files: Files | None = None
    try:
        files = read_files(existing)
        if not files and not access.chooses and environ.get(HOST):
            return _with_flags(in_cluster(environ, service_account), access)
        if not existing and (access.kubeconfig or not access.server):
            raise ConfigError(f"no kubeconfig: {paths} does not exist", hint=hint)
        if existing and not files and not access.server:
            raise ConfigError(f"kubeconfig {paths} is empty", hint=hint)
        chosen = choose(files, access)
        program = None
        if settings := chosen.user.get("exec"):
            program = Program(settings, chosen.source, chosen.cluster, console=console, seconds=login_seconds)
        return await _chosen(chosen, access, program, clock)
    except ConfigError:
        raise
    except Exception as error:  # YAML that is not a kubeconfig may raise any error
        named = os.pathsep.join(existing if files is None else files)
        where = f"kubeconfig {named}" if named else "the command line"
        raise _unusable(where, error) from error


def kubeconfigs(flag: str | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The existing files in order of precedence: of --kubeconfig, else $KUBECONFIG, else ~/.kube/config. As in
    kubectl, only the variable is a list; the flag names one file, even with a colon in it."""
    named = [flag] if flag else (environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    candidates = [Path(path).expanduser() for path in named if path]
    return [str(path) for path in candidates if path.exists()]


def read_files(paths: Iterable[str]) -> Files:
    """The non-empty files, parsed. Raises reading and YAML errors, and TypeError for anything but a mapping."""
    import yaml  # imported here: a controller in its pod reads no kubeconfig

    files: dict[str, KubeconfigEntry] = {}
    for path in paths:
        with open(path) as file:
            document = yaml.safe_load(file)
        if isinstance(document, dict):
            files[path] = document
        elif document is not None:
            raise TypeError(f"{path} is no mapping")
    return files


def _with_flags(pod: Connection, access: Access) -> Connection:
    """The connection of a pod with the flags that apply to a server found without a kubeconfig."""
    connection = msgspec.structs.replace(
        pod,
        impersonation=impersonation({}, access),
        credentials=Credentials(_checked(f"Bearer {access.token}", pod.source)) if access.token else pod.credentials,
        server_name=access.tls_server_name or pod.server_name,
    )
    if not (access.certificate_authority or access.insecure_skip_tls_verify):
        return connection
    tls = tls_context(access.certificate_authority, verify=not access.insecure_skip_tls_verify)
    return msgspec.structs.replace(connection, tls=tls, tls_now=None)


async def _chosen(
    chosen: ClusterAndUser, access: Access, program: Program | None, clock: Callable[[], float]
) -> Connection:
    cluster, user, source = chosen.cluster, chosen.user, chosen.source
    headers = impersonation(user, access)
    _settle_auth_provider(user, source, clock)
    tokens = _token_file(user)
    if tokens is not None or user.get("token"):
        program = None  # as for kubectl, a token has precedence
    credential = await program.run() if program is not None else Credential()
    read, tls = await _read(cluster, {**user, **credential.certificate})
    plugin: ExecPlugin | None = None
    if program is not None:
        assert tls is not None, "without TLS no credentials are sent"

        async def tls_with(renewed: Credential) -> ssl.SSLContext:
            _, context = await _read(cluster, {**user, **renewed.certificate})
            assert context is not None, "without TLS no credentials are sent"
            return context

        plugin = ExecPlugin(program, credential, tls, tls_with, clock)
    authorization = read.api_key.get("BearerToken")
    return Connection(
        server=read.host,
        tls=tls,
        tls_now=plugin.tls if plugin is not None else None,
        server_name=read.tls_server_name or "",
        proxy=checked_proxy(read.proxy, f"{source}: proxy-url") if read.proxy else "",
        namespace=chosen.namespace,
        context=chosen.context,
        source=source,
        credentials=plugin or tokens or Credentials(_checked(authorization, source) if authorization else None),
        impersonation=tuple((name, _checked(value, source)) for name, value in headers),
    )


def _token_file(user: KubeconfigEntry) -> TokenFile | None:
    """As in kubectl, tokenFile precedes token, which is used if the file is unreadable. Raises ConfigError without
    either."""
    if not user.get("tokenFile"):
        return None
    try:
        return TokenFile(Path(user["tokenFile"]))
    except ConfigError:
        if user.get("token"):
            return None
        raise


async def _read(cluster: KubeconfigEntry, user: KubeconfigEntry) -> tuple[Configuration, ssl.SSLContext | None]:
    """Cluster and user as kubernetes_asyncio reads them, and the TLS context (None for plain http). Exec plugins and
    token files are left out, as their credentials change."""
    from kubernetes_asyncio.client import Configuration  # imported here: a pod needs no kubeconfig
    from kubernetes_asyncio.config import load_kube_config_from_dict

    with ExitStack() as held:
        cluster = _with_files(cluster, ("certificate-authority",), held)
        user = _with_files(user, ("client-certificate", "client-key"), held)
        user = {key: value for key, value in user.items() if key not in ("exec", "tokenFile", "auth-provider")}
        names = {"cluster": "chosen", "user": "chosen"}
        document = {
            "current-context": "chosen",
            "contexts": [{"name": "chosen", "context": names}],
            "clusters": [{"name": "chosen", "cluster": cluster}],
            "users": [{"name": "chosen", "user": user}],
        }
        read = Configuration()
        await load_kube_config_from_dict(document, client_configuration=read)
        if not read.host.startswith("https"):
            return read, None
        tls = tls_context(read.ssl_ca_cert, verify=read.verify_ssl)
        if read.cert_file:
            tls.load_cert_chain(read.cert_file, read.key_file)
        return read, tls


def _with_files(entry: KubeconfigEntry, fields: Iterable[str], held: ExitStack) -> KubeconfigEntry:
    """`entry` with inline data replaced by paths of files, because ssl reads only files. They exist as long as
    `held`, so that no key stays on disk."""
    entry = dict(entry)
    for field in fields:
        if data := entry.pop(f"{field}-data", None):
            path = Path(held.enter_context(TemporaryDirectory()), field)
            path.write_bytes(base64.b64decode(data))
            entry[field] = str(path)
        elif (named := entry.get(field)) and not Path(named).is_file():
            raise FileNotFoundError(f"no such file: {named}")
    return entry


def _checked(value: str, source: str) -> str:
    """`value`, for a header. Raises ConfigError for a line break, as in a pasted token: it would end the header."""
    if any(character in value for character in "\r\n\0"):
        raise ConfigError(f"{source}: a token or name that goes into a header holds a line break")
    return value


def _settle_auth_provider(settings: KubeconfigEntry, source: str, clock: Callable[[], float]) -> None:
    """Replaces an OIDC auth-provider with its token if that is valid. Raises ConfigError otherwise."""
    provider = settings.get("auth-provider")
    if not provider:
        return
    if provider.get("name") != "oidc":
        words = f"auth-provider {provider.get('name')!r} is not supported; use the vendor's exec plugin"
        raise ConfigError(f"{source}: {words}")
    token = (provider.get("config") or {}).get("id-token", "")
    if not token or _expiry(token) <= clock():
        raise ConfigError(f"{source}: its OIDC token has expired; log in again, or use the exec plugin kubelogin")
    del settings["auth-provider"]
    settings["token"] = token


class _Claims(msgspec.Struct):
    exp: float = 0.0


def _expiry(token: str) -> float:
    """When a JWT expires (seconds since 1970); 0.0 if `token` is not a JWT."""
    _, _, rest = token.partition(".")
    claims, _, _ = rest.partition(".")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return 0.0


def _unusable(where: str, error: Exception) -> ConfigError:
    if isinstance(error, AttributeError | TypeError | KeyError | AssertionError | msgspec.ValidationError):
        return ConfigError(f"{where}: it does not have the form of a kubeconfig")
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError):
        return ConfigError(f"{where}: {words}")
    return ConfigError(f"{where}: cannot be read", quoting=words)  # YAML's errors show a part of the file
