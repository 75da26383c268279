"""What was asked for on the command line, checked once and passed by value."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value

LogFormat: TypeAlias = Literal["auto", "json", "console"]

PRE_DOWNLOAD = "PreDownloadImageForDaemonSetUpdate"
KNOWN_GATES: dict[str, bool] = {
    PRE_DOWNLOAD: False,
    "InPlaceUpdateEnvFromMetadata": True,
    "InPlaceWorkloadVerticalScaling": False,
}
"""Feature gates of the public API and their defaults. None of them is acted on yet: turning one on is refused."""


class Settings(Value):
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    """Namespaces to look after; none means all."""
    workers: int = 3
    leader_elect: bool = True
    lease_namespace: str = "kruise-ds-system"
    metrics_address: str = ":8080"
    health_address: str = ":8081"
    """`host:port`; `0` turns the server off."""
    metrics_certificate: str = ""
    metrics_key: str = ""
    """Files: both, for HTTPS on the metrics' address, or neither."""
    metrics_auth: bool = False
    """Whether /metrics is only for those whom the API server lets `get` it; takes HTTPS."""
    qps: float = 0.0
    """Requests per second; 0 = not limited."""
    burst: int = 0
    zone_metrics: bool = True
    """Whether metrics count the nodes of each DaemonSet by zone: four series per zone."""
    log_level: str = "info"
    log_format: LogFormat = "auto"
    """auto: console on a terminal, else json."""
    revision: str = ""
    """Commit that the image was built from, for the metric `kruise_ds_build_info`; "" where nobody said."""


def parse_gates(text: str) -> dict[str, bool]:
    """`A=true,B=false` as a mapping. Raises ValueError for an unknown gate or value, or one that cannot be on."""
    gates = dict(KNOWN_GATES)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in KNOWN_GATES:
            raise ValueError(f"{name!r} is not a feature gate; known: {', '.join(sorted(KNOWN_GATES))}")
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        gates[name] = value.lower() == "true"
        if gates[name] and not KNOWN_GATES[name]:
            raise ValueError(f"{name} is not available in this version yet; leave it false")
    return gates
