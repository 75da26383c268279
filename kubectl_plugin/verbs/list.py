"""`list`: all Advanced DaemonSets, one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.flags import Many, Output
from kubectl_plugin.paint.document import as_text
from kubectl_plugin.paint.overview import overview
from kubectl_plugin.report.documents import rollout_list
from kubectl_plugin.report.overview import TROUBLED, Line, line_of, phases_named, tally
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.verbs.table_watch import Picture, table_screen

EVERY: Final = 2.0
"""Seconds between two looks with -w: objects come and go, which a watch on each of them would not tell."""


async def list_(invocation: Invocation, many: Many, *, phases: tuple[str, ...], watch: bool) -> int:
    """Pods are read only where the status alone does not say what is wrong. With `watch` until it is interrupted."""
    wanted = phases_named(phases)
    if watch and invocation.output in (Output.YAML, Output.NAME):
        raise CommandError(f"-w has no output format {invocation.output}: use json or wide", exit_code=ExitCode.USAGE)
    if not watch:
        _print(invocation, many, await _lines(invocation, many, wanted))
        return 0
    with table_screen(invocation) as screen:
        while True:
            screen.show(_picture(invocation, many, await _lines(invocation, many, wanted)))
            await asyncio.sleep(EVERY)


async def _lines(invocation: Invocation, many: Many, wanted: frozenset[str]) -> list[Line]:
    found = await reads.snapshots(invocation, (), many, nodes=False, pods=False)
    lines = [line_of(await _with_pods(invocation, one)) for one in found]
    return [line for line in lines if line.phase in wanted]


async def _with_pods(invocation: Invocation, snapshot: Snapshot) -> Snapshot:
    if line_of(snapshot).phase not in TROUBLED:
        return snapshot
    return replace(snapshot, pods=await reads.pods_of(invocation, snapshot.daemonset))


def _picture(invocation: Invocation, many: Many, lines: Sequence[Line]) -> Picture:
    terminal, now = invocation.terminal, invocation.terminal.now()
    return Picture(
        table=lambda width: overview(
            lines, now=now, width=width, only_ascii=terminal.ascii, namespaces=many.all_namespaces
        ),
        footer=tally(lines),
        rows=tuple((f"{line.namespace}/{line.name}", line) for line in lines),
        document=rollout_list(lines),
    )


def _print(invocation: Invocation, many: Many, lines: Sequence[Line]) -> None:
    terminal, output = invocation.terminal, invocation.output
    if output is Output.NAME:
        terminal.say(*(f"daemonset.apps.kruise.io/{line.name}" for line in lines))
    elif output in (Output.JSON, Output.YAML):
        terminal.say(as_text(rollout_list(lines), output))
    elif not lines:
        where = "" if many.all_namespaces else f" in {invocation.session.namespace} namespace"
        terminal.note(f"No resources found{where}.")
    else:
        picture, whole = _picture(invocation, many, lines), output is Output.WIDE
        terminal.show(picture.table(None if whole else terminal.width), whole=whole)
        terminal.detail(picture.footer)
