"""Verbs that only look."""

from __future__ import annotations

from kubectl_plugin.flags import Global, Output
from kubectl_plugin.options import DiffOptions, HistoryOptions, ListOptions, NodesOptions, PlanOptions, StatusOptions
from kubectl_plugin.running import Runner


def status(runner: Runner, flags: Global, asked: StatusOptions) -> None:
    """Where the rollout is, why it waits, what to do.

    -o wide: whole image names and hashes, lines as long as they are. -w ends by itself; its exit code says how.
    """
    from kubectl_plugin.verbs import status as verb

    runner.run(flags, lambda invocation: verb.status(invocation, asked), outputs=tuple(Output))


def list_(runner: Runner, flags: Global, asked: ListOptions) -> None:
    """All Advanced DaemonSets, one line each."""
    from kubectl_plugin.verbs import list as verb

    runner.run(flags, lambda invocation: verb.list_(invocation, asked), outputs=tuple(Output))


def nodes(runner: Runner, flags: Global, asked: NodesOptions) -> None:
    """One row per node: revision, pod, state, and why."""
    from kubectl_plugin.verbs import nodes as verb

    runner.run(flags, lambda invocation: verb.nodes(invocation, asked), outputs=tuple(Output))


def plan(runner: Runner, flags: Global, asked: PlanOptions) -> None:
    """What would happen next; what if."""
    from kubectl_plugin.verbs import plan as verb

    runner.run(
        flags, lambda invocation: verb.plan(invocation, asked), outputs=(Output.JSON, Output.YAML, Output.WIDE)
    )


def history(runner: Runner, flags: Global, asked: HistoryOptions) -> None:
    """Revisions with their images, nodes, and what changed."""
    from kubectl_plugin.verbs import history as verb

    runner.run(flags, lambda invocation: verb.history(invocation, asked), outputs=tuple(Output))


def diff(runner: Runner, flags: Global, asked: DiffOptions) -> None:
    """Difference between two revisions, or between live and a file."""
    from kubectl_plugin.verbs import diff as verb

    runner.run(flags, lambda invocation: verb.diff(invocation, asked), outputs=(Output.JSON, Output.YAML))
