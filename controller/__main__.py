"""The command line of the controller: options and environment variables in, one `Settings` out."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, TypeAlias

import typer

from controller.api.selector import is_label
from controller.settings import LogFormat, Settings, parse_address, parse_gates

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS: tuple[LogFormat, ...] = ("auto", "json", "console")

cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _read_by(parse: Callable[[str], object]) -> Callable[[str], str]:
    def checked(value: str) -> str:
        try:
            parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return value

    return checked


_address, _gates = _read_by(parse_address), _read_by(parse_gates)


def _one_of(allowed: tuple[str, ...], value: str) -> str:
    if value not in allowed:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}")
    return value


def _check_metrics(certificate: str, key: str, *, auth: bool) -> None:
    if bool(certificate) != bool(key):
        raise typer.BadParameter("--metrics-tls-cert-file and --metrics-tls-private-key-file go together")
    if auth and not certificate:
        raise typer.BadParameter("--metrics-auth needs --metrics-tls-cert-file: tokens would travel in the open")


def _namespace(value: str) -> str:
    if not is_label(value):
        raise typer.BadParameter(f"{value!r} is not the name of a namespace: a-z, 0-9 and -, at most 63 characters")
    return value


def _namespaces(values: list[str] | None) -> list[str] | None:
    return None if values is None else [_namespace(value) for value in values]


def _boolean(value: str) -> str:
    return _one_of(("true", "false"), value.lower())


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kruise-ds-controller {version('kruise-ds')}")
        raise typer.Exit


Kubeconfig: TypeAlias = Annotated[
    str | None, typer.Option(help="Kubeconfig file. Default: in-cluster, else as kubectl.")
]
Context: TypeAlias = Annotated[str | None, typer.Option(help="Context of the kubeconfig; default: its current one.")]
Namespaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(callback=_namespaces, help="Manage only this namespace; may be repeated. Default: all."),
]
Workers: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1,
        max=100,
        help="DaemonSets decided about at the same time; one that waits for the API server does not count.",
    ),
]
LeaderElect: TypeAlias = Annotated[bool, typer.Option(help="Act only while holding the Lease.")]
LeaseNamespace: TypeAlias = Annotated[str, typer.Option(callback=_namespace, help="Namespace of the Lease.")]
MetricsAddress: TypeAlias = Annotated[str, typer.Option(callback=_address, help="/metrics; 0 turns it off.")]
HealthAddress: TypeAlias = Annotated[str, typer.Option(callback=_address, help="/healthz, /readyz; 0 turns it off.")]
CertificateFile: TypeAlias = Annotated[str, typer.Option(help="Certificate for HTTPS on /metrics, PEM.")]
PrivateKey: TypeAlias = Annotated[str, typer.Option(help="Its key. Both are read again when renewed.")]
MetricsAuth: TypeAlias = Annotated[
    bool, typer.Option(help="Serve /metrics only to bearer tokens that may get it; needs HTTPS.")
]
Rate: TypeAlias = Annotated[float, typer.Option(min=0.0, help="Requests per second; 0: no limit.")]
Burst: TypeAlias = Annotated[int, typer.Option(min=0, help="Requests at once above that rate.")]
FeatureGates: TypeAlias = Annotated[str, typer.Option(callback=_gates, help="A=true,B=false")]
ZoneMetrics: TypeAlias = Annotated[
    str,
    typer.Option(
        callback=_boolean, metavar="true|false", help="Metrics by zone: four series per zone and DaemonSet."
    ),
]
LogLevel: TypeAlias = Annotated[
    str, typer.Option(callback=lambda value: _one_of(LOG_LEVELS, value), help="debug, info, warning or error.")
]
LogLines: TypeAlias = Annotated[
    str,
    typer.Option(
        callback=lambda value: _one_of(LOG_FORMATS, value),
        help="auto, json or console; auto: console on a terminal, else json.",
    ),
]
Version: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Print the version and end."
    ),
]


@cli.command(context_settings={"auto_envvar_prefix": "KRUISE_DS"})
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespaces = None,
    workers: Workers = 3,
    leader_elect: LeaderElect = True,
    leader_elect_namespace: LeaseNamespace = "kruise-ds-system",
    metrics_bind_address: MetricsAddress = ":8080",
    health_probe_bind_address: HealthAddress = ":8081",
    metrics_tls_cert_file: CertificateFile = "",
    metrics_tls_private_key_file: PrivateKey = "",
    metrics_auth: MetricsAuth = False,
    kube_api_qps: Rate = 0.0,
    kube_api_burst: Burst = 0,
    feature_gates: FeatureGates = "",
    zone_metrics: ZoneMetrics = "true",
    log_level: LogLevel = "info",
    log_format: LogLines = "auto",
    version: Version = False,
) -> None:
    """Run the controller of the Advanced DaemonSet until SIGTERM or SIGINT."""
    _check_metrics(metrics_tls_cert_file, metrics_tls_private_key_file, auth=metrics_auth)
    settings = Settings(
        kubeconfig=kubeconfig,
        context=context,
        namespaces=tuple(dict.fromkeys(namespace or ())),
        workers=workers,
        leader_elect=leader_elect,
        lease_namespace=leader_elect_namespace,
        metrics_address=parse_address(metrics_bind_address),
        health_address=parse_address(health_probe_bind_address),
        metrics_certificate=metrics_tls_cert_file,
        metrics_key=metrics_tls_private_key_file,
        metrics_auth=metrics_auth,
        qps=kube_api_qps,
        burst=kube_api_burst,
        gates=parse_gates(feature_gates),
        zone_metrics=zone_metrics == "true",
        log_level=log_level,
        log_format=next(one for one in LOG_FORMATS if one == log_format),
        revision=os.environ.get("KRUISE_DS_REVISION", ""),  # no option: the image knows it
    )
    raise typer.Exit(asyncio.run(_main_loop()(settings)))


def _main_loop() -> Callable[[Settings], Coroutine[object, object, int]]:
    """Import the rest of the program only now, so that --help and a wrong option answer at once.

    All of it lives until the end, so it is exempted from garbage collection, which would take a sixth of the start.
    """
    gc.disable()
    try:
        from controller.app import main_loop
    finally:
        gc.freeze()
        gc.enable()
    return main_loop


def main() -> None:
    """The console script. A bad value gives one line on stderr that names the option, and exit code 2."""
    try:
        code = cli(standalone_mode=False)
    except typer.TyperException as error:
        typer.echo(f"kruise-ds-controller: {' '.join(error.format_message().split())}", err=True)
        code = error.exit_code
    except typer.Abort:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
