"""Names of images that fit into a column."""

from __future__ import annotations

import pytest

from controller.api.base import JSONObject
from kubectl_plugin.report.revisions import images

DIGEST = "sha256:4f5c1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("image", "short"),
    [
        ("agent", "agent"),
        ("agent:1.9.0", "agent:1.9.0"),
        ("registry.example.com/team/agent:1.9.0", "agent:1.9.0"),
        ("registry.example.com:5000/agent", "agent"),
        (f"registry.example.com/agent@{DIGEST}", "agent@4f5c1a2"),
        (f"registry.example.com/agent:1.9.0@{DIGEST}", "agent:1.9.0@4f5c1a2"),
        ("", ""),
    ],
)
def test_short_name(image: str, short: str) -> None:
    assert images.short_image(image) == short


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("r.io/agent:1", "r.io/agent:2", ("1", "2")),
        (f"r.io/agent@{DIGEST}", "r.io/agent:2", ("4f5c1a2", "2")),
        (f"r.io/agent:1@{DIGEST}", "r.io/agent:1@sha256:9999999000", ("1@4f5c1a2", "1@9999999")),
        ("r.io/agent", "r.io/agent:2", ("agent", "agent:2")),
        ("r.io/agent:1", "r.io/scout:1", ("agent:1", "scout:1")),
        ("r.io/agent:1", "mirror.io/agent:1", ("r.io/agent:1", "mirror.io/agent:1")),
        ("r.io/agent:1", "mirror.io/agent:2", ("agent:1", "agent:2")),
    ],
)
def test_the_shortest_words_that_differ(old: str, new: str, words: tuple[str, str]) -> None:
    assert images.change(old, new) == words


def test_images_of_a_template_by_container() -> None:
    template: JSONObject = {
        "spec": {
            "initContainers": [{"name": "setup", "image": "setup:1"}],
            "containers": [{"name": "agent", "image": "agent:1"}, {"name": "bare"}, None],
        }
    }
    assert list(images.images_of(template).items()) == [("agent", "agent:1"), ("setup", "setup:1")]


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {"containers": None}}])
def test_an_unfinished_template_has_no_images(template: JSONObject) -> None:
    assert images.images_of(template) == {}
