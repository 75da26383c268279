"""The table of docs/security.md is what the manifests grant, in every overlay that grants something."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.beds.manifests import MANIFESTS, documents
from tests.beds.rights import Right, granted
from tests.tools.install_yaml import overlays

pytestmark = pytest.mark.real

TABLE = MANIFESTS.parent / "docs" / "security.md"


def told() -> Iterator[Right]:
    """Each right that the table names, as often as it does."""
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] not in ("scope", "---"):
            _, group, resource, verbs, _ = cells
            for verb in verbs.split(", "):
                yield Right("" if group == "core" else group, resource, verb)


@pytest.mark.parametrize("overlay", overlays())
def test_the_manifests_grant_what_the_table_tells_and_nothing_else(build: Callable[[str], str], overlay: str) -> None:
    assert granted(documents(build(f"overlays/{overlay}"))) == set(told())


def test_the_table_tells_each_right_once() -> None:
    assert len(list(told())) == len(set(told()))


@pytest.mark.parametrize("overlay", ["default", "namespaced"])
def test_no_right_is_a_wildcard_and_none_reaches_secrets(build: Callable[[str], str], overlay: str) -> None:
    for right in granted(documents(build(f"overlays/{overlay}"))):
        assert "*" not in right
        assert right.resource not in ("secrets", "configmaps", "serviceaccounts/token", "pods/exec")
        assert right.verb not in ("escalate", "bind", "impersonate")
