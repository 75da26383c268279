"""The flags and arguments that several verbs share, each written once: typer options as the fields of dataclasses;
and what <TAB> offers for their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from math import inf
from typing import Annotated, TypeAlias

from typer import Argument, BadParameter, Context, Option

from controller.api import formats
from controller.api.formats import IntOrPercent
from kubectl_plugin.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LARGEST = 2**31 - 1
"""The API server stores 32-bit integers."""
_COUNT = re.compile(r"[0-9]{1,10}", re.ASCII)


def seconds_of(text: str, flag: str) -> float:
    """The duration in seconds; a plain number is seconds. Raises UsageError, which names `flag`."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f'invalid {flag} "{text}": use a length of time such as 90s, 10m or 1h30m')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def int_or_percent(text: str, what: str) -> IntOrPercent:
    """`16` as a number, `30%` (at most 100%) as text. Raises UsageError, which names the field `what`."""
    wanted = text.strip()
    if _COUNT.fullmatch(wanted) and int(wanted) <= _LARGEST:
        return int(wanted)
    if wanted.endswith("%") and formats.is_well_formed(wanted) and int(wanted[:-1]) <= 100:
        return f"{int(wanted[:-1])}%"
    raise UsageError(f'invalid {what} "{text}": use a number (0 or more) or a percentage from 0% to 100%')


class Output(StrEnum):
    """What `-o` accepts."""

    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    WIDE = "wide"


def _formats() -> list[str]:
    return [*Output]


def _output(text: str) -> Output:
    """Raises BadParameter, which for a format of kubectl alone names another way to it."""
    try:
        return Output(text)
    except ValueError as error:
        form, of_kubectl, _ = text.partition("=")
        can = f"for {form} use -o json and jq" if of_kubectl else f"use {', '.join(Output)}"
        raise BadParameter(f'no format "{text}": {can}') from error


FILES = "\t:files"
"""A candidate with this suffix makes the shell complete file names."""

LookUp: TypeAlias = Callable[[str], Callable[[Context, str], list[str]]]
"""Returns the function that reads one kind of candidates, such as `names`, from the cluster or the kubeconfig."""


def _look_up_in_cluster(what: str) -> Callable[[Context, str], list[str]]:
    """Calls the `LookUp` that `main` puts into typer's context, so that this module imports no client."""

    def found(ctx: Context, incomplete: str) -> list[str]:
        look_up: LookUp = ctx.obj
        return look_up(what)(ctx, incomplete)

    return found


names = _look_up_in_cluster("names")
namespaces = _look_up_in_cluster("namespaces")
contexts = _look_up_in_cluster("contexts")
revisions = _look_up_in_cluster("revisions")
natives = _look_up_in_cluster("natives")
containers = _look_up_in_cluster("containers")


def files(incomplete: str) -> list[str]:
    return [f"{incomplete}{FILES}"]


def phases() -> list[str]:
    from controller.api.daemonset import Phase

    return [str(phase) for phase in Phase]


def states(incomplete: str) -> list[str]:
    """Node states for a comma-separated list; completes only the part after the last comma."""
    from controller.planner.explanation import PREPARING, NodeState

    before, comma, _ = incomplete.rpartition(",")
    typed = before.split(",")
    known = (*NodeState, PREPARING)
    return [f"{before}{comma}{state}" for state in known if state not in typed] + ([] if comma else ["all"])


def groupings() -> list[str]:
    return ["zone\tOf topology.kubernetes.io/zone", "arch\tOf kubernetes.io/arch", "pool\tThe pool of nodes"]


def sorts() -> list[str]:
    return ["update\tThe order of the update", "name", "state", "restarts", "age"]


@dataclass(frozen=True)
class GlobalFlags:
    """kubectl's own flags, and the plugin's flags for the terminal."""

    namespace: Annotated[
        str | None, Option("-n", help="Namespace; by default that of the context.", autocompletion=namespaces)
    ] = None
    context: Annotated[str | None, Option(help="Context of the kubeconfig.", autocompletion=contexts)] = None
    cluster: Annotated[str | None, Option(help="Cluster of the kubeconfig.")] = None
    user: Annotated[str | None, Option(help="User of the kubeconfig.")] = None
    kubeconfig: Annotated[str | None, Option(help="Path of a kubeconfig.", autocompletion=files)] = None
    server: Annotated[str | None, Option("-s", help="URL of the API server.")] = None
    token: Annotated[str | None, Option(help="Bearer token.")] = None
    client_certificate: Annotated[
        str | None, Option(help="File with your client certificate.", autocompletion=files)
    ] = None
    client_key: Annotated[str | None, Option(help="File with its key.", autocompletion=files)] = None
    certificate_authority: Annotated[
        str | None, Option(help="File with the server's certificate authorities.", autocompletion=files)
    ] = None
    insecure_skip_tls_verify: Annotated[bool, Option(help="Accept any certificate of the server.")] = False
    tls_server_name: Annotated[str | None, Option(help="Name expected in the server's certificate.")] = None
    as_user: Annotated[str | None, Option("--as", help="User to impersonate.")] = None
    as_groups: Annotated[tuple[str, ...], Option("--as-group", help="Group to impersonate; may be repeated.")] = ()
    as_uid: Annotated[str | None, Option(help="UID to impersonate.")] = None
    request_timeout: Annotated[
        str | None, Option(help="Longest wait for one answer, such as 10s; 0 for no limit.")
    ] = None
    controller_namespace: Annotated[
        str | None,
        Option(
            help="The controller's, if not kruise-ds-system; also KRUISE_DS_CONTROLLER_NAMESPACE.",
            autocompletion=namespaces,
        ),
    ] = None
    output: Annotated[
        Output | None,
        Option("-o", help="Output format.", parser=_output, metavar=f"<{'|'.join(Output)}>", autocompletion=_formats),
    ] = None
    no_color: Annotated[bool, Option(help="No colours; also NO_COLOR=1.")] = False
    ascii: Annotated[bool, Option(help="Only ASCII characters.")] = False
    quiet: Annotated[bool, Option("-q", help="Only the first line of each result.")] = False
    verbose: Annotated[
        int, Option("-v", count=True, help="Show each request; -vv tracebacks too.", show_default=False)
    ] = 0

    @property
    def of_cluster(self) -> tuple[str, ...]:
        """The flags that chose the cluster, spelled to be typed again."""
        named = {"kubeconfig": self.kubeconfig, "context": self.context, "cluster": self.cluster, "user": self.user}
        named |= {"server": self.server, "as": self.as_user}
        return tuple(f"--{name}={value}" for name, value in named.items() if value)

    def followed_by(self, later: GlobalFlags) -> GlobalFlags:
        """These flags, typed before the verb, overridden by those typed after it."""
        given = {field.name: getattr(later, field.name) for field in fields(later) if getattr(later, field.name)}
        return replace(self, **given)


@dataclass(frozen=True)
class Options:
    """The arguments and flags of one verb. Those that may be repeated are tuples."""

    timeout = "0"
    """A length of time such as 10m for the whole command; `0` for no limit. Verbs that may wait make it a flag."""

    def check(self) -> None:
        """Raises UsageError for options that make no sense, whatever is in the cluster."""
        _ = self.seconds

    @property
    def seconds(self) -> float:
        """`timeout` in seconds; infinite for no limit. Raises UsageError."""
        return seconds_of(self.timeout, "--timeout") or inf

    @property
    def offline(self) -> bool:
        """Whether these options need no cluster."""
        return False


@dataclass(frozen=True)
class SelectorOptions(Options):
    """Flags that choose several objects."""

    selector: Annotated[str | None, Option("-l", help="Select by labels.")] = None
    all_namespaces: Annotated[bool, Option("-A", help="Select in all namespaces.")] = False

    def refuse_both(self, names: tuple[str, ...]) -> None:
        """Raises UsageError if both these flags and `names` choose objects."""
        if names and (self.selector or self.all_namespaces):
            raise UsageError("give names, or -l and -A, not both")


ShowValues = Annotated[bool, Option(help="Also show values that may be secrets.")]
Name = Annotated[str, Argument(metavar="NAME", help="Name of the DaemonSet.", autocompletion=names)]
Names = Annotated[tuple[str, ...], Argument(metavar="[NAME]...", help="Names of DaemonSets.", autocompletion=names)]


@dataclass(frozen=True, kw_only=True)
class ManifestOptions(Options):
    """Flags that name manifests to read."""

    files: Annotated[
        tuple[str, ...],
        Option(
            "--filename",
            "-f",
            help="Manifest, folder of manifests, URL, or - for standard input; may be repeated.",
            autocompletion=files,
        ),
    ] = ()
    recursive: Annotated[bool, Option("-R", help="Also folders below those of -f.")] = False
    kustomize: Annotated[
        str | None, Option("-k", help="Folder or URL with a kustomization.", autocompletion=files)
    ] = None

    @property
    def given(self) -> bool:
        return bool(self.files) or self.kustomize is not None


GLOBAL_NAMES = frozenset(field.name for field in fields(GlobalFlags))
