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
