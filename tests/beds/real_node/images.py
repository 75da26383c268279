"""The images of the tests: the agent in as many versions as are asked for, and what a pod's sandbox runs."""

from __future__ import annotations

from pathlib import Path

from tests.beds.oci import Image, image, layer, write_archive
from tests.beds.real_node.documents import PAUSE

HOST = "registry.test"


class Images:
    """Made of one program, read once."""

    def __init__(self, agent: Path) -> None:
        self._layer = layer({"agent": agent.read_bytes()})

    def agent(self, version: str, *layers: bytes, **environment: str) -> Image:
        """Serves its version and environment on port 8080, and /ready; agent/main.go has what can be asked of it.

        `layers` are more of them, for an image that takes long to pull.
        """
        variables = {"VERSION": version, **environment}
        return image(
            [self._layer, *layers],
            Entrypoint=["/agent"],
            Env=[f"{name}={value}" for name, value in variables.items()],
            User="65532:65532",
        )

    def versions(self) -> dict[str, Image]:
        """What tests roll out, by name in the registry."""
        return {f"agent:{version}": self.agent(version) for version in ("v1", "v2", "v3")}

    def pause(self, folder: Path) -> Path:
        """The archive that every node needs before its first pod."""
        return write_archive(folder / "pause.tar", {PAUSE: image([self._layer], Entrypoint=["/agent", "pause"])})
