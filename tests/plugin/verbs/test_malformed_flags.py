"""Flags with values that mean nothing: a usage error, whatever state the object is in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.plugin.scene import NAME, NAMESPACE, Scene
from tests.plugin.test_exit_codes import IMAGE, paused, stalled
from tests.plugin.verbs.few_nodes import patches

BAD = "bogus"
WAITING = ("--wait", "--timeout", BAD)
MALFORMED: tuple[tuple[str, ...], ...] = (
    ("status", NAME, "-w", "--timeout", BAD),
    ("nodes", NAME, "--only", BAD),
    ("nodes", NAME, "--sort", BAD),
    ("list", "--phase", BAD),
    ("plan", NAME, "--partition", BAD),
    ("plan", NAME, "--max-unavailable", BAD),
    ("plan", NAME, "--image", BAD),
    ("plan", NAME, "--waves", "-1"),
    ("history", NAME, "--revision", BAD),
    ("pause", NAME, "--dry-run", BAD),
    ("resume", NAME, *WAITING),
    ("restart", NAME, "-y", *WAITING),
    ("set-partition", NAME, BAD),
    ("set-partition", NAME, "--update", BAD),
    ("set-partition", NAME, "1", *WAITING),
    ("set-image", NAME, BAD, "-y"),
    ("set-image", NAME, IMAGE, "-y", "--hold-at", BAD),
    ("set-image", NAME, IMAGE, "-y", *WAITING),
    ("rollback", NAME, "-y", "--to-revision", BAD),
    ("rollback", NAME, "-y", *WAITING),
    ("pull", "registry.example.com/agent:2", "--parallelism", BAD),
    ("pull", "registry.example.com/agent:2", "--timeout", BAD),
    ("apply", "-f", "missing.yaml", "--hold-at", BAD),
    ("migrate", NAME, "--to-native", "-y", *WAITING),
    ("promote", NAME, "--to", BAD),
    ("promote", NAME, "--to", BAD, "--wait"),
    ("promote", NAME, "--to", "101%", "--force"),
    ("promote", NAME, "--to", "1", "--soak", BAD),
    ("promote", NAME, "--to", "1", *WAITING),
)


@pytest.mark.parametrize("scene_of", [paused, stalled], ids=["paused", "stalled"])
def test_a_malformed_value_is_a_usage_error(scene_of: Callable[[], AbstractContextManager[Scene]]) -> None:
    with scene_of() as scene:
        codes = {words: scene.run(*words, "-n", NAMESPACE).code for words in MALFORMED}
        assert {words: code for words, code in codes.items() if code != 2} == {}
        assert not patches(scene)
