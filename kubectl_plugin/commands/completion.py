"""`completion`: prints shell setup, or installs the program that kubectl (from 1.26) calls to complete plugins."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.flags import Output
from kubectl_plugin.host import COMPLETION, PLUGIN, Host
from kubectl_plugin.options import CompletionOptions, Shell
from kubectl_plugin.terminal import Terminal

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
MARK: Final = "# Written by `kubectl kruise-ds completion install`."


def completion(host: Host, terminal: Terminal, _: Output | None, asked: CompletionOptions) -> int:
    """`install` raises CommandError: exit code 6 if a foreign file is in the way, 1 if the file cannot be written."""
    shell = asked.shell
    if shell is Shell.INSTALL:
        return _install(host, terminal, asked.folder)
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
    return f'#!/bin/sh\n{MARK}\nexec {shlex.quote(str(plugin))} __complete "$@"\n'


def batch(plugin: Path) -> str:
    return f'@rem {MARK.removeprefix("# ")}\r\n@"{plugin}" __complete %*\r\n'


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
        if there and MARK.removeprefix("# ").encode() not in there:
            raise CommandError(f"{target} is not from kruise-ds and stays as it is", exit_code=ExitCode.REFUSED)
        target.write_bytes(text.encode())
        target.chmod(0o755)
    except OSError as error:
        words = error.strerror or str(error)
        raise CommandError(f"cannot write {target}: {words}", hints=("choose a folder with --folder",)) from error
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
        raise CommandError(f"{PLUGIN} is not on the PATH", hints=("install it first: pipx install kruise-ds",))
    return Path(found).absolute()
