"""The settings of the process: the options of the command line, checked."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from controller.api.names import ENV_GATE, RESIZE_GATE
from controller.api.objects import Value

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["auto", "json", "console"]
"""auto: console on a terminal, json otherwise."""

PRE_DOWNLOAD = "PreDownloadImageForDaemonSetUpdate"
KNOWN_GATES = {PRE_DOWNLOAD: "pre_download", ENV_GATE: "env_from_metadata", RESIZE_GATE: "resize"}
"""Public names of feature gates, with their fields in `FeatureGates`."""


class FeatureGates(Value):
    env_from_metadata: bool = True
    """Update in place also pods whose containers read a changed label from their environment, if the node agent of
    OpenKruise takes care of them."""
    resize: bool = False
    """Change cpu and memory in place."""
    pre_download: bool = False
    """Carry out ImagePullJobs."""


DEFAULT_GATES: Final = FeatureGates()


class Address(Value):
    host: str
    """Empty: all interfaces."""
    port: int
    """0: any free port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnusableOption(Exception):
    """The value of an option cannot be used. The text names the option."""


class Settings(Value):
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    """The namespaces to watch; empty: all."""
    workers: int = 3
    gates: FeatureGates = DEFAULT_GATES
    leader_elect: bool = True
    lease_namespace: str = "kruise-ds-system"
    metrics_address: Address | None = Address(host="", port=8080)
    health_address: Address | None = Address(host="", port=8081)
    """None: the server is off."""
    metrics_certificate: str = ""
    metrics_key: str = ""
    """Paths of both files, for HTTPS on the address of the metrics; or both empty."""
    metrics_auth: bool = False
    """Whether /metrics is only for callers that the API server lets `get` it; needs HTTPS."""
    qps: float = 0.0
    """Requests per second; 0: no limit."""
    burst: int = 0
    prometheus_url: str = ""
    """The Prometheus server for rollingUpdate.checks; empty: checks have no answer."""
    prometheus_token_file: str = ""
    prometheus_ca_file: str = ""
    zone_metrics: bool = True
    """Whether metrics count the nodes of each DaemonSet by zone: four series per zone."""
    log_level: LogLevel = "info"
    log_format: LogFormat = "auto"
    revision: str = ""
    """The commit of the image, for the metric `kruise_ds_build_info`; empty if not known."""


def parse_gates(text: str) -> FeatureGates:
    """Parses `A=true,B=false`. Raises ValueError for an unknown gate or value."""
    gates: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in KNOWN_GATES:
            raise ValueError(f"{name!r} is not a feature gate; known: {', '.join(sorted(KNOWN_GATES))}")
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        gates[KNOWN_GATES[name]] = value.lower() == "true"
    return FeatureGates(**gates)


def parse_address(text: str) -> Address | None:
    """Parses `:8080`, `127.0.0.1:8080`, `[::1]:8080` or `localhost:0` (any free port); None for `0`, which means off.

    Raises ValueError, one line that says what is expected.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address: expected host:port, :port, or 0 to turn it off")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is no address: write an IPv6 address in brackets, [::1]:8080")
    return Address(host=host, port=int(port))


def parse_prometheus_url(text: str) -> str:
    """Parses `https://host:9090` or `http://host/path`; `""` is no server.

    Raises ValueError, one line that does not repeat a password in it.
    """
    if not text:
        return text
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("expected the URL of a Prometheus, such as https://prometheus.monitoring:9090")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user or password in the URL would be logged: use --prometheus-token-file")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise ValueError("the URL must end with its path: /api/v1/query is appended")
    return text.rstrip("/")


def is_in_the_open(url: str) -> bool:
    """Whether requests to this URL leave the machine without TLS."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.hostname != "localhost"


def conflict_of(settings: Settings) -> str:
    """What is wrong with the combination of options, in one line; empty if nothing is."""
    if bool(settings.metrics_certificate) != bool(settings.metrics_key):
        return "--metrics-tls-cert-file and --metrics-tls-private-key-file go together"
    if settings.metrics_auth and not settings.metrics_certificate:
        return "--metrics-auth needs --metrics-tls-cert-file: tokens would travel in the open"
    if (settings.prometheus_token_file or settings.prometheus_ca_file) and not settings.prometheus_url:
        return "--prometheus-token-file and --prometheus-ca-file need --prometheus-url"
    if settings.prometheus_token_file and is_in_the_open(settings.prometheus_url):
        return "--prometheus-token-file needs an https --prometheus-url: it would travel in the open"
    if settings.prometheus_ca_file and not settings.prometheus_url.startswith("https:"):
        return "--prometheus-ca-file needs an https --prometheus-url"
    return ""
