"""The command line of the controller: options and environment variables in, one `Settings` out. argparse reads it,
because typer brings pydantic along, which would be a sixth of the memory of the process as long as it runs."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf
from typing import Any, NoReturn, get_args

from controller.api.selector import is_label
from controller.settings import (
    DEFAULT_GATES,
    LogFormat,
    LogLevel,
    Settings,
    conflict_of,
    parse_address,
    parse_gates,
    parse_prometheus_url,
)

PROGRAM = "kruise-ds-controller"
DEFAULTS = Settings()
WORKERS_HELP = "DaemonSets decided about at the same time; one that waits for the API server does not count."


def _number(parse: Callable[[str], float], least: float, most: float = inf) -> Callable[[str], object]:
    def parsed(text: str) -> object:
        number = parse(text)
        if not least <= number <= most:
            raise ValueError(f"{text} is not in the range from {least:g} to {most:g}")
        return number

    return parsed


def _one_of(values: Mapping[str, object]) -> Callable[[str], object]:
    def parsed(text: str) -> object:
        if text.lower() not in values:
            raise ValueError(f"{text!r} is not one of {', '.join(values)}")
        return values[text.lower()]

    return parsed


_boolean = _one_of(
    {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
)


def _words(type_: object) -> Callable[[str], object]:
    return _one_of({word: word for word in get_args(type_)})


def _namespace(text: str) -> str:
    if not is_label(text):
        raise ValueError(f"{text!r} is not the name of a namespace: a-z, 0-9 and -, at most 63 characters")
    return text


def _namespaces(text: str) -> list[str]:
    """The environment variable may have several."""
    return [_namespace(name) for name in text.split() or [text]]


class _Version(Action):
    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{PROGRAM} {version('kruise-ds')}")
        parser.exit()


class _Parser(ArgumentParser):
    def __init__(self) -> None:
        text = "Run the controller of the Advanced DaemonSet until SIGTERM or SIGINT."
        usage = "%(prog)s [OPTIONS]"
        super().__init__(prog=PROGRAM, usage=usage, description=text, allow_abbrev=False, argument_default=SUPPRESS)
        self.variables: dict[str, Any] = {}
        """What the environment says, by field of `Settings`."""

    def option(self, name: str, field: str, parse: Callable[[str], object], text: str, action: str = "store") -> None:
        """Adds an option and its variable for a field of `Settings`. `parse` raises ValueError for a bad value."""

        def parsed(value: str) -> object:
            try:
                return parse(value)
            except ValueError as error:  # argparse would not say why
                raise ArgumentTypeError(str(error)) from None

        variable = f"KRUISE_DS_{name.replace('-', '_').upper()}"
        if value := os.environ.get(variable):
            try:
                self.variables[field] = parsed(value)
            except ArgumentTypeError as error:
                self.error(f"argument --{name}: {error}")
        default = getattr(DEFAULTS, field)
        notes = f"; default: {str(default).lower()}" if default and default is not DEFAULT_GATES else ""
        how: dict[str, Any] = {"type": parsed, "metavar": "VALUE", "action": action}
        if parse is _boolean:
            how = {"action": BooleanOptionalAction}
        self.add_argument(f"--{name}", dest=field, help=f"{text} [env var: {variable}{notes}]", **how)

    def error(self, message: str) -> NoReturn:
        """Ends the process with one line on stderr that names the option, and exit code 2."""
        print(f"{PROGRAM}: {' '.join(message.split())}", file=sys.stderr)
        sys.exit(2)


def _parser() -> _Parser:
    parser = _Parser()
    option = parser.option
    option("kubeconfig", "kubeconfig", str, "Kubeconfig file. Default: in-cluster, else as kubectl.")
    option("context", "context", str, "Context of the kubeconfig; default: its current one.")
    option(
        "namespace", "namespaces", _namespaces, "Manage only this namespace; may be repeated. Default: all.", "extend"
    )
    option("workers", "workers", _number(int, 1, 100), WORKERS_HELP)
    option("leader-elect", "leader_elect", _boolean, "Act only while holding the Lease.")
    option("leader-elect-namespace", "lease_namespace", _namespace, "Namespace of the Lease.")
    option("metrics-bind-address", "metrics_address", parse_address, "/metrics; 0 turns it off.")
    option("health-probe-bind-address", "health_address", parse_address, "/healthz, /readyz; 0 turns it off.")
    option("metrics-tls-cert-file", "metrics_certificate", str, "Certificate for HTTPS on /metrics, PEM.")
    option("metrics-tls-private-key-file", "metrics_key", str, "Its key. Both are read again when renewed.")
    tokens = "Serve /metrics only to bearer tokens that may get it; needs HTTPS."
    option("metrics-auth", "metrics_auth", _boolean, tokens)
    option("kube-api-qps", "qps", _number(float, 0), "Requests per second; 0: no limit.")
    option("kube-api-burst", "burst", _number(int, 0), "Requests at once above that rate.")
    checks = "The Prometheus that rollingUpdate.checks ask."
    option("prometheus-url", "prometheus_url", parse_prometheus_url, checks)
    option("prometheus-token-file", "prometheus_token_file", str, "Bearer token for it; read again when it changes.")
    option("prometheus-ca-file", "prometheus_ca_file", str, "Its authorities, PEM. Default: the system's.")
    option("feature-gates", "gates", parse_gates, "A=true,B=false")
    zones = "true or false: metrics by zone, four series per zone and DaemonSet."
    option("zone-metrics", "zone_metrics", _one_of({"true": True, "false": False}), zones)
    option("log-level", "log_level", _words(LogLevel), "Least severe lines to log: debug, info, warning or error.")
    option("log-format", "log_format", _words(LogFormat), "json, console, or auto: console on a terminal, else json.")
    parser.add_argument("--version", action=_Version, nargs=0, help="Print the version and end.")
    return parser


def settings_from(words: Sequence[str]) -> Settings:
    """An option goes before its variable."""
    parser = _parser()
    given = parser.variables | vars(parser.parse_args(words))
    given["namespaces"] = tuple(dict.fromkeys(given.get("namespaces", ())))
    settings = Settings(**given, revision=os.environ.get("KRUISE_DS_REVISION", ""))  # set by the image
    if conflict := conflict_of(settings):
        parser.error(conflict)
    return settings


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
    """The console script."""
    settings = settings_from(sys.argv[1:])
    try:
        sys.exit(asyncio.run(_main_loop()(settings)))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
