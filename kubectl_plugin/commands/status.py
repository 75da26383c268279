"""`status`: where a rollout is, why it waits, what to do; with -w, until it is done, stuck or held."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.text import Text

from controller.api.objects import JSONObject, Key
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.documents import is_from_proxy
from kubectl_plugin.cluster.follow import with_pulls
from kubectl_plugin.cluster.session import Deadline, Invocation
from kubectl_plugin.cluster.watches import read_with_patience
from kubectl_plugin.commands.rollout_watch import follow_up, print_results, rollout_status, wanted_of
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import StatusOptions
from kubectl_plugin.render.status import status_lines
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import RolloutStatus
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.rollout.wait import result_of, unfinished_result
from kubectl_plugin.wording import printed_name


async def status(invocation: Invocation, options: StatusOptions) -> ExitCode:
    if options.watch:
        return await watch(invocation, options)
    found, missing = await choose_objects(invocation, options)
    seen = await with_pulls(invocation, found)
    statuses = [await rollout_status(invocation, options, snapshot) for snapshot in seen]
    if statuses or not missing:
        show(invocation, statuses, single=bool(options.names) and len(statuses) + len(missing) == 1)
    for absent in missing:
        invocation.terminal.fail(absent)
    code = ExitCode.DONE
    if options.exit_code:  # what waiting would end with; for what still moves, 3
        results = [result_of(one, wanted_of(options)) or unfinished_result(one) for one in statuses]
        code = print_results(invocation, results, [one.daemonset.namespace for one in statuses])
    return max(code, ExitCode.FAILED) if missing else code


def show(invocation: Invocation, statuses: Sequence[RolloutStatus], *, single: bool) -> None:
    """`single`: one object was named, so its document is not in a list."""

    def whole() -> JSONObject:
        documents = [one.document.as_json for one in statuses]
        return documents[0] if single else document("RolloutStatusList", items=[*documents])

    names = (printed_name(one.daemonset.name) for one in statuses)
    if not invocation.answers_a_program(names, whole):
        _print(invocation, statuses)
    invocation.note_unread(missing for one in statuses for missing in one.snapshot.unread_words)


def _print(invocation: Invocation, statuses: Sequence[RolloutStatus]) -> None:
    terminal = invocation.terminal
    if not statuses:
        terminal.note(f"no Advanced DaemonSets in namespace {invocation.session.namespace}")
    for index, one in enumerate(statuses):
        terminal.say(*([""] if index else []))
        wide = invocation.output is Output.WIDE
        lines = status_lines(one, terminal, wide=wide)
        terminal.show(Text("\n").join(lines), whole=wide and isinstance(one.survey, NodeSurvey))
        if one.nodes_unknown:
            terminal.warn(one.nodes_unknown)


async def choose_objects(
    invocation: Invocation, options: StatusOptions, parts: reads.Parts = reads.ALL
) -> tuple[tuple[Snapshot, ...], tuple[CommandError, ...]]:
    """Returns the objects of the command line, or all of the namespace, and an error per name that does not exist.
    Raises UsageError for several objects and a flag, such as --revision, for one."""
    keys: list[Key] | None = None
    if options.given:
        from kubectl_plugin.cluster import manifests

        read, _ = await manifests.read_manifests(options, invocation.host)
        keys = [Key(one.namespace or invocation.session.namespace, one.name) for one in read]
    elif options.names:
        keys = [reads.key_of(invocation, name) for name in options.names]
    absent: tuple[CommandError, ...] = ()
    if keys is None:
        found = await reads.snapshots(invocation, (), options, parts)
    else:
        found, absent = await reads.existing_snapshots(invocation, keys, parts)
    numbers = {"--revision": options.revision, "--generation": options.generation}
    several = len(found) + len(absent)
    for flag in (flag for flag, number in numbers.items() if number is not None and several > 1):
        raise UsageError(f"{flag} counts the changes of one DaemonSet, and these are {several}: name one")
    return found, absent


async def watch(invocation: Invocation, options: StatusOptions) -> ExitCode:
    if invocation.output not in (None, Output.JSON, Output.WIDE):
        raise UsageError(f"-w has no output format {invocation.output}: use json")
    deadline = Deadline(invocation, options)
    async with deadline.enforced():
        read = partial(choose_objects, invocation, options, reads.REVISIONS_ONLY)
        found, absent = await read_with_patience(read, invocation.terminal.note, is_from_proxy)
        if absent:
            raise absent[0]
        return await follow_up(invocation, options, found, deadline) if found else print_results(invocation, (), ())
