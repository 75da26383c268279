"""Our own writes that the caches have not shown yet: until they have, their owner is not planned again.

No I/O. Versions are resourceVersions, integers that may be compared within one resource: a cache whose version has
reached that of our write has seen it. So has a cache that was listed after the server answered, whatever its version:
if such a list is older than the write, the server's storage was restored from a backup and the write is lost. A
create or patch that got no answer needs no entry, because derived names and preconditions make it safe to repeat.
Owners are uids, so a DaemonSet that is deleted and created again starts with no writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import msgspec

from controller.api.objects import Value

OF_PODS = "pods"
"""The resource of pods; only of pods are deletions remembered."""
STALE_WARNING = 30.0
"""Seconds. An owner that is stale for longer is worth a warning and a new list."""


class CacheProgress(Value):
    """How far a cache has come in seeing what the server has."""

    version: int = 0
    """The cache has seen everything up to this resourceVersion; 0: nothing yet."""
    listed: float = float("-inf")
    """When the last list was requested (`elapsed`)."""

    def covers(self, version: float, moment: float) -> bool:
        """Whether the cache has seen a write that the server answered at `moment` with this version. Also true if the
        write is lost because the server's storage was restored."""
        return self.version >= version or self.listed > moment


class Stale(Value):
    """A reason why an owner may not be planned yet."""

    waiting_for: str
    """The missing write, for the log: "pods at version 412, have 398"."""
    resource: str
    """The first resource whose cache is behind."""
    since: float
    """The moment since which every check has found this owner stale (`elapsed`)."""
    overdue: bool = False
    """True once, in the first check after more than `STALE_WARNING` seconds."""


class _Expected(msgspec.Struct):
    """The writes of one owner: the version of each (inf if the server sent none), and when the server answered."""

    versions: dict[str, tuple[float, float]]
    """By resource: its latest create or patch."""
    deletions: dict[str, tuple[float, float]]
    """By the uid of the pod."""
    stale_since: float | None = None
    is_overdue: bool = False


class Expectations:
    """Our writes for each owner that the caches have not shown yet.

    After a version that is no integer, its resource is never waited for again: what cannot be compared must not
    block, and the preconditions of every write still hold.
    """

    def __init__(self) -> None:
        self._owners: dict[str, _Expected] = {}
        self._unordered: set[str] = set()

    def expect_version(self, owner_uid: str, resource: str, version: str, now: float) -> None:
        """The server answered a create or patch of ours with this resourceVersion."""
        number = self._number(resource, version)
        if number < inf:
            versions = self._expected(owner_uid).versions
            versions[resource] = max(number, versions.get(resource, (0.0, 0.0))[0]), now

    def expect_deletion(self, owner_uid: str, pod_uid: str, now: float, version: str | None = None) -> None:
        """The server accepted our delete of a pod. `version`: that of the terminating pod, if the answer had one."""
        number = self._number(OF_PODS, version) if version else inf
        self._expected(owner_uid).deletions[pod_uid] = number, now

    def check(
        self, owner_uid: str, reached: Mapping[str, CacheProgress], is_live: Callable[[str], bool], now: float
    ) -> Stale | None:
        """The write that the caches have not shown yet; None: they have shown all of this owner.

        `reached` says how far the cache of each resource has come; `is_live`, whether the cache shows a pod of this
        uid that is not being deleted. A check also drops what has been seen, and notes since when the owner is stale.
        """
        expected = self._owners.get(owner_uid)
        if expected is None:
            return None
        progress = {resource: reached.get(resource, CacheProgress()) for resource in (*expected.versions, OF_PODS)}
        expected.versions = {
            resource: write
            for resource, write in expected.versions.items()
            if resource not in self._unordered and not progress[resource].covers(*write)
        }
        expected.deletions = {
            uid: write
            for uid, write in expected.deletions.items()
            if is_live(uid) and not progress[OF_PODS].covers(*write)
        }
        if expected.versions:
            resource, (version, _) = min(expected.versions.items())
            waiting_for = f"{resource} at version {version}, have {progress[resource].version}"
        elif expected.deletions:
            resource, waiting_for = OF_PODS, f"the deletion of pod uid {min(expected.deletions)}"
        else:
            del self._owners[owner_uid]
            return None
        if expected.stale_since is None:
            expected.stale_since = now
        is_overdue = now - expected.stale_since > STALE_WARNING
        is_new, expected.is_overdue = is_overdue and not expected.is_overdue, is_overdue
        return Stale(waiting_for=waiting_for, resource=resource, since=expected.stale_since, overdue=is_new)

    def forget(self, owner_uid: str) -> None:
        """Drop what is noted for an owner that is gone."""
        self._owners.pop(owner_uid, None)

    def __len__(self) -> int:
        """How many owners have writes that were not seen yet."""
        return len(self._owners)

    def _expected(self, owner_uid: str) -> _Expected:
        return self._owners.get(owner_uid) or self._owners.setdefault(owner_uid, _Expected({}, {}))

    def _number(self, resource: str, version: str) -> float:
        if resource not in self._unordered:
            if version.isascii() and version.isdigit():
                return int(version)
            self._unordered.add(resource)
        return inf
