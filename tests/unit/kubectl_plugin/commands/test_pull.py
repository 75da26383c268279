"""The job that `pull` makes: names of images, labels of nodes, and a name that tells what it is for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import JSONObject
from kubectl_plugin.commands.pull import is_image, node_selector, pull_job
from kubectl_plugin.errors import CommandError

DIGEST = f"sha256:{'0' * 64}"
NOW = 1_800_000_000.0


def made(image: str = "agent:v2", **changes: Any) -> Any:
    asked = {"namespace": "obs", "nodes": None, "parallelism": 1, "secrets": (), "now": NOW}
    return pull_job(image, **(asked | changes))


@pytest.mark.parametrize(
    "name",
    [
        "agent",
        "agent:v2",
        "team/sub-team/agent__x.y:V2.0_a-b",
        "host:5000/agent",
        "host:5000/agent:v2",
        "Registry.Example.COM/agent:v2",
        "localhost/agent",
        "[::1]:5000/agent",
        f"agent@{DIGEST}",
        f"host:5000/agent:v2@{DIGEST}",
    ],
)
def test_a_name_that_a_kubelet_takes(name: str) -> None:
    assert is_image(name)
    assert made(name)["spec"]["image"] == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Agent",
        "agent v2",
        "agent:",
        ":v2",
        "agent:-v2",
        "agent:v2:v3",
        "/agent",
        "agent/",
        "host:5000/",
        "a//b",
        "https://host/agent",
        "agent@sha256:abc",
        "agent@",
        "team/Agent:v2",
        "ägent",
        f"agent:{'v' * 129}",
        "a" * 1025,
    ],
)
def test_a_name_that_no_kubelet_takes(name: str) -> None:
    with pytest.raises(CommandError, match="cannot be the name of an image") as refused:
        made(name)
    assert refused.value.exit_code == 2


def expression(key: str, operator: str, *values: str) -> JSONObject:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


SPOT = expression("spot", "DoesNotExist")


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("pool=gpu", {"matchLabels": {"pool": "gpu"}}),
        ("a.b/c==d, e=", {"matchLabels": {"a.b/c": "d", "e": ""}}),
        ("a!=b", {"matchExpressions": [expression("a", "NotIn", "b")]}),
        ("zone in (a, b),!spot", {"matchExpressions": [expression("zone", "In", "a", "b"), SPOT]}),
        ("zone notin (a),in", {"matchExpressions": [expression("zone", "NotIn", "a"), expression("in", "Exists")]}),
        ("a=b,a=c", {"matchLabels": {"a": "b"}, "matchExpressions": [expression("a", "In", "c")]}),
    ],
)  # fmt: skip
def test_labels_of_nodes_as_kubectl_writes_them(text: str, selector: JSONObject) -> None:
    assert node_selector(text) == selector


NONE = ("", ",", "=b", "a=b=c", "a b", "!a=b", "a in", "a in ()x", "zonein (a)", "a in (b", "-a", "a=-")


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_selector_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandError, match="invalid -l") as refused:
        node_selector(text)
    assert refused.value.exit_code == 2


def test_the_job_goes_away_and_has_what_was_asked_for() -> None:
    job = made("host/agent:v2", nodes="pool=gpu", parallelism="30%", secrets=("key",))
    assert job["spec"] == {
        "image": "host/agent:v2",
        "selector": {"matchLabels": {"pool": "gpu"}},
        "parallelism": "30%",
        "pullSecrets": ["key"],
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
    }
    assert made()["spec"].keys() == {"image", "parallelism", "completionPolicy"}


def test_its_name_tells_the_image_and_is_another_one_for_another_command() -> None:
    later = made(now=NOW + 0.1)
    names = (made("host:5/x/a_b.c:V1"), made(f"agent@{DIGEST}"), made(), made(nodes="a"), later)
    found = [one["metadata"]["name"] for one in names]
    assert [name.rpartition("-")[0] for name in found[:3]] == ["pull-a-b-c-v1", "pull-agent", "pull-agent-v2"]
    assert len(set(found)) == len(found)
    assert len(made(f"{'a' * 300}:v1")["metadata"]["name"]) <= 63


def test_a_secret_has_the_name_of_an_object() -> None:
    with pytest.raises(CommandError, match="invalid --pull-secret"):
        made(secrets=("No Name",))
