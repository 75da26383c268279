"""Every overlay on a real API server: applied without a warning, and again without a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.control_plane import ControlPlane
from tests.beds.manifests import SAMPLES, overlay_with
from tests.manifests.conftest import SETTLED
from tests.tools.install_yaml import INSTALL, overlays

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

VERSIONS = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}"


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def surroundings(operated: ControlPlane) -> None:
    """What the overlays expect to be there besides: a team's namespace."""
    await done(operated, "create", "namespace", "team-a")


async def done(plane: ControlPlane, *words: str) -> str:
    """What kubectl prints; it must succeed and have nothing to say on stderr, where the server's warnings go."""
    result = await plane.run_kubectl(*words)
    assert (result.returncode, result.stderr) == (0, ""), f"kubectl {' '.join(words)}"
    return result.stdout


@pytest.mark.parametrize("overlay", overlays())
async def test_applies_without_a_warning_and_again_without_a_change(
    bare: ControlPlane, build: Callable[[str], str], overlay: str, tmp_path: Path
) -> None:
    file = tmp_path / "built.yaml"
    file.write_text(build(f"overlays/{overlay}"))
    apply = ("apply", "--server-side", "--validate=strict", "-f", str(file))
    await done(bare, *apply)
    for condition, objects in SETTLED.items():
        if condition != "Established" or "kind: CustomResourceDefinition" in file.read_text():
            await done(bare, "wait", f"--for=condition={condition}", "--timeout=30s", *objects)
    before = await done(bare, "get", "-f", str(file), "-o", VERSIONS)
    after = await done(bare, *apply, "-o", VERSIONS)
    assert len(before.splitlines()) > 10, overlay
    assert sorted(set(after.splitlines()) - set(before.splitlines())) == [], f"{overlay}: written although the same"


async def test_an_overlay_of_one_s_own_with_protected_metrics_applies(bare: ControlPlane, tmp_path: Path) -> None:
    folder = overlay_with(tmp_path, "production", "metrics-auth")
    await done(bare, "apply", "--server-side", "--validate=strict", "-k", str(folder))


async def test_the_one_file_and_all_samples_apply_too(bare: ControlPlane) -> None:
    await done(bare, "apply", "--server-side", "--validate=strict", "-f", str(INSTALL))
    await done(bare, "wait", "--for=condition=Established", "--timeout=30s", "crd/daemonsets.apps.kruise.io")
    samples = [word for sample in SAMPLES for word in ("-f", str(sample))]
    await done(bare, "apply", "--server-side", "--validate=strict", "--dry-run=server", *samples)


async def test_a_field_that_does_not_exist_would_be_noticed(bare: ControlPlane) -> None:
    misspelt = INSTALL.read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    result = await bare.run_kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=misspelt)
    assert result.returncode == 1
    assert "readOnlyRootFileSystem" in result.stderr
