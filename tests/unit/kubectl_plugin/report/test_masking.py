"""Templates without the secrets that people write into them."""

from __future__ import annotations

import copy

import pytest

from controller.api.base import JSON, JSONObject
from kubectl_plugin.report.revisions.masking import looks_secret, masked


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD",
        "DB_PASS",
        "dbPasswd",
        "API_TOKEN",
        "apiKey",
        "AWS_SECRET_ACCESS_KEY",
        "Authorization",
        "SENTRY_DSN",
    ],
)
def test_looks_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["LOG_LEVEL", "AUTHOR", "BYPASS", "TLS_KEY_FILE", "SECRETS_DIR", "token-path", ""])
def test_does_not_look_secret(name: str) -> None:
    assert not looks_secret(name)


def container(**fields: JSON) -> JSONObject:
    return {"spec": {"containers": [{"name": "agent", **fields}]}}


REFERENCE: JSONObject = {"name": "API_TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "api"}}}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"env": [{"name": "API_TOKEN", "value": "x"}]}, {"env": [{"name": "API_TOKEN", "value": "***"}]}),
        ({"env": [{"name": "API_TOKEN", "value": ""}]}, {"env": [{"name": "API_TOKEN", "value": ""}]}),
        ({"env": [{"name": "LEVEL", "value": "x"}]}, {"env": [{"name": "LEVEL", "value": "x"}]}),
        ({"env": [REFERENCE]}, {"env": [REFERENCE]}),
        ({"envFrom": [{"secretRef": {"name": "tokens"}}]}, {"envFrom": [{"secretRef": {"name": "tokens"}}]}),
        (
            {"env": [{"name": "PROXY", "value": "http://me:pw@proxy:80/x"}]},
            {"env": [{"name": "PROXY", "value": "http://me:***@proxy:80/x"}]},
        ),
        (
            {"env": [{"name": "STORE", "value": "Protocol=https;AccountName=a;AccountKey=Zm9v==;Suffix=net"}]},
            {"env": [{"name": "STORE", "value": "Protocol=https;AccountName=a;AccountKey=***;Suffix=net"}]},
        ),
        (
            {"env": [{"name": "OPTS", "value": "-Xmx1g -Ddb.Password=pw -Dkey.file=/x"}]},
            {"env": [{"name": "OPTS", "value": "-Xmx1g -Ddb.Password=*** -Dkey.file=/x"}]},
        ),
        (
            {"env": [{"name": "CONFIG", "value": '{"user": "me", "password" : "p\\"w", "n": 1}'}]},
            {"env": [{"name": "CONFIG", "value": '{"user": "me", "password" : "***", "n": 1}'}]},
        ),
        (
            {"env": [{"name": "HOOK", "value": "https://x/y?a=1&token=abc&b=2"}]},
            {"env": [{"name": "HOOK", "value": "https://x/y?a=1&token=***&b=2"}]},
        ),
        (
            {"env": [{"name": "PROXY", "value": "http://me:p@ss@proxy:80/x"}]},
            {"env": [{"name": "PROXY", "value": "http://me:***@proxy:80/x"}]},
        ),
        ({"command": ["sh", "-c", "TOKEN=abc run --level=2"]}, {"command": ["sh", "-c", "TOKEN=*** run --level=2"]}),
        ({"args": ["--token=x", "--level=y"]}, {"args": ["--token=***", "--level=y"]}),
        ({"command": ["run", "--token", "x", "y"]}, {"command": ["run", "--token", "***", "y"]}),
        ({"args": ["--with-auth", "--level"]}, {"args": ["--with-auth", "--level"]}),
        ({"image": "registry.example.com:5000/a@sha256:12"}, {"image": "registry.example.com:5000/a@sha256:12"}),
        ({"env": None, "args": [None, 1]}, {"env": None, "args": [None, 1]}),
    ],
)
def test_masked(fields: JSONObject, shown: JSONObject) -> None:
    template = container(**fields)
    before = copy.deepcopy(template)
    assert masked(template) == container(**shown)
    assert template == before


def test_annotations_with_such_names_are_masked_too() -> None:
    given: JSONObject = {"demo/api-token": "abc", "demo/level": "2", "demo/token-path": "/x", "demo/secret": ""}
    shown = {**given, "demo/api-token": "***"}
    assert masked({"metadata": {"annotations": given}}) == {"metadata": {"annotations": shown}}


def test_what_is_masked_keeps_its_shape() -> None:
    """It is compared with what it means, piece by piece."""
    given: JSONObject = {"metadata": {"annotations": {"demo/token": ["abc", None], "token": {"a": "b"}}}}
    assert masked(given) == {"metadata": {"annotations": {"demo/token": ["***", None], "token": {"a": "***"}}}}
