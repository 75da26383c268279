"""What is told of an error holds no value of a template that may be a secret."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controller.api.base import JSONObject
from controller.api.meta import Ref
from controller.daemonset.redaction import TURN, KnownSecrets, Secrets, redacted, redacted_error, secret_values
from controller.kube.client import Client
from controller.kube.errors import Forbidden, Invalid
from controller.kube.request import Response
from controller.kube.sender import Sender
from tests.beds.sample_kind import THINGS
from tests.beds.scripted import Script, Watch

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


def secrets_of(template: JSONObject) -> Secrets:
    secrets = Secrets()
    for value in secret_values(template):
        secrets.add(value)
    return secrets


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
    assert redacted(words, secrets_of(TEMPLATE)) == told


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
    assert redacted("not hunter2", secrets_of({"spec": {"containers": [container]}})) == "not (hidden)"


def test_of_a_value_that_holds_another_nothing_is_left() -> None:
    words = redacted("not open sesame now", secrets_of({"spec": {"args": ["open", "open sesame now"]}}))
    assert words == "not (hidden)"


def test_an_error_stays_what_it_is() -> None:
    error = Invalid("create", "pods a/b", "not --password=hunter2", status=422, reason="Invalid", name="b")
    told = redacted_error(error, secrets_of(TEMPLATE))
    assert (type(told), told.status, told.reason, told.name) == (Invalid, 422, "Invalid", "b")
    assert str(told) == "create pods a/b: not (hidden)"


async def test_a_client_that_retells_does_so_for_every_verb_and_leaves_no_trace() -> None:
    ref = Ref(namespace="default", name="a", uid="u")
    refusal = {"kind": "Status", "message": "not --password=hunter2"}
    answer = Response(status=403, body=json.dumps(refusal).encode())
    client = Client(Sender(Script(*[answer] * 5, Watch([json.dumps(refusal).encode()], status=403))))
    discreetly = client.retelling(lambda error: redacted_error(error, secrets_of(TEMPLATE)))
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


def test_where_secrets_overlap_nothing_of_either_is_left() -> None:
    template: JSONObject = {"spec": {"args": ["alpha beta", "beta gamma delta", "beta"]}}
    assert redacted("no alpha beta gamma delta, alpha beta", secrets_of(template)) == "no (hidden), (hidden)"


def calls_of(work: Callable[[], object]) -> int:
    """Functions that are called meanwhile: what it costs, the same on every machine."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def test_words_cost_the_same_however_many_secrets_there_are() -> None:
    words = f"denied: {'value-17-of-many ' * 25}value-29…"
    few, many = (secrets_of({"args": [f"value-{n}-of-many" for n in range(number)]}) for number in (30, 3000))
    assert redacted(words, few) == redacted(words, many) == f"denied: {'(hidden) ' * 25}(hidden)…"
    assert calls_of(lambda: redacted(words, many)) <= 2 * calls_of(lambda: redacted(words, few))


async def test_secrets_are_read_once_per_template_and_forgotten_with_it() -> None:
    known = KnownSecrets()
    first = await known.of({"a": TEMPLATE})
    assert await known.of({"a": TEMPLATE, "b": {"spec": {"args": ["other-secret"]}}}) is first
    assert redacted("--password=hunter2 other-secret", first) == "(hidden) (hidden)"
    rest = await known.of({"b": {"spec": {"args": ["other-secret"]}}})
    assert redacted("--password=hunter2 other-secret", rest) == "--password=hunter2 (hidden)"


async def test_others_get_their_turn_while_a_long_template_is_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await KnownSecrets().of({"a": {"spec": {"args": [f"value-{number}" for number in range(10 * TURN)]}}})
    task.cancel()
    assert turns >= 10
