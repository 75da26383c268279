"""How a pod's images come to its node, or do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tests.beds.nodes.back_off import BackOff
from tests.beds.nodes.behaviour import Behaviour
from tests.beds.nodes.containers import is_there

Object: TypeAlias = dict[str, Any]
Tell: TypeAlias = Callable[[Object, str, str, str, str], Awaitable[None]]
"""An event: pod, container, type, reason, message."""


class Puller:
    """For one pod, whose failures are its own: another one of the same image tries at once."""

    def __init__(self, images: set[str], tell: Tell, back_off: float) -> None:
        self._images, self._tell = images, tell
        self._failed = BackOff(back_off)
        self._words: dict[str, str] = {}
        """What the registry has said, by image."""

    def forget(self) -> None:
        self._failed.forget()

    async def get(
        self, pod: Object, container: Object, behaviour: Behaviour, let_pass: Callable[[float], Awaitable[None]]
    ) -> tuple[str, str] | None:
        """Reason and message, when the image cannot be had."""
        name, image = container["name"], container["image"]
        if is_there(image, self._images):
            words = f'Container image "{image}" already present on machine and can be accessed by the pod'
            await self._tell(pod, name, "Normal", "Pulled", words)
            return None
        if _now() < self._failed.until_after_update(image):
            await self._tell(pod, name, "Normal", "BackOff", f'Back-off pulling image "{image}"')
            await self._tell(pod, name, "Warning", "Failed", "Error: ImagePullBackOff")
            return "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {self._words[image]}'
        await self._tell(pod, name, "Normal", "Pulling", f'Pulling image "{image}"')
        seconds = behaviour.pull_seconds(image)
        await let_pass(behaviour.pull if seconds is None else seconds)
        if seconds is not None:
            self._images.add(image)
            await self._tell(pod, name, "Normal", "Pulled", f'Successfully pulled image "{image}" in {seconds:g}s')
            return None
        words = self._words[image] = _refusal(image, behaviour.registry)
        self._failed.next(image, _now(), _now())
        await self._tell(pod, name, "Warning", "Failed", f'Failed to pull image "{image}": {words}')
        await self._tell(pod, name, "Warning", "Failed", "Error: ErrImagePull")
        return "ErrImagePull", words


def _refusal(image: str, registry: str) -> str:
    """As containerd passes it on."""
    code = "NotFound" if registry == "not found" else "Unknown"
    pulling = f'failed to pull and unpack image "{image}"'
    return f"rpc error: code = {code} desc = {pulling}: failed to resolve image: {image}: {registry}"


def _now() -> float:
    return asyncio.get_running_loop().time()
