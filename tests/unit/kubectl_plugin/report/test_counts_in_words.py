"""Nodes as sentences name them."""

from __future__ import annotations

import pytest

from kubectl_plugin.report.counts_in_words import between


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["c"], "c"),
        (["c", "b", "a"], "c, b, a"),
        (["d", "c", "b", "a"], "d … a"),
    ],
)
def test_few_nodes_are_named_and_many_by_both_ends(nodes: list[str], words: str) -> None:
    assert between(nodes) == words
