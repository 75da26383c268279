"""A namespace on a real server."""

from __future__ import annotations

import pytest

from controller.api.objects import Key
from controller.kube.kubeconfig import Access
from tests.beds.api import Api
from tests.beds.control_plane import ControlPlane


class Place:
    """A namespace on the real server, and the administrator's way to it."""

    def __init__(self, plane: ControlPlane, namespace: str, api: Api) -> None:
        self.plane, self.namespace, self.api = plane, namespace, api
        self.access = Access(kubeconfig=str(plane.kubeconfig))
        self.agent = Key(namespace, "agent")

    async def kubectl_says(self, *words: str) -> str:
        """The first line that kubectl prints when it fails."""
        done = await self.plane.run_kubectl(*words)
        assert done.returncode == 1, done.stdout
        return done.stderr.splitlines()[0]


@pytest.fixture
def place(plane: ControlPlane, real_api: Api) -> Place:
    return Place(plane, real_api.namespace, real_api)
