"""Protected metrics on the real API server: who gets them by which token, and what the controller asks for that."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from itertools import count
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio
import trustme

from controller.wiring import REVIEWS_QPS
from tests.beds.audit import Audit, Right, granted
from tests.beds.control_plane import Binaries
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.installed.process import PATIENCE, Controller, running
from tests.beds.installed.workspace import built
from tests.beds.manifests import overlay_with
from tests.e2e.conftest import ACCOUNT, bare_plane, installed, kubectl

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]
FLOOD = 200
REVIEWS = {
    Right("authentication.k8s.io", "tokenreviews", "create"),
    Right("authorization.k8s.io", "subjectaccessreviews", "create"),
}


class Guarded(NamedTuple):
    """One controller that nothing else happens to; `reader` and `stranger` are tokens of service accounts, `scraper`
    is the one that the monitors of prometheus-operator name."""

    controller: Controller
    audit: Audit
    rights: set[Right]
    trusting: ssl.SSLContext
    reader: str
    stranger: str
    scraper: str

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.controller.metrics_port}/metrics"

    async def scrape(self, authorization: str) -> tuple[int, str]:
        headers = {"Authorization": authorization} if authorization else {}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(self.url, ssl=self.trusting) as answer,
        ):
            return answer.status, await answer.text()


async def until_told(guarded: Guarded, session: aiohttp.ClientSession, token: str) -> int:
    url, headers = guarded.url, {"Authorization": f"Bearer {token}"}
    while True:
        try:
            async with session.get(url, headers=headers, ssl=guarded.trusting) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):  # closed, or reset with the request unread
            continue


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(complete_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder, authority = tmp_path_factory.mktemp("overlay"), trustme.CA()
    pair, (chain, key) = authority.issue_cert(LOOPBACK), (folder / "tls.crt", folder / "tls.key")
    pair.cert_chain_pems[0].write_to_path(str(chain))
    pair.private_key_pem.write_to_path(str(key))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    overlay = overlay_with(folder, "default", "metrics-auth")
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await installed(plane, str(overlay))
        tokens = []
        for name in ("reader", "stranger"):
            await kubectl(plane, "create", "serviceaccount", name)
            tokens.append((await kubectl(plane, "create", "token", name)).strip())
        role, account = "--clusterrole=kruise-ds-metrics-reader", "--serviceaccount=default:reader"
        await kubectl(plane, "create", "clusterrolebinding", "reads", role, account)
        key_of_tokens = f"--service-account-private-key-file={plane.folder / 'certificates' / 'apiserver.key'}"
        await plane.start_controller_manager(["serviceaccount-token-controller"], flags=[key_of_tokens])
        secret = ("secret/kruise-ds-metrics-token", "--namespace=kruise-ds-system")
        await kubectl(plane, "wait", "--for=jsonpath={.data.token}", *secret)
        tokens.append(await kubectl(plane, "get", *secret, "--template={{.data.token | base64decode}}"))
        audit = Audit(plane, ACCOUNT)
        options = ("--metrics-auth", f"--metrics-tls-cert-file={chain}", f"--metrics-tls-private-key-file={key}")
        async with running(
            plane.folder, plane.kubeconfig_for(ACCOUNT), *options, secrets=(ACCOUNT.token, *tokens)
        ) as controller:
            rights = granted(await built(plane, str(overlay)))
            yield Guarded(controller, audit, rights, trusting, *tokens)


async def test_a_reader_of_the_path_gets_the_page_and_is_reviewed_once_a_minute(guarded: Guarded) -> None:
    """A reader is whom the role is bound to, and whom the monitors of prometheus-operator name."""
    for token in (*[guarded.reader] * 3, *[guarded.scraper] * 2):
        status, page = await guarded.scrape(f"Bearer {token}")
        assert status == 200, page
        assert "kruise_ds_build_info{" in page
    asked = await guarded.audit.until("create subjectaccessreviews", 2)
    reviews = [one for one in asked if Right(one.group, one.resource, one.verb) in REVIEWS]
    assert [f"{one.verb} {one.resource}" for one in reviews] == [
        "create tokenreviews",
        "create subjectaccessreviews",
    ] * 2
    assert guarded.audit.refused() == []
    assert REVIEWS <= guarded.audit.rights() <= guarded.rights, "the component's rights are what it takes"


@pytest.mark.parametrize("authorization", ["", "Basic cmVhZGVyOng=", "Bearer made-up"])
async def test_without_a_known_token_one_is_asked_for(guarded: Guarded, authorization: str) -> None:
    status, page = await guarded.scrape(authorization)
    assert status == 401
    assert "token" in page
    assert "kruise_ds" not in page


async def test_a_known_account_without_the_right_is_told_what_is_missing(guarded: Guarded) -> None:
    assert await guarded.scrape(f"Bearer {guarded.stranger}") == (
        403,
        'system:serviceaccount:default:stranger may not get nonResourceURL "/metrics"\n',
    )


async def test_a_flood_of_made_up_tokens_gets_429_and_delays_no_scraper(
    guarded: Guarded,
) -> None:
    """Ten reviews in a second, and only so many wait for theirs. Each asks again until one is told to wait, so that
    they are a flood however long a connection takes. Of connections that have not asked for anything yet only so many
    are kept: a client that is cut off comes again."""
    await guarded.scrape(f"Bearer {guarded.reader}")
    loop, told, numbers = asyncio.get_running_loop(), list[int](), count()

    async def knock() -> None:
        while True:
            told.append(await until_told(guarded, session, f"made-up {next(numbers)}"))
            if 429 in told:
                return

    began = loop.time()
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as group,
    ):
        for _ in range(FLOOD):
            group.create_task(knock())
        scraped = await until_told(guarded, session, guarded.reader)
    assert scraped == 200
    assert {*told} == {401, 429}
    assert 401 in told[told.index(429) :], "before those whose turn comes are answered"
    assert told.count(401) <= REVIEWS_QPS * (1.0 + loop.time() - began)
