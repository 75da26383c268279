"""`migrate`: makes a DaemonSet one of the other kind while its pods keep running, or takes its steps back."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import pod, revision
from controller.api.formats import counted
from controller.api.names import GROUP
from controller.api.objects import Key, ObjectMeta, Ref, epoch, value_at
from controller.api.patch import guarded_by_version
from controller.api.selector import LabelSelector, as_text
from controller.kube.errors import ApiError, Conflict, NotFound, UnknownOutcome
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS
from kubectl_plugin.changes.edit import patch_of
from kubectl_plugin.cluster import documents, installation, reads
from kubectl_plugin.cluster.documents import AnyResource, list_objects, side_by_side
from kubectl_plugin.cluster.installation import review_right
from kubectl_plugin.cluster.reads import NATIVE, read_as
from kubectl_plugin.cluster.session import Invocation, Session
from kubectl_plugin.cluster.writes import warn_if_interrupted
from kubectl_plugin.commands.change_flow import for_each_object
from kubectl_plugin.commands.consent import CONTINUE, all_namespaces_error, ask_for_consent
from kubectl_plugin.errors import CommandError, ExitCode, Refused
from kubectl_plugin.flags import Output
from kubectl_plugin.migrate import preview, state
from kubectl_plugin.migrate.observed import Kind, MigratingPod, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.migrate.preview import Preview, preview_of
from kubectl_plugin.migrate.steps import ChangeObject, CreateObject, Delete, HandedOver, WaitForPods, next_step
from kubectl_plugin.options import MigrateOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.wording import command

GENERATION_LABEL: Final = "pod-template-generation"
LABEL_DIGITS: Final = 19
"""A label with this many digits or more is ignored: it may exceed the API's largest integer."""
_RESOURCES: dict[Kind, AnyResource] = {
    Kind.NATIVE: NATIVE,
    Kind.OURS: DAEMONSETS,
    Kind.REVISION: REVISIONS,
    Kind.POD: PODS,
}


def _migrating_pod(view: pod.PodView) -> MigratingPod | None:
    """None for a pod that has ended."""
    meta = view.metadata
    record = pod.project(replace(view, metadata=replace(meta, owner_references=None)))
    if record is None or record.ended:
        return None
    busy = "it is updated in place" if record.in_progress is not None else ""
    return MigratingPod(
        name=record.name,
        uid=record.uid,
        owner=_controller(meta),
        node=record.node,
        hash=record.hash,
        created=record.created,
        generation=_number((meta.labels or {}).get(GENERATION_LABEL, "")),
        busy="a hook holds it" if record.held_by_hook else busy,
        ends=epoch(meta.deletion_timestamp) if meta.deletion_timestamp is not None else None,
    )


def _number(label: str) -> int:
    """The template generation in `label`; 0 if the native controller would not write it."""
    return int(label) if label.isdecimal() and len(label) < LABEL_DIGITS else 0


def _record(view: revision.RevisionView) -> RevisionRecord | None:
    """None for a revision without a template."""
    meta, template = view.metadata, revision.template_of(view.data)
    if template is None:
        return None
    return RevisionRecord(
        name=meta.name,
        version=meta.resource_version,
        owner=_controller(meta),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        number=view.revision,
        template=template,
        terminating=meta.deletion_timestamp is not None,
    )


def _controller(meta: ObjectMeta) -> str:
    """The uid of the controlling owner; empty for an orphan."""
    return next((reference.uid for reference in meta.owner_references or () if reference.controller), "")


_PODS = read_as(PODS, pod.PodView, _migrating_pod)
_RECORDS = read_as(REVISIONS, revision.RevisionView, _record)


async def observe(invocation: Invocation, key: Key, *, as_native: bool) -> Observed:
    """Reads both DaemonSets, then their pods and revisions, which are thus at least as recent. `as_native`: if only
    the Advanced one exists, a dry run gets its template with the defaults of a native one. Raises ApiError."""
    session = invocation.session
    native, ours = await _side(session, NATIVE, key), await _side(session, DAEMONSETS, key)
    either = ours or native
    pods: list[MigratingPod] = []
    revisions: list[RevisionRecord] = []
    if either is not None:
        selector = msgspec.convert(value_at(either.document, "spec", "selector"), LabelSelector)
        query = (("labelSelector", as_text(selector)),)
        pods, revisions = await side_by_side(
            list_objects(session.client, _PODS, key.namespace, query),
            list_objects(session.client, _RECORDS, key.namespace, query),
        )
    template: object = None
    if as_native and native is None and ours is not None:
        body = state.as_native(ours.document)
        native_one = await documents.create(session, NATIVE, key.namespace, body, dry_run=True)
        template = value_at(native_one, "spec", "template")
    return Observed(
        name=key.name,
        namespace=key.namespace,
        native=native,
        ours=ours,
        pods=tuple(one for one in pods if one.ends is None),
        ending_pods=tuple(one for one in pods if one.ends is not None),
        revisions=tuple(revisions),
        now=invocation.terminal.now(),
        as_native=template if isinstance(template, dict) else None,
    )


async def _side(session: Session, resource: AnyResource, key: Key) -> MigrationSide | None:
    try:
        return MigrationSide(document=await documents.get(session, resource, key))
    except NotFound as error:
        if not error.name:
            raise
        return None


async def write_step(session: Session, key: Key, step: CreateObject | ChangeObject | Delete) -> bool:
    """Writes the step; returns False if the object has changed meanwhile. Raises ApiError."""
    resource = _RESOURCES[step.kind]
    where = Key(key.namespace, step.name)
    try:
        match step:
            case CreateObject():
                await documents.create(session, resource, key.namespace, step.body, dry_run=False)
            case ChangeObject():
                changes = patch_of(step.operations)
                changes = guarded_by_version(step.version, *changes) if step.version else changes
                await documents.patch(session, resource, where, changes, dry_run=False)
            case Delete():
                ref = Ref(namespace=key.namespace, name=step.name, uid=step.uid)
                how = "Orphan" if step.orphan else "Background"
                await session.client.delete(resource, ref, version=step.version, propagation=how)
    except (Conflict, NotFound) as error:
        if isinstance(error, NotFound) and not error.name:
            raise
        return False
    return True


READ_INTERVAL: Final = 0.3
"""Seconds between reads of the state, or the duration of a read if longer."""
QUIET_SECONDS: Final = 3.0
"""Seconds before a note names what is awaited."""
MOST_WRITES: Final = 50
"""Writes after which a migration fails. It needs about ten, and one more per conflict with another writer."""
STANDSTILL_SECONDS: Final = 60.0
"""Seconds without progress after which waiting fails; a step may allow more."""
SUCCESSOR_SECONDS: Final = 15.0
"""Seconds for which a node whose pod has ended is expected to get another."""


class MigrationCourse:
    def __init__(self, invocation: Invocation, key: Key, *, native: bool) -> None:
        self._invocation, self._key, self._native = invocation, key, native
        self._waiting: WaitForPods | None = None
        self._since = 0.0
        self._announced = ""
        self._writes = 0
        self._emptied: dict[str, float] = {}
        """When an ending pod was last seen, by node, in seconds of the event loop's clock."""

    async def run(self) -> None:
        """Takes the steps back on a failure while the former DaemonSet exists; later, prints the commands to go on
        and to go back. Raises CommandError and ApiError."""
        words = f": {self._key.name}: the migration is not finished, its pods keep running"
        with warn_if_interrupted(self._invocation.terminal, words, *self._both_commands()):
            try:
                await self._go_on()
            except (CommandError, ApiError) as error:
                await self._take_back(error)
                raise

    async def _go_on(self) -> None:
        """Reads both DaemonSets, their pods and revisions before each step. Raises CommandError and ApiError."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            observed = await observe(self._invocation, self._key, as_native=self._native)
            step = next_step(self._with_emptied_nodes(observed, began), native=self._native)
            if isinstance(step, HandedOver):
                self._invocation.terminal.say(f"{self._key.name} {step.says}")
                return
            if isinstance(step, WaitForPods):
                self._wait_for(step)
            elif await self._write(step):
                continue
            # polled, not watched: no event says that a pod is late, or that no pod is new; and each read compares
            # two DaemonSets, their history and their pods as they are at once
            await asyncio.sleep(max(READ_INTERVAL, loop.time() - began))

    def _with_emptied_nodes(self, observed: Observed, now: float) -> Observed:
        """Adds nodes that lost a pod within `SUCCESSOR_SECONDS` seconds and may not have its successor yet."""
        self._emptied |= {one.node: now for one in observed.ending_pods}
        recent = frozenset(node for node, seen in self._emptied.items() if now - seen < SUCCESSOR_SECONDS)
        return replace(observed, emptied_nodes=recent)

    async def _write(self, step: CreateObject | ChangeObject | Delete) -> bool:
        """Returns False if another writer was first or the outcome is unknown; the next read settles it. Raises
        CommandError (exit code 4) if writes never end, as when they are reverted, and ApiError."""
        self._waiting = None
        self._writes += 1
        if self._writes > MOST_WRITES:
            words = f"{self._key.name}: {step.kind}/{step.name} does not stay as it was written"
            raise CommandError(words, exit_code=ExitCode.STUCK)
        try:
            done = await write_step(self._invocation.session, self._key, step)
        except UnknownOutcome:
            return False
        if done:
            self._invocation.terminal.detail(f"  {step.kind}/{step.name} {step.says}")
        return done

    def _wait_for(self, step: WaitForPods) -> None:
        """Raises CommandError (exit code 3) after too long without progress."""
        now, before = asyncio.get_running_loop().time(), self._waiting
        if before is None or before.what != step.what or step.left < before.left:
            self._waiting, self._since = step, now
        waited = now - self._since
        if waited > QUIET_SECONDS and self._announced != step.what:
            self._announced = step.what
            self._invocation.terminal.note(f"waiting for {step.what}")
        if waited > max(STANDSTILL_SECONDS, step.seconds):
            words = f"{self._key.name}: still waiting for {step.what}"
            raise CommandError(words, *step.hints, exit_code=ExitCode.TIMED_OUT)

    async def _take_back(self, error: CommandError | ApiError) -> None:
        terminal = self._invocation.terminal
        try:
            observed = await observe(self._invocation, self._key, as_native=False)
            if not any(side is not None and side.mark is not None for side in (observed.native, observed.ours)):
                return
            former = observed.ours if self._native else observed.native
            if former is not None and not former.terminating:
                terminal.note(f"{error}; taking back what was done")
                await MigrationCourse(self._invocation, self._key, native=not self._native)._go_on()
                return
        except (CommandError, ApiError) as another:
            terminal.note(f"could not be taken back: {another}")
        terminal.warn(
            f"{self._key.name}: the migration is not finished, its pods keep running", *self._both_commands()
        )

    def _both_commands(self) -> tuple[str, str]:
        on, back = (("--to-native",), ()) if self._native else ((), ("--to-native",))
        return command("migrate", self._key, *on, to="on"), command("migrate", self._key, *back, to="back")


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
_LOOK = "look first, with --dry-run; then add --yes"


async def migrate(invocation: Invocation, options: MigrateOptions) -> ExitCode:
    """Migrates one DaemonSet after the other; the first failure ends the command."""
    keys, terminal = await _chosen_keys(invocation, options), invocation.terminal
    if options.print_:
        return await _print(invocation, options, keys)
    code, made = await for_each_object(invocation, keys, lambda key: _preview_of(invocation, options, key))
    for key, found in made:
        if found.is_over:
            terminal.say(f"{key.name} {found.summary} already")
    plans = {key: found for key, found in made if not found.is_over}
    if not plans:
        return code
    if options.dry_run:
        terminal.say(*_preview_lines(plans, options))
        return code
    what, lines = counted(len(plans), "DaemonSet"), _preview_lines(plans, options)
    ask_for_consent(terminal, what, lines, CONTINUE, yes=options.yes, hint=_LOOK)
    terminal.ignore_broken_pipe()
    for number, key in enumerate(plans):
        try:
            await MigrationCourse(invocation, key, native=options.to_native).run()
        except (CommandError, ApiError):
            if left := len(plans) - number - 1:
                terminal.note(f"{left} more: not begun")
            raise
    return code


async def _chosen_keys(invocation: Invocation, options: MigrateOptions) -> list[Key]:
    """Without names, returns all DaemonSets of the former kind and those whose migration was begun. Raises
    CommandError; Refused for -A without --yes."""
    if options.names:
        names = dict.fromkeys(reads.name_of(name.removeprefix("daemonset.apps/")) for name in options.names)
        return [Key(invocation.session.namespace, name) for name in names]
    selection = reads.selection_of(invocation, options)
    former, new = (DAEMONSETS, NATIVE) if options.to_native else (NATIVE, DAEMONSETS)
    there = await reads.readable_items(invocation, former, *selection)
    begun = await reads.readable_items(invocation, new, *selection)
    keys = sorted(there.keys() | {key for key, one in begun.items() if state.mark_of(one)})
    if not keys:
        raise CommandError("no such DaemonSet was found")
    if options.all_namespaces and not (options.yes or options.dry_run or options.print_):
        raise all_namespaces_error(len(keys), _LOOK)
    return keys


async def _preview_of(invocation: Invocation, options: MigrateOptions, key: Key) -> Preview:
    """Raises CommandError and ApiError if the migration may not begin."""
    observed = await observe(invocation, key, as_native=options.to_native)
    found = preview_of(observed, native=options.to_native)
    if found.is_over:
        return found
    if found.why_named_only and not options.names:
        hints = (command("migrate", key, to="to migrate it anyway"),)
        raise Refused(f"{found.why_named_only}; left out", *hints)
    await _check_rights(invocation, options, key)
    if absence := await installation.why_no_controller(invocation.session, invocation.terminal.now()):
        invocation.terminal.warn(absence, command("doctor"))
    for side in (observed.native, observed.ours):
        if side is not None:
            _refuse_if_managed(invocation, options, key, side)
    if not options.to_native and observed.native is not None and observed.ours is None:
        body = state.as_ours(observed.native.document)
        await documents.create(invocation.session, DAEMONSETS, key.namespace, body, dry_run=True)
    for caution in found.cautions:
        invocation.terminal.warn(caution.text, *caution.hints)
    return found


async def _check_rights(invocation: Invocation, options: MigrateOptions, key: Key) -> None:
    """Raises CommandError unless all rights are granted: a half migration is worse than none."""
    wanted = _TO_NATIVE if options.to_native else _TO_OURS
    answers = [await review_right(invocation.session, *one, key.namespace) for one in wanted]
    lacking = [f"{answer.verb} {answer.resource}" for answer in answers if answer.allowed is False]
    if lacking:
        raise CommandError(f"no right to {', '.join(lacking)} in {key.namespace}: nothing was begun")


def _refuse_if_managed(invocation: Invocation, options: MigrateOptions, key: Key, side: MigrationSide) -> None:
    owners = reads.meta_of(side.document).owner_references or ()
    manager = gitops.restorer_of(side.document, owners)
    way = ("--to-native",) if options.to_native else ()
    if manager is not None and not options.sync_stopped:
        raise Refused(
            f"{key.name} is managed by {manager}, which would make it again: each node would get a second pod",
            command("migrate", key, *way, "--print", to="how to do it"),
            command("migrate", key, *way, "--sync-stopped", to="when that is stopped"),
        )
    if manager is None and (words := gitops.caution_of(key.name, side.document, owners)):
        invocation.terminal.warn(words)


def _preview_lines(plans: dict[Key, Preview], options: MigrateOptions) -> list[str]:
    ways = "apps.kruise.io to apps/v1" if options.to_native else "apps/v1 to apps.kruise.io"
    lines = [f"from {ways}:"]
    for key, found in plans.items():
        lines += [f"  {key}  {found.summary}", *(f"    {line}" for line in found.lines)]
    return lines


async def _print(invocation: Invocation, options: MigrateOptions, keys: list[Key]) -> ExitCode:
    terminal = invocation.terminal
    for number, key in enumerate(keys):
        observed = await observe(invocation, key, as_native=False)
        page = preview.migration_manifest(observed, native=options.to_native)
        terminal.say(*(["---"] if number else []), *(f"# {line}" for line in page.comments))
        terminal.say_document(page.document, Output.YAML)
    return ExitCode.DONE
