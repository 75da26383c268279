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
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec

from controller.kube.connection import Connection, Credentials, Fixed, TokenFile, tls_context
from controller.kube.errors import ConfigError
from controller.kube.exec_plugin import PATIENCE, ExecPlugin
from controller.kube.in_cluster import HOST, in_cluster

PACKAGE = "kubernetes_asyncio"
READER = f"{PACKAGE}.config.kube_config"


async def load(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.time,
) -> Connection:
    """The connection to use: the kubeconfig or context that was asked for; else, in a pod, its service account;
    else the files in $KUBECONFIG, else ~/.kube/config.

    Raises ConfigError, whose one line names the file or context. May run the kubeconfig's exec plugin.
    """
    if not kubeconfig and not context and environ.get(HOST):
        return in_cluster(environ)
    paths = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    where = os.pathsep.join(_existing(paths))
    if not where:
        raise ConfigError(f"no kubeconfig: {paths} does not exist")
    try:
        return await _from_kubeconfig(where, context, clock)
    except ConfigError:
        raise
    except Exception as error:  # the reader raises whatever its YAML happens to break
        named = f"context {context} of {where}" if context else where
        raise ConfigError(f"kubeconfig {named}: {_words(error)}") from error


def _existing(paths: str) -> list[str]:
    candidates = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    return [str(path) for path in candidates if path.exists()]


async def _from_kubeconfig(where: str, context: str | None, clock: Callable[[], float]) -> Connection:
    reader = kubeconfig_reader()
    merged = reader.KubeConfigMerger(where)
    chosen = context or _current_context(merged.config_files)
    if not chosen:
        raise ConfigError(f"kubeconfig {where} names no current-context; choose one with --context")
    source = f"context {chosen} of {where}"
    loader = reader.KubeConfigLoader(merged.config, active_context=chosen, config_base_path=None)
    names: Mapping[str, str] = loader.current_context["context"]
    user = merged.config["users"].get_with_name(names.get("user", ""), safe=True)
    if user is None:
        raise ConfigError(f"{source}: its user {names.get('user', '')!r} is not there")
    settings = user.value.get("user") or {}
    _settle_auth_provider(settings, source, clock)
    # read again: the loader looks at a user's auth-provider when it is made
    loader = reader.KubeConfigLoader(merged.config, active_context=chosen, config_base_path=None)
    found = await _settings_of(loader, source)
    tls = _tls(found)
    return Connection(
        server=found.host,
        tls=tls,
        server_name=found.tls_server_name or "",
        proxy=found.proxy or "",
        namespace=names.get("namespace") or "default",
        source=source,
        credentials=_credentials(settings, user.path, loader, tls, source, clock),
    )


async def _settings_of(loader: Any, source: str) -> SimpleNamespace:
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
    except TimeoutError as error:
        raise ConfigError(f"{source}: its exec plugin did not end within {PATIENCE:g} s") from error
    if not found.host:
        raise ConfigError(f"{source}: its cluster names no server")
    return found


def _tls(found: SimpleNamespace) -> ssl.SSLContext | None:
    if not found.host.startswith("https"):
        return None
    tls = tls_context(found.ssl_ca_cert, verify=found.verify_ssl)
    if found.cert_file:
        tls.load_cert_chain(found.cert_file, found.key_file)
    return tls


def _credentials(
    settings: Mapping[str, Any],
    path: str,
    loader: Any,
    tls: ssl.SSLContext | None,
    source: str,
    clock: Callable[[], float],
) -> Credentials:
    if "exec" in settings:
        return ExecPlugin(loader, tls, source, clock)
    if settings.get("tokenFile") and not settings.get("token"):
        return TokenFile(Path(path).parent / settings["tokenFile"])
    return Fixed(getattr(loader, "token", None))


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


def _current_context(files: Mapping[str, Mapping[str, str]]) -> str:
    """As kubectl has it: the first file that names one wins (the reader's own merge lets the last one win)."""
    return next((chosen for file in files.values() if (chosen := file.get("current-context"))), "")


def _words(error: Exception) -> str:
    if isinstance(error, AttributeError | TypeError | KeyError | AssertionError):
        return "it does not have the form of a kubeconfig"
    return " ".join(str(error).split()) or type(error).__name__


def kubeconfig_reader() -> ModuleType:
    """The module that reads kubeconfigs, without the rest of its package where that is possible."""
    logging.getLogger(PACKAGE).setLevel(logging.CRITICAL)  # it logs what it also raises
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
