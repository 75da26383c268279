"""The controller's writes that its caches do not show yet; until they do, their owner is not planned again.

resourceVersions are integers that are comparable within one resource. A cache has seen a write if its version has
reached that of the write, or if it was listed after the answer: if that list is older, a backup was restored and the
write is lost. Unanswered creates and patches need no entry: derived names and preconditions make them repeatable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, nextafter

import msgspec

from controller.api.objects import Value

OF_PODS = "pods"
"""The resource of pods, the only one whose deletions are recorded."""
STALE_WARNING = 30.0
"""Seconds after which a stale owner causes a warning and a new list."""


class CacheProgress(Value):
    version: int = 0
    """The resourceVersion up to which the cache has seen everything; 0 before the first list."""
    listed: float = float("-inf")
    """When the last list was requested (`elapsed`)."""

    def covers(self, version: float, moment: float) -> bool:
        """Whether the cache has seen a write of this version, answered at `moment`, or a restored server lost it."""
        return self.version >= version or self.listed > moment


class Stale(Value):
    waiting_for: str
    """The missing write, for the log: "pods at version 412, have 398"."""
    resource: str
    since: float
    """Since when every check has found this owner stale (`elapsed`)."""
    overdue: bool = False
    """True only in the first check after more than `STALE_WARNING` seconds."""


class _Expected(msgspec.Struct):
    """The writes of one owner: for each its version (inf if the server sent none) and when the server answered."""

    versions: dict[str, tuple[float, float]]
    """The latest create or patch, by resource."""
    deletions: dict[str, tuple[float, float]]
    """By pod uid."""
    stale_since: float | None = None
    is_overdue: bool = False


class Expectations:
    """The writes, by owner, that the caches do not show yet. A resource with a version that is not an integer is
    never waited for again: what cannot be compared must not block, and the preconditions of writes still hold."""

    def __init__(self) -> None:
        self._owners: dict[str, _Expected] = {}
        self._unordered: set[str] = set()

    def expect_version(self, owner_uid: str, resource: str, version: str, moment: float) -> None:
        """Records the resourceVersion with which the server answered a create or patch."""
        number = self._number(resource, version)
        if number < inf:
            versions = self._expected(owner_uid).versions
            versions[resource] = max(number, versions.get(resource, (0.0, 0.0))[0]), moment

    def expect_deletion(self, owner_uid: str, pod_uid: str, moment: float, version: str | None = None) -> None:
        """Records an accepted pod deletion. `version`: that of the terminating pod, if the answer had one."""
        number = self._number(OF_PODS, version) if version else inf
        self._expected(owner_uid).deletions[pod_uid] = number, moment

    def expect_lists(self, owner_uid: str, resources: Iterable[str], moment: float) -> None:
        """Waits for lists of these resources that are requested at `moment` or later."""
        self._expected(owner_uid).versions.update(dict.fromkeys(resources, (inf, nextafter(moment, -inf))))

    def check(
        self, owner_uid: str, reached: Mapping[str, CacheProgress], is_live: Callable[[str], bool], moment: float
    ) -> Stale | None:
        """Returns the first write that the caches do not show yet, or None. `reached`: the progress of each
        resource's cache; `is_live`: whether the cache shows a pod of this uid that is not terminating."""
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
            expected.stale_since = moment
        is_overdue = moment - expected.stale_since > STALE_WARNING
        is_new, expected.is_overdue = is_overdue and not expected.is_overdue, is_overdue
        return Stale(waiting_for=waiting_for, resource=resource, since=expected.stale_since, overdue=is_new)

    def forget(self, owner_uid: str) -> None:
        self._owners.pop(owner_uid, None)

    def _expected(self, owner_uid: str) -> _Expected:
        return self._owners.get(owner_uid) or self._owners.setdefault(owner_uid, _Expected({}, {}))

    def _number(self, resource: str, version: str) -> float:
        if resource not in self._unordered:
            if version.isascii() and version.isdigit():
                return int(version)
            self._unordered.add(resource)
        return inf
