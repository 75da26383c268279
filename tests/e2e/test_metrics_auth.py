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

from controller.assembly import REVIEWS_QPS
from tests.beds.audit import Audit
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.commands import LOOPBACK
from tests.beds.installed.process import PATIENCE, Controller, running
from tests.beds.installed.workspace import built
from tests.beds.manifests import overlay_with
from tests.beds.rights import Right, granted
from tests.e2e.conftest import ACCOUNT, bare_plane

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

    async def scrape(self, authorization: str = "", path: str = "/metrics") -> tuple[int, str]:
        headers = {"Authorization": authorization} if authorization else {}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"https://{LOOPBACK}:{self.controller.metrics_port}{path}", ssl=self.trusting) as answer,
        ):
            return answer.status, await answer.text()


async def until_told(guarded: Guarded, session: aiohttp.ClientSession, token: str) -> int:
    url, headers = (
        f"https://{LOOPBACK}:{guarded.controller.metrics_port}/metrics",
        {"Authorization": f"Bearer {token}"},
    )
    while True:
        try:
            async with session.get(url, headers=headers, ssl=guarded.trusting) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):  # closed, or reset with the request unread
            continue


async def kubectl(plane: ControlPlane, *words: str) -> str:
    done = await plane.run_kubectl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
        await kubectl(plane, "apply", "--server-side", "-k", str(overlay))
        await kubectl(plane, "wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
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
    for _ in range(3):
        status, page = await guarded.scrape(f"Bearer {guarded.reader}")
        assert status == 200, page
        assert "kruise_ds_build_info{" in page
    await guarded.audit.until("create tokenreviews")
    asked = await guarded.audit.until("create subjectaccessreviews")
    assert [f"{one.verb} {one.resource}" for one in asked if Right(one.group, one.resource, one.verb) in REVIEWS] == [
        "create tokenreviews",
        "create subjectaccessreviews",
    ]


async def test_the_token_that_the_monitors_name_is_enough(guarded: Guarded) -> None:
    status, page = await guarded.scrape(f"Bearer {guarded.scraper}")
    assert status == 200, page


@pytest.mark.parametrize("authorization", ["", "Basic cmVhZGVyOng=", "Bearer made-up"])
async def test_nobody_in_particular_is_told_to_show_a_token(guarded: Guarded, authorization: str) -> None:
    status, page = await guarded.scrape(authorization)
    assert status == 401
    assert "token" in page
    assert "kruise_ds" not in page


async def test_who_is_known_but_may_not_get_it_is_told_what_is_missing(guarded: Guarded) -> None:
    assert await guarded.scrape(f"Bearer {guarded.stranger}") == (
        403,
        'system:serviceaccount:default:stranger may not get nonResourceURL "/metrics"\n',
    )


async def test_a_flood_of_made_up_tokens_gets_429_and_delays_no_scraper(
    guarded: Guarded,
) -> None:
    """Ten reviews in a second, and only so many wait for theirs. Whoever is answered asks again, until one is
    told to wait: so they are a flood, however long a connection takes here. Of connections that have not asked for
    anything yet only so many are kept: who is cut off comes again."""
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


async def test_the_probes_stay_open_to_the_kubelet_and_plain(guarded: Guarded) -> None:
    await guarded.controller.ready()


async def test_the_component_s_rights_are_what_it_takes(guarded: Guarded) -> None:
    await guarded.scrape("Bearer another made-up one")
    await guarded.scrape(f"Bearer {guarded.reader}")
    await guarded.audit.until("create subjectaccessreviews")
    assert guarded.audit.refused() == []
    assert REVIEWS <= guarded.audit.rights() <= guarded.rights
