"""The ledger of our own writes that the caches have not shown yet: until they have, nothing is decided again.

No I/O. Versions are resourceVersions, integers that may be compared within one resource: a cache whose version has
reached that of our write has seen it. So has a cache that was listed after the server answered, whatever its version:
if such a list is older than the write, the server's storage was restored from a backup and the write is lost. A
create or patch that got no answer needs no entry, because derived names and preconditions make it safe to repeat.
Owners are uids, so a DaemonSet that is deleted and created again starts with no writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from controller.api.objects import Value

OF_PODS = "pods"
"""The resource of pods; only of pods are deletions remembered."""


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
    """A reason why an owner may not decide yet."""

    waiting_for: str
    """The missing write, for the log: "pods at version 412, have 398"."""
    resource: str
    """The first resource whose cache is behind."""
    since: float
    """The moment since which every check has found this owner stale (`elapsed`)."""
    overdue: bool = False
    """True once, in the first check after more than `STALE_WARNING` seconds."""


STALE_WARNING = 30.0
"""Seconds. An owner that is stale for longer is worth a warning and a new list."""


class _OwnWrite(msgspec.Struct, frozen=True):
    version: int | None
    """The resourceVersion; None: the server sent none."""
    at: float
    """When the server answered (`elapsed`)."""


class _OwnWrites(msgspec.Struct):
    written: dict[str, _OwnWrite]
    deleted: dict[str, _OwnWrite]
    stale_since: float | None = None
    is_overdue: bool = False


class Expectations:
    """Our writes for each owner that the caches have not shown yet.

    After a version that is no integer, nothing waits for its resource any more, for good: what cannot be compared
    must not block, and the preconditions of every write still hold.
    """

    def __init__(self) -> None:
        self._pages: dict[str, _OwnWrites] = {}
        self._unordered: set[str] = set()

    def expect_version(self, owner_uid: str, resource: str, version: str, now: float) -> None:
        """The server answered a create or patch of ours with this resourceVersion."""
        number = self._number(resource, version)
        if number is not None:
            page = self._page(owner_uid)
            known = page.written.get(resource)
            if known is not None and known.version is not None:
                number = max(number, known.version)
            page.written[resource] = _OwnWrite(number, now)

    def expect_deletion(self, owner_uid: str, pod_uid: str, now: float, version: str | None = None) -> None:
        """The server accepted our delete of a pod. `version`: that of the terminating pod, if the answer had one."""
        number = self._number(OF_PODS, version) if version else None
        self._page(owner_uid).deleted[pod_uid] = _OwnWrite(number, now)

    def check(
        self, owner_uid: str, reached: Mapping[str, CacheProgress], is_live: Callable[[str], bool], now: float
    ) -> Stale | None:
        """The write that the caches have not shown yet; None: they have shown all of this owner.

        `reached` says how far the cache of each resource has come; `is_live`, whether the cache shows a pod of this
        uid that is not being deleted. A check also drops what has been seen, and notes since when the owner is stale.
        """
        page = self._pages.get(owner_uid)
        if page is None:
            return None
        self._drop_seen(page, reached, is_live)
        waiting = _waiting_for(page, reached)
        if waiting is None:
            del self._pages[owner_uid]
            return None
        if page.stale_since is None:
            page.stale_since = now
        resource, words = waiting
        overdue = now - page.stale_since > STALE_WARNING and not page.is_overdue
        page.is_overdue = page.is_overdue or overdue
        return Stale(waiting_for=words, resource=resource, since=page.stale_since, overdue=overdue)

    def forget(self, owner_uid: str) -> None:
        """Drop what is noted for an owner that is gone."""
        self._pages.pop(owner_uid, None)

    def __len__(self) -> int:
        """How many owners have writes that were not seen yet."""
        return len(self._pages)

    def _page(self, owner_uid: str) -> _OwnWrites:
        page = self._pages.get(owner_uid)
        if page is None:
            page = self._pages[owner_uid] = _OwnWrites({}, {})
        return page

    def _number(self, resource: str, version: str) -> int | None:
        if resource not in self._unordered:
            if version.isascii() and version.isdigit():
                return int(version)
            self._unordered.add(resource)
        return None

    def _drop_seen(
        self, page: _OwnWrites, reached: Mapping[str, CacheProgress], is_live: Callable[[str], bool]
    ) -> None:
        page.written = {
            resource: write
            for resource, write in page.written.items()
            if resource not in self._unordered and not _covers(reached, resource, write)
        }
        page.deleted = {
            uid: write for uid, write in page.deleted.items() if is_live(uid) and not _covers(reached, OF_PODS, write)
        }


def _covers(reached: Mapping[str, CacheProgress], resource: str, write: _OwnWrite) -> bool:
    version = math.inf if write.version is None else write.version
    return reached.get(resource, CacheProgress()).covers(version, write.at)


def _waiting_for(page: _OwnWrites, reached: Mapping[str, CacheProgress]) -> tuple[str, str] | None:
    """The first resource that is behind, and a sentence about it; None if everything was seen."""
    for resource, write in sorted(page.written.items()):
        return (
            resource,
            f"{resource} at version {write.version}, have {reached.get(resource, CacheProgress()).version}",
        )
    for uid in sorted(page.deleted):
        return OF_PODS, f"the deletion of pod uid {uid}"
    return None
