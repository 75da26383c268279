"""One image has many names."""

from __future__ import annotations

import pytest

from controller.api.image import canonical, digest_of, same_image

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


D = "sha256:" + "a" * 64
E = "sha256:" + "b" * 64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nginx", "nginx:latest"),
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1", "index.docker.io/library/nginx:1"),
        ("nginx:1", "library/nginx:1"),
        ("kruise/agent", "docker.io/kruise/agent:latest"),
        ("localhost/agent", "localhost/agent:latest"),
        ("localhost:5000/agent", "localhost:5000/agent:latest"),
        ("registry.example/a/b/agent", "registry.example/a/b/agent:latest"),
        (f"nginx@{D}", f"docker.io/library/nginx@{D}"),
        (f"nginx:1@{D}", f"nginx:2@{D}"),
        (f"localhost:5000/agent:1@{D}", f"localhost:5000/agent@{D}"),
    ],
)
def test_the_same_image(one: str, other: str) -> None:
    assert same_image(one, other)
    assert same_image(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nginx:1", "nginx:2"),
        ("nginx", "nginx:1"),
        ("nginx", "registry.example/nginx"),
        ("kruise/agent", "library/agent"),
        ("localhost:5000/agent", "localhost:5001/agent"),
        ("localhost/agent", "docker.io/localhost/agent"),
        ("registry.example/agent", "docker.io/registry.example/agent"),
        (f"nginx@{D}", f"nginx@{E}"),
        (f"nginx@{D}", "nginx"),
        ("Nginx", "nginx"),
        ("", "nginx"),
    ],
)
def test_other_images(one: str, other: str) -> None:
    assert not same_image(one, other)
    assert not same_image(other, one)


@pytest.mark.parametrize(
    ("reference", "digest"),
    [("nginx:1", ""), (f"nginx@{D}", D), (f"localhost:5000/nginx:1@{D}", D), (D, ""), ("", "")],
)
def test_the_digest_of_a_reference(reference: str, digest: str) -> None:
    assert digest_of(reference) == digest
