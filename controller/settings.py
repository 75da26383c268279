"""What was asked for on the command line, checked once and passed by value."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from controller.api.base import Value
from controller.api.wellknown import ENV_GATE, RESIZE_GATE

LogFormat: TypeAlias = Literal["auto", "json", "console"]

PRE_DOWNLOAD = "PreDownloadImageForDaemonSetUpdate"
KNOWN_GATES: dict[str, bool] = {PRE_DOWNLOAD: False, ENV_GATE: True, RESIZE_GATE: False}
"""Feature gates of the public API and their defaults."""


class Gates(Value):
    """The feature gates as they are set."""

    env_from_metadata: bool = True
    """Pods whose containers read a changed label from their environment are updated in place, where OpenKruise's node
    agent takes care of them."""
    resize: bool = False
    """Cpu and memory are changed in place."""
    pre_download: bool = False
    """ImagePullJobs are carried out."""


DEFAULT_GATES: Final = Gates()


class Settings(Value):
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    """Namespaces to look after; none means all."""
    workers: int = 3
    gates: Gates = DEFAULT_GATES
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


def parse_gates(text: str) -> Gates:
    """From `A=true,B=false`. Raises ValueError for an unknown gate or value,."""
    gates = dict(KNOWN_GATES)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in KNOWN_GATES:
            raise ValueError(f"{name!r} is not a feature gate; known: {', '.join(sorted(KNOWN_GATES))}")
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        gates[name] = value.lower() == "true"
    return Gates(env_from_metadata=gates[ENV_GATE], resize=gates[RESIZE_GATE], pre_download=gates[PRE_DOWNLOAD])
