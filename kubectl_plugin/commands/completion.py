"""`completion`: prints shell setup, or installs the program that kubectl (from 1.26) calls to complete plugins."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from controller.api.names import GROUP, KIND
from controller.api.objects import JSONObject, Key, items_of, value_at
from controller.kube.config import kubeconfigs, read_files
from controller.kube.requests import DAEMONSETS, REVISIONS, GroupVersionResource
from kubectl_plugin.changes.steering import images_by_container
from kubectl_plugin.cluster.documents import ask, get
from kubectl_plugin.cluster.reads import NATIVE
from kubectl_plugin.cluster.session import Session, access_of, open_session
from kubectl_plugin.errors import CommandError, Refused
from kubectl_plugin.flags import GLOBAL_NAMES, GlobalFlags, Output
from kubectl_plugin.host import COMPLETION, PLUGIN, Host
from kubectl_plugin.options import CompletionOptions, Shell
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import visible

LOADED: Final = {
    Shell.BASH: "source <(kubectl completion bash)",
    Shell.ZSH: "source <(kubectl completion zsh)",
    Shell.FISH: "kubectl completion fish | source",
    Shell.POWERSHELL: "kubectl completion powershell | Out-String | Invoke-Expression",
}
"""The command that loads kubectl's completion."""
STARTUP: Final = {
    Shell.BASH: "~/.bashrc",
    Shell.ZSH: "~/.zshrc",
    Shell.FISH: "~/.config/fish/config.fish",
    Shell.POWERSHELL: "$PROFILE",
}
WRITTEN_BY: Final = "# Written by `kubectl kruise-ds completion install`."


def completion(host: Host, terminal: Terminal, _: Output | None, options: CompletionOptions) -> int:
    """`install` raises Refused if a foreign file is in the way, CommandError if the file cannot be written."""
    shell = options.shell
    if shell is Shell.INSTALL:
        return _install(host, terminal, options.folder)
    terminal.say(
        f"# kubectl 1.26 or newer completes kubectl kruise-ds once its own completion is loaded ({STARTUP[shell]}):",
        LOADED[shell],
    )
    if not host.on_path(COMPLETION):
        there = host.on_path(PLUGIN)
        way = "kubectl kruise-ds completion install" if there else f"put {PLUGIN} on the PATH first"
        terminal.warn(f"{COMPLETION} is not on the PATH: kubectl would complete nothing", way)
    return 0


def script(plugin: Path) -> str:
    """The second program for POSIX shells: it calls the plugin by the path under which kubectl finds it."""
    return f'#!/bin/sh\n{WRITTEN_BY}\nexec {shlex.quote(str(plugin))} __complete "$@"\n'


def batch(plugin: Path) -> str:
    return f'@rem {WRITTEN_BY.removeprefix("# ")}\r\n@"{plugin}" __complete %*\r\n'


def _install(host: Host, terminal: Terminal, folder: Path | None) -> int:
    plugin = _plugin(host)
    windows = os.name == "nt"
    target = (folder or plugin.parent) / f"{COMPLETION}{'.cmd' if windows else ''}"
    text = batch(plugin) if windows else script(plugin)
    try:
        there = target.read_bytes() if target.exists() or target.is_symlink() else b""
        if b"kubectl_plugin.main" in there:
            terminal.say(f"{target} is there already, from the package")
            return 0
        if there and WRITTEN_BY.removeprefix("# ").encode() not in there:
            raise Refused(f"{target} is not from kruise-ds and stays as it is")
        target.write_bytes(text.encode())
        target.chmod(0o755)
    except OSError as error:
        words = error.strerror or str(error)
        raise CommandError(f"cannot write {target}: {words}", "choose a folder with --folder") from error
    terminal.say(f"{target} installed")
    if host.on_path(COMPLETION) != str(target):
        terminal.warn(f"{target.parent} is not on the PATH: kubectl does not find {COMPLETION} there")
    return 0


def _plugin(host: Host) -> Path:
    """The path under which kubectl finds the plugin. Links are kept: krew's link survives upgrades."""
    called = Path(sys.argv[0])
    if called.name.partition(".")[0] == PLUGIN and called.exists():
        return called.absolute()
    found = host.on_path(PLUGIN)
    if not found:
        raise CommandError(f"{PLUGIN} is not on the PATH", "install it first: pipx install kruise-ds")
    return Path(found).absolute()


T = TypeVar("T")
TAB_SECONDS: Final = 2.0
"""Seconds that the reads of one completion may take."""
NAMESPACES: Final = GroupVersionResource(plural="namespaces", namespaced=False)
AT_MOST: Final = (("limit", "500"),)


def names(host: Host, ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of DaemonSets not yet typed, each with its phase. `incomplete` may begin with a kind, such as `ads/`."""
    if ctx.params.get("words"):  # the name is typed already; a partition follows
        return []
    return _names(host, ctx, incomplete, DAEMONSETS)


def natives(host: Host, ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(host, ctx, incomplete, DAEMONSETS if ctx.params.get("to_native") else NATIVE)


def containers(host: Host, ctx: typer.Context, incomplete: str) -> list[str]:
    """The name of a DaemonSet; after it, its containers as `CONTAINER=`, each with its image."""
    name, typed = _first_name(ctx), {word.partition("=")[0] for word in _typed_words(ctx) if "=" in word}
    if not name:
        return names(host, ctx, incomplete)
    found = _read(host, ctx, lambda session: get(session, DAEMONSETS, Key(session.namespace, name)))
    places = images_by_container(found)
    return [_offer(f"{one}=", str(value_at(found, *at, "image"))) for one, at in places if one not in typed]


def namespaces(host: Host, ctx: typer.Context, _: str) -> list[str]:
    return [_name_of(item) for item in _items(host, ctx, NAMESPACES)]


def revisions(host: Host, ctx: typer.Context, _: str) -> list[str]:
    """Revision numbers, newest first, each with the name of its ControllerRevision."""
    name = _first_name(ctx)
    if not name:
        return []
    found = [item for item in _items(host, ctx, REVISIONS) if _is_owned_by(item, name)]
    numbers = sorted(((int(str(item["revision"])), _name_of(item)) for item in found), reverse=True)
    return [_offer(str(number), revision) for number, revision in numbers]


def contexts(_: Host, ctx: typer.Context, __: str) -> list[str]:
    files = read_files(kubeconfigs(_global_flags(ctx).kubeconfig))
    entries = [entry for file in files.values() for entry in file.get("contexts") or ()]
    return [_offer(str(entry["name"]), str(entry["context"]["cluster"])) for entry in entries]


def _names(host: Host, ctx: typer.Context, incomplete: str, kind: GroupVersionResource) -> list[str]:
    prefix, slash, _ = incomplete.rpartition("/")
    typed = {word.rpartition("/")[2] for word in _typed_words(ctx)}
    return [
        _offer(f"{prefix}{slash}{name}", str(value_at(item, "status", "rollout", "phase") or ""))
        for item in _items(host, ctx, kind)
        if (name := _name_of(item)) not in typed
    ]


def _items(host: Host, ctx: typer.Context, kind: GroupVersionResource) -> list[JSONObject]:
    def listed(session: Session) -> Coroutine[object, object, JSONObject]:
        return ask(session, kind.collection(session.namespace), kind.name, JSONObject, query=AT_MOST, verb="list")

    return items_of(_read(host, ctx, listed).get("items"))


def _name_of(item: JSONObject) -> str:
    return str(value_at(item, "metadata", "name"))


def _read(host: Host, ctx: typer.Context, read: Callable[[Session], Coroutine[object, object, T]]) -> T:
    flags = _global_flags(ctx)

    async def found() -> T:
        async with (
            asyncio.timeout(TAB_SECONDS),
            open_session(host, access_of(flags), namespace=flags.namespace, request_timeout=TAB_SECONDS) as session,
        ):
            return await read(session)

    return host.run(found())


def _global_flags(ctx: typer.Context) -> GlobalFlags:
    """Global flags before or after the verb; those after it win."""
    typed: dict[str, Any] = {}
    for one in (ctx.parent, ctx):
        values = one.params if one is not None else {}
        typed |= {name: value for name, value in values.items() if name in GLOBAL_NAMES and value}
    return GlobalFlags(**typed)


def _typed_words(ctx: typer.Context) -> list[str]:
    """The verb's arguments so far. typer leaves them in `args` while a flag before them lacks its value."""
    values = (ctx.params.get(field) for field in ("name", "names", "words"))
    given = (value for value in values if value)
    return [str(word) for value in given for word in ([value] if isinstance(value, str) else value)] or [*ctx.args]


def _first_name(ctx: typer.Context) -> str:
    return next((word.rpartition("/")[2] for word in _typed_words(ctx) if "=" not in word), "")


def _is_owned_by(item: JSONObject, name: str) -> bool:
    owners = items_of(value_at(item, "metadata", "ownerReferences"))
    kinds = [
        (str(owner.get("apiVersion")).partition("/")[0], owner.get("kind"), owner.get("name")) for owner in owners
    ]
    return (GROUP, KIND, name) in kinds


def _offer(value: str, words: str) -> str:
    """A single line: texts of the server may contain line breaks."""
    return "\t".join(" ".join(visible(text).split()) for text in (value, words) if text)
