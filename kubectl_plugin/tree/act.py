"""Verbs that change something. Each change is one guarded write."""

from __future__ import annotations

from kubectl_plugin.flags import Acting, Global, Output, Waiting
from kubectl_plugin.options import (
    ApplyOptions,
    Chosen,
    MigrateOptions,
    PromoteOptions,
    PullOptions,
    RollbackOptions,
    SetImageOptions,
    SetPartitionOptions,
)
from kubectl_plugin.running import Runner

_DOCUMENT = (Output.JSON, Output.YAML, Output.NAME)


def pause(runner: Runner, flags: Global, acting: Acting, chosen: Chosen) -> None:
    """Stop updating more nodes. What is under way ends; lost pods and new nodes still get theirs."""
    from kubectl_plugin.verbs import changes as verb

    runner.run(
        flags, lambda invocation: verb.pause(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check
    )


def resume(runner: Runner, flags: Global, acting: Waiting, chosen: Chosen) -> None:
    """Go on after a pause."""
    from kubectl_plugin.verbs import changes as verb

    runner.run(
        flags, lambda invocation: verb.resume(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check
    )


def set_partition(runner: Runner, flags: Global, acting: Waiting, asked: SetPartitionOptions) -> None:
    """Keep VALUE pods old, or update so many nodes."""
    from kubectl_plugin.verbs import partition as verb

    runner.run(flags, lambda invocation: verb.set_partition(invocation, asked, acting), outputs=_DOCUMENT)


def promote(runner: Runner, flags: Global, acting: Waiting, asked: PromoteOptions) -> None:
    """The next step of the partition (annotation kruise-ds/steps), or all.

    With --wait it waits until this step is finished, promotes, and waits for the next one.
    """
    from kubectl_plugin.verbs import promote as verb

    runner.run(flags, lambda invocation: verb.promote(invocation, asked, acting), outputs=_DOCUMENT)


def rollback(runner: Runner, flags: Global, acting: Waiting, asked: RollbackOptions) -> None:
    """Back to an earlier revision, on all nodes that left it (alias: undo)."""
    from kubectl_plugin.verbs import rollback as verb

    runner.run(
        flags, lambda invocation: verb.rollback(invocation, asked, acting), outputs=_DOCUMENT, check=asked.check
    )


def restart(runner: Runner, flags: Global, acting: Waiting, chosen: Chosen) -> None:
    """Replace all pods, within the limits of the update."""
    from kubectl_plugin.verbs import changes as verb

    runner.run(
        flags, lambda invocation: verb.restart(invocation, chosen, acting), outputs=_DOCUMENT, check=chosen.check
    )


def set_image(runner: Runner, flags: Global, acting: Waiting, asked: SetImageOptions) -> None:
    """Change images."""
    from kubectl_plugin.verbs import changes as verb

    runner.run(flags, lambda invocation: verb.set_image(invocation, asked, acting), outputs=_DOCUMENT)


def apply(runner: Runner, flags: Global, acting: Waiting, asked: ApplyOptions) -> None:
    """Apply a manifest, as kubectl does, and a partition."""
    from kubectl_plugin.verbs import apply as verb

    runner.run(
        flags,
        lambda invocation: verb.apply(invocation, asked, acting, flags.namespace),
        outputs=_DOCUMENT,
        check=asked.check,
    )


def pull(runner: Runner, flags: Global, asked: PullOptions) -> None:
    """Have nodes pull an image before a pod needs it. Makes an ImagePullJob and shows how far it is."""
    from kubectl_plugin.verbs import pull as verb

    runner.run(flags, lambda invocation: verb.pull(invocation, asked), outputs=_DOCUMENT)


def migrate(runner: Runner, flags: Global, asked: MigrateOptions) -> None:
    """Make a native DaemonSet an Advanced one, or with --to-native the other way round. No pod is restarted.

    Interrupted, it goes on when it is called again; the other direction turns it round.
    """
    from kubectl_plugin.verbs import migrate as verb

    runner.run(flags, lambda invocation: verb.migrate(invocation, asked), outputs=(), check=asked.check)
