"""Values that no option takes. What the process then says and how it ends is in e2e/test_start.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.__main__ import settings_from
from controller.settings import Address, Settings, is_in_the_open, parse_address, parse_prometheus_url


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is said about these words; the exit code must be 2."""

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            settings_from(words)
        assert ended.value.code == 2
        return capsys.readouterr().err

    return said


BAD = (
    ("--workers", "0"),
    ("--workers", "101"),
    ("--workers", "many"),
    ("--zone-metrics", "some"),
    ("--metrics-bind-address", "8080"),
    ("--metrics-bind-address", ":65536"),
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
def test_a_bad_value_is_refused_in_the_name_of_its_option(
    option: str, value: str, by: str, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"KRUISE_DS_{option.removeprefix('--').replace('-', '_').upper()}"
    if by == "environment":
        monkeypatch.setenv(variable, value)
    assert f"argument {option}: " in refusal(*([f"{option}={value}"] if by == "option" else ()))


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
def test_no_token_leaves_the_machine_in_the_open(
    words: tuple[str, ...], named: str, refusal: Callable[..., str]
) -> None:
    assert named in refusal(*words)


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
def test_an_invalid_name_of_a_namespace_is_refused(option: str, name: str, refusal: Callable[..., str]) -> None:
    """At once, instead of being waited for."""
    said = refusal(f"{option}={name}")
    assert option in said
    assert "is not the name of a namespace" in said


def test_an_option_goes_before_its_variable_and_that_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_from(()) == Settings()
    assert (Settings().workers, Settings().leader_elect, Settings().zone_metrics) == (3, True, True)
    for name, value in {"NAMESPACE": "one two", "WORKERS": "5", "LEADER_ELECT": "false", "LOG_LEVEL": ""}.items():
        monkeypatch.setenv(f"KRUISE_DS_{name}", value)
    assert settings_from(()) == Settings(namespaces=("one", "two"), workers=5, leader_elect=False)
    words = (
        "--namespace=a",
        "--namespace",
        "b",
        "--namespace=a",
        "--workers=100",
        "--leader-elect",
        "--log-level=DEBUG",
    )
    assert settings_from(words) == Settings(namespaces=("a", "b"), workers=100, log_level="debug")


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
