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
        ({"args": ["--password", "-s3cret", "-v"]}, {"args": ["--password", "***", "-v"]}),
        ({"args": ["--header", "Authorization: Bearer x"]}, {"args": ["--header", "Authorization: ***"]}),
        ({"args": ["-u", "me:s3cret", "-u", "1:2"]}, {"args": ["-u", "***", "-u", "1:2"]}),
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('password="s3cret"', 'password="***"'),
        ("password='s3cret' level=2", "password='***' level=2"),
        ('password=a"s3cret', "password=***"),
        ("jdbc:x;password=a,s3cret;user=me", "jdbc:x;password=***;user=me"),
        ("PGPASSWORD = s3cret", "PGPASSWORD = ***"),
        ("user: me\npassword: s3 cret\nlevel: 2", "user: me\npassword: ***\nlevel: 2"),
        ("Authorization: Bearer s3cret", "Authorization: ***"),
        ("curl -u me:s3cret http://x", "curl -u *** http://x"),
        ("run --user 1000:1000 now", "run --user 1000:1000 now"),
        ("mysql --password s3cret -h x", "mysql --password *** -h x"),
        ("exec x --password 's3 cret' --level 2", "exec x --password '***' --level 2"),
        (r"{\"password\":\"s3\\\"cret\",\"n\":1}", r"{\"password\":\"***\",\"n\":1}"),
        (r'{"password": "a\", s3cret", "n": 1}', '{"password": "***", "n": 1}'),
        ("{'password': 's3cret', 'n': 1}", "{'password': '***', 'n': 1}"),
        ('{"pin_token": 12345678, "n": 1}', '{"pin_token": ***, "n": 1}'),
        ('{"secrets":["s3cret",["s3cret"]],"n":1}', '{"secrets":***'),
        ('{"credentials":{"a":{"b":"s3cret"}},"n":1}', '{"credentials":***'),
        ('{"token":"","n":1}', '{"token":"","n":1}'),
        ('{"token":"s3cret', '{"token":"***"'),
        ("postgres://u:p/s3cret@host/db", "postgres://u:***@host/db"),
        ("amqp://a:s3cret@h1,amqp://b:s3cret@h2", "amqp://a:***@h1,amqp://b:***@h2"),
        ("u:p/s3cret@tcp(host)/db", "u:***@tcp(host)/db"),
        ("https://s3cret@github.com/x", "https://***@github.com/x"),
        ("https://x/y?sig=s3cret&b=2", "https://x/y?sig=***&b=2"),
        ("https://x/a@b", "https://x/a@b"),
        ("registry.example.com/auth-agent:v2", "registry.example.com/auth-agent:v2"),
        ("registry:5000/auth-agent@sha256:12", "registry:5000/auth-agent@sha256:12"),
        ("the token decides", "the token decides"),
        ('password="s3"cret x', 'password="***"'),
        ('secret = """s3cret"""', 'secret = "***"'),
        ('tokens = [ "s3cret" ]', "tokens = ***"),
        ("password: |\n  s3cret\n  s3cret", "password: ***"),
        ("secrets:\n- s3cret\n- s3cret", "secrets:***"),
        ("curl -H X-Api-Key:s3cret", "curl -H X-Api-Key:***"),
        ("http://auth-service:8080/x auth-service:8080", "http://auth-service:8080/x auth-service:8080"),
        ("-----BEGIN RSA PRIVATE KEY-----\ns3cret", "-----BEGIN RSA PRIVATE KEY-----***"),
        ("Authorization=Basic s3cret==; x", "Authorization=Basic ***; x"),
        ("Bearer s3cret.x", "Bearer ***"),
        ("Basic auth is on", "Basic auth is on"),
        ("exec x ${PASSWORD:-s3cret} ${TOKEN:=s3cret}", "exec x ${PASSWORD:-*** ${TOKEN:=***"),
        ("password := s3cret", "password := ***"),
        ("TOKEN?=s3cret\nTOKEN+=s3cret", "TOKEN?=***\nTOKEN+=***"),
        ("x ghp_s3cret12 glpat-s3cret", "x ghp_*** glpat-***"),
        ("https://hooks.slack.com/services/T0/B0/s3cret", "https://hooks.slack.com/services/***"),
        ("eyJhbGci.eyJzdWIi.s3cret-x", "eyJ***"),
    ],
)
def test_within_a_text(text: str, shown: str) -> None:
    assert masked({"spec": {"containers": [{"image": text}]}}) == {"spec": {"containers": [{"image": shown}]}}


@pytest.mark.parametrize("again", ["a", "a:,", '"k":', "x=1,", "[{", "Basic ", "eyJ."])
def test_a_long_text_is_masked_to_its_end(again: str) -> None:
    """Patterns that begin anew at each character would take minutes here."""
    text = again * (30_000 // len(again))
    (shown,) = masked({"args": [f"{text} --token s3cret"]}).values()
    assert "s3cret" not in str(shown)


def test_annotations_with_such_names_are_masked_too() -> None:
    given: JSONObject = {"demo/api-token": "abc", "demo/level": "2", "demo/token-path": "/x", "demo/secret": ""}
    shown = {**given, "demo/api-token": "***"}
    assert masked({"metadata": {"annotations": given}}) == {"metadata": {"annotations": shown}}


def test_what_is_masked_keeps_its_shape() -> None:
    """It is compared with what it means, piece by piece."""
    given: JSONObject = {"metadata": {"annotations": {"demo/token": ["abc", None], "token": {"a": "b"}}}}
    assert masked(given) == {"metadata": {"annotations": {"demo/token": ["***", None], "token": {"a": "***"}}}}
