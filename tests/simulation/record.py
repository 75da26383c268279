"""The API server's record of a history: who wrote what and when; and the laws that only the record can answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import msgspec

from controller.api.names import HASH_LABEL, LEASE_NAME
from controller.kube.requests import Request, Response, Stream, Transport
from controller.runtime.leader_election import LEASE_DURATION, MISSING_SECONDS, RENEW_DEADLINE
from tests.beds.api import Object
from tests.beds.objects import condition, controller_of, image_of, node_of
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.kinds import DAEMONSETS, EVENTS, KINDS, LEASES, PODS, REVISIONS
from tests.beds.simulator.objects import Kind
from tests.beds.simulator.store import HistoryEntry, Watch
from tests.simulation.scene import moment

WHO: ContextVar[str] = ContextVar("who", default="server")
"""Who has sent the request that is carried out."""
MID_BATCH = "lease: lost in mid-batch"
ON_TIME: ContextVar[list[bool] | None] = ContextVar("on_time", default=None)
"""Empty where the client does not wait for the answer any more: its request was late."""
LONG_KNOWN = 60.0
"""Seconds after which each process knows of a pod."""
UNDER_WAY = 4.0
"""Seconds that a request may be under way after it was sent: less than the difference between the end of the right to
write and the earliest take-over."""


class Listener(Watch):
    """Told of every change in the very step that makes it."""

    def __init__(self, kind: Kind, tell: Callable[[HistoryEntry], None]) -> None:
        super().__init__(kind, "", "", None, bookmarks=False, version=0)
        self._tell = tell

    def offer(self, change: HistoryEntry) -> None:
        self._tell(change)

    def close(self) -> None:
        """It outlives the restore of a backup."""


class As:
    """A `Transport` whose writes the record ascribes to `who`."""

    def __init__(self, who: str, inner: Transport) -> None:
        self._who, self._inner = who, inner

    async def exchange(self, request: Request) -> Response:
        token = WHO.set(self._who)
        try:
            return await self._inner.exchange(request)
        finally:
            WHO.reset(token)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            yield stream


@dataclass
class Reign:
    """What a process did to the Lease."""

    renewed: float = float("-inf")
    """When it last wrote itself into it."""
    began: float = float("inf")
    begins: float = float("-inf")
    """From when on it may write, where another one may have held a Lease that was deleted."""
    ends: float = float("inf")
    """From when on it may write nothing, because another one may."""


@dataclass
class Record:
    cluster: Cluster
    now: Callable[[], float]
    """The loop's time."""
    lines: list[str] = field(default_factory=list)
    charges: list[str] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault has really happened."""
    judged: Counter[str] = field(default_factory=Counter)
    """How often each law was asked."""
    processes: set[str] = field(default_factory=set)
    identities: set[str] = field(default_factory=set)
    """The same, and of those that need no Lease."""
    at_work: dict[str, Callable[[], bool]] = field(default_factory=dict)
    """Whether a process has writes under way."""
    _leader: str = ""
    """Who has last written itself into the Lease."""
    _lease_written: float = float("-inf")
    _lease_gone: float = float("-inf")
    """When it was deleted; of two moments close together the first, as no candidate may see it in between."""
    _reigns: dict[str, Reign] = field(default_factory=dict)
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        for kind in KINDS:
            self.cluster.store.watches[kind].append(Listener(kind, self._happened))

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def tell(self, line: str) -> None:
        self.lines.append(f"{self.now():9.2f}  {line}")
        self._digest.update(self.lines[-1].encode())

    def charge(self, law: str, words: str) -> None:
        self.charges.append(f"{law}: {words}")
        self.tell(f"BROKEN {law}: {words}")

    def server_restored(self) -> None:
        """The Lease of the backup is what a process may have read long ago."""
        self._lease_written = float("-inf")

    def leads_since(self, who: str) -> float:
        """When it has made itself the holder of the Lease."""
        return self._reigns[who].began if who in self._reigns else float("-inf")

    def _happened(self, change: HistoryEntry) -> None:
        who, kind = WHO.get(), change.after.kind
        self._digest.update(change.line(kind.versions[0]))
        if kind is LEASES:
            if change.after.name[1] == LEASE_NAME:
                self._lease(who, change)
            return
        verb = {"ADDED": "creates", "MODIFIED": "changes", "DELETED": "removes"}[change.type]
        if kind is not EVENTS:
            self.tell(f"{who:10} {verb} {kind.plural} {change.after.name[1]}{_summary(change)}")
        if kind is REVISIONS and change.type == "DELETED" and who in self.identities:
            self._trims(change.after.object)
        if change.type == "ADDED" and who in self.identities and kind is not EVENTS:
            self._owned(kind, change.after.object)
        if who in self.processes:
            self.may_write(who, f"{verb} {kind.plural} {change.after.name[1]}")

    def _owned(self, kind: Kind, new: Object) -> None:
        """What a process creates has an owner that is there, and a pod the label of its own revision."""
        owner, of = controller_of(new), new["metadata"].get("labels", {}).get(HASH_LABEL)
        if owner.get("kind") == "ImagePullJob":
            return  # `pulls` has the laws of these
        if owner.get("uid") not in self.cluster.store.by_uid or not of:
            self.charge("owner", f"{kind.plural} {new['metadata']['name']} of {owner}, with the revision {of}")
        rest = (one.object for one in self.cluster.store.objects[REVISIONS].values())
        same = [one for one in rest if one["metadata"].get("labels", {}).get(HASH_LABEL) == of]
        if kind is PODS and same and image_of(same[0]["data"]["spec"]["template"]) != image_of(new):
            self.charge("owner", f"{new['metadata']['name']} has {image_of(new)}, and the label of another revision")

    def _trims(self, revision: Object) -> None:
        """A process deletes what no pod has, unless that came a moment ago."""
        of = revision["metadata"].get("labels", {}).get(HASH_LABEL)
        rest = (one.object for one in self.cluster.store.objects[REVISIONS].values())
        if any(one["metadata"].get("labels", {}).get(HASH_LABEL) == of for one in rest):
            return
        for pod in (one.object for one in self.cluster.store.objects[PODS].values()):
            old = self.cluster.clock() > moment(pod["metadata"]["creationTimestamp"]) + LONG_KNOWN
            if old and pod["metadata"].get("labels", {}).get(HASH_LABEL) == of and controller_of(pod):
                self.charge(
                    "revision", f"{revision['metadata']['name']} is deleted, {pod['metadata']['name']} has it"
                )

    def _lease(self, who: str, change: HistoryEntry) -> None:
        holder = (change.after.object.get("spec") or {}).get("holderIdentity") or ""
        now, last = self.cluster.clock(), self._lease_written
        gone = self._lease_gone
        if change.type == "DELETED" and now > gone + MISSING_SECONDS:
            self._lease_gone = now
        self._lease_written = now if change.type != "DELETED" else float("-inf")
        if who not in self.processes:
            self.tell(f"{who:10} {change.type.lower()} the Lease, held by {holder or 'none'}")
            return
        if not holder:
            self.tell(f"{who:10} releases the Lease")
            self._reigns.setdefault(who, Reign()).ends = now
            return
        mine = self._reigns.setdefault(who, Reign())
        before = (change.before.object.get("spec") or {}) if change.before else {}
        held = before.get("holderIdentity") not in (None, "", holder)
        if held and now - last < min(before.get("leaseDurationSeconds", LEASE_DURATION), LEASE_DURATION):
            self.charge("lease", f"{who} takes it {now - last:.2f} s after another one was written into it")
        if change.before is None and self._leader != who and now < gone + MISSING_SECONDS - 0.01:
            self.charge("lease", f"{who} creates it {now - gone:.2f} s after it was deleted, and its holder may yet")
        if change.before is None or self._leader != who:
            self._leader = who
            self.tell(f"{who:10} {'creates' if change.before is None else 'takes'} the Lease")
            self.fired["the Lease changes hands"] += any(one is not mine for one in self._reigns.values())
            self.fired[MID_BATCH] += any(other != who and at_work() for other, at_work in self.at_work.items())
            until = now + RENEW_DEADLINE if change.before is None else now
            for other, reign in self._reigns.items():
                if other != who:
                    reign.ends = min(reign.ends, until)
            mine.began, mine.ends = now, float("inf")
            if change.before is None:  # who held the deleted one may not know
                others = (one for name, one in self._reigns.items() if name != who)
                mine.begins = max((min(one.renewed + RENEW_DEADLINE, one.ends) for one in others), default=now)
        mine.renewed = now

    def may_write(self, who: str, words: str) -> None:
        """`who` does, or asks for, what `words` say."""
        self.judged["no write after the Lease was lost"] += 1
        reign, now = self._reigns.get(who, Reign()), self.cluster.clock()
        if now > reign.ends:
            self.charge("lease", f"{who} {words} {now - reign.ends:.2f} s after another one may lead")
        elif now < reign.begins:
            self.charge("lease", f"{who} {words} {reign.begins - now:.2f} s before another one has surely ended")
        elif now > reign.renewed + RENEW_DEADLINE + UNDER_WAY:
            self.charge("lease", f"{who} {words} {now - reign.renewed:.2f} s after its last renewal")


def _summary(change: HistoryEntry) -> str:
    """What of it matters in a history."""
    new = change.after.object
    if change.after.kind is PODS:
        return f" on {node_of(new)}: {_pod(new)}"
    if change.after.kind is DAEMONSETS:
        before = change.before.object if change.before else {}
        return "".join(f"; {part}" for part in _daemonset(before, new))
    return ""


def _pod(pod: Object) -> str:
    status = pod.get("status") or {}
    words = [image_of(pod).rpartition(":")[2], str(status.get("phase", "")).lower()]
    words += ["ready"] if condition(pod, "Ready").get("status") == "True" else []
    words += ["terminating"] if pod["metadata"].get("deletionTimestamp") else []
    return " ".join(words)


def _daemonset(before: Object, new: Object) -> list[str]:
    said = []
    if before.get("spec") != new.get("spec"):
        said.append(f"spec of generation {new['metadata'].get('generation')}")
    status = new.get("status") or {}
    if before.get("status") != status:
        rollout = status.get("rollout") or {}
        counts = f"{status.get('updatedNumberScheduled', 0)} of {status.get('desiredNumberScheduled', 0)} updated"
        step = f", step {rollout['step']}/{rollout.get('steps')}" if rollout.get("step") else ""
        said.append(f"status {rollout.get('phase', '')} {counts}{step}")
    notes = new["metadata"].get("annotations") or {}
    if (before.get("metadata") or {}).get("annotations") != new["metadata"].get("annotations"):
        said.append(f"annotations {msgspec.json.encode(notes).decode()[:200]}")
    return said
