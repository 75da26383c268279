"""Verbs that only look."""

from __future__ import annotations

from kubectl_plugin.flags import Global, Output
from kubectl_plugin.options import DiffOptions, HistoryOptions, ListOptions, NodesOptions, PlanOptions, StatusOptions
from kubectl_plugin.running import run


def status(flags: Global, asked: StatusOptions) -> None:
    """Where the rollout is, why it waits, what to do.

    -o wide: whole image names and hashes, lines as long as they are. -w ends by itself; its exit code says how.
    """
    from kubectl_plugin.verbs import status as verb

    run(flags, lambda invocation: verb.status(invocation, asked), outputs=tuple(Output))


def list_(flags: Global, asked: ListOptions) -> None:
    """All Advanced DaemonSets, one line each."""
    from kubectl_plugin.verbs import list as verb

    run(flags, lambda invocation: verb.list_(invocation, asked), outputs=tuple(Output))


def nodes(flags: Global, asked: NodesOptions) -> None:
    """One row per node: revision, pod, state, and why."""
    from kubectl_plugin.verbs import nodes as verb

    run(flags, lambda invocation: verb.nodes(invocation, asked), outputs=tuple(Output))


def plan(flags: Global, asked: PlanOptions) -> None:
    """What would happen next; what if."""
    from kubectl_plugin.verbs import plan as verb

    run(flags, lambda invocation: verb.plan(invocation, asked), outputs=(Output.JSON, Output.YAML, Output.WIDE))


def history(flags: Global, asked: HistoryOptions) -> None:
    """Revisions with their images, nodes, and what changed."""
    from kubectl_plugin.verbs import history as verb

    run(flags, lambda invocation: verb.history(invocation, asked), outputs=tuple(Output))


def diff(flags: Global, asked: DiffOptions) -> None:
    """Difference between two revisions, or between live and a file."""
    from kubectl_plugin.verbs import diff as verb

    run(flags, lambda invocation: verb.diff(invocation, asked), outputs=(Output.JSON, Output.YAML))
