"""The command line of the controller: options and environment variables in, one `Settings` out."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Literal

import typer
from typer import Option

from controller.api.selector import is_label
from controller.settings import (
    LogFormat,
    LogLevel,
    Settings,
    conflict_of,
    parse_address,
    parse_gates,
    parse_prometheus_url,
)

cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _parsed_by(parse: Callable[[str], object]) -> Callable[[str], str]:
    """A callback that refuses what `parse` refuses."""

    def check(value: str) -> str:
        try:
            parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return value

    return check


def _namespace(value: str) -> str:
    if not is_label(value):
        raise typer.BadParameter(f"{value!r} is not the name of a namespace: a-z, 0-9 and -, at most 63 characters")
    return value


def _namespaces(values: list[str] | None) -> list[str] | None:
    return None if values is None else [_namespace(value) for value in values]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"kruise-ds-controller {version('kruise-ds')}")
        raise typer.Exit


_address = _parsed_by(parse_address)
WORKERS_HELP = "DaemonSets decided about at the same time; one that waits for the API server does not count."


@cli.command(context_settings={"auto_envvar_prefix": "KRUISE_DS"})
def run(
    kubeconfig: Annotated[str | None, Option(help="Kubeconfig file. Default: in-cluster, else as kubectl.")] = None,
    context: Annotated[str | None, Option(help="Context of the kubeconfig; default: its current one.")] = None,
    namespace: Annotated[
        list[str] | None,
        Option(callback=_namespaces, help="Manage only this namespace; may be repeated. Default: all."),
    ] = None,
    workers: Annotated[int, Option(min=1, max=100, help=WORKERS_HELP)] = 3,
    leader_elect: Annotated[bool, Option(help="Act only while holding the Lease.")] = True,
    leader_elect_namespace: Annotated[
        str, Option(callback=_namespace, help="Namespace of the Lease.")
    ] = "kruise-ds-system",
    metrics_bind_address: Annotated[str, Option(callback=_address, help="/metrics; 0 turns it off.")] = ":8080",
    health_probe_bind_address: Annotated[
        str, Option(callback=_address, help="/healthz, /readyz; 0 turns it off.")
    ] = ":8081",
    metrics_tls_cert_file: Annotated[str, Option(help="Certificate for HTTPS on /metrics, PEM.")] = "",
    metrics_tls_private_key_file: Annotated[str, Option(help="Its key. Both are read again when renewed.")] = "",
    metrics_auth: Annotated[
        bool, Option(help="Serve /metrics only to bearer tokens that may get it; needs HTTPS.")
    ] = False,
    kube_api_qps: Annotated[float, Option(min=0.0, help="Requests per second; 0: no limit.")] = 0.0,
    kube_api_burst: Annotated[int, Option(min=0, help="Requests at once above that rate.")] = 0,
    prometheus_url: Annotated[
        str, Option(callback=_parsed_by(parse_prometheus_url), help="The Prometheus that rollingUpdate.checks ask.")
    ] = "",
    prometheus_token_file: Annotated[str, Option(help="Bearer token for it; read again when it changes.")] = "",
    prometheus_ca_file: Annotated[str, Option(help="Its authorities, PEM. Default: the system's.")] = "",
    feature_gates: Annotated[str, Option(callback=_parsed_by(parse_gates), help="A=true,B=false")] = "",
    zone_metrics: Annotated[
        Literal["true", "false"],
        Option(case_sensitive=False, help="Metrics by zone: four series per zone and DaemonSet."),
    ] = "true",
    log_level: Annotated[LogLevel, Option(help="Least severe lines to log.")] = "info",
    log_format: Annotated[LogFormat, Option(help="auto: console on a terminal, else json.")] = "auto",
    version: Annotated[
        bool,
        Option(
            "--version", callback=_version, is_eager=True, allow_from_autoenv=False, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Run the controller of the Advanced DaemonSet until SIGTERM or SIGINT."""
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
        prometheus_url=parse_prometheus_url(prometheus_url),
        prometheus_token_file=prometheus_token_file,
        prometheus_ca_file=prometheus_ca_file,
        gates=parse_gates(feature_gates),
        zone_metrics=zone_metrics == "true",
        log_level=log_level,
        log_format=log_format,
        revision=os.environ.get("KRUISE_DS_REVISION", ""),  # set by the image
    )
    if conflict := conflict_of(settings):
        raise typer.BadParameter(conflict)
    raise typer.Exit(asyncio.run(_main_loop()(settings)))


def _main_loop() -> Callable[[Settings], Coroutine[object, object, int]]:
    """Imports the rest of the program only now, so that --help and a wrong option answer at once.

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
