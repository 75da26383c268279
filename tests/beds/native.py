"""DaemonSets of apps/v1, as kube-controller-manager runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.beds.api import Api, Object, Resource
from tests.beds.control_plane import ControlPlane

NATIVE = Resource("/apis/apps/v1", "daemonsets", "DaemonSet")


@asynccontextmanager
async def native_controller(plane: ControlPlane) -> AsyncIterator[None]:
    """It acts as long as the block runs."""
    process = await plane.start_controller_manager(["daemonset-controller"], name="kube-controller-manager-native")
    try:
        yield
    finally:
        await process.stop()


async def native_status(api: Api, name: str, **wanted: Any) -> Object:
    """Wait until the native controller has acted on the newest spec and says so."""

    def is_so(found: list[Object]) -> bool:
        one = next((one for one in found if one["metadata"]["name"] == name), None)
        if one is None or one["status"].get("observedGeneration") != one["metadata"]["generation"]:
            return False
        return all(one["status"].get(field, 0) == value for field, value in wanted.items())

    found = await api.wait_for(NATIVE, is_so, f"status of the native DaemonSet {name} has {wanted}")
    return next(one for one in found if one["metadata"]["name"] == name)
