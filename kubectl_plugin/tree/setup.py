"""Verbs about the plugin and the controller themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubectl_plugin import candidates
from kubectl_plugin.flags import Global, Output, Shell
from kubectl_plugin.running import Runner

_DOCUMENT = (Output.JSON, Output.YAML)


def doctor(runner: Runner, flags: Global) -> None:
    """Check CRD, controller, rights and versions."""
    from kubectl_plugin.verbs import doctor as verb

    runner.run(flags, verb.doctor, outputs=_DOCUMENT)


def completion(
    runner: Runner,
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

    runner.run_offline(
        flags, lambda terminal: verb.completion(runner.host.environ, terminal, shell, folder), outputs=()
    )


def version(
    runner: Runner,
    flags: Global,
    client: Annotated[bool, typer.Option("--client", help="Only that of the plugin.")] = False,
) -> None:
    """Versions of plugin, controller and CRD."""
    from kubectl_plugin.verbs import version as verb

    if client:
        runner.run_offline(
            flags, lambda terminal: verb.client_version(runner.host, terminal, flags.output), outputs=_DOCUMENT
        )
    else:
        runner.run(flags, verb.version, outputs=_DOCUMENT)
