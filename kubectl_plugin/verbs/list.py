"""`list`: all Advanced DaemonSets, one line each."""

from __future__ import annotations

from msgspec.structs import replace

from kubectl_plugin.cluster import reads
from kubectl_plugin.flags import Many, Output
from kubectl_plugin.paint.document import as_text
from kubectl_plugin.paint.overview import overview
from kubectl_plugin.report.documents import rollout_list
from kubectl_plugin.report.overview import TROUBLED, Line, line_of, phases_named, tally
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.running import Invocation


async def list_(invocation: Invocation, many: Many, *, phases: tuple[str, ...], watch: bool) -> int:
    """Pods are read only where the status alone does not say what is wrong."""
    wanted = phases_named(phases)
    found = await reads.snapshots(invocation, (), many, nodes=False, pods=False)
    lines = [line_of(await _with_pods(invocation, one)) for one in found]
    _print(invocation, many, [line for line in lines if line.phase in wanted])
    return 0


async def _with_pods(invocation: Invocation, snapshot: Snapshot) -> Snapshot:
    if line_of(snapshot).phase not in TROUBLED:
        return snapshot
    return replace(snapshot, pods=await reads.pods_of(invocation, snapshot.daemonset))


def _print(invocation: Invocation, many: Many, lines: list[Line]) -> None:
    terminal, output = invocation.terminal, invocation.output
    if output is Output.NAME:
        terminal.say(*(f"daemonset.apps.kruise.io/{line.name}" for line in lines))
    elif output in (Output.JSON, Output.YAML):
        terminal.say(as_text(rollout_list(lines), output))
    elif not lines:
        where = "" if many.all_namespaces else f" in {invocation.session.namespace} namespace"
        terminal.note(f"No resources found{where}.")
    else:
        whole = output is Output.WIDE
        width = None if whole else terminal.width
        shown = overview(
            lines, now=terminal.now(), width=width, only_ascii=terminal.ascii, namespaces=many.all_namespaces
        )
        terminal.show(shown, whole=whole)
        terminal.detail(tally(lines))
