"""Read your own writes: what each owner has to see in the caches before it may decide again.

Pure bookkeeping, no I/O. Versions are resourceVersions: integers that the server compares per resource, so a
cache whose version has reached ours has seen our write. A create or patch without an answer needs no entry: derived
names and guards on every write make it safe to try again. Owners are uids: a DaemonSet that was deleted and
created again under the same name starts with a clean page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from controller.api.base import Value

PODS = "pods"


class Stale(Value):
    """Why an owner may not decide yet."""

    waiting_for: str
    """In words, for the log: "pods at version 412, have 398"."""
    resource: str
    """The first resource whose cache is behind."""
    since: float
    """When this owner was first found stale without a break; see `STALE_WARNING` in seconds."""


STALE_WARNING = 30.0
"""Seconds of being stale after which it is worth a warning and a relist."""


class _Page(msgspec.Struct):
    versions: dict[str, int]
    deleted: dict[str, int | None]
    stale_since: float | None = None


class Ledger:
    """The writes of each owner that its caches have not shown yet.

    A version that is no integer switches the gate off for its resource, for good: the preconditions of every
    write still hold, and a gate that cannot compare must not block.
    """

    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}
        self._unordered: set[str] = set()

    def wrote(self, owner_uid: str, resource: str, version: str) -> None:
        """The server answered a create or patch of ours with this resourceVersion."""
        number = self._number(resource, version)
        if number is not None:
            page = self._page(owner_uid)
            page.versions[resource] = max(number, page.versions.get(resource, 0))

    def deleted(self, owner_uid: str, pod_uid: str, version: str | None = None) -> None:
        """The server accepted our delete of a pod. `version`: that of the dying pod, where it sent one."""
        number = self._number(PODS, version) if version else None
        self._page(owner_uid).deleted[pod_uid] = number

    def check(
        self, owner_uid: str, versions: Mapping[str, int], is_live: Callable[[str], bool], now: float
    ) -> Stale | None:
        """None when the caches have seen everything that this owner wrote.

        `versions`: for each resource, how far its cache has come. `is_live`: does the cache show the pod of
        this uid, and not deleting? Asking also drops what has been seen, and notes since when it is stale.
        """
        page = self._pages.get(owner_uid)
        if page is None:
            return None
        self._drop_seen(page, versions, is_live)
        waiting = _waiting_for(page, versions)
        if waiting is None:
            del self._pages[owner_uid]
            return None
        if page.stale_since is None:
            page.stale_since = now
        resource, words = waiting
        return Stale(waiting_for=words, resource=resource, since=page.stale_since)

    def forget(self, owner_uid: str) -> None:
        """The owner is gone."""
        self._pages.pop(owner_uid, None)

    def __len__(self) -> int:
        """Owners with something unseen."""
        return len(self._pages)

    def _page(self, owner_uid: str) -> _Page:
        page = self._pages.get(owner_uid)
        if page is None:
            page = self._pages[owner_uid] = _Page({}, {})
        return page

    def _number(self, resource: str, version: str) -> int | None:
        if resource not in self._unordered:
            if version.isascii() and version.isdigit():
                return int(version)
            self._unordered.add(resource)
        return None

    def _drop_seen(self, page: _Page, versions: Mapping[str, int], is_live: Callable[[str], bool]) -> None:
        page.versions = {
            resource: version
            for resource, version in page.versions.items()
            if resource not in self._unordered and versions.get(resource, 0) < version
        }
        pods_at = versions.get(PODS, 0)
        page.deleted = {
            uid: version
            for uid, version in page.deleted.items()
            if is_live(uid) and (version is None or pods_at < version)
        }


def _waiting_for(page: _Page, versions: Mapping[str, int]) -> tuple[str, str] | None:
    """The resource that is behind and a sentence about it, in a fixed order."""
    for resource, version in sorted(page.versions.items()):
        return resource, f"{resource} at version {version}, have {versions.get(resource, 0)}"
    for uid in sorted(page.deleted):
        return PODS, f"the deletion of pod uid {uid}"
    return None
