"""Leader election by a Lease. `Leadership.check` verifies the right to write before each write, by the monotonic
clock, so a suspended process writes nothing when it resumes. A blocked event loop cannot check; the watchdog thread
then ends the process before another one may take the Lease. As in client-go, the clock of another holder is never
trusted: a record expires by how long this process has seen it unchanged; the times in it are informational."""

from __future__ import annotations

import asyncio
import faulthandler
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

from controller.api.objects import JSONObject, Key, ObjectMeta, Part, Value, View, as_json
from controller.api.patch import add, guarded_by_version
from controller.kube.client import Client
from controller.kube.decode import Malformed, Seen
from controller.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreadable, redacted
from controller.kube.requests import Refresh, Resource, Transport
from controller.kube.sender import Sender
from controller.runtime.clock import Clock, elapsed

T = TypeVar("T")

LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15.0, 10.0, 2.0
"""Seconds, as in client-go: how long candidates leave an unchanged Lease alone, how long a leader may write after its
last renewal, and the pause between attempts. Each must exceed the next, or two processes could lead at once."""
WATCHDOG_SECONDS = (RENEW_DEADLINE + LEASE_DURATION) / 2
"""Seconds from the last renewal until the watchdog ends the process, before another one takes over."""
MISSING_SECONDS = LEASE_DURATION - RENEW_DEADLINE
"""Seconds for which candidates leave a missing Lease to its former holder, which creates it again."""
RELEASED_SECONDS = 1
"""leaseDurationSeconds of a released Lease, as in client-go; the API does not allow 0."""
RACE_PAUSE = 0.1
"""Pause after another candidate won the race, as a share of `RETRY_PERIOD`."""
JITTER = 0.2
"""The largest random share added to a pause, so that two candidates do not keep colliding."""


class LeadershipLost(Exception):
    """Another process may lead, so this one must not write. It ends, and cancels the requests that are under way."""


class LeaseSpec(Part, omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Value):
    spec: LeaseSpec
    version: str
    """The resourceVersion, the precondition of the next write."""


def seconds_until_free(lease: Lease | None, observed_at: float, identity: str, now: float) -> float:
    """Seconds for which a candidate must leave the record alone; 0.0 if it may create or take it. `now` and
    `observed_at`, when the record was first seen unchanged, are monotonic seconds of this process."""
    if lease is None:
        return max(0.0, observed_at + MISSING_SECONDS - now)
    spec = lease.spec
    if not spec.holder_identity or spec.holder_identity == identity:
        return 0.0
    duration = LEASE_DURATION if spec.lease_duration_seconds is None else spec.lease_duration_seconds
    return max(0.0, observed_at + duration - now)


def held_spec(previous: LeaseSpec | None, identity: str, wall: float) -> LeaseSpec:
    """The record with `identity` as holder, renewed at `wall` (seconds since 1970)."""
    now, before = micro_time(wall), previous or LeaseSpec()
    mine = before.holder_identity == identity
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(LEASE_DURATION),
        acquire_time=before.acquire_time if mine else now,
        renew_time=now,
        lease_transitions=(before.lease_transitions or 0) + (previous is not None and not mine),
    )


def released_spec(previous: LeaseSpec, wall: float) -> LeaseSpec:
    now = micro_time(wall)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_SECONDS,
        acquire_time=now,
        renew_time=now,
        lease_transitions=previous.lease_transitions,
    )


def micro_time(wall: float) -> str:
    """`wall` (seconds since 1970) in the form of metav1.MicroTime: UTC, six digits."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaseView(View):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES: Resource[LeaseView, Lease] = Resource(
    group="coordination.k8s.io",
    plural="leases",
    wire=LeaseView,
    project=lambda view: Lease(spec=view.spec, version=view.metadata.resource_version),
)


class LeaseLock:
    """The record of an election. Its client has neither fence nor throttle, as an election precedes all writes. For
    any answer not described here, methods raise `ApiError` or `OSError`."""

    def __init__(self, transport: Transport, namespace: str, name: str, *, refresh: Refresh | None = None) -> None:
        self._client = Client(Sender(transport, refresh=refresh, call_seconds=RETRY_PERIOD))
        self._key = Key(namespace, name)

    async def get(self) -> Lease | None:
        """None if the Lease does not exist."""
        try:
            return await self._client.get(LEASES, self._key)
        except NotFound:
            return None

    async def create(self, spec: LeaseSpec) -> Lease | None:
        """None if one exists already."""
        namespace, name = self._key.namespace, self._key.name
        body: JSONObject = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": as_json(spec),
        }
        try:
            written = await self._client.create(LEASES, namespace, body, name=name)
        except AlreadyExists:
            return None
        return Lease(spec=spec, version=written.version)

    async def update(self, spec: LeaseSpec, version: str) -> Lease | None:
        """None if it is gone or not at `version` any more."""
        patch = guarded_by_version(version, add(as_json(spec), "spec"))
        try:
            written = await self._client.patch(LEASES, self._key, patch)
        except (Conflict, NotFound):
            return None
        return Lease(spec=spec, version=written.version)

    async def watch(self, version: str) -> AsyncGenerator[Lease | None]:
        """Yields every change after `version`, None for a deletion. Ends when the server ends the watch. The caller
        must close the generator."""
        query = (
            ("fieldSelector", f"metadata.name={self._key.name}"),
            ("resourceVersion", version),
            ("timeoutSeconds", "300"),  # five minutes: a connection must not outlive a rotated certificate by much
        )
        async with self._client.watch(LEASES, self._key.namespace, query=query) as bunches:
            async for events in bunches:
                for event in events:
                    if isinstance(event, Malformed):
                        raise Unreadable("watch", LEASES.describe(event.key), event.reason)
                    if isinstance(event, Seen):
                        yield event.obj


class Leadership:
    """Whether this process may write. False until the Lease is acquired."""

    def __init__(self) -> None:
        self.deadline = float("-inf")
        """End of the right to write (`elapsed`), counted from the last renewal's request; inf without election."""

    def is_valid(self) -> bool:
        return elapsed() < self.deadline

    def check(self) -> None:
        """Must be called before every write. Raises `LeadershipLost` unless this process may write."""
        if not self.is_valid():
            raise LeadershipLost("this process does not lead, or did not renew its lease in time; nothing is written")


def innermost(error: BaseException) -> BaseException:
    """The first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class LeaderElector:
    """Follows, acquires, renews and releases the Lease for one process, whose `identity` must be unique, also after a
    restart. `report` receives a sentence at each change."""

    def __init__(
        self,
        leadership: Leadership,
        lock: LeaseLock,
        identity: str,
        clock: Clock,
        report: Callable[[str], None],
        watchdog: Watchdog | None = None,
    ) -> None:
        self._leadership, self._lock, self._identity, self._clock = leadership, lock, identity, clock
        self._report, self._watchdog = report, watchdog
        self._lease: Lease | None = None
        self._observed_at: float | None = None
        """Since when the Lease has been unchanged (`elapsed`); None before the first read."""
        self._leads_from = float("-inf")
        """When a Lease created by this process lets it write (`elapsed`). Until then, the holder of a deleted one may
        write."""
        self._may_be_ours = False
        """Whether a write was begun that may have made this process the holder, and leadership was not lost since."""
        self._reported = ""

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Holds the leadership while the block runs. Entering waits for the Lease without limit. A lost Lease cancels
        the block and raises `LeadershipLost`; otherwise it is released at the end, for a standby to take over."""
        try:
            await self._acquire()
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(), name="lease")
                with nullcontext() if self._watchdog is None else self._watchdog.running():
                    yield
                renewing.cancel()
        except BaseExceptionGroup as errors:
            if lost := errors.subgroup(LeadershipLost):
                self._may_be_ours = False
                raise LeadershipLost(str(innermost(lost))) from errors
            raise
        finally:
            await self._release()

    async def _acquire(self) -> None:
        up_to_date = False
        while True:
            try:
                if not up_to_date:
                    self._observe(await self._bounded(self._lock.get()))
                up_to_date = False
                if seconds := self._seconds_until_free():
                    up_to_date = await self._until_free(seconds)
                    continue
                if self._lease is None:
                    self._leads_from = elapsed() + RENEW_DEADLINE
                up_to_date = await self._write()
                if self._leadership.is_valid():
                    return
                if up_to_date:  # ours; but if a Lease was deleted, its holder may not know yet
                    await asyncio.sleep(min(RETRY_PERIOD, max(0.0, self._leads_from - elapsed())))
                else:
                    await self._pause(RACE_PAUSE)
            except (ApiError, OSError) as error:
                self._report_once("cannot reach the leader lease, retrying", error)
                await self._pause(1.0)

    async def _renew(self) -> None:
        """Renews the Lease forever. Raises `LeadershipLost` at the deadline, or when another process holds it."""
        pause, because = RETRY_PERIOD, ""
        while True:  # renewals stay due however long one of them takes
            await asyncio.sleep(min(pause, max(0.0, self._leadership.deadline - elapsed())))
            if not self._leadership.is_valid():
                self._lose(f"the lease was not renewed for {RENEW_DEADLINE:g} s{because}")
            began, pause = elapsed(), RETRY_PERIOD
            try:
                if await self._write():
                    because = ""
                else:
                    await self._check_holder()
                    pause = RACE_PAUSE * RETRY_PERIOD
            except (ApiError, OSError) as error:
                because = f": {_message(error)}"
                self._report_once("renewing the leader lease fails, retrying", error)
                pause = max(0.0, began + RETRY_PERIOD - elapsed())

    async def _release(self) -> None:
        """Releases the Lease if this process holds it, in bounded time and without raising: otherwise it expires. A
        created Lease stays while the holder of a deleted one may still write."""
        try:
            if self._may_be_ours and elapsed() >= self._leads_from:
                lease = await self._bounded(self._lock.get())  # its version may be that of a write without an answer
                if lease is not None and lease.spec.holder_identity == self._identity:
                    spec = released_spec(lease.spec, self._clock())
                    if await self._bounded(self._lock.update(spec, lease.version)):
                        self._report_once("the leader lease is released")
        except (ApiError, OSError) as error:
            self._report_once("the leader lease was not released", error)
        finally:
            self._leadership.deadline = float("-inf")

    async def _until_free(self, seconds: float) -> bool:
        """Watches the Lease until it may be taken. False after `seconds` or when the watch ends: read it again."""
        lease = self._lease
        if lease is None:
            self._report_once("standing by, there is no leader lease; if it was deleted, its holder may not know yet")
            await asyncio.sleep(min(seconds, RETRY_PERIOD))  # afterwards it may be created
            return False
        self._report_once(f"standing by, {lease.spec.holder_identity} leads")
        began = elapsed()
        try:
            async with asyncio.timeout(seconds) as limit, aclosing(self._lock.watch(lease.version)) as changes:
                async for change in changes:
                    self._observe(change)
                    if change is None:
                        return False
                    seconds = self._seconds_until_free()
                    if not seconds:
                        return True
                    limit.reschedule(elapsed() + seconds)
        except TimeoutError:
            return False
        except (ApiError, OSError):
            pass  # without a watch, read the Lease every now and then
        await self._pause(1.0 if elapsed() - began < RETRY_PERIOD else RACE_PAUSE)
        return False

    async def _write(self) -> bool:
        """Writes this process into the Lease, and leads unless that was just created. False if it has changed."""
        lease = self._lease
        sent, self._may_be_ours = elapsed(), True
        spec = held_spec(lease.spec if lease else None, self._identity, self._clock())
        if lease is None:
            written = await self._bounded(self._lock.create(spec))
        else:
            written = await self._bounded(self._lock.update(spec, lease.version))
        if written is None:
            return False
        self._observe(written)
        if sent < self._leads_from:
            self._report_once("created the leader lease; waits until the holder of a deleted one must have stopped")
            return True
        self._leadership.deadline = sent + RENEW_DEADLINE
        if self._watchdog is not None:
            self._watchdog.extend(sent + WATCHDOG_SECONDS - elapsed())
        self._report_once(f"{self._identity} leads")
        return True

    async def _check_holder(self) -> None:
        """Raises `LeadershipLost` if another process holds the Lease."""
        self._observe(await self._bounded(self._lock.get()))
        if self._lease is not None and self._lease.spec.holder_identity != self._identity:
            self._lose(f"{self._lease.spec.holder_identity or 'no process'} holds the lease now")

    def _lose(self, why: str) -> NoReturn:
        self._leadership.deadline = float("-inf")
        raise LeadershipLost(why)

    def _observe(self, lease: Lease | None) -> None:
        before, self._lease = self._lease, lease
        if self._observed_at is None or (before and before.spec) != (lease and lease.spec):
            self._observed_at = elapsed()

    def _seconds_until_free(self) -> float:
        observed_at = elapsed() if self._observed_at is None else self._observed_at
        return seconds_until_free(self._lease, observed_at, self._identity, elapsed())

    async def _bounded(self, call: Awaitable[T]) -> T:
        """Awaits `call` for at most the retry period and, while leading, until the deadline. Raises TimeoutError."""
        limit = RETRY_PERIOD
        if self._leadership.is_valid():
            limit = min(limit, self._leadership.deadline - elapsed())
        async with asyncio.timeout(limit):
            return await call

    async def _pause(self, share: float) -> None:
        await asyncio.sleep(RETRY_PERIOD * share * (1.0 + JITTER * random.random()))

    def _report_once(self, state: str, error: Exception | None = None) -> None:
        if state != self._reported:
            self._reported = state
            self._report(state if error is None else f"{state}: {_message(error)}")


def _message(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else redacted(error)


class Watchdog:
    """When the deadline passes, prints on standard error where the process is blocked, and ends it with exit code 1.
    It uses real time, and a thread that needs no GIL: leave it out under a virtual clock."""

    def extend(self, seconds: float) -> None:
        """Sets the deadline to `seconds` from now."""
        faulthandler.dump_traceback_later(max(seconds, 0.001), exit=True, file=2)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The deadline holds until the block ends."""
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
