"""`status`: where a rollout is, why it waits, what to do; with -w, until it is done, stuck or held."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from controller.api.objects import JSONObject
from kubectl_plugin.cluster.image_pulls import with_pulls
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.commands.status_watch import (
    choose_objects,
    look_at,
    print_results,
    wanted_of,
    watch,
)
from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions as Asked
from kubectl_plugin.render.status import status_lines
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.status import RolloutStatus
from kubectl_plugin.rollout.wait import Awaited, result_of, unfinished_result
from kubectl_plugin.units import seconds_of


async def status(invocation: Invocation, asked: Asked) -> int:
    if asked.watch:
        return await watch(invocation, asked)
    _refuse_flags_of_watching(asked)
    found, missing = await choose_objects(invocation, asked)
    seen = await with_pulls(invocation, found)
    looks = [await look_at(invocation, asked, snapshot) for snapshot in seen]
    if looks or not missing:
        show(invocation, looks, single=bool(asked.names) and len(looks) + len(missing) == 1)
    for absent in missing:
        invocation.terminal.fail(absent)
    code = 0
    if asked.exit_code:  # what waiting would end with; for what still moves, 3
        results = [result_of(one, wanted_of(asked)) or unfinished_result(one) for one in looks]
        code = print_results(invocation, results, [one.daemonset.namespace for one in looks])
    return max(code, ExitCode.FAILED) if missing else code


def _refuse_flags_of_watching(asked: Asked) -> None:
    """Raises UsageError for flags that would have no effect without -w."""
    given = {"--timeout": bool(seconds_of(asked.timeout, "--timeout")), "--plain": asked.plain}
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise UsageError(f"{flag} is for -w: without it nothing is waited for")
    wanted, anything = wanted_of(asked), Awaited()
    for field in () if asked.exit_code else Awaited.__struct_fields__:
        if getattr(wanted, field) != getattr(anything, field):
            raise UsageError(f"--{field.replace('_', '-')} is for -w or --exit-code")


def show(invocation: Invocation, looks: Sequence[RolloutStatus], *, single: bool) -> None:
    """`single`: one object was named, so its document is not in a list."""

    def whole() -> JSONObject:
        documents = [one.document.as_json for one in looks]
        return documents[0] if single else document("RolloutStatusList", items=[*documents])

    names = (f"daemonset.apps.kruise.io/{one.daemonset.name}" for one in looks)
    if not invocation.answers_a_program(names, whole):
        _print(invocation, looks)
    invocation.note_unread(missing for one in looks for missing in one.snapshot.unread_words)


def _print(invocation: Invocation, looks: Sequence[RolloutStatus]) -> None:
    terminal = invocation.terminal
    if not looks:
        terminal.note(f"no Advanced DaemonSets in namespace {invocation.session.namespace}")
    for index, one in enumerate(looks):
        terminal.say(*([""] if index else []))
        wide = invocation.output is Output.WIDE
        lines = status_lines(one, terminal, wide=wide)
        terminal.show(Text("\n").join(lines), whole=wide and one.survey is not None)
        if one.blocker:
            terminal.warn(one.blocker)
