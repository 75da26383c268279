"""The command line of the controller: options and environment variables in, one `Settings` out."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from controller.api.selector import is_label
from controller.serve.address import parse_address
from controller.settings import LogFormat, Settings, parse_gates

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS: tuple[LogFormat, ...] = ("auto", "json", "console")

cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _address(value: str) -> str:
    try:
        parse_address(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return value


def _one_of(allowed: tuple[str, ...], value: str) -> str:
    if value not in allowed:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(allowed)}")
    return value


def _gates(value: str) -> str:
    try:
        parse_gates(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
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


@cli.command()
def run(
    kubeconfig: Annotated[
        str | None,
        typer.Option(envvar="KRUISE_DS_KUBECONFIG", help="Kubeconfig file. Default: in-cluster, else as kubectl."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(envvar="KRUISE_DS_CONTEXT", help="Context of the kubeconfig; default: its current one."),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            callback=_namespaces,
            envvar="KRUISE_DS_NAMESPACE",
            help="Look after this namespace only; repeatable. Default: all.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            envvar="KRUISE_DS_WORKERS",
            help="DaemonSets decided about at the same time; one that waits for the API server does not count.",
        ),
    ] = 3,
    leader_elect: Annotated[
        bool, typer.Option(envvar="KRUISE_DS_LEADER_ELECT", help="Act only while holding the Lease.")
    ] = True,
    leader_elect_namespace: Annotated[
        str,
        typer.Option(callback=_namespace, envvar="KRUISE_DS_LEADER_ELECT_NAMESPACE", help="Namespace of the Lease."),
    ] = "kruise-ds-system",
    metrics_bind_address: Annotated[
        str,
        typer.Option(callback=_address, envvar="KRUISE_DS_METRICS_BIND_ADDRESS", help="/metrics; 0 turns it off."),
    ] = ":8080",
    health_probe_bind_address: Annotated[
        str,
        typer.Option(
            callback=_address, envvar="KRUISE_DS_HEALTH_PROBE_BIND_ADDRESS", help="/healthz, /readyz; 0 turns it off."
        ),
    ] = ":8081",
    metrics_tls_cert_file: Annotated[
        str, typer.Option(envvar="KRUISE_DS_METRICS_TLS_CERT_FILE", help="Certificate for HTTPS on /metrics, PEM.")
    ] = "",
    metrics_tls_private_key_file: Annotated[
        str,
        typer.Option(
            envvar="KRUISE_DS_METRICS_TLS_PRIVATE_KEY_FILE", help="Its key. Both are read again when renewed."
        ),
    ] = "",
    metrics_auth: Annotated[
        bool,
        typer.Option(
            envvar="KRUISE_DS_METRICS_AUTH", help="/metrics only with a bearer token that may get it; takes HTTPS."
        ),
    ] = False,
    kube_api_qps: Annotated[
        float, typer.Option(min=0.0, envvar="KRUISE_DS_KUBE_API_QPS", help="Requests per second; 0: no limit.")
    ] = 0.0,
    kube_api_burst: Annotated[
        int, typer.Option(min=0, envvar="KRUISE_DS_KUBE_API_BURST", help="Requests at once above that rate.")
    ] = 0,
    feature_gates: Annotated[
        str, typer.Option(callback=_gates, envvar="KRUISE_DS_FEATURE_GATES", help="A=true,B=false")
    ] = "",
    zone_metrics: Annotated[
        str,
        typer.Option(
            callback=_boolean,
            metavar="true|false",
            envvar="KRUISE_DS_ZONE_METRICS",
            help="Metrics by zone: four series per zone and DaemonSet.",
        ),
    ] = "true",
    log_level: Annotated[
        str,
        typer.Option(
            callback=lambda value: _one_of(LOG_LEVELS, value),
            envvar="KRUISE_DS_LOG_LEVEL",
            help="debug, info, warning or error.",
        ),
    ] = "info",
    log_format: Annotated[
        str,
        typer.Option(
            callback=lambda value: _one_of(LOG_FORMATS, value),
            envvar="KRUISE_DS_LOG_FORMAT",
            help="auto, json or console; auto: console on a terminal, else json.",
        ),
    ] = "auto",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
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
        metrics_address=metrics_bind_address,
        health_address=health_probe_bind_address,
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


def _main_loop() -> Callable[[Settings], Coroutine[Any, Any, int]]:
    """The rest of the program, imported only now: --help and a wrong option answer at once.

    All of it stays, so the garbage collector need not walk over it, now or later: that is a sixth of a start.
    """
    gc.disable()
    try:
        from controller.app import main_loop
    finally:
        gc.freeze()
        gc.enable()
    return main_loop


def main() -> None:
    """Console script. A bad value is one line on stderr that names the option, and exit code 2."""
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
