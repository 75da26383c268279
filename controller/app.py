"""Opens the nested scopes of the process: servers ⊃ caches ⊃ leadership ⊃ events ⊃ workers. To stop, they are left in
reverse order."""

from __future__ import annotations

import asyncio
import gc
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias

import structlog

from controller.api.objects import Value
from controller.informers import Informers
from controller.kube.config import load
from controller.kube.connection import Connection
from controller.kube.errors import ConfigError
from controller.kube.prometheus import connected
from controller.kube.transport import open_transport
from controller.observe import log
from controller.observe.http import CannotListen, probe, scrape, server_tls, serving
from controller.observe.metrics import Heartbeat, exposing, heartbeat
from controller.runtime.leader_election import LeaderElector, LeadershipLost, Watchdog, innermost
from controller.runtime.workers import workers
from controller.settings import Settings, UnusableOption
from controller.wiring import Parts

Loading: TypeAlias = Coroutine[object, object, Connection]

DRAIN_SECONDS = 14.0
"""Seconds for passes in progress when the process stops. Events and the Lease get 5 s more; the pod has 30 s."""


async def main_loop(settings: Settings, *, connection_of: Callable[[str | None, str | None], Loading] = load) -> int:
    """Runs until SIGTERM or SIGINT; returns the exit code. 2: the server or an address cannot be used.
    `connection_of` gets a kubeconfig and a context."""
    log.configure(settings.log_level, settings.log_format)
    logger = structlog.get_logger()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:  # except*, because scopes wrap errors in groups
        connection = await _unless(stop, connection_of(settings.kubeconfig, settings.context))
        if connection is None:
            logger.info("stopped")
            return 0
        logger.info("starting", server=connection.server, found_in=connection.source)
        async with open_transport(connection) as transport, connected(settings) as prometheus:
            refresh = connection.credentials.refresh
            parts = Parts(settings, transport, server=connection.server, refresh=refresh, prometheus=prometheus)
            options = ProcessOptions(measures_lag=True, freezes_garbage=True, watchdog=Watchdog())
            await run(settings, parts, stop, options)
    except* ConfigError as errors:
        logger.error("cannot connect; see --kubeconfig and --context", why=innermost(errors))
        code = 2
    except* (CannotListen, UnusableOption) as errors:
        logger.error(str(innermost(errors)))
        code = 2
    except* LeadershipLost as errors:
        logger.error("leadership lost, ending: a standby goes on", why=str(innermost(errors)))
        code = 1
    except* Exception as errors:  # a bug; Python itself would print its text
        logger.critical("ended by an error", exc_info=errors)
        code = 1
    else:
        logger.info("stopped")
        code = 0
    return code


class ProcessOptions(Value):
    """What a controller does if it owns the process and its event loop; all off inside another program."""

    measures_lag: bool
    """Measure the delay of the event loop; /healthz then reports a blocked loop."""
    freezes_garbage: bool
    """Exempt all objects that exist when the caches are filled from garbage collection."""
    watchdog: Watchdog | None
    """Ends the process when the loop is blocked while it leads; for real time only."""


async def run(settings: Settings, parts: Parts, stop: asyncio.Event, options: ProcessOptions) -> None:
    """Runs the controller until `stop` is set. Raises CannotListen, and LeadershipLost inside exception groups."""
    health = _Health(parts.informers, stop)
    beating = heartbeat(parts.metrics.loop_lag.observe) if options.measures_lag else nullcontext()
    async with beating as heart, _served(settings, parts, health, heart), asyncio.TaskGroup() as group:
        acting = group.create_task(_act(settings, parts, options, health, stop), name="acting")
        await _either(group, acting, stop)
        if not health.is_acting:
            acting.cancel()  # nothing to drain: it still waits for the caches or the Lease


async def _act(
    settings: Settings, parts: Parts, options: ProcessOptions, health: _Health, stop: asyncio.Event
) -> None:
    informers, pulls = parts.informers, parts.pulls
    async with (
        informers.running(parts.client, parts.triggers, parts.instrumentation, pulls),
        frozen_garbage() if options.freezes_garbage else nullcontext(),
        _leading(settings, parts, options.watchdog),
        parts.recorder.sending(),
        parts.checks.evaluating(),
    ):
        if settings.leader_elect:
            await informers.catch_up()
        health.is_acting = True
        for daemonset in informers.caches.daemonsets.values():
            parts.queue.add(daemonset.key, "start")
        async with (
            workers(
                settings.workers,
                parts.queue,
                parts.reconciler,
                around=parts.instrumentation.passes.about,
                drain=DRAIN_SECONDS,
            ) as health.workers,
            nullcontext() if pulls is None else pulls.working(informers.catch_up_image_pulls),
        ):
            await stop.wait()


async def _unless(stop: asyncio.Event, loading: Loading) -> Connection | None:
    """The connection; None if `stop` comes first, because an exec plugin may hang or wait for input."""
    async with asyncio.TaskGroup() as group:
        found = group.create_task(loading, name="connection")
        await _either(group, found, stop)
        found.cancel()
    return None if found.cancelled() else found.result()


async def _either(group: asyncio.TaskGroup, acting: asyncio.Task[object], stop: asyncio.Event) -> None:
    stopping = group.create_task(stop.wait(), name="stop-signal")
    await asyncio.wait((acting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


@asynccontextmanager
async def frozen_garbage() -> AsyncIterator[None]:
    """Exempts all present objects, such as the caches, from garbage collection while the block runs."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@asynccontextmanager
async def _leading(settings: Settings, parts: Parts, watchdog: Watchdog | None) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if settings.leader_elect:
            report = parts.instrumentation.leadership_changed
            elector = LeaderElector(parts.leadership, parts.lease, parts.identity, parts.clock, report, watchdog)
            await stack.enter_async_context(elector.leading())
        else:
            parts.leadership.deadline = float("inf")
        parts.metrics.leads.set(1)
        stack.callback(parts.metrics.leads.set, 0)
        yield


class _Health:
    """The checks of the probes; each returns what is wrong, or "". A standby is ready."""

    def __init__(self, informers: Informers, stop: asyncio.Event) -> None:
        self._informers, self._stop = informers, stop
        self.is_acting = False
        self.workers: Sequence[asyncio.Task[None]] = ()

    def caches(self) -> str:
        waiting = [name for name, store in self._informers.caches.stores.items() if not store.filled]
        return f"not listed yet: {', '.join(waiting)}" if waiting else ""

    def tasks(self) -> str:
        ended = [task.get_name() for task in (*self._informers.tasks, *self.workers) if task.done()]
        return f"{', '.join(ended)} ended" if ended and not self._stop.is_set() else ""

    def stopping(self) -> str:
        return "shutting down" if self._stop.is_set() else ""


@asynccontextmanager
async def _served(settings: Settings, parts: Parts, health: _Health, heart: Heartbeat | None) -> AsyncIterator[None]:
    on_time = {} if heart is None else {"event-loop": heart.check}
    pages = {
        "/healthz": probe("healthz", {**on_time, "tasks": health.tasks}),
        "/readyz": probe("readyz", {"caches": health.caches, "stopping": health.stopping}),
    }
    auth = [parts.metrics_auth.middleware] if settings.metrics_auth else []
    async with (
        serving(settings.health_address, pages, option="--health-probe-bind-address"),
        exposing(parts.metrics.families) as exposition,
        serving(
            settings.metrics_address,
            {"/metrics": scrape(exposition)},
            option="--metrics-bind-address",
            tls=_metrics_tls(settings),
            middlewares=auth,
        ),
    ):
        yield


def _metrics_tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.metrics_certificate:
        return None
    try:
        return server_tls(Path(settings.metrics_certificate), Path(settings.metrics_key))
    except OSError as error:  # ssl.SSLError is one
        raise CannotListen(f"--metrics-tls-cert-file, --metrics-tls-private-key-file: {error}") from error
