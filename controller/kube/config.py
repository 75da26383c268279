"""The connection of a pod: its service account, found where the kubelet puts it.

How to reach the API server, and as whom: by a kubeconfig, or by a pod's service account.
"""

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

import msgspec

from controller.kube.connection import Connection, Credentials, Fixed, RotatedTLS, TokenFile, tls_context
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

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of this pod. Raises ConfigError if this is no pod with a service account.

    Token and CA are read again when the kubelet has rotated them; either may change without the other.
    """
    host, port = environ.get(HOST, ""), environ.get(PORT, "") or "443"
    if not host:
        raise ConfigError(f"not in a cluster: {HOST} is not set")
    ca_file = folder / "ca.crt"
    try:
        authority = RotatedTLS(partial(tls_context, str(ca_file)), ca_file)
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
    """The controller's connection. In a pod it is that of the service account, unless a kubeconfig or context was
    asked for; elsewhere that of `connection_for`, which says what is raised.
    """
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
    """The connection that kubectl would use with these flags: by the files of --kubeconfig, of $KUBECONFIG, or
    ~/.kube/config; without any such file, to the server of --server, or in a pod by its service account. An empty
    file, such as /dev/null, counts as no file and is no error.

    `service_account` is the folder where a pod finds its own. May run the exec plugin of the kubeconfig, for which
    `Program` explains `console` and `login_seconds`. Raises ConfigError, one line that names the file or context.
    """
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
    except Exception as error:  # YAML that is no kubeconfig may break anything
        named = os.pathsep.join(existing if files is None else files)
        where = f"kubeconfig {named}" if named else "the command line"
        raise _unusable(where, error) from error


def kubeconfigs(flag: str | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The existing files, the most important first: that of --kubeconfig, else those of $KUBECONFIG, else
    ~/.kube/config. As for kubectl, only the variable is a list; the flag names one file, even if it holds a colon."""
    named = [flag] if flag else (environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    candidates = [Path(path).expanduser() for path in named if path]
    return [str(path) for path in candidates if path.exists()]


def read_files(paths: Iterable[str]) -> Files:
    """All files that are not empty, parsed. Raises what reading and YAML raise, and TypeError for other YAML."""
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
    """The connection of a pod, with the flags that also apply to the server which a pod finds by itself."""
    connection = msgspec.structs.replace(
        pod,
        impersonation=impersonation({}, access),
        credentials=Fixed(_checked(f"Bearer {access.token}", pod.source)) if access.token else pod.credentials,
        server_name=access.tls_server_name or pod.server_name,
    )
    if not (access.certificate_authority or access.insecure_skip_tls_verify):
        return connection
    tls = tls_context(access.certificate_authority, verify=not access.insecure_skip_tls_verify)
    return msgspec.structs.replace(connection, tls=tls, tls_now=None)


async def _chosen(
    chosen: ClusterAndUser, access: Access, program: Program | None, clock: Callable[[], float]
) -> Connection:
    cluster, source = chosen.cluster, chosen.source
    headers = impersonation(chosen.user, access)
    _settle_auth_provider(chosen.user, source, clock)
    credentials = await _credentials(chosen, program, clock)
    tls_now = credentials.tls if isinstance(credentials, ExecPlugin) else None
    tls = tls_now() if tls_now else _tls(cluster, chosen.user) if cluster["server"].startswith("https") else None
    return Connection(
        server=cluster["server"].rstrip("/"),
        tls=tls,
        tls_now=tls_now,
        server_name=cluster.get("tls-server-name") or "",
        proxy=checked_proxy(proxy, f"{source}: proxy-url") if (proxy := cluster.get("proxy-url")) else "",
        namespace=chosen.namespace,
        context=chosen.context,
        source=source,
        credentials=credentials,
        impersonation=tuple((name, _checked(value, source)) for name, value in headers),
    )


async def _credentials(chosen: ClusterAndUser, program: Program | None, clock: Callable[[], float]) -> Credentials:
    """As kubectl chooses: a token goes before a plugin, and one in a file that can be read before one that is not."""
    cluster, user, source = chosen.cluster, chosen.user, chosen.source
    token = Fixed(_checked(f"Bearer {user['token']}", source)) if user.get("token") else None
    if user.get("tokenFile"):
        try:
            return TokenFile(Path(user["tokenFile"]))
        except ConfigError:
            if token is None:
                raise
    if token is not None:
        return token
    if program is not None:

        def tls_with(credential: Credential) -> ssl.SSLContext:
            return _tls(cluster, {**user, **credential.certificate})

        return ExecPlugin(program, await program.run(), tls_with, clock)
    if "username" in user and "password" in user:
        return Fixed("Basic " + base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode())
    return Fixed()


def _tls(cluster: KubeconfigEntry, user: KubeconfigEntry) -> ssl.SSLContext:
    with ExitStack() as held:
        authority = _file(cluster, "certificate-authority", held)
        tls = tls_context(authority, verify=not cluster.get("insecure-skip-tls-verify"))
        if certificate := _file(user, "client-certificate", held):
            tls.load_cert_chain(certificate, _file(user, "client-key", held))
    return tls


def _file(entry: KubeconfigEntry, field: str, held: ExitStack) -> str | None:
    """The path of this file, because ssl reads files only. Data inside the kubeconfig is written to a file that
    exists as long as `held`."""
    if data := entry.get(f"{field}-data"):
        path = Path(held.enter_context(TemporaryDirectory()), field)
        path.write_bytes(base64.b64decode(data))
        return str(path)
    named: str | None = entry.get(field)
    if named and not Path(named).is_file():
        raise FileNotFoundError(f"no such file: {named}")
    return named


def _checked(value: str, source: str) -> str:
    """`value`, which goes into a header. Raises ConfigError for a line break, which would end the header: tokens that
    were pasted or read from a file may hold one."""
    if any(character in value for character in "\r\n\0"):
        raise ConfigError(f"{source}: a token or name that goes into a header holds a line break")
    return value


def _settle_auth_provider(settings: KubeconfigEntry, source: str, clock: Callable[[], float]) -> None:
    """Turn an OIDC auth-provider with a valid token into that token. Raises ConfigError for any other."""
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
    """When a JWT expires, in seconds since 1970; 0.0 if `token` is no JWT."""
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
