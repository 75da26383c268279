"""Shell completion of arguments and flag values.

Each function takes typer's context and the start of the word under the cursor, and returns `value<TAB>help` strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import typer

FILES = "\t:files"
"""A candidate with this suffix makes the shell complete file names."""

LookUp: TypeAlias = Callable[[str], Callable[[typer.Context, str], list[str]]]
"""Returns the function that reads one kind of candidates, such as `names`, from the cluster or the kubeconfig."""


def _look_up_in_cluster(what: str) -> Callable[[typer.Context, str], list[str]]:
    """Calls the `LookUp` that `main` puts into typer's context, so that this module imports no client."""

    def found(ctx: typer.Context, incomplete: str) -> list[str]:
        look_up: LookUp = ctx.obj
        return look_up(what)(ctx, incomplete)

    return found


names = _look_up_in_cluster("names")
namespaces = _look_up_in_cluster("namespaces")
contexts = _look_up_in_cluster("contexts")
revisions = _look_up_in_cluster("revisions")
natives = _look_up_in_cluster("natives")
containers = _look_up_in_cluster("containers")


def files(incomplete: str) -> list[str]:
    return [f"{incomplete}{FILES}"]


def phases() -> list[str]:
    from controller.api.daemonset import Phase

    return [str(phase) for phase in Phase]


def states(incomplete: str) -> list[str]:
    """Node states for a comma-separated list; completes only the part after the last comma."""
    from controller.planner.explanation import PREPARING, NodeState

    before, comma, _ = incomplete.rpartition(",")
    typed = before.split(",")
    known = (*NodeState, PREPARING)
    return [f"{before}{comma}{state}" for state in known if state not in typed] + ([] if comma else ["all"])


def groupings() -> list[str]:
    return ["zone\tOf topology.kubernetes.io/zone", "arch\tOf kubernetes.io/arch", "pool\tThe pool of nodes"]


def sorts() -> list[str]:
    return ["update\tThe order of the update", "name", "state", "restarts", "age"]
