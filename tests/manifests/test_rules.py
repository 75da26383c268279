"""Every rule of the CRD, on the real API server, with an object that breaks only that rule."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.api.objects import JSON, JSONObject
from tests.beds.control_plane import Binaries
from tests.beds.manifests import MANIFESTS, documents, schema
from tests.manifests.conftest import Store
from tests.manifests.objects import POD, ROLLING, daemonset
from tests.manifests.refusals import REFUSALS, Refusal
from tests.manifests.server import JSON_PATCH, Server, daemonsets
from tests.tools.install_yaml import kustomized


@pytest.mark.real
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.why)
def test_the_server_refuses(server: Server, case: Refusal) -> None:
    refused_for_one_rule(server, case)


@pytest.mark.real
def test_the_other_version_has_the_rules_too(server: Server) -> None:
    """One case stands for all: the versions differ in nothing but their names, which test_schema.py proves."""
    refused_for_one_rule(server, REFUSALS[0], version="v1alpha1")


def refused_for_one_rule(server: Server, case: Refusal, **version: str) -> None:
    answer = server.try_out(daemonset(case.changes, **version))
    assert (answer.status, answer.body.get("reason")) == (422, "Invalid"), f"{case.why}: {answer.body}"
    assert len(answer.causes) == 1, f"{case.why} must break one rule only: {answer.causes}"
    field, message = answer.causes[0]
    assert field == case.field, f"{case.why}: {message}"
    assert case.says in message, case.why


def rules(node: JSON) -> list[JSONObject]:
    """All `x-kubernetes-validations` in a schema."""
    if isinstance(node, list):
        return [rule for item in node for rule in rules(item)]
    if not isinstance(node, dict):
        return []
    own = node.get("x-kubernetes-validations")
    found = [rule for rule in own if isinstance(rule, dict)] if isinstance(own, list) else []
    return found + [rule for key, value in node.items() if key != "x-kubernetes-validations" for rule in rules(value)]


def test_every_rule_has_a_message_and_an_object_that_breaks_it() -> None:
    transition = "field is immutable"  # needs two versions of an object: the next test
    for rule in rules(schema()):
        message = str(rule.get("message", ""))
        assert message, f"no message: {rule['rule']}"
        assert transition in message or any(case.says in message for case in REFUSALS), f"not tried: {message}"


@pytest.mark.real
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/selector/matchLabels", {"tier": "a"}),
        ("/spec/selector/matchExpressions", [{"key": "app", "operator": "Exists"}]),
    ],
)
def test_a_selector_never_changes(server: Server, store: Store, path: str, value: JSON) -> None:
    store(daemonset())
    change: JSON = [{"op": "add", "path": path, "value": value}]
    answer = server.ask("PATCH", f"{daemonsets()}/agent", change, JSON_PATCH)
    assert answer.status == 422
    ((field, message),) = answer.causes
    assert field == "spec.selector"
    assert "field is immutable" in message
    assert "--cascade=orphan" in message, "the way out is named"


pytestmark = pytest.mark.real

SHARED = {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": 1}
SECONDS = 30.0
"""A policy is in force some moments after it was stored."""


@pytest.fixture(scope="module")
def warning(server: Server) -> Server:
    """The server once its policies are in force."""
    deadline = time.monotonic() + SECONDS
    while not server.try_out(daemonset(SHARED)).accepted().warnings:
        assert time.monotonic() < deadline, "no policy is in force"
        time.sleep(0.1)  # nothing tells when it is
    return server


@pytest.mark.parametrize(
    "changes",
    [
        SHARED,
        SHARED | {f"{ROLLING}.maxSurge": "30%"},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.rollingUpdateType": "Surging"},
    ],
)
def test_maxsurge_with_the_nodes_own_network(warning: Server, changes: Mapping[str, object]) -> None:
    (said,) = warning.try_out(daemonset(changes)).accepted().warnings
    assert "spec.updateStrategy.rollingUpdate.maxSurge with hostNetwork" in said
    assert "Set maxSurge to 0 and maxUnavailable to 1 or more" in said


GUIDED: dict[str, object] = {"metadata.labels": {"rollouts.kruise.io/workload-type": "daemonset"}}
"""A Rollout of kruise-rollouts has found it."""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({f"{ROLLING}.steps": [{"nodes": 1}]}, "steps beside a Rollout of kruise-rollouts"),
        ({f"{ROLLING}.partition": "30%"}, "its manager cannot read it"),
    ],
    ids=["steps of both", "a percentage"],
)
def test_what_does_not_go_with_a_rollout(warning: Server, changes: dict[str, object], words: str) -> None:
    (said,) = warning.try_out(daemonset(GUIDED | changes)).accepted().warnings
    assert words in said


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {f"{POD}.hostNetwork": True},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": 0, f"{ROLLING}.maxUnavailable": 1},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": "0%", f"{ROLLING}.maxUnavailable": 1},
        {f"{POD}.hostNetwork": False, f"{ROLLING}.maxSurge": 1},
        {f"{POD}.hostNetwork": True, "spec.updateStrategy.type": "OnDelete"},
        GUIDED,
        GUIDED | {f"{ROLLING}.partition": 3},
        {f"{ROLLING}.partition": "30%", f"{ROLLING}.steps": [{"nodes": 1}]},
    ],
)
def test_nothing_is_said_where_nothing_is_shared(warning: Server, changes: Mapping[str, object]) -> None:
    assert warning.try_out(daemonset(changes)).accepted().warnings == ()


ROOT = MANIFESTS.parent
DELETION = re.compile(r"kubectl\b[^`\n]*? delete [^`\n]*?(?:-k|-f|--kustomize|--filename)[ =]([^\s`]+)")
ON_PURPOSE = "## Remove everything"


def told(text: str) -> list[str]:
    """The folders and files of all `kubectl delete -k` and `-f` in it, but for those of the section that means it."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return [path for one in sections if not one.startswith(ON_PURPOSE) for path in DELETION.findall(one)]


def texts() -> Iterator[tuple[str, str]]:
    """Each document by its path, and each of our manifests that has such a command in a comment."""
    for pattern in ("*.md", "docs/**/*.md", "manifests/**/*.yaml"):
        for path in ROOT.glob(pattern):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def holds_a_crd(kubectl: Path, path: Path) -> bool:
    built = kustomized(kubectl, path) if path.is_dir() else path.read_text()
    return any(one["kind"] == "CustomResourceDefinition" for one in documents(built))


def test_no_documented_deletion_takes_the_crd_along(control_plane_binaries: Binaries) -> None:
    commands = [(name, path) for name, text in texts() for path in told(text)]
    assert ("docs/upgrade.md", "manifests/overlays/default-without-crds") in commands
    for name, path in commands:
        assert not holds_a_crd(control_plane_binaries.kubectl, ROOT / path), f"{name}: kubectl delete … {path}"


def test_such_a_deletion_is_found_wherever_it_stands() -> None:
    text = "# A\nas in (`kubectl delete -k a/b`).\n```\nkubectl -n x delete --wait=false -f c.yaml\n```\n"
    assert told(f"{text}{ON_PURPOSE}: this\nkubectl delete -k crds\n## After\nkubectl delete --kustomize=d\n") == [
        "a/b",
        "c.yaml",
        "d",
    ]
