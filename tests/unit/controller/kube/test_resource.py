"""Paths and words of a resource."""

from __future__ import annotations

import pytest

from controller.api.meta import Key, Ref
from controller.kube.kinds import NODES
from tests.beds.sample_kind import THINGS


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (THINGS.collection(), "/apis/example.com/v1/things"),
        (THINGS.collection("infra"), "/apis/example.com/v1/namespaces/infra/things"),
        (THINGS.path(Key("infra", "a")), "/apis/example.com/v1/namespaces/infra/things/a"),
        (THINGS.path(Key("infra", "a"), "status"), "/apis/example.com/v1/namespaces/infra/things/a/status"),
        (NODES.collection("ignored"), "/api/v1/nodes"),
        (NODES.path(Key("", "n1")), "/api/v1/nodes/n1"),
        (NODES.path(Ref(namespace="", name="../../x?y#z", uid="")), "/api/v1/nodes/..%2F..%2Fx%3Fy%23z"),
    ],
)
def test_paths_are_those_of_the_api_and_names_cannot_leave_them(path: str, expected: str) -> None:
    assert path == expected


def test_people_read_kubectls_words() -> None:
    assert THINGS.describe(Key("infra", "a"), "status") == "things.example.com/status infra/a"
    assert NODES.describe(Key("", "n1")) == "nodes n1"
