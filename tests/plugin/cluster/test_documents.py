"""Whole objects in, whole objects out."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from controller.api import patch as json_patch
from controller.api.objects import Key
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import Conflict, Gone, NotFound, UnknownOutcome, Unreadable
from controller.kube.requests import DAEMONSETS, Response
from kubectl_plugin.cluster import documents, installation
from kubectl_plugin.cluster.session import Session, open_session, session_over
from tests.beds import api as kit
from tests.beds.objects import demo
from tests.beds.scripted import Script, Watch, ok
from tests.plugin.cluster.conftest import ALONE, Simulated

AGENT = Key("default", "agent")
ME = "kubectl-kruise-ds"


async def test_an_object_comes_with_every_field(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        found = await documents.get(session, DAEMONSETS, AGENT)
    assert found == await simulated.api.get(kit.DAEMONSETS, "agent")


async def test_a_patch_returns_the_object_as_it_is_afterwards(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        before: Any = await documents.get(session, DAEMONSETS, AGENT)
        patch = json_patch.guarded_by_uid(before["metadata"]["uid"], json_patch.add(7, "spec", "minReadySeconds"))
        after: Any = await documents.patch(session, DAEMONSETS, AGENT, patch, dry_run=False, field_manager=ME)
    assert after["spec"]["minReadySeconds"] == 7
    assert after == await simulated.api.get(kit.DAEMONSETS, "agent")
    assert simulated.watched.requests[-1].query == (("fieldManager", ME),)


async def test_a_dry_run_says_what_would_be_and_changes_nothing(simulated: Simulated) -> None:
    patch = (json_patch.add(7, "spec", "minReadySeconds"),)
    async with open_session(ALONE, simulated.access) as session:
        answer: Any = await documents.patch(session, DAEMONSETS, AGENT, patch, dry_run=True, field_manager=ME)
        assert answer["spec"]["minReadySeconds"] == 7
        kept: Any = await documents.get(session, DAEMONSETS, AGENT)
    assert kept["spec"]["minReadySeconds"] == 0
    assert simulated.watched.requests[0].query == (("dryRun", "All"), ("fieldManager", ME))


async def test_a_patch_upon_a_stale_version_is_a_conflict(simulated: Simulated) -> None:
    patch = json_patch.guarded_by_version("1", json_patch.add(7, "spec", "minReadySeconds"))
    async with open_session(ALONE, simulated.access) as session:
        with pytest.raises(Conflict):
            await documents.patch(session, DAEMONSETS, AGENT, patch, dry_run=False, field_manager=ME)


async def test_a_new_object_is_returned_as_stored_and_a_dry_run_keeps_none(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        for name, dry_run in (("tried", True), ("kept", False)):
            made: Any = await documents.create(
                session, DAEMONSETS, "default", demo(name), dry_run=dry_run, field_manager=ME
            )
            assert (made["metadata"]["name"], bool(made["metadata"]["uid"])) == (name, True)
    names = [found["metadata"]["name"] for found in await simulated.api.list(kit.DAEMONSETS)]
    assert sorted(names) == ["agent", "kept"]


async def test_a_missing_object_is_named_and_a_missing_kind_is_not(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        with pytest.raises(NotFound) as raised:
            await documents.get(session, DAEMONSETS, Key("default", "gone"))
    assert raised.value.name == "gone"


async def test_a_server_that_does_not_say_who_we_are_is_no_failure(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        assert await installation.who_am_i(session) == ""


def scripted(*answers: Response | Watch) -> Session:
    return session_over(Script(*answers), Connection(server="http://x", credentials=Credentials()))


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_who_we_are_is_unknown_where_that_is_refused(status: int) -> None:
    assert await installation.who_am_i(scripted(Response(status=status))) == ""


async def test_who_we_are_as_the_server_says_it() -> None:
    body = b'{"status":{"userInfo":{"username":"alice@example.com","groups":["dev"]}}}'
    assert await installation.who_am_i(scripted(ok(body, 201))) == "alice@example.com"
    assert await installation.who_am_i(scripted(ok(b"{}", 201))) == ""


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"a":"\xff"}'], ids=["html", "list", "no utf-8"])
async def test_an_answer_that_is_no_object_is_unreadable_or_in_doubt(body: bytes) -> None:
    with pytest.raises(Unreadable):
        await documents.get(scripted(ok(body)), DAEMONSETS, AGENT)
    with pytest.raises(UnknownOutcome):
        await documents.patch(scripted(ok(body)), DAEMONSETS, AGENT, (), dry_run=False, field_manager=ME)


@pytest.mark.parametrize(
    "line", [b'{"type":"MODIFIED"}', b"<html>", b'{"object":{"spec":' + b"[" * 5000], ids=["cut", "html", "deep"]
)
async def test_a_watched_object_that_cannot_be_read_is_unreadable(line: bytes) -> None:
    """However deep it nests: a command that waits reads it anew, and does not end with a traceback."""
    session = scripted(Watch((line + b"\n",)))
    async with aclosing(documents.watch(session, DAEMONSETS, AGENT, "1")) as events:
        with pytest.raises(Unreadable):
            await anext(events)


async def test_a_watch_of_one_object_that_the_server_ends_says_why() -> None:
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    async with aclosing(documents.watch(scripted(Watch((gone,))), DAEMONSETS, AGENT, "1")) as events:
        with pytest.raises(Gone, match=r"^watch daemonsets\.apps\.kruise\.io default/agent: too old$"):
            await anext(events)
