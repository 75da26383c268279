"""Differences beyond the fields of a container: defaults, nulls, secrets, names that occur twice, and the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.base import JSONObject
from controller.api.canonical import identity
from kubectl_plugin.report.revisions.differences import differences, image_only, verdict
from kubectl_plugin.report.revisions.phrases import summary
from tests.unit.kubectl_plugin.report.templates import Edit, agent, found, template, told


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: None,
        lambda spec: spec.update(dnsPolicy="ClusterFirst", volumes=[*spec["volumes"]], affinity=None),
        lambda spec: spec.update(hostNetwork=False, imagePullSecrets=[], securityContext={}),
        lambda spec: agent(spec).update(
            imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log"
        ),
        lambda spec: agent(spec)["resources"]["limits"].update(cpu="0.1"),
        lambda spec: agent(spec)["ports"][0].update(protocol="TCP", hostPort=0),
        lambda spec: spec["volumes"][0]["secret"].update(defaultMode=420),
    ],
)
def test_what_means_the_same_is_no_difference(edit: Edit) -> None:
    assert told(edit) == []


def test_null_is_absent_on_either_side() -> None:
    cleared = template()
    cleared["metadata"] = {"creationTimestamp": None, "labels": {"app": "agent"}}
    assert differences(template(), cleared) == differences(cleared, template()) == ()


def test_a_default_that_goes_with_the_image_is_no_change_of_its_own() -> None:
    old = template(lambda spec: agent(spec).update(image="agent:latest", imagePullPolicy="Always"))
    new = template(lambda spec: agent(spec).update(image="agent:1", imagePullPolicy="Always"))
    assert [one.path[-1].field for one in differences(old, new)] == ["image"]


def test_values_are_shown_to_who_asks_for_them() -> None:
    assert told(lambda spec: agent(spec)["env"][1].update(value="other"), show_values=True) == [
        ("spec.containers[agent].env[API_TOKEN].value", "changed", "s3cret", "other")
    ]


def test_a_password_in_a_url_is_hidden_and_its_change_is_told() -> None:
    def with_password(word: str) -> JSONObject:
        return template(lambda spec: agent(spec)["env"][0].update(value=f"http://me:{word}@proxy:80"))

    old, new = with_password("one"), with_password("two")
    (one,) = differences(old, new)
    assert (one.old, one.new) == ("http://me:***@proxy:80", "http://me:***@proxy:80 (changed)")


def test_one_is_not_true() -> None:
    (one,) = differences({"spec": {"hostPID": True, "odd": [1]}}, {"spec": {"hostPID": 1, "odd": [1]}})
    assert (one.old, one.new) == (True, 1)
    assert one.new is not True


def test_names_twice_are_compared_by_place() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    old = template(lambda spec: agent(spec).update(env=twice))
    new = template(lambda spec: agent(spec).update(env=[twice[0], {"name": "A", "value": "3"}]))
    (one,) = differences(old, new)
    assert one.document == {
        "path": "spec.template.spec.containers[agent].env[1].value",
        "change": "changed",
        "old": "2",
        "new": "3",
    }


def test_metadata() -> None:
    new = template()
    new["metadata"] = {"annotations": {"kubectl.kubernetes.io/restartedAt": "2025-11-20T12:00:00Z", "a.b/c": "d"}}
    found = differences(template(), new)
    assert [one.document["path"] for one in found] == [
        "spec.template.metadata.labels[app]",
        "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]",
        "spec.template.metadata.annotations[a.b/c]",
    ]
    assert summary(found) == "- label app agent, restart, + annotation a.b/c d"


def test_a_template_without_anything() -> None:
    assert [one.document["path"] for one in differences({}, template())] == [
        "spec.template.metadata.labels[app]",
        "spec.template.spec.initContainers[setup]",
        "spec.template.spec.containers[agent]",
        "spec.template.spec.containers[scout]",
        "spec.template.spec.volumes[certs]",
        "spec.template.spec.tolerations[dedicated:NoSchedule]",
        "spec.template.spec.tolerations[*]",
        "spec.template.spec.nodeSelector[kubernetes.io/os]",
    ]


def test_ascii_words() -> None:
    words = summary(found(lambda spec: agent(spec).update(image="registry.example.com/agent:2")), only_ascii=True)
    assert words == "image agent 1.8.4 -> 2"


def test_images_are_told_first_and_long_values_not_at_all() -> None:
    def edit(spec: Any) -> None:
        spec["initContainers"][0]["env"] = [{"name": "B", "value": "x" * 25}]
        agent(spec)["env"][0]["value"] = "y" * 25
        agent(spec)["image"] = "registry.example.com/agent:2"

    assert summary(found(edit)) == "image agent 1.8.4 → 2, + env setup B, env agent LOG_LEVEL changed"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda spec: None, "no difference"),
        (lambda spec: agent(spec).update(image="a:2"), "1 change, image only: pods are re-created"),
        (lambda spec: spec["initContainers"][0].update(image="a:2"), "1 change: pods are re-created"),
        (lambda spec: agent(spec).pop("image"), "1 change: pods are re-created"),
        (lambda spec: spec.update(hostNetwork=True, hostPID=True), "2 changes: pods are re-created"),
    ],
)
def test_verdict(edit: Edit, words: str) -> None:
    assert verdict(found(edit), how="pods are re-created", on_delete=False) == words


def test_verdict_where_in_place_was_wished_for() -> None:
    def both(spec: Any) -> None:
        agent(spec).update(image="a:2")

    new = template(both)
    new["metadata"] = {"labels": {"app": "agent", "more": "yes"}}
    seen = differences(template(), new)
    assert image_only(seen)
    assert verdict(seen, how="in place, restarts agent", on_delete=False) == (
        "2 changes, image and labels and annotations only: in place, restarts agent"
    )


def test_verdict_with_on_delete() -> None:
    seen = found(lambda spec: spec.update(hostPID=True))
    assert verdict(seen, how="pods are re-created", on_delete=True) == (
        "1 change: a pod changes only when you delete it (OnDelete)"
    )


def test_a_null_on_one_side_is_a_difference_where_the_controller_sees_one() -> None:
    """Such a label comes from a file that the server would refuse."""
    old: JSONObject = {"metadata": {"labels": {"a": {"b": None}}}}
    new: JSONObject = {"metadata": {"labels": {"a": {}}}}
    assert identity(old) != identity(new)
    assert differences(old, new)
