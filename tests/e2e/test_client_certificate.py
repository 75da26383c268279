"""A certificate and its key instead of a token: the plugin is whom the server takes kubectl for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import trustme

from tests.beds.control_plane import Binaries
from tests.beds.control_plane.kubectl import run_to_end
from tests.beds.objects import demo
from tests.e2e.conftest import bare_plane, installed

pytestmark = pytest.mark.real

WHO = "carol"


async def test_who_comes_with_a_certificate_is_known_by_its_name(complete_binaries: Binaries, tmp_path: Path) -> None:
    """An authority that the server does not know vouches for nobody."""
    authority, stranger = trustme.CA(), trustme.CA()
    trusted, own, key, alien = (tmp_path / name for name in ("ca.crt", "own.crt", "own.key", "alien.crt"))
    authority.cert_pem.write_to_path(str(trusted))
    pair = authority.issue_cert(f"{WHO}.example.com", common_name=WHO)
    pair.cert_chain_pems[0].write_to_path(str(own))
    pair.private_key_pem.write_to_path(str(key))
    other = stranger.issue_cert(f"{WHO}.example.com", common_name=WHO)
    other.private_key_and_cert_chain_pem.write_to_path(str(alien))
    async with bare_plane(complete_binaries, (), f"--client-ca-file={trusted}") as plane:
        await installed(plane, "crds")
        manifest = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **demo("agent")}
        assert (await plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(manifest))).returncode == 0

        async def pause(*flags: str) -> tuple[int, str, str]:
            server = (f"--server={plane.url}", f"--certificate-authority={plane.ca_path}")
            command = (sys.executable, "-m", "kubectl_plugin", "pause", "agent", "-n", "default", *server, *flags)
            return await run_to_end(command, {"PATH": ""})

        flags = (f"--client-certificate={own}", f"--client-key={key}")
        code, _, err = await pause(*flags)
        assert (code, f'User "{WHO}" cannot get resource "daemonsets"' in err) == (1, True), err
        bound = ("create", "clusterrolebinding", WHO, "--clusterrole=cluster-admin", f"--user={WHO}")
        assert (await plane.run_kubectl(*bound)).returncode == 0
        code, _, err = await pause(*flags)
        assert code == 0, err
        noted = await plane.run_kubectl(
            "get", "ads", "agent", "-o", r"jsonpath={.metadata.annotations.kruise-ds/last-action}"
        )
        assert json.loads(noted.stdout)["by"] == WHO
        code, _, err = await pause(f"--client-certificate={alien}", f"--client-key={alien}")
        assert (code, "must be logged in" in err) == (1, True), err
