"""Verbs that only look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubectl_plugin import candidates
from kubectl_plugin.flags import Global, Many, Output
from kubectl_plugin.tree.arguments import Name, OptionalNames, complete_names
from kubectl_plugin.tree.late import run

Group = Annotated[
    str,
    typer.Option(
        "--by", help="Group nodes by zone, arch, pool or any node label.", autocompletion=candidates.groupings
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Follow it.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="End with 7 if there is a difference.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--filename",
        "-f",
        help="Manifest, folder of manifests, or - for standard input; may be repeated.",
        autocompletion=candidates.files,
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-R", help="Folders below those of -f too.")]
Kustomize = Annotated[
    Path | None,
    typer.Option("--kustomize", "-k", help="Folder with a kustomization.", autocompletion=candidates.files),
]


def status(
    flags: Global,
    many: Many,
    names: OptionalNames = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Wait until it is done, stuck or held.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="With -w: give up after, e.g. 15m; 0 for never.")] = "0",
    revision: Annotated[
        int | None,
        typer.Option(
            "--revision", help="With -w: end with 6 if another one takes over.", autocompletion=candidates.revisions
        ),
    ] = None,
    generation: Annotated[
        int | None, typer.Option("--generation", help="With -w: of this spec; end with 6 if another one takes over.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="With -w: of a container; end with 6 if another one takes over.")
    ] = None,
    require_full: Annotated[bool, typer.Option("--require-full", help="With -w: held is not done.")] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="With -w: end with 4 as soon as a pod fails.")
    ] = False,
    by: Group = "zone",
    logs: Annotated[bool, typer.Option("--logs/--no-logs", help="The last log line of a failing pod.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="With -w: lines instead of a live block.")] = False,
    filename: Files = None,
    recursive: Recursive = False,
    kustomize: Kustomize = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End as -w would, but at once.")] = False,
) -> None:
    """Where the rollout is, why it waits, what to do.

    -o wide: whole image names and hashes, lines as long as they are. -w ends by itself; its exit code says how.
    """
    from kubectl_plugin.verbs import status as verb

    asked = verb.Asked(
        names=tuple(names or ()),
        many=many,
        watch=watch,
        timeout=timeout,
        revision=revision,
        generation=generation,
        image=image,
        require_full=require_full,
        fail_fast=fail_fast,
        by=by,
        logs=logs,
        plain=plain,
        files=tuple(filename or ()),
        recursive=recursive,
        kustomize=kustomize,
        exit_code=exit_code,
    )
    run(flags, lambda invocation: verb.status(invocation, asked), outputs=tuple(Output))


def list_(
    flags: Global,
    many: Many,
    phase: Annotated[
        list[str] | None,
        typer.Option("--phase", help="Only these phases; may be repeated.", autocompletion=candidates.phases),
    ] = None,
    watch: Watch = False,
) -> None:
    """All Advanced DaemonSets, one line each."""
    from kubectl_plugin.verbs import list as verb

    run(
        flags,
        lambda invocation: verb.list_(invocation, many, phases=tuple(phase or ()), watch=watch),
        outputs=tuple(Output),
    )


def nodes(
    flags: Global,
    name: Name,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            help="States to show, such as failing,next; preparing: pods that a hook holds; all: every eligible node.",
            autocompletion=candidates.states,
        ),
    ] = "all",
    excluded: Annotated[
        bool, typer.Option("--excluded", help="Also nodes that must not run the pod, and why.")
    ] = False,
    zone: Annotated[str | None, typer.Option("--zone", help="Only nodes of this group.")] = None,
    by: Group = "zone",
    sort: Annotated[
        str,
        typer.Option(
            "--sort", help="update (its order), name, state, restarts or age.", autocompletion=candidates.sorts
        ),
    ] = ("update"),
    watch: Watch = False,
) -> None:
    """One row per node: revision, pod, state, and why."""
    from kubectl_plugin.verbs import nodes as verb

    asked = verb.Asked(name=name, only=only, excluded=excluded, zone=zone, by=by, sort=sort, watch=watch)
    run(flags, lambda invocation: verb.nodes(invocation, asked), outputs=tuple(Output))


def plan(
    flags: Global,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="May be left out with -f.", autocompletion=complete_names),
    ] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="What if: pods kept old.")] = None,
    max_unavailable: Annotated[
        str | None, typer.Option("--max-unavailable", help="What if: nodes without a pod.")
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", help="What if: CONTAINER=IMAGE, or *=IMAGE; may be repeated.")
    ] = None,
    filename: Files = None,
    recursive: Recursive = False,
    kustomize: Kustomize = None,
    waves: Annotated[int, typer.Option("--waves", help="How many waves to work out; 0 for all.")] = 10,
    exit_code: ExitCode = False,
) -> None:
    """What would happen next; what if."""
    from kubectl_plugin.verbs import plan as verb

    asked = verb.Asked(
        name=name,
        partition=partition,
        max_unavailable=max_unavailable,
        images=tuple(image or ()),
        files=tuple(filename or ()),
        recursive=recursive,
        kustomize=kustomize,
        waves=waves,
        exit_code=exit_code,
    )
    run(flags, lambda invocation: verb.plan(invocation, asked), outputs=(Output.JSON, Output.YAML, Output.WIDE))


def history(
    flags: Global,
    name: Name,
    revision: Annotated[
        int | None, typer.Option("--revision", help="All of this revision.", autocompletion=candidates.revisions)
    ] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Values of secret-looking variables.")] = False,
) -> None:
    """Revisions with their images, nodes, and what changed."""
    from kubectl_plugin.verbs import history as verb

    run(
        flags,
        lambda invocation: verb.history(invocation, name, revision=revision, show_values=show_values),
        outputs=tuple(Output),
    )


def diff(
    flags: Global,
    name: Name,
    revisions: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="[REV [REV]]", help="Left out: the former and the live one.", autocompletion=candidates.revisions
        ),
    ] = None,
    filename: Annotated[
        Path | None,
        typer.Option("--filename", "-f", help="Compare live with a file.", autocompletion=candidates.files),
    ] = None,
    show_values: Annotated[bool, typer.Option("--show-values", help="Values of secret-looking variables.")] = False,
    exit_code: ExitCode = False,
) -> None:
    """Difference between two revisions, or between live and a file."""
    from kubectl_plugin.verbs import diff as verb

    asked = verb.Asked(
        name=name, revisions=tuple(revisions or ()), file=filename, show_values=show_values, exit_code=exit_code
    )
    run(flags, lambda invocation: verb.diff(invocation, asked), outputs=(Output.JSON, Output.YAML))
