"""A DaemonSet on three nodes in the middle of its way, from one line each."""

from __future__ import annotations

from typing import Any

from controller.api.objects import JSONObject
from kubectl_plugin.changes.edit import with_operations
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import MigratingPod, MigrationSide, Observed, RevisionRecord
from kubectl_plugin.migrate.state import FINALIZER, Mark

NOW = 1_000_000.0
NATIVE, OURS = "native-uid", "our-uid"
ROLLING: JSONObject = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
TEMPLATES: dict[str, JSONObject] = {
    version: {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": version}]}}
    for version in ("v1", "v2")
}


def native(mark: Mark | None = None, *, strategy: JSONObject | None = None, **more: Any) -> MigrationSide:
    if strategy is None:
        strategy = {"type": "OnDelete"} if mark is FROZEN else ROLLING
    return _side("apps/v1", NATIVE, mark, strategy, more)


def ours(mark: Mark | None = None, *, strategy: JSONObject = ROLLING, **more: Any) -> MigrationSide:
    return _side("apps.kruise.io/v1beta1", OURS, mark, strategy, more)


def _side(version: str, uid: str, mark: Mark | None, strategy: JSONObject, more: dict[str, Any]) -> MigrationSide:
    """`more`: terminating, seen, kept (by which finalizers), image, updated and misscheduled, and further fields
    of the spec."""
    meta: dict[str, Any] = {
        "name": "agent",
        "namespace": "agents",
        "uid": uid,
        "resourceVersion": "7",
        "generation": 3,
    }
    meta["labels"] = {"team": "infra"}
    meta["annotations"] = {
        **more.pop("annotations", {}),
        **({state.MIGRATION: state.mark_text(mark)} if mark else {}),
    }
    if more.pop("terminating", False):
        meta["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    if kept := more.pop("kept", ()):
        meta["finalizers"] = list(kept)
    status = {
        "observedGeneration": 3 if more.pop("seen", True) else 2,
        "updateRevision": more.pop("revision", "h2"),
        "updatedNumberScheduled": more.pop("updated", 3),
        "numberMisscheduled": more.pop("misscheduled", 0),
    }
    template = TEMPLATES[more.pop("image", "v2")]
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template, "updateStrategy": strategy, **more}
    return MigrationSide(
        document={"apiVersion": version, "kind": "DaemonSet", "metadata": meta, "spec": spec, "status": status}
    )


def still(**more: Any) -> MigrationSide:
    """Ours, when it is to be deleted."""
    found = ours(GOING, kept=KEPT, **more).document
    return MigrationSide(document=with_operations(found, state.stop_creates_of_ours(found)))


def pods(
    owner: str,
    *,
    old: int = 0,
    age: float = 60.0,
    busy: str = "",
    nodes: int = 3,
    generation: int = 0,
    ends: float | None = None,
) -> tuple[MigratingPod, ...]:
    return tuple(
        MigratingPod(
            name=f"agent-{number}",
            uid=f"pod-{number}",
            owner=owner,
            node=f"node-{number}",
            hash="h1" if number < old else "h2",
            created=NOW - age,
            generation=generation,
            busy=busy,
            ends=ends,
        )
        for number in range(nodes)
    )


def history(owner: str, *, first: int = 1) -> tuple[RevisionRecord, ...]:
    """Revisions of v1 and v2, numbered from `first`."""
    return tuple(
        RevisionRecord(
            name=f"agent-h{number}",
            version="5",
            owner=owner,
            labels={"app": "agent", "controller-revision-hash": f"h{number}"},
            annotations={},
            number=first + number - 1,
            template=TEMPLATES[f"v{number}"],
        )
        for number in (1, 2)
    )


def observed(
    native: MigrationSide | None = None,
    ours: MigrationSide | None = None,
    pods: tuple[MigratingPod, ...] = (),
    revisions: tuple[RevisionRecord, ...] = (),
    ending: tuple[MigratingPod, ...] = (),
    emptied: frozenset[str] = frozenset(),
) -> Observed:
    return Observed(
        name="agent",
        namespace="agents",
        native=native,
        ours=ours,
        pods=pods,
        revisions=revisions,
        now=NOW,
        ending_pods=ending,
        emptied_nodes=emptied,
        as_native=TEMPLATES["v2"] if native is None and ours is not None else None,
    )


COMING = Mark(strategy=ROLLING, uid=NATIVE, hold=True)
"""On ours, while the native one is in charge."""
FROZEN = Mark(strategy=ROLLING)
"""On the native one, then."""
GOING = Mark(strategy=ROLLING)
"""On ours, before it is deleted."""
KEPT = (FINALIZER,)
ORPHANING = ("orphan", FINALIZER)
ACTING = Mark(strategy=ROLLING, managers=({"manager": "helm", "apiVersion": "apps/v1"},), acting=True)
"""On either, when it is in charge and has not the managers of the former one yet."""
