"""Read your own writes: what each owner has to see in the caches before it may decide again.

Pure bookkeeping, no I/O. Versions are resourceVersions: integers that the server compares per resource, so a
cache whose version has reached ours has seen our write. So has one that was listed after the server had answered,
whatever its version: where such a list is older than the write, the server's storage was restored from a backup, and
the write never was. A create or patch without an answer needs no entry: derived
names and guards on every write make it safe to try again. Owners are uids: a DaemonSet that was deleted and
created again under the same name starts with a clean page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from controller.api.base import Value

PODS = "pods"


class Reach(Value):
    """How far a cache has come."""

    version: int = 0
    """Everything up to this resourceVersion is known; 0: nothing yet."""
    listed: float = float("-inf")
    """When the list was asked for from which it has come so far (`elapsed`)."""

    def covers(self, version: float, moment: float) -> bool:
        """Whether the cache has seen a write that the server answered at `moment` with this version; also where the
        write is lost because the server's storage was restored."""
        return self.version >= version or self.listed > moment


class Stale(Value):
    """Why an owner may not decide yet."""

    waiting_for: str
    """In words, for the log: "pods at version 412, have 398"."""
    resource: str
    """The first resource whose cache is behind."""
    since: float
    """Since when every check has found this owner stale."""
    overdue: bool = False
    """It has lasted for longer than `STALE_WARNING`; True only once while it lasts."""


STALE_WARNING = 30.0
"""Seconds of being stale after which it is worth a warning and a relist."""


class _OwnWrite(msgspec.Struct, frozen=True):
    version: int | None
    """None: the server sent none."""
    at: float
    """When it answered."""


class _OwnWrites(msgspec.Struct):
    written: dict[str, _OwnWrite]
    deleted: dict[str, _OwnWrite]
    stale_since: float | None = None
    is_overdue: bool = False


class Ledger:
    """The writes for each owner that the caches have not shown yet.

    A version that is no integer switches the gate off for its resource, for good: the preconditions of every
    write still hold, and a gate that cannot compare must not block.
    """

    def __init__(self) -> None:
        self._pages: dict[str, _OwnWrites] = {}
        self._unordered: set[str] = set()

    def wrote(self, owner_uid: str, resource: str, version: str, now: float) -> None:
        """The server answered a create or patch of ours with this resourceVersion."""
        number = self._number(resource, version)
        if number is not None:
            page = self._page(owner_uid)
            known = page.written.get(resource)
            if known is not None and known.version is not None:
                number = max(number, known.version)
            page.written[resource] = _OwnWrite(number, now)

    def deleted(self, owner_uid: str, pod_uid: str, now: float, version: str | None = None) -> None:
        """The server accepted our delete of a pod. `version`: that of the dying pod, where it sent one."""
        number = self._number(PODS, version) if version else None
        self._page(owner_uid).deleted[pod_uid] = _OwnWrite(number, now)

    def check(
        self, owner_uid: str, reached: Mapping[str, Reach], is_live: Callable[[str], bool], now: float
    ) -> Stale | None:
        """None when the caches have seen everything that this owner wrote.

        `reached`: for each resource, how far its cache has come. `is_live`: does the cache show the pod of
        this uid, and not deleting? Asking also drops what has been seen, and notes since when it is stale.
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
        """The owner is gone."""
        self._pages.pop(owner_uid, None)

    def __len__(self) -> int:
        """Owners with something unseen."""
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

    def _drop_seen(self, page: _OwnWrites, reached: Mapping[str, Reach], is_live: Callable[[str], bool]) -> None:
        page.written = {
            resource: write
            for resource, write in page.written.items()
            if resource not in self._unordered and not _covers(reached, resource, write)
        }
        page.deleted = {
            uid: write for uid, write in page.deleted.items() if is_live(uid) and not _covers(reached, PODS, write)
        }


def _covers(reached: Mapping[str, Reach], resource: str, write: _OwnWrite) -> bool:
    version = math.inf if write.version is None else write.version
    return reached.get(resource, Reach()).covers(version, write.at)


def _waiting_for(page: _OwnWrites, reached: Mapping[str, Reach]) -> tuple[str, str] | None:
    """The resource that is behind and a sentence about it, in a fixed order."""
    for resource, write in sorted(page.written.items()):
        return resource, f"{resource} at version {write.version}, have {reached.get(resource, Reach()).version}"
    for uid in sorted(page.deleted):
        return PODS, f"the deletion of pod uid {uid}"
    return None
