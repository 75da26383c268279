"""One image has many names."""

from __future__ import annotations

import pytest

from controller.api.image import canonical

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.29", "docker.io/library/nginx:1.29"),
        ("docker.io/nginx:1.29", "docker.io/library/nginx:1.29"),
        ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("someone/tool:2", "docker.io/someone/tool:2"),
        ("registry.example.com/tool", "registry.example.com/tool:latest"),
        ("registry.example.com/a/b/tool:2", "registry.example.com/a/b/tool:2"),
        ("host:5000/tool", "host:5000/tool:latest"),
        ("localhost/tool:2", "localhost/tool:2"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"host:5000/tool:2@{DIGEST}", f"host:5000/tool@{DIGEST}"),
    ],
)
def test_an_image_has_one_canonical_name(reference: str, name: str) -> None:
    assert canonical(reference) == name
    assert canonical(name) == name
