"""A control plane with everything installed; the controller has only the rights that its manifests give it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
import trustme

from tests.beds.audit import Audit, granted
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane, User, service_account
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import Workspace, bed_on, built
from tests.beds.kruise_rollouts import ACCOUNT as ROLLOUTS
from tests.beds.manifests import MANIFESTS, overlay_with
from tests.beds.native import native_controller
from tests.e2e.site import SITE_CONTROLLERS

ACCOUNT = service_account("kruise-ds-system", "kruise-ds-controller")
RIVAL = User("rival", ("system:authenticated",))
"""Has the same rights, so that the audit log tells two controllers apart."""
OPERATOR = User("olivia@example.com", ("system:authenticated",))
"""Runs rollouts and has the role for that, and no other."""
VIEWER = User("vera@example.com", ("system:authenticated",))
"""May look at one namespace."""
STRICT = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
"""As on clusters that guard blockOwnerDeletion: owning a pod needs a right of its own there."""
PULLS = "--feature-gates=PreDownloadImageForDaemonSetUpdate=true"


@pytest.fixture(scope="session")
def clients() -> trustme.CA:
    """The authority whose certificates `plane` takes from clients."""
    return trustme.CA()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane(
    control_plane_binaries: Binaries, clients: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """One control plane for all tests here, with scheduler, garbage collector, audit log and our manifests, those of
    image pulls too."""
    overlay = str(overlay_with(tmp_path_factory.mktemp("overlay"), "default", "image-pull"))
    trusted = tmp_path_factory.mktemp("clients") / "ca.crt"
    clients.cert_pem.write_to_path(str(trusted))
    users = [ACCOUNT, RIVAL, OPERATOR, VIEWER, ROLLOUTS]
    async with bare_plane(control_plane_binaries, users, f"--client-ca-file={trusted}") as started:
        await installed(started, overlay)
        await same_rights(started, RIVAL)
        await started.start_controller_manager(DEFAULT_CONTROLLERS)
        audit, may = Audit(started, ACCOUNT), granted(await built(started, overlay))
        yield started
        assert audit.rights() <= may, "whatever happened to the controller, it asked for nothing more"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site_plane(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A control plane with the CRD and all controllers that a Deployment needs, for tests that install and remove."""
    async with bare_plane(control_plane_binaries) as started:
        await installed(started, "crds")
        await started.start_controller_manager(SITE_CONTROLLERS)
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beside(plane: ControlPlane) -> AsyncIterator[None]:
    """The native controller runs too."""
    async with native_controller(plane):
        yield


@pytest.fixture
def plugin(bed: Workspace, plane: ControlPlane) -> Plugin:
    return Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)


def bare_plane(binaries: Binaries, users: Sequence[User] = (), *flags: str) -> ControlPlane:
    """A control plane without our manifests and without controllers; `flags` are more of kube-apiserver's.

    Those are started once the kind is installed: the garbage collector looks for new kinds only twice a minute.
    """
    return ControlPlane(
        binaries, controllers=(), scheduler=True, audit=True, users=users, apiserver_flags=[STRICT, *flags]
    )


async def installed(plane: ControlPlane, folder: str) -> None:
    """`kubectl apply --server-side -k manifests/<folder>`, and wait until the server knows all kinds."""
    await kubectl(plane, "apply", "--server-side", "-k", str(MANIFESTS / folder))
    await kubectl(plane, "wait", "--for=condition=Established", "crd", "--all")


async def kubectl(plane: ControlPlane, *words: str) -> str:
    """As the administrator; it must succeed. Returns what it prints."""
    done = await plane.run_kubectl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def same_rights(plane: ControlPlane, user: User) -> None:
    """Bind `user` to the rights of the controller, and of a leader in its namespace."""
    who = f"--user={user.name}"
    for role in ("kruise-ds-controller", "kruise-ds-controller-image-pull"):
        await kubectl(plane, "create", "clusterrolebinding", f"{user.name}-{role}", f"--clusterrole={role}", who)
    role, namespace = "--role=kruise-ds-controller-leader-election", "--namespace=kruise-ds-system"
    await kubectl(plane, "create", "rolebinding", user.name, role, namespace, who)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def controller(plane: ControlPlane) -> AsyncIterator[Controller]:
    """One controller for the tests of a module, looking after all namespaces."""
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), secrets=(ACCOUNT.token,)) as started:
        yield started


@pytest_asyncio.fixture
async def bed(plane: ControlPlane) -> AsyncIterator[Workspace]:
    """A namespace and nodes of the test's own. DaemonSets see all nodes, so no other test's are there."""
    async with bed_on(plane) as made:
        yield made
