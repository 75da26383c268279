"""Verbs that change something. Each change is one guarded write."""

from __future__ import annotations

from typing import Annotated

import typer

from kubectl_plugin import candidates
from kubectl_plugin.flags import Acting, Global, Many, Output, Waiting
from kubectl_plugin.tree.arguments import Name, OptionalNames, complete_names
from kubectl_plugin.tree.late import run
from kubectl_plugin.tree.look import Files, Kustomize, Recursive

_DOCUMENT = (Output.JSON, Output.YAML, Output.NAME)
All = Annotated[bool, typer.Option("--all", help="All of the namespace.")]
HoldAt = Annotated[
    str | None, typer.Option("--hold-at", help="Set the partition in the same write: no node starts early.")
]


def pause(flags: Global, acting: Acting, many: Many, names: OptionalNames = None, all_: All = False) -> None:
    """Stop updating more nodes. What is under way ends; lost pods and new nodes still get theirs."""
    from kubectl_plugin.verbs import pausing as verb

    chosen = verb.Chosen(names=tuple(names or ()), many=many, everything=all_)
    run(flags, lambda invocation: verb.pause(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check)


def resume(flags: Global, acting: Waiting, many: Many, names: OptionalNames = None, all_: All = False) -> None:
    """Go on after a pause."""
    from kubectl_plugin.verbs import pausing as verb

    chosen = verb.Chosen(names=tuple(names or ()), many=many, everything=all_)
    run(flags, lambda invocation: verb.resume(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check)


def set_partition(
    flags: Global,
    acting: Waiting,
    many: Many,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME] [VALUE]", help="Pods kept old: 8, or 30%.", autocompletion=complete_names),
    ] = None,
    update: Annotated[
        str | None, typer.Option("--update", help="Instead of VALUE: nodes to update, such as 1 or 30%.")
    ] = None,
    all_: All = False,
) -> None:
    """Keep VALUE pods old, or update so many nodes."""
    from kubectl_plugin.verbs import partition as verb

    asked = verb.Asked(words=tuple(words or ()), update=update, many=many, everything=all_)
    run(flags, lambda invocation: verb.set_partition(invocation, asked, acting), outputs=_DOCUMENT)


def promote(
    flags: Global,
    acting: Acting,
    name: Name,
    full: Annotated[bool, typer.Option("--full", help="All nodes: partition 0.")] = False,
    to: Annotated[str | None, typer.Option("--to", help="To this partition instead of the next step.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Though the step is not finished.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for this step, promote, wait for the next.")] = False,
    soak: Annotated[str, typer.Option("--soak", help="Quiet time since the last update, such as 10m.")] = "0s",
    timeout: Annotated[str, typer.Option("--timeout", help="With --wait: give up after; 0 for never.")] = "0",
) -> None:
    """The next step of the partition (annotation kruise-ds/steps), or all."""
    from kubectl_plugin.verbs import promote as verb

    asked = verb.Asked(name=name, full=full, to=to, force=force, wait=wait, soak=soak, timeout=timeout)
    run(flags, lambda invocation: verb.promote(invocation, asked, acting), outputs=_DOCUMENT)


def rollback(
    flags: Global,
    acting: Waiting,
    many: Many,
    names: OptionalNames = None,
    to_revision: Annotated[
        int | None,
        typer.Option(
            "--to-revision",
            help="Back to this one; else to the one before.",
            autocompletion=candidates.revisions,
        ),
    ] = None,
    keep_partition: Annotated[bool, typer.Option("--keep-partition", help="Do not set the partition to 0.")] = False,
    keep_paused: Annotated[bool, typer.Option("--keep-paused", help="Do not lift the pause.")] = False,
    lift_pause: Annotated[
        bool, typer.Option("--lift-pause", help="Where nobody is asked: also a pause that is not your own.")
    ] = False,
    drop_selector: Annotated[
        bool, typer.Option("--drop-selector", help="Lift rollingUpdate.selector too, where it would keep nodes bad.")
    ] = False,
    all_: All = False,
) -> None:
    """Back to an earlier revision, on all nodes that left it (alias: undo)."""
    from kubectl_plugin.verbs import rollback as verb
    from kubectl_plugin.verbs.acting import Chosen

    chosen = Chosen(names=tuple(names or ()), many=many, everything=all_)
    asked = verb.Asked(
        names=tuple(names or ()),
        many=many,
        everything=all_,
        to_revision=to_revision or None,
        keep_partition=keep_partition,
        keep_paused=keep_paused,
        drop_selector=drop_selector,
        lift_pause=lift_pause,
    )
    run(flags, lambda invocation: verb.rollback(invocation, asked, acting), outputs=_DOCUMENT, check=chosen.check)


def restart(flags: Global, acting: Waiting, many: Many, names: OptionalNames = None, all_: All = False) -> None:
    """Replace all pods, within the limits of the update."""
    from kubectl_plugin.verbs import restart as verb

    chosen = verb.Chosen(names=tuple(names or ()), many=many, everything=all_)
    run(flags, lambda invocation: verb.restart(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check)


def set_image(
    flags: Global,
    acting: Waiting,
    many: Many,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME] CONTAINER=IMAGE...", help="*=IMAGE for all.", autocompletion=complete_names),
    ] = None,
    hold_at: HoldAt = None,
    all_: All = False,
) -> None:
    """Change images."""
    from kubectl_plugin.verbs import image as verb

    asked = verb.Asked(words=tuple(words or ()), hold_at=hold_at, many=many, everything=all_)
    run(flags, lambda invocation: verb.set_image(invocation, asked, acting), outputs=_DOCUMENT)


def apply(
    flags: Global,
    acting: Waiting,
    filename: Files = None,
    recursive: Recursive = False,
    kustomize: Kustomize = None,
    hold_at: HoldAt = None,
) -> None:
    """Apply a manifest, as kubectl does, and a partition."""
    from kubectl_plugin.verbs import apply as verb

    asked = verb.Asked(
        files=tuple(filename or ()),
        recursive=recursive,
        kustomize=kustomize,
        hold_at=hold_at,
        namespace=flags.namespace,
    )
    run(flags, lambda invocation: verb.apply(invocation, asked, acting), outputs=_DOCUMENT, check=asked.check)
