"""What the migration will do, shown before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.api.formats import counted
from controller.api.objects import JSONObject, Value, fields_of, value_at
from kubectl_plugin.edits.edit import Caution
from kubectl_plugin.edits.migration import both_kinds
from kubectl_plugin.edits.migration.observed import MigrationSide, Observed
from kubectl_plugin.edits.migration.step import ChangeObject, HandedOver, MigrationStep, change_step
from kubectl_plugin.edits.migration.to_native import to_native
from kubectl_plugin.edits.migration.to_ours import to_ours
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.network_plugin import network_sign

_ROLLING_DEFAULTS: Final[JSONObject] = {"partition": 0, "paused": False, "rollingUpdateType": "Standard"}
"""Values that change nothing when the native kind has no such field."""
_SPEC_DEFAULTS: Final[JSONObject] = {"burstReplicas": 250}


class Preview(Value):
    """What a person should know before the migration of one DaemonSet."""

    summary: str
    is_over: bool = False
    """The migration is over: there is nothing to do."""
    lines: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    why_named_only: str = ""
    """Why it is migrated only when its name was given; empty if there is no such reason."""


def next_step(observed: Observed, *, native: bool) -> MigrationStep:
    """The next step to take. Raises CommandError where it cannot start, or cannot go on."""
    return _return_of_managers(observed) or (to_native(observed) if native else to_ours(observed))


def _return_of_managers(observed: Observed) -> ChangeObject | None:
    """The write of the missing field managers, which comes first for a side that is in charge already, in either
    direction."""
    for side in (observed.native, observed.ours):
        if side is not None and not side.terminating and (mark := side.mark) is not None and mark.acting:
            operations = both_kinds.give_back_managers(side.document, mark)
            return change_step(side, operations, "has the field managers of the former one")
    return None


def preview_of(observed: Observed, *, native: bool) -> Preview:
    """What the migration comes to. Raises CommandError where it may not begin."""
    step = next_step(observed, native=native)
    if isinstance(step, HandedOver):
        return Preview(summary=step.says, is_over=True)
    start = observed.ours if native else observed.native
    if start is None or start.mark is not None or (observed.native and observed.ours):
        return Preview(summary="was begun and goes on")
    if twice := observed.doubled_nodes(start):
        words = f"{observed.name} has two pods on {', '.join(twice[:3])}, as in a surge: let the surge finish first"
        raise CommandError(words, exit_code=ExitCode.REFUSED)
    pods, history = observed.pods_of(start.uid), observed.revisions_of(start.uid)
    old = observed.old_nodes(start)
    summary = f"{counted(len(pods), 'pod')} {'runs' if len(pods) == 1 else 'run'} on, none is restarted"
    lines = [f"history   {counted(len(history), 'revision')} {'goes' if len(history) == 1 else 'go'} along"]
    if old:
        lines.append(f"old       {_kept_words(old, start, native=native)}")
    if ending := len(observed.ending_of(start.uid)):
        lines.append(f"ending    {counted(ending, 'pod')} {'is' if ending == 1 else 'are'} waited for")
    if native and (fields := tuple(lost_fields(start))):
        lines.append(f"lost      a native DaemonSet has no {', '.join(fields)}")
    network = "" if native else network_sign(start.document)
    why = f"{observed.name} {network}: our controller's own pods may need it to start" if network else ""
    hint = "leave it native, unless the controller runs with hostNetwork"
    cautions = (*_finalizers(start), *((Caution(text=why, hints=(hint,)),) if why else ()))
    return Preview(summary=summary, lines=tuple(lines), cautions=cautions, why_named_only=why)


def _finalizers(start: MigrationSide) -> Iterator[Caution]:
    if start.finalizers:
        words = f"{start.name} has the finalizer {', '.join(start.finalizers)}: it is half-way until that is removed"
        yield Caution(text=words, hints=("find out who has set it, and whether they remove it on deletion",))


def kept_nodes_words(old: int) -> str:
    return f"{counted(old, 'node', 'keeps')} an older revision"


def _kept_words(old: int, start: MigrationSide, *, native: bool) -> str:
    what = kept_nodes_words(old)
    if value_at(start.document, "spec", "updateStrategy", "type") == "OnDelete":
        return what
    return f"{what}: {'the native one will be OnDelete' if native else f'partition {old}'}"


def lost_fields(ours: MigrationSide) -> Iterator[str]:
    """Fields and annotations of ours that the native kind does not have."""
    spec = fields_of(ours.document.get("spec"))
    rolling = fields_of(value_at(spec, "updateStrategy", "rollingUpdate"))
    for key in ("partition", "selector", "paused", "rollingUpdateType"):
        if rolling.get(key) not in (None, _ROLLING_DEFAULTS.get(key)):
            yield key
    for key in ("burstReplicas", "scaleStrategy", "lifecycle"):
        if spec.get(key) not in (None, {}, _SPEC_DEFAULTS.get(key)):
            yield key
    annotations = fields_of(value_at(ours.document, "metadata", "annotations"))
    yield from (f"annotation {key}" for key in sorted(annotations) if key.startswith(both_kinds.OUR_PREFIXES))
