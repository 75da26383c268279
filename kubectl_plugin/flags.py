"""The flags that many verbs share, each written once.

A group of flags is a dataclass whose fields are typer options and arguments; one that may be repeated is a tuple.
`with_flags` turns a function that takes such groups into one that takes their fields, which is what typer reads.
Flags of `Global` may stand before or after the verb; of two, the later one wins.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints

import typer

from kubectl_plugin import candidates


class Output(StrEnum):
    """What `-o` accepts."""

    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    WIDE = "wide"


class Shell(StrEnum):
    """What `completion` accepts."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "pwsh"
    INSTALL = "install"


class DryRun(StrEnum):
    """What `--dry-run` accepts: nothing is written; `server` also asks the API server whether it would accept it."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


def _text(name: str, short: str, words: str, **more: Any) -> Any:
    return typer.Option(*([short] if short else []), name, help=words, show_default=False, **more)


@dataclass(frozen=True)
class Global:
    """kubectl's own flags, and those of the terminal."""

    namespace: Annotated[
        str | None,
        _text("--namespace", "-n", "Namespace; else that of the context.", autocompletion=candidates.namespaces),
    ] = None
    context: Annotated[
        str | None, _text("--context", "", "Context of the kubeconfig.", autocompletion=candidates.contexts)
    ] = None
    cluster: Annotated[str | None, _text("--cluster", "", "Cluster of the kubeconfig.")] = None
    user: Annotated[str | None, _text("--user", "", "User of the kubeconfig.")] = None
    kubeconfig: Annotated[
        str | None, _text("--kubeconfig", "", "Path of a kubeconfig.", autocompletion=candidates.files)
    ] = None
    server: Annotated[str | None, _text("--server", "-s", "URL of the API server.")] = None
    token: Annotated[str | None, _text("--token", "", "Bearer token.")] = None
    client_certificate: Annotated[
        str | None,
        _text("--client-certificate", "", "File with your certificate.", autocompletion=candidates.files),
    ] = None
    client_key: Annotated[
        str | None, _text("--client-key", "", "File with its key.", autocompletion=candidates.files)
    ] = None
    certificate_authority: Annotated[
        str | None,
        _text("--certificate-authority", "", "File with the server's authorities.", autocompletion=candidates.files),
    ] = None
    insecure_skip_tls_verify: Annotated[
        bool, _text("--insecure-skip-tls-verify", "", "Accept any certificate of the server.")
    ] = False
    tls_server_name: Annotated[str | None, _text("--tls-server-name", "", "Name in the server's certificate.")] = None
    as_user: Annotated[str | None, _text("--as", "", "User to act as.")] = None
    as_groups: Annotated[tuple[str, ...], _text("--as-group", "", "Group to act as; may be repeated.")] = ()
    as_uid: Annotated[str | None, _text("--as-uid", "", "UID to act as.")] = None
    request_timeout: Annotated[
        str | None, _text("--request-timeout", "", "Longest wait for one answer, such as 10s; 0 for no limit.")
    ] = None
    controller_namespace: Annotated[
        str | None,
        _text(
            "--controller-namespace",
            "",
            "Where the controller is, unless kruise-ds-system; also KRUISE_DS_CONTROLLER_NAMESPACE.",
            autocompletion=candidates.namespaces,
        ),
    ] = None
    output: Annotated[Output | None, _text("--output", "-o", "How it is printed.")] = None
    no_color: Annotated[bool, _text("--no-color", "", "No colours; also NO_COLOR=1.")] = False
    ascii: Annotated[bool, _text("--ascii", "", "Only ASCII characters.")] = False
    quiet: Annotated[bool, _text("--quiet", "-q", "Only the first line of each result.")] = False
    verbose: Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="Show each request; -vv tracebacks too.", show_default=False
        ),
    ] = 0

    @property
    def of_cluster(self) -> tuple[str, ...]:
        """Those that chose the cluster, to be typed again."""
        chosen = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--cluster": self.cluster,
            "--server": self.server,
        }
        return tuple(f"{flag}={value}" for flag, value in chosen.items() if value)

    def followed_by(self, later: Global) -> Global:
        """These flags, stood before the verb, and those after it."""
        given = {one.name: getattr(later, one.name) for one in fields(later) if getattr(later, one.name)}
        return replace(self, **given)


@dataclass(frozen=True)
class Many:
    """Which objects a verb is for."""

    selector: Annotated[str | None, _text("--selector", "-l", "Objects with these labels.")] = None
    all_namespaces: Annotated[bool, _text("--all-namespaces", "-A", "Objects of all namespaces.")] = False


DryRunFlag = Annotated[DryRun, typer.Option("--dry-run", help="Change nothing; `server` asks the API server.")]
FieldManager = Annotated[str, typer.Option("--field-manager", help="Name of the writer.")]
MANAGER = "kubectl-kruise-ds"


@dataclass(frozen=True)
class Acting:
    """Flags of every verb that changes something."""

    dry_run: DryRunFlag = DryRun.NONE
    yes: Annotated[bool, _text("--yes", "-y", "Do not ask.")] = False
    reason: Annotated[
        str | None,
        _text("--reason", "", "Why; kept with the last action, and as the change cause of a new template."),
    ] = None
    field_manager: FieldManager = MANAGER
    print_patch: Annotated[bool, _text("--print-patch", "", "Print the change for kubectl, without the guard.")] = (
        False
    )


@dataclass(frozen=True)
class Waiting(Acting):
    """Of those whose change takes a while."""

    wait: Annotated[
        bool, typer.Option("--wait", help="Wait as status -w does; end with 6 if another change takes over.")
    ] = False
    timeout: Annotated[str, typer.Option("--timeout", help="With --wait: give up after, e.g. 15m.")] = "0"


_YES, _NO = frozenset({"1", "t", "T", "true", "True", "TRUE"}), frozenset({"0", "f", "F", "false", "False", "FALSE"})


def without_values(words: Sequence[str], switches: Collection[str]) -> list[str]:
    """`words` with `--switch` for `--switch=true`, and nothing for `--switch=false`, which also takes back what stood
    before: kubectl's spelling of these flags. What follows `--` is left alone.
    """
    end = words.index("--") if "--" in words else len(words)
    given: list[str] = []
    for word in words[:end]:
        name, equals, value = word.partition("=")
        if not equals or name not in switches or value not in _YES | _NO:
            given.append(word)
        elif value in _YES:
            given.append(name)
        else:
            given = [one for one in given if one != name]
    return [*given, *words[end:]]


GLOBAL_NAMES = frozenset(one.name for one in fields(Global))
BEFORE = "kubectl_plugin.flags.before"
"""Under which the context keeps the flags that stood before the verb."""


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """`function` with each parameter that is a group of flags replaced by the fields of that group.

    A `Global` parameter also receives what stood before the verb. A parameter `runner` is the context's object,
    with which the program was called, and `ctx` the context.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("ctx", "runner"):
            continue
        if name in groups:
            parameters += _options(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def call(ctx: typer.Context, **values: Any) -> None:
        for name, group in groups.items():
            taken = group(**{one.name: _taken(one, values.pop(one.name)) for one in fields(group)})
            before = ctx.meta.get(BEFORE) if group is Global else None
            values[name] = before.followed_by(taken) if before else taken
        given = {"ctx": ctx, "runner": ctx.obj}
        function(**values, **{name: one for name, one in given.items() if name in hints})

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


def _options(group: Any) -> list[inspect.Parameter]:
    """typer knows a list, or none, of what may be repeated."""
    found = []
    for name, hint in get_type_hints(group, include_extras=True).items():
        default = getattr(group, name, inspect.Parameter.empty)
        if default == ():
            several, *how = get_args(hint)
            one = get_args(several)[0]
            hint, default = Annotated[list[one] | None, *how], None  # type: ignore[valid-type]  # made at run time
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return found


def _taken(field: Field[Any], value: Any) -> Any:
    return tuple(value or ()) if field.default == () else value
