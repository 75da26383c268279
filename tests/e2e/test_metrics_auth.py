"""Protected metrics on the real API server: who gets them by which token, and what the controller asks for that."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from tests.beds.audit import Audit, Right, granted
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.installed.process import running
from tests.beds.installed.workspace import built
from tests.beds.manifests import overlay_with
from tests.e2e.conftest import ACCOUNT, bare_plane, installed, kubectl

REVIEWS = {
    Right("authentication.k8s.io", "tokenreviews", "create"),
    Right("authorization.k8s.io", "subjectaccessreviews", "create"),
}


async def tokens_of(plane: ControlPlane) -> tuple[str, str, str]:
    """Of a reader, of an account without the right, and of whom the monitors of prometheus-operator name."""
    made = []
    for name in ("reader", "stranger"):
        await kubectl(plane, "create", "serviceaccount", name)
        made.append((await kubectl(plane, "create", "token", name)).strip())
    role, account = "--clusterrole=kruise-ds-metrics-reader", "--serviceaccount=default:reader"
    await kubectl(plane, "create", "clusterrolebinding", "reads", role, account)
    key_of_tokens = f"--service-account-private-key-file={plane.folder / 'certificates' / 'apiserver.key'}"
    await plane.start_controller_manager(["serviceaccount-token-controller"], flags=[key_of_tokens])
    secret = ("secret/kruise-ds-metrics-token", "--namespace=kruise-ds-system")
    await kubectl(plane, "wait", "--for=jsonpath={.data.token}", *secret)
    scraper = await kubectl(plane, "get", *secret, "--template={{.data.token | base64decode}}")
    return made[0], made[1], scraper


@pytest.mark.real
async def test_readers_of_the_path_get_the_page_and_are_reviewed_once_a_minute(
    control_plane_binaries: Binaries, tmp_path: Path
) -> None:
    authority, chain, key = trustme.CA(), tmp_path / "tls.crt", tmp_path / "tls.key"
    pair, trusting = authority.issue_cert(LOOPBACK), ssl.create_default_context()
    pair.cert_chain_pems[0].write_to_path(str(chain))
    pair.private_key_pem.write_to_path(str(key))
    authority.configure_trust(trusting)
    overlay = str(overlay_with(tmp_path, "default", "metrics-auth"))
    options = ("--metrics-auth", f"--metrics-tls-cert-file={chain}", f"--metrics-tls-private-key-file={key}")
    async with bare_plane(control_plane_binaries, [ACCOUNT]) as plane:
        await installed(plane, overlay)
        reader, stranger, scraper = await tokens_of(plane)
        audit, secrets = Audit(plane, ACCOUNT), (ACCOUNT.token, reader, stranger, scraper)
        async with (
            running(plane.folder, plane.kubeconfig_for(ACCOUNT), *options, secrets=secrets) as controller,
            aiohttp.ClientSession() as session,
        ):

            async def scrape(authorization: str) -> tuple[int, str]:
                headers = {"Authorization": authorization} if authorization else {}
                url = f"https://{LOOPBACK}:{controller.metrics_port}/metrics"
                async with session.get(url, headers=headers, ssl=trusting) as answer:
                    return answer.status, await answer.text()

            for token in (*[reader] * 3, *[scraper] * 2):
                status, page = await scrape(f"Bearer {token}")
                assert status == 200, page
                assert "kruise_ds_build_info{" in page
            asked = await audit.until("create subjectaccessreviews", 2)
            reviews = [one for one in asked if Right(one.group, one.resource, one.verb) in REVIEWS]
            told = [f"{one.verb} {one.resource}" for one in reviews]
            assert told == ["create tokenreviews", "create subjectaccessreviews"] * 2
            for authorization in ("", "Basic cmVhZGVyOng=", "Bearer made-up"):
                status, page = await scrape(authorization)
                assert (status, "token" in page, "kruise_ds" in page) == (401, True, False)
            words = 'system:serviceaccount:default:stranger may not get nonResourceURL "/metrics"\n'
            assert await scrape(f"Bearer {stranger}") == (403, words)
            assert audit.refused() == []
            may = granted(await built(plane, overlay))
            assert REVIEWS <= audit.rights() <= may, "the component's rights are what it takes"
