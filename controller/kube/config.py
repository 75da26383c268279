"""How to reach the API server: kubeconfig or service account. The only home of kubernetes_asyncio.

That package is imported when a kubeconfig is read and not before, and only its kubeconfig reader: importing all
of it costs half a second and 38 MB for 770 models that nobody here uses.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import importlib.util
import logging
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec

from controller.kube.access import Access
from controller.kube.connection import Connection, Credentials, Fixed, TokenFile, tls_context
from controller.kube.errors import ConfigError
from controller.kube.exec_plugin import PATIENCE, ExecPlugin, plugin_failed
from controller.kube.exec_run import run_plugin
from controller.kube.impersonation import impersonation
from controller.kube.in_cluster import HOST, SERVICE_ACCOUNT, in_cluster
from controller.kube.kubeconfig import ClusterAndUser, Files, choose

PACKAGE = "kubernetes_asyncio"
READER = f"{PACKAGE}.config.kube_config"


async def load(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Connection:
    """The controller's connection: in a pod its service account, unless a kubeconfig or context was asked for;
    everywhere else the one of `connection_for`, which says what may be raised.
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
) -> Connection:
    """The connection that kubectl with these flags would use: the files of --kubeconfig, of $KUBECONFIG, or
    ~/.kube/config; without any such file, the server of --server, or in a pod its service account. A file in which
    nothing is written, such as /dev/null, says nothing, and is no mistake.

    `service_account`: the folder where a pod's is mounted. Raises ConfigError, whose one line names the file or
    context. May run the kubeconfig's exec plugin.
    """
    paths = access.kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    existing = kubeconfigs(access.kubeconfig, environ)
    filled = [path for path in existing if not _is_empty(Path(path))]
    in_pod = not filled and not access.chooses and environ.get(HOST)
    hint = "choose another file with --kubeconfig or $KUBECONFIG, or a server with --server"
    if not existing and not in_pod and (access.kubeconfig or not access.server):
        raise ConfigError(f"no kubeconfig: {paths} does not exist", hint=hint)
    if existing and not filled and not in_pod and not access.server:
        raise ConfigError(f"kubeconfig {paths} is empty", hint=hint)
    try:
        if in_pod:
            return _with_flags(in_cluster(environ, service_account), access)
        return await _chosen(filled, access, clock)
    except ConfigError:
        raise
    except Exception as error:  # the reader raises whatever its YAML happens to break
        where = f"kubeconfig {os.pathsep.join(filled)}" if filled else "the command line"
        raise ConfigError(f"{where}: {_words(error)}") from error


def kubeconfigs(flag: str | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The files that are there, the most important first: that of --kubeconfig, else those of $KUBECONFIG, else
    ~/.kube/config. Only the variable is a list; the flag names one file, colons and all, as for kubectl."""
    named = [flag] if flag else (environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    candidates = [Path(path).expanduser() for path in named if path]
    return [str(path) for path in candidates if path.exists()]


def read_files(paths: Iterable[str]) -> Files:
    """Each parsed. Raises whatever the reader does for what is no kubeconfig."""
    merger = kubeconfig_reader().KubeConfigMerger("")  # one by one: given a path, it takes a colon for a separator
    for path in paths:
        merger.load_config(path)
    found: Files = merger.config_files
    return found


def _is_empty(path: Path) -> bool:
    """Whether nothing but blanks and comments is written there; the reader takes that for a mistake.

    A pipe can be read only once, which is for the reader to do, and so is saying what cannot be read at all.
    """
    if path.is_char_device():
        return True
    if not path.is_file():
        return False
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return all(line.partition("#")[0].strip() in ("", "---") for line in lines)


def _with_flags(pod: Connection, access: Access) -> Connection:
    """What may be said about the server that a pod finds by itself."""
    changes: dict[str, Any] = {"impersonation": impersonation({}, access)}
    if access.token:
        changes["credentials"] = Fixed(_checked(f"Bearer {access.token}", pod.source))
    if access.certificate_authority or access.insecure_skip_tls_verify:
        changes["tls"] = tls_context(access.certificate_authority, verify=not access.insecure_skip_tls_verify)
        changes["tls_now"] = None
    if access.tls_server_name:
        changes["server_name"] = access.tls_server_name
    return msgspec.structs.replace(pod, **changes)


async def _chosen(existing: list[str], access: Access, clock: Callable[[], float]) -> Connection:
    reader = kubeconfig_reader()
    chosen = choose(read_files(existing), access)
    headers = impersonation(chosen.user, access)
    _settle_auth_provider(chosen.user, chosen.source, clock)
    loader = reader.KubeConfigLoader(_one_context(chosen), active_context="chosen")
    found = await _settings_of(loader, chosen)
    tls = _tls(found)
    credentials = _credentials(chosen, loader, tls, clock, found)
    return Connection(
        server=found.host,
        tls=tls,
        tls_now=credentials.tls if tls is not None and isinstance(credentials, ExecPlugin) else None,
        server_name=found.tls_server_name or "",
        proxy=found.proxy or "",
        namespace=chosen.namespace,
        context=chosen.context,
        source=chosen.source,
        credentials=credentials,
        impersonation=tuple((name, _checked(value, chosen.source)) for name, value in headers),
    )


def _one_context(chosen: ClusterAndUser) -> dict[str, Any]:
    """A kubeconfig for the reader in which nothing is left to choose."""
    return {
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
        "clusters": [{"name": "chosen", "cluster": chosen.cluster}],
        "users": [{"name": "chosen", "user": chosen.user}],
    }


async def _settings_of(loader: Any, chosen: ClusterAndUser) -> SimpleNamespace:
    found = SimpleNamespace(
        api_key={},
        host="",
        ssl_ca_cert=None,
        cert_file=None,
        key_file=None,
        verify_ssl=True,
        tls_server_name=None,
        proxy=None,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await loader.load_and_set(found)  # runs the exec plugin
    except Exception as error:
        if "exec" in chosen.user and (failed := plugin_failed(error, chosen.user["exec"], chosen.source)):
            raise failed from error
        raise
    return found


def _tls(found: SimpleNamespace) -> ssl.SSLContext | None:
    if not found.host.startswith("https"):
        return None
    tls = tls_context(found.ssl_ca_cert, verify=found.verify_ssl)
    if found.cert_file:
        tls.load_cert_chain(found.cert_file, found.key_file)
    return tls


def _credentials(
    chosen: ClusterAndUser,
    loader: Any,
    tls: ssl.SSLContext | None,
    clock: Callable[[], float],
    found: SimpleNamespace,
) -> Credentials:
    user, source = chosen.user, chosen.source
    if "exec" in user:

        def tls_with(certificate: str, key: str) -> ssl.SSLContext | None:
            return _tls(SimpleNamespace(**{**vars(found), "cert_file": certificate, "key_file": key}))

        return ExecPlugin(loader, tls, source, clock, settings=user["exec"], tls_with=tls_with)
    if user.get("tokenFile") and not user.get("token"):
        return TokenFile(Path(user["tokenFile"]))
    authorization = getattr(loader, "token", None)
    return Fixed(authorization and _checked(authorization, source))


def _checked(value: str, source: str) -> str:
    """A line break would end the header; it comes with tokens that were pasted or read from a file."""
    if any(character in value for character in "\r\n\0"):
        raise ConfigError(f"{source}: a token or name that goes into a header holds a line break")
    return value


def _settle_auth_provider(settings: dict[str, Any], source: str, clock: Callable[[], float]) -> None:
    """Make a valid OIDC token a plain one, refuse the rest: the reader would refresh without checking the server."""
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
    """Seconds since 1970 at which a JWT ends; 0.0 when it is none."""
    _, _, rest = token.partition(".")
    claims, _, _ = rest.partition(".")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return 0.0


def _words(error: Exception) -> str:
    if isinstance(error, AttributeError | TypeError | KeyError | AssertionError):
        return "it does not have the form of a kubeconfig"
    return " ".join(str(error).split()).replace("File does not exists", "no such file") or type(error).__name__


def kubeconfig_reader() -> ModuleType:
    """The module that reads kubeconfigs, without the rest of its package where that is possible."""
    logging.getLogger(PACKAGE).setLevel(logging.CRITICAL)  # it logs what it also raises
    reader = _imported()
    reader.ExecProvider.run = run_plugin
    return reader


def _imported() -> ModuleType:
    if PACKAGE in sys.modules:
        return importlib.import_module(READER)
    try:
        return _light_import()
    except ImportError:  # another release that is built in another way
        return importlib.import_module(READER)


def _light_import() -> ModuleType:
    """Import the reader beneath two hollow packages, so that their `__init__` files do not run.

    All of it is taken out of `sys.modules` again: whoever imports the package later gets the real one.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{PACKAGE} is not installed")
    hollow, client = ModuleType(PACKAGE), ModuleType(f"{PACKAGE}.client")
    hollow.__path__ = list(spec.submodule_search_locations)
    vars(client).update(ApiClient=object, Configuration=object)  # named by the reader's other functions
    sys.modules[PACKAGE], sys.modules[f"{PACKAGE}.client"] = hollow, client
    try:
        return importlib.import_module(READER)
    finally:
        for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
