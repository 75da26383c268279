"""Exec plugins of a kubeconfig: when they are run again, and who waits for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest

from controller.kube.credentials import Credential, ExecPlugin, Program
from controller.kube.errors import ConfigError
from tests.beds.virtual_time import virtual_time


class Slow(Program):
    """Takes as long as it is let, and hands out certificates."""

    def __init__(self) -> None:
        super().__init__({"command": "login"}, "context one")
        self.runs, self.ends = 0, asyncio.Event()

    async def run(self) -> Credential:
        self.runs += 1
        await self.ends.wait()
        return Credential(authorization="new", certificate={"client-certificate-data": "new.crt"})


OLD = Credential(authorization="old", expiry=100.0)


FIRST, SECOND = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))


async def second(credential: Credential) -> ssl.SSLContext:
    assert credential.certificate == {"client-certificate-data": "new.crt"}
    return SECOND


async def misfit(credential: Credential) -> ssl.SSLContext:
    raise ssl.SSLError("key values mismatch")


TlsWith = Callable[[Credential], Awaitable[ssl.SSLContext]]


def plugin_of(program: Slow, now: list[float], tls_with: TlsWith = second) -> ExecPlugin:
    return ExecPlugin(program, OLD, FIRST, tls_with, lambda: now[0])


async def turns() -> None:
    """A few of the loop, enough for a task to begin."""
    for _ in range(3):
        await asyncio.sleep(0)


@virtual_time
async def test_a_hanging_plugin_delays_only_those_without_a_good_token() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 39.0
        assert await plugin.authorization() == "old"
        await turns()
        assert program.runs == 0
        now[0] = 41.0
        assert await plugin.authorization() == "old"
        assert await plugin.authorization() == "old"
        await turns()
        assert program.runs == 1, "it is renewed a minute before it expires"
        program.ends.set()
        await plugin.refresh()
        assert await plugin.authorization() == "new"
        assert program.runs == 1


@virtual_time
async def test_a_caller_that_stops_waiting_leaves_the_plugin_to_the_others() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 150.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await plugin.authorization()
        program.ends.set()
        await plugin.refresh()
        assert await plugin.authorization() == "new"
        assert program.runs == 1, "it was still running"


@virtual_time
async def test_everybody_waits_for_the_run_that_replaces_an_expired_token() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 150.0
        asked = [asyncio.create_task(plugin.authorization()) for _ in range(3)]
        while not program.runs:  # only a turn of the loop each
            await asyncio.sleep(0)
        late = await asyncio.wait([*asked, asyncio.create_task(plugin.authorization())], timeout=0.02)
        assert not late[0], "somebody was sent off with the expired one"
        program.ends.set()
        assert await asyncio.gather(*asked) == ["new"] * 3


@virtual_time
async def test_a_rotated_client_certificate_makes_new_connections_if_it_fits_its_key() -> None:
    program = Slow()
    program.ends.set()
    plugin = plugin_of(program, [0.0])
    async with plugin.renewing():
        assert plugin.tls() is FIRST
        await plugin.refresh()
        assert plugin.tls() is SECOND
    plugin = plugin_of(program, [0.0], misfit)
    async with plugin.renewing():
        with pytest.raises(ConfigError, match=r"cannot renew the credentials: .*key values mismatch"):
            await plugin.refresh()
        assert plugin.tls() is FIRST


@virtual_time
async def test_a_failed_run_ends_only_itself_and_the_blocks_errors_pass() -> None:
    class Broken(Slow):
        async def run(self) -> Credential:
            self.runs += 1
            raise ValueError("no such region")

    now, cause, mistake = [0.0], OSError("cut off"), RuntimeError("of the block")
    program = Broken()
    plugin = plugin_of(program, now)

    async def block() -> None:
        async with plugin.renewing():
            now[0] = 41.0
            assert await plugin.authorization() == "old"
            await turns()
            assert program.runs == 1
            assert await plugin.authorization() == "old", "nobody has waited for that run"
            raise mistake from cause

    with pytest.raises(RuntimeError) as raised:
        await block()
    assert raised.value is mistake
    assert raised.value.__cause__ is cause
