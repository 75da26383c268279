"""Values that no option takes. What the process then says and how it ends is in e2e/test_start.py."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from controller.__main__ import cli
from controller.settings import Address, is_in_the_open, parse_address, parse_prometheus_url

BAD = (
    ("--workers", "0"),
    ("--workers", "many"),
    ("--zone-metrics", "some"),
    ("--metrics-bind-address", "8080"),
    ("--metrics-bind-address", ":99999"),
    ("--health-probe-bind-address", "localhost:http"),
    ("--kube-api-qps", "-1"),
    ("--kube-api-qps", "fast"),
    ("--kube-api-burst", "-1"),
    ("--feature-gates", "Nonsense=true"),
    ("--feature-gates", "PreDownloadImageForDaemonSetUpdate=maybe"),
    ("--prometheus-url", "prometheus:9090"),
    ("--prometheus-url", "ftp://prometheus"),
    ("--prometheus-url", "https://:9090"),
    ("--prometheus-url", "https://prometheus:http"),
    ("--prometheus-url", "https://me:secret@prometheus"),
    ("--prometheus-url", "https://prometheus/?a=b"),
    ("--prometheus-url", "https://prometheus/#a"),
    ("--prometheus-url", "https://a b"),
    ("--log-level", "loud"),
    ("--log-format", "xml"),
)


@pytest.mark.parametrize(("option", "value"), BAD)
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_bad_value_is_refused_in_the_name_of_its_option(option: str, value: str, by: str) -> None:
    variable = f"KRUISE_DS_{option.removeprefix('--').replace('-', '_').upper()}"
    words, env = ([f"{option}={value}"], {}) if by == "option" else ([], {variable: value})
    refused = CliRunner().invoke(cli, ["--kubeconfig=/nonexistent/config", *words], env=env)
    assert refused.exit_code == 2
    assert f"'{option}'" in refused.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--prometheus-token-file=/x",), "--prometheus-url"),
        (("--prometheus-ca-file=/x",), "--prometheus-url"),
        (("--prometheus-token-file=/x", "--prometheus-url=http://prometheus:9090"), "--prometheus-token-file"),
        (("--prometheus-token-file=/x", "--prometheus-url=http://10.0.0.1"), "--prometheus-token-file"),
        (("--prometheus-ca-file=/x", "--prometheus-url=http://127.0.0.1"), "--prometheus-ca-file"),
    ],
)
def test_no_token_leaves_the_machine_in_the_open(words: tuple[str, ...], named: str) -> None:
    refused = CliRunner().invoke(cli, ["--kubeconfig=/nonexistent/config", *words])
    assert refused.exit_code == 2
    assert named in refused.stderr


@pytest.mark.parametrize(
    ("url", "openly"),
    [
        ("http://127.0.0.1:9090", False),
        ("http://[::1]:9090", False),
        ("http://localhost/p", False),
        ("https://prometheus", False),
        ("http://prometheus", True),
        ("http://127.0.0.1.example.com", True),
    ],
)
def test_what_leaves_the_machine(url: str, openly: bool) -> None:
    assert parse_prometheus_url(f"{url}/") == url
    assert is_in_the_open(url) is openly


@pytest.mark.parametrize("name", ["Not_A_Name", "", "a.b", "-a", "a" * 64, "ä"])
@pytest.mark.parametrize("option", ["--namespace", "--leader-elect-namespace"])
def test_an_invalid_name_of_a_namespace_is_refused(option: str, name: str) -> None:
    """At once, instead of being waited for."""
    done = CliRunner().invoke(cli, [f"{option}={name}"])
    assert done.exit_code == 2
    assert option in done.output
    assert "is not the name of a namespace" in done.output


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("localhost:81", "localhost", 81),
        ("[::1]:8080", "::1", 8080),
        (":0", "", 0),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == Address(host=host, port=port)
    assert str(address) == text


def test_zero_is_off() -> None:
    assert parse_address("0") is None


@pytest.mark.parametrize("text", ["", "8080", "localhost", ":", ":x", ":70000", ":-1", "::1:8080", ":²"])
def test_an_invalid_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected host:port|in brackets") as caught:
        parse_address(text)
    assert "\n" not in str(caught.value)
