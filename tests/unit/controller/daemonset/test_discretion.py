from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable
from typing import Any

import pytest

from controller.api.base import JSONObject
from controller.api.meta import Ref
from controller.daemonset.discretion import discreet, discreet_error
from controller.kube.client import Client
from controller.kube.errors import Forbidden, Invalid
from controller.kube.request import Response
from controller.kube.sender import Sender
from tests.beds.scripted import Script, Watch
from tests.beds.things import THINGS

SECRET = 's3cr3t "with\nlines"'
TEMPLATE: JSONObject = {
    "spec": {
        "containers": [
            {
                "name": "agent",
                "image": "registry.example/agent:v1",
                "args": ["--password=hunter2"],
                "env": [
                    {"name": "DATABASE", "value": SECRET},
                    {"name": "LEVEL", "value": "1"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
            }
        ]
    }
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ('webhook denied: "--password=hunter2" is bad', 'webhook denied: "(hidden)" is bad'),
        ('DATABASE is "s3cr3t \\"with\\nlines\\"", no', 'DATABASE is "(hidden)", no'),
        ('DATABASE is s3cr3t "with lines", no', "DATABASE is (hidden), no"),
        ("cut off in --password=hun…", "cut off in (hidden)…"),
        (
            'spec.containers[0].env[1].value: Invalid value: "x y": no, spec.priority: Invalid value: 7: no',
            "spec.containers[0].env[1].value: Invalid value: (hidden): no, spec.priority: Invalid value: 7: no",
        ),
        ('spec.containers[0].args[3]: Invalid value: "cut o', "spec.containers[0].args[3]: Invalid value: (hidden)"),
        (
            'spec.containers[0].image: Invalid value: "registry.example/agent:v1 ": 1 space',
            'spec.containers[0].image: Invalid value: "registry.example/agent:v1 ": 1 space',
        ),
        ("Pod x--password=hunter2-y is there", "Pod x--password=hunter2-y is there"),
        ("no fieldRef metadata.name for POD", "no fieldRef metadata.name for POD"),
    ],
)
def test_values_that_may_be_secrets_are_masked(words: str, told: str) -> None:
    assert discreet(words, TEMPLATE) == told


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["serve", "hunter2"]},
        {"args": ["hunter2"]},
        {"env": [{"name": "A", "value": "hunter2"}]},
        {"livenessProbe": {"exec": {"command": ["hunter2"]}}},
        {"livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "hunter2"}]}}},
    ],
    ids=["command", "args", "env", "a probe's command", "a header"],
)
def test_wherever_a_template_may_hold_a_secret_it_is_masked(container: JSONObject) -> None:
    assert discreet("not hunter2", {"spec": {"containers": [container]}}) == "not (hidden)"


def test_of_a_value_that_holds_another_nothing_is_left() -> None:
    words = discreet("not open sesame now", {"spec": {"containers": [{"args": ["open", "open sesame now"]}]}})
    assert words == "not (hidden)"


def test_an_error_stays_what_it_is() -> None:
    error = Invalid("create", "pods a/b", "not --password=hunter2", status=422, reason="Invalid", name="b")
    told = discreet_error(error, TEMPLATE)
    assert (type(told), told.status, told.reason, told.name) == (Invalid, 422, "Invalid", "b")
    assert str(told) == "create pods a/b: not (hidden)"


async def test_a_client_that_retells_does_so_for_every_verb_and_leaves_no_trace() -> None:
    ref = Ref(namespace="default", name="a", uid="u")
    refusal = {"kind": "Status", "message": "not --password=hunter2"}
    answer = Response(status=403, body=json.dumps(refusal).encode())
    client = Client(Sender(Script(*[answer] * 5, Watch([json.dumps(refusal).encode()], status=403))))
    discreetly = client.retelling(lambda error: discreet_error(error, TEMPLATE))
    asked: tuple[Awaitable[Any], ...] = (
        discreetly.get(THINGS, ref),
        discreetly.page(THINGS),
        discreetly.create(THINGS, "default", b"{}"),
        discreetly.patch(THINGS, ref, b"{}", sub="status"),
        discreetly.delete(THINGS, ref),
        discreetly.watch(THINGS).__aenter__(),
    )
    for request in asked:
        with pytest.raises(Forbidden, match=r"not \(hidden\)$") as raised:
            await request
        assert "hunter2" not in "".join(traceback.format_exception(raised.value))
