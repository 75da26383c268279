"""Every overlay on a real API server of its own: applied without a warning, and again without a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.absence import not_to_be_had
from tests.beds.control_plane import Binaries, ControlPlane, ControlPlaneUnavailable
from tests.beds.manifests import MANIFESTS, SAMPLES, overlay_with
from tests.manifests.conftest import SETTLED
from tests.manifests.operator import obtain_operator_crds
from tests.tools.install_yaml import INSTALL, overlays

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

VERSIONS = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A server of the module's own, with the kinds of prometheus-operator and nothing of ours."""
    try:
        kinds = obtain_operator_crds()
    except ControlPlaneUnavailable as reason:
        not_to_be_had(reason)
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:
        await done(plane, "apply", "--server-side", "-f", str(kinds))
        await done(plane, "wait", "--for=condition=Established", "crd", "--all")
        await done(plane, "create", "namespace", "team-a")
        yield plane


async def done(plane: ControlPlane, *words: str) -> str:
    """What kubectl prints; it must succeed and have nothing to say on stderr, where the server's warnings go."""
    result = await plane.run_kubectl(*words)
    assert (result.returncode, result.stderr) == (0, ""), f"kubectl {' '.join(words)}"
    return result.stdout


@pytest.mark.parametrize("overlay", overlays())
async def test_applies_without_a_warning_and_again_without_a_change(bare: ControlPlane, overlay: str) -> None:
    folder = ("-k", str(MANIFESTS / "overlays" / overlay))
    await done(bare, "apply", "--server-side", "--validate=strict", *folder)
    for what, condition in SETTLED.items():
        if not (what.startswith("crd/") and (overlay == "namespaced" or overlay.endswith("-without-crds"))):
            await done(bare, "wait", f"--for=condition={condition}", "--timeout=30s", what)
    before = await done(bare, "get", *folder, "-o", VERSIONS)
    await done(bare, "apply", "--server-side", "--validate=strict", *folder)
    after = await done(bare, "get", *folder, "-o", VERSIONS)
    assert len(before.splitlines()) > 10, overlay
    assert sorted(set(after.splitlines()) - set(before.splitlines())) == [], f"{overlay}: written although the same"


async def test_an_overlay_of_one_s_own_with_protected_metrics_applies(bare: ControlPlane, tmp_path: Path) -> None:
    folder = overlay_with(tmp_path, "production", "metrics-auth")
    await done(bare, "apply", "--server-side", "--validate=strict", "-k", str(folder))


async def test_the_one_file_and_all_samples_apply_too(bare: ControlPlane) -> None:
    await done(bare, "apply", "--server-side", "--validate=strict", "-f", str(INSTALL))
    await done(bare, "wait", "--for=condition=Established", "--timeout=30s", "crd/daemonsets.apps.kruise.io")
    for sample in SAMPLES:
        await done(bare, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", str(sample))


async def test_a_field_that_does_not_exist_would_be_noticed(bare: ControlPlane) -> None:
    misspelt = INSTALL.read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    result = await bare.run_kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=misspelt)
    assert result.returncode == 1
    assert "readOnlyRootFileSystem" in result.stderr
