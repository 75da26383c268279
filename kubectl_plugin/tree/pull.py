"""`pull`: the one verb that is about no DaemonSet."""

from __future__ import annotations

from typing import Annotated

import typer

from kubectl_plugin.flags import DryRun, Global, Output
from kubectl_plugin.tree.late import run

_DOCUMENT = (Output.JSON, Output.YAML, Output.NAME)


def pull(
    flags: Global,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Such as registry.example.com/agent:v2.")],
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", help="Nodes with these labels; else all.", show_default=False)
    ] = None,
    parallelism: Annotated[str, typer.Option("--parallelism", help="Nodes at a time: 3, or 30%.")] = "10%",
    pull_secret: Annotated[
        list[str] | None,
        typer.Option("--pull-secret", help="Secret for the registry; may be repeated.", show_default=False),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Make the job, and leave it.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="Stop watching after, e.g. 15m; the job goes on.")] = "0",
    dry_run: Annotated[DryRun, typer.Option("--dry-run", help="Change nothing; `server` asks the API server.")] = (
        DryRun.NONE
    ),
    field_manager: Annotated[str, typer.Option("--field-manager", help="Name of the writer.")] = "kubectl-kruise-ds",
) -> None:
    """Have nodes pull an image before a pod needs it. Makes an ImagePullJob and shows how far it is."""
    from kubectl_plugin.verbs import pull as verb

    asked = verb.Asked(
        image=image,
        nodes=selector,
        parallelism=parallelism,
        secrets=tuple(pull_secret or ()),
        no_wait=no_wait,
        timeout=timeout,
        dry_run=dry_run,
        field_manager=field_manager,
    )
    run(flags, lambda invocation: verb.pull(invocation, asked), outputs=_DOCUMENT)
