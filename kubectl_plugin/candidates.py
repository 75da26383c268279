"""What <TAB> offers for arguments and for the values of flags.

Each function gets typer's context, with the flags that were typed so far, and the start of the word under the cursor.
It returns `value<TAB>help` strings; typer drops those that do not begin with that word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import typer

FILES = "\t:files"
"""Ends a candidate that makes the shell complete file names by itself."""

LookUp: TypeAlias = Callable[[str], Callable[[typer.Context, str], list[str]]]
"""Takes a sort of candidates, such as `names`, and returns the function that looks them up in the cluster or the
kubeconfig."""


def _look_up_in_cluster(what: str) -> Callable[[typer.Context, str], list[str]]:
    """A completion function that calls the `LookUp` in typer's context, where `main` puts it: this module imports no
    client."""

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
steps = _look_up_in_cluster("steps")


def files(incomplete: str) -> list[str]:
    return [f"{incomplete}{FILES}"]


def phases() -> list[str]:
    from controller.api.daemonset import Phase

    return [str(phase) for phase in Phase]


def states(incomplete: str) -> list[str]:
    """States of nodes, for a list with commas: only the part behind the last comma is completed."""
    from controller.planner.explanation import PREPARING, NodeState

    before, comma, _ = incomplete.rpartition(",")
    typed = before.split(",")
    known = (*NodeState, PREPARING)
    return [f"{before}{comma}{state}" for state in known if state not in typed] + ([] if comma else ["all"])


def groupings() -> list[str]:
    return ["zone\tOf topology.kubernetes.io/zone", "arch\tOf kubernetes.io/arch", "pool\tThe pool of nodes"]


def sorts() -> list[str]:
    return ["update\tThe order of the update", "name", "state", "restarts", "age"]
