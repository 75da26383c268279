"""`migrate`: makes a native DaemonSet an Advanced one, or the other way round; its pods keep running."""

from __future__ import annotations

from controller.api.formats import counted
from controller.api.names import GROUP
from controller.api.objects import Key
from controller.kube.errors import ApiError
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.change_options import MigrateOptions
from kubectl_plugin.cluster import controller_lease, documents, reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.kinds import NATIVE
from kubectl_plugin.cluster.migrating import observe
from kubectl_plugin.cluster.self_reviews import review_right
from kubectl_plugin.commands import command
from kubectl_plugin.edits.migration import both_kinds, manifest
from kubectl_plugin.edits.migration.observed import MigrationSide
from kubectl_plugin.edits.migration.preview import Preview, preview_of
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.flags import Output
from kubectl_plugin.report import gitops
from kubectl_plugin.verbs.change_flow import all_namespaces_error, ask_for_consent, print_failure
from kubectl_plugin.verbs.migration_course import MigrationCourse

_TO_OURS = (
    *((verb, GROUP, "daemonsets") for verb in ("get", "create", "patch", "delete")),
    *((verb, "apps", "daemonsets") for verb in ("get", "patch", "delete")),
    ("list", "", "pods"),
    *((verb, "apps", "controllerrevisions") for verb in ("list", "patch")),
)
_TO_NATIVE = (
    *((verb, GROUP, "daemonsets") for verb in ("get", "patch", "delete")),
    *((verb, "apps", "daemonsets") for verb in ("get", "create", "patch")),
    *((verb, "", "pods") for verb in ("list", "patch")),
    *((verb, "apps", "controllerrevisions") for verb in ("list", "create")),
)
"""Verb, group and resource of every right that the migration needs."""
_LOOK = "look first, with --dry-run; then add --yes"


async def migrate(invocation: Invocation, asked: MigrateOptions) -> int:
    """One DaemonSet after the other; the first failure ends it."""
    keys, terminal = await _chosen_keys(invocation, asked), invocation.terminal
    if asked.print_:
        return await _print(invocation, asked, keys)
    code, plans = await _plan_each(invocation, asked, keys)
    for key, found in plans.items():
        if found.is_over:
            terminal.say(f"{key.name} {found.summary} already")
    plans = {key: found for key, found in plans.items() if not found.is_over}
    if not plans:
        return code
    if asked.dry_run:
        terminal.say(*_preview_lines(plans, asked))
        return code
    what, told = counted(len(plans), "DaemonSet"), "\n".join((*_preview_lines(plans, asked), "Continue?"))
    ask_for_consent(terminal, what, told, yes=asked.yes, hint=_LOOK)
    terminal.outlive_the_reader()
    for number, key in enumerate(plans):
        try:
            await MigrationCourse(invocation, key, native=asked.to_native).run()
        except (CommandError, ApiError):
            if left := len(plans) - number - 1:
                terminal.note(f"{left} more: not begun")
            raise
    return code


async def _chosen_keys(invocation: Invocation, asked: MigrateOptions) -> list[Key]:
    """The named DaemonSets; without names all of the kind to be migrated, and those whose migration was begun.

    Raises CommandError, with exit code 6 for `-A` without `--yes`.
    """
    namespace = "" if asked.all_namespaces else invocation.session.namespace
    if asked.names:
        if asked.selector or asked.all_namespaces:
            raise CommandError("give names, or -l and -A, not both", exit_code=ExitCode.USAGE)
        names = dict.fromkeys(reads.name_of(name.removeprefix("daemonset.apps/")) for name in asked.names)
        return [Key(namespace, name) for name in names]
    query = (("labelSelector", asked.selector),) if asked.selector else ()
    former, new = (DAEMONSETS, NATIVE) if asked.to_native else (NATIVE, DAEMONSETS)
    there = await reads.readable_items(invocation, former, namespace, query)
    begun = await reads.readable_items(invocation, new, namespace, query)
    keys = sorted(there.keys() | {key for key, one in begun.items() if both_kinds.mark_of(one)})
    if not keys:
        raise CommandError("no such DaemonSet was found")
    if asked.all_namespaces and not (asked.yes or asked.dry_run or asked.print_):
        raise all_namespaces_error(len(keys), _LOOK)
    return keys


async def _plan_each(
    invocation: Invocation, asked: MigrateOptions, keys: list[Key]
) -> tuple[int, dict[Key, Preview]]:
    """The DaemonSets that may be migrated. Of several the others are reported and left out."""
    code, plans = 0, {}
    for key in keys:
        try:
            plans[key] = await _preview_of(invocation, asked, key)
        except (CommandError, ApiError) as error:
            if len(keys) == 1:
                raise
            code = max(code, print_failure(invocation, error))
    return code, plans


async def _preview_of(invocation: Invocation, asked: MigrateOptions, key: Key) -> Preview:
    """What the migration comes to. Raises CommandError and ApiError where it may not begin."""
    observed = await observe(invocation, key, as_native=asked.to_native)
    found = preview_of(observed, native=asked.to_native)
    if found.is_over:
        return found
    if found.why_named_only and not asked.names:
        hints = (command("migrate", key, to="if it is to be one of ours all the same"),)
        raise CommandError(f"{found.why_named_only}; left out", hints=hints, exit_code=ExitCode.REFUSED)
    await _check_rights(invocation, asked, key)
    if absence := await controller_lease.why_no_controller(invocation.session, invocation.terminal.now()):
        invocation.terminal.warn(absence, command("doctor"))
    for side in (observed.native, observed.ours):
        if side is not None:
            _refuse_if_managed(invocation, asked, key, side)
    if not asked.to_native and observed.native is not None and observed.ours is None:
        body = both_kinds.as_ours(observed.native.document)
        await documents.create(invocation.session, DAEMONSETS, key.namespace, body, dry_run=True)
    for caution in found.cautions:
        invocation.terminal.warn(caution.text, *caution.hints)
    return found


async def _check_rights(invocation: Invocation, asked: MigrateOptions, key: Key) -> None:
    """Refuse to begin without all rights: a half migration is worse than none."""
    wanted = _TO_NATIVE if asked.to_native else _TO_OURS
    answers = [await review_right(invocation.session, *one, key.namespace) for one in wanted]
    lacking = [f"{one.verb} {one.resource}" for one in answers if one.allowed is False]
    if lacking:
        raise CommandError(f"no right to {', '.join(lacking)} in {key.namespace}: nothing was begun")


def _refuse_if_managed(invocation: Invocation, asked: MigrateOptions, key: Key, side: MigrationSide) -> None:
    owners = reads.meta_of(side.document).owner_references or ()
    manager = gitops.restorer_of(side.document, owners)
    way = ("--to-native",) if asked.to_native else ()
    if manager is not None and not asked.sync_stopped:
        raise CommandError(
            f"{key.name} is managed by {manager}, which would make it again: each node would get a second pod",
            hints=(
                command("migrate", key, *way, "--print", to="how to do it"),
                command("migrate", key, *way, "--sync-stopped", to="when that is stopped"),
            ),
            exit_code=ExitCode.REFUSED,
        )
    if manager is None and (words := gitops.caution_of(key.name, side.document, owners)):
        invocation.terminal.warn(words)


def _preview_lines(plans: dict[Key, Preview], asked: MigrateOptions) -> list[str]:
    ways = "apps.kruise.io to apps/v1" if asked.to_native else "apps/v1 to apps.kruise.io"
    lines = [f"from {ways}:"]
    for key, found in plans.items():
        lines += [f"  {key}  {found.summary}", *(f"    {line}" for line in found.lines)]
    return lines


async def _print(invocation: Invocation, asked: MigrateOptions, keys: list[Key]) -> int:
    terminal = invocation.terminal
    for number, key in enumerate(keys):
        observed = await observe(invocation, key, as_native=False)
        page = manifest.migration_manifest(observed, native=asked.to_native)
        terminal.say(*(["---"] if number else []), *(f"# {line}" for line in page.comments))
        terminal.say_document(page.document, Output.YAML)
    return ExitCode.DONE
