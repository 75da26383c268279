"""What <TAB> offers for arguments and values of flags.

Each function gets typer's context, with the flags that were typed so far, and the start of the word. It gives
`value<TAB>help` strings; of these typer drops what does not begin with the word.
"""

from __future__ import annotations

import typer

FILES = "\t:files"
"""Ends a candidate that stands for file names, which the shell knows better."""

_GROUPINGS = ("zone\tOf topology.kubernetes.io/zone", "arch\tOf kubernetes.io/arch", "pool\tThe pool of nodes")
_SORTS = ("update\tThe order of the update", "name", "state", "restarts", "age")


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """DaemonSets of the namespace; none, soon and silently, where the cluster does not answer."""
    from kubectl_plugin.verbs.completing import names

    return names(ctx, incomplete)


def namespaces(ctx: typer.Context) -> list[str]:
    from kubectl_plugin.verbs.completing import namespaces

    return namespaces(ctx)


def contexts(ctx: typer.Context) -> list[str]:
    """Contexts of the kubeconfig; the cluster is not asked."""
    from kubectl_plugin.verbs.completing import contexts

    return contexts(ctx)


def revisions(ctx: typer.Context) -> list[str]:
    """Revisions that are kept of the DaemonSet that was named."""
    from kubectl_plugin.verbs.completing import revisions

    return revisions(ctx)


def files(incomplete: str) -> list[str]:
    return [f"{incomplete}{FILES}"]


def phases() -> list[str]:
    from controller.api.daemonset import Phase

    return [str(phase) for phase in Phase]


def states(incomplete: str) -> list[str]:
    """States of nodes, also behind a comma."""
    from controller.planner.states import PREPARING, NodeState

    before, comma, _ = incomplete.rpartition(",")
    typed = before.split(",")
    known = (*NodeState, PREPARING)
    return [f"{before}{comma}{state}" for state in known if state not in typed] + ([] if comma else ["all"])


def groupings() -> list[str]:
    return [*_GROUPINGS]


def sorts() -> list[str]:
    return [*_SORTS]
