"""Verbs about the plugin and the controller themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubectl_plugin import candidates
from kubectl_plugin.flags import Global, Output, Shell
from kubectl_plugin.running import run, run_offline

_DOCUMENT = (Output.JSON, Output.YAML)


def doctor(flags: Global) -> None:
    """Check CRD, controller, rights and versions."""
    from kubectl_plugin.verbs import doctor as verb

    run(flags, verb.doctor, outputs=_DOCUMENT)


def completion(
    flags: Global,
    shell: Annotated[
        Shell, typer.Argument(help="Show how to set it up in this shell; install: put a file beside the plugin.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="With install: where the file goes; else beside the plugin.",
            autocompletion=candidates.files,
        ),
    ] = None,
) -> None:
    """Completion for `kubectl kruise-ds <TAB>`."""
    from kubectl_plugin.verbs import completion as verb

    run_offline(flags, lambda terminal: verb.completion(terminal, shell, folder), outputs=())


def version(
    flags: Global,
    client: Annotated[bool, typer.Option("--client", help="Only that of the plugin.")] = False,
) -> None:
    """Versions of plugin, controller and CRD."""
    from kubectl_plugin.verbs import version as verb

    if client:
        run_offline(flags, lambda terminal: verb.client_version(terminal, flags.output), outputs=_DOCUMENT)
    else:
        run(flags, verb.version, outputs=_DOCUMENT)
