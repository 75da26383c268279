"""The program as typer sees it: the root with the flags before the verb, the verbs in sections, plain help; and the
entry points that kubectl runs, `kubectl-kruise_ds` and `kubectl_complete-kruise_ds` for <TAB>.

The twenty options of a verb are built only when that verb is called: building all verbs takes as long as starting
Python, and every <TAB> would wait for it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import OptionInfo

from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.flags import FILES, GLOBAL_NAMES, GlobalFlags, Options, Output
from kubectl_plugin.host import Host, null_stream
from kubectl_plugin.runner import ENTRIES, SHOWN, Entry, Runner, imported_function
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import COMMAND

HELP = "help"
ClickContext: TypeAlias = Any
ClickCommand: TypeAlias = Any
ClickFormatter: TypeAlias = Any
ClickItem: TypeAlias = Any
"""click's types, which typer keeps private: they are of its own copy, or of the library, by typer's version."""
BEFORE = "kubectl_plugin.main.before"
"""The key under which typer's context keeps the flags that were typed before the verb."""
SWITCHED_OFF = "kubectl_plugin.main.switched_off"
"""The key for the names of switches that were turned off last."""
TYPERS_OWN = frozenset({"install_completion", "show_completion"})
"""Flags that typer adds along with completion; they would set it up for a program that no shell calls."""
MOST_VERBOSE = 2
"""`-v=6`, as for kubectl, shows no more than `-vv`."""
INSTEAD = {
    "rollout status": f"{COMMAND} status -w NAME",
    "rollout history": f"{COMMAND} history NAME",
    "rollout undo": f"{COMMAND} rollback NAME",
    "rollout pause": f"{COMMAND} pause NAME",
    "rollout resume": f"{COMMAND} resume NAME",
    "rollout restart": f"{COMMAND} restart NAME",
    "rollout": f"{COMMAND} help",
    "set image": f"{COMMAND} set-image NAME CONTAINER=IMAGE",
    "set": f"{COMMAND} help set-image",
    "scale": f"{COMMAND} help set-partition",
    "get": f"{COMMAND} status",
    "describe": f"{COMMAND} status NAME",
    "edit": "kubectl edit ads NAME",
}
"""The commands for verbs that only kubectl has."""
KUBECTL_VERBS = frozenset(words.partition(" ")[0] for words in INSTEAD)


@dataclass(frozen=True)
class Candidate:
    """One proposal for <TAB>, with the attributes that typer reads.

    The help is part of the value, behind a tab: typer would import rich to print a help of its own.
    """

    value: str
    help: str | None = None
    type: str = "plain"


def _candidates(found: list[ClickItem]) -> list[ClickItem]:
    return [Candidate(f"{one.value}\t{one.help}" if one.help else one.value) for one in found]


_YES, _NO = frozenset({"1", "t", "T", "true", "True", "TRUE"}), frozenset({"0", "f", "F", "false", "False", "FALSE"})


def _in_clicks_spelling(ctx: typer.Context, command: TyperCommand | TyperGroup, args: list[str]) -> list[str]:
    """`args`, typed as pflag and so kubectl takes them, in click's spelling: `-n=default` becomes `-ndefault`, and
    of each switch only the last word counts: `--switch=true` becomes `--switch`, and `--switch=false` what turns it
    off, or nothing, also where it was typed before the verb. Values of flags, and words after `--` or after the verb,
    stay as they are.
    """
    options = [param for param in command.get_params(ctx) if isinstance(param, TyperOption)]
    known = {name: option for option in options for name in (*option.opts, *option.secondary_opts)}
    given: list[tuple[str, TyperOption | None]] = []
    """Each word, with the switch that it turns."""
    is_value, rest = False, []
    for index, typed in enumerate(args):
        if is_value:
            given.append((typed, None))
            is_value = False
            continue
        if typed == "--" or not (ctx.allow_interspersed_args or typed.startswith("-")):
            rest = args[index:]
            break
        for word in _single_flags(typed, known):
            name, equals, value = word.partition("=")
            one = known.get(name)
            if one is not None and one.is_flag and not one.count and (not equals or value in _YES | _NO):
                on = (name in one.opts) is not (value in _NO)
                given = [before for before in given if before[1] is not one]
                given += [(spelled, one) for spelled in (one.opts[-1:] if on else one.secondary_opts[-1:])]
                off = ctx.meta.setdefault(SWITCHED_OFF, set())
                (off.discard if on else off.add)(one.name)
            elif one is not None and one.count and value.isdecimal():
                given += [(name, None)] * min(int(value[-2:]), MOST_VERBOSE)
            else:
                given.append((word, None))
                is_value = one is not None and not (one.is_flag or one.count or equals)
    return [*(word for word, _ in given), *rest]


def _single_flags(word: str, known: Mapping[str, TyperOption]) -> Iterator[str]:
    """The short flags in `word`, one by one: `-wn=x` is `-w` and `-nx`. Other words come as they are."""
    if not re.match(r"-[^-]", word):
        yield word
        return
    letters = word[1:]
    while letters:
        one, rest = known.get(f"-{letters[0]}"), letters[1:]
        if one is None or not (one.is_flag or one.count):
            value = rest[1:] if one is not None and len(rest) > 1 and rest[0] == "=" else rest
            yield f"-{letters[0]}{value}"
            return
        if rest.startswith("="):
            yield f"{one.opts[-1]}{rest}"
            return
        yield f"-{letters[0]}"
        letters = rest


class Verb(TyperCommand):
    """A verb whose help leaves out the global flags: `kubectl kruise-ds --help` lists them once."""

    def parse_args(self, ctx: ClickContext, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _in_clicks_spelling(ctx, self, args))

    def format_help(self, ctx: ClickContext, formatter: ClickFormatter) -> None:
        shared = [one for one in self.params if isinstance(one, TyperOption) and one.name in GLOBAL_NAMES]
        for option in shared:
            option.hidden = True
        super().format_help(ctx, formatter)
        for option in shared:
            option.hidden = False  # <TAB> offers them

    def collect_usage_pieces(self, ctx: ClickContext) -> list[str]:
        """A metavar that has brackets already gets no second pair, and a required argument gets none."""
        own = [str(param.metavar) for param in self.params if str(param.metavar).startswith("[")]
        pieces = super().collect_usage_pieces(ctx)
        return [next((text for text in own if text in piece), piece.strip("{}")) for piece in pieces]

    def shell_complete(self, ctx: ClickContext, incomplete: str) -> list[ClickItem]:
        return _candidates(super().shell_complete(ctx, incomplete))


def verbs(incomplete: str) -> list[str]:
    """The verbs that begin with `incomplete`, each with its help behind a tab."""
    found = [*((entry.name, entry.summary) for entry in SHOWN), (HELP, "Help about a verb")]
    return [f"{name}\t{summary}" for name, summary in found if name.startswith(incomplete)]


class Root(TyperGroup):
    """Lists the verbs under headings, and builds only the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {entry.name: entry for entry in ENTRIES}  # type: ignore[misc]  # only its keys are read

    def get_command(self, ctx: ClickContext, cmd_name: str) -> ClickCommand | None:
        if cmd_name in KUBECTL_VERBS:
            return _pointer(cmd_name)
        return _command_of(self.commands[cmd_name]) if cmd_name in self.commands else None

    def resolve_command(self, ctx: ClickContext, args: list[str]) -> Any:
        """`help VERB` is `VERB --help`."""
        return super().resolve_command(ctx, [*args[1:], "--help"] if args[0] == HELP else args)

    def parse_args(self, ctx: ClickContext, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _in_clicks_spelling(ctx, self, args))

    def get_params(self, ctx: ClickContext) -> list[Any]:
        return [parameter for parameter in super().get_params(ctx) if parameter.name not in TYPERS_OWN]

    def list_commands(self, ctx: ClickContext) -> list[str]:
        return [entry.name for entry in SHOWN]

    def format_commands(self, ctx: ClickContext, formatter: ClickFormatter) -> None:
        width = max(len(entry.name) for entry in SHOWN)
        for heading in dict.fromkeys(entry.section for entry in SHOWN):
            rows = [(entry.name.ljust(width), f"{entry.summary}.") for entry in SHOWN if entry.section == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: ClickContext, incomplete: str) -> list[ClickItem]:
        if incomplete.startswith("-"):
            return _candidates(super().shell_complete(ctx, incomplete))
        return [Candidate(line) for line in verbs(incomplete)]


def _plain(**more: Any) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode=None,  # help and errors stay plain lines, in a log too
        pretty_exceptions_enable=False,  # its tracebacks would print local variables, tokens among them
        **more,
    )


def _with_flags(body: Callable[..., None], *groups: type[GlobalFlags | Options]) -> Callable[..., None]:
    """A function in the form that typer reads: it takes the context and the fields of all `groups` as parameters, and
    calls `body` with the context and one record of each group.
    """
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [option for group in groups for option in _options(group)]
    repeated = {field.name for group in groups for field in fields(group) if field.default == ()}

    def call(ctx: typer.Context, **values: Any) -> None:
        given: dict[str, Any] = {
            name: tuple(value or ()) if name in repeated else value for name, value in values.items()
        }
        body(ctx, *(group(**{field.name: given[field.name] for field in fields(group)}) for group in groups))

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _options(group: type[GlobalFlags | Options]) -> list[inspect.Parameter]:
    """The fields of `group` as parameters for typer. The name of a field is the name of its flag unless the field
    gives one; typer gets a flag that may be repeated as a list, or None."""
    found = []
    for name, hint in get_type_hints(group, include_extras=True).items():
        default = getattr(group, name, inspect.Parameter.empty)
        kind, how = get_args(hint)
        names = how.param_decls or ()  # typer takes the first one for the default
        if isinstance(how, OptionInfo) and not any(str(one).startswith("--") for one in (how.default, *names)):
            how = copy(how)
            how.param_decls = (*names, f"--{name.replace('_', '-')}")
        if default == ():
            kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]  # made at run time
        hint = Annotated[kind, how]
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return found


@cache
def _command_of(entry: Entry) -> ClickCommand:
    one = _plain(add_completion=False)
    epilog = f"Flags of every verb (-n, --context, -o, …): {COMMAND} --help"
    function = _with_flags(partial(_run_verb, entry), GlobalFlags, entry.options)
    one.command(entry.name, cls=Verb, help=entry.options.__doc__, hidden=entry.hidden, epilog=epilog)(function)
    return typer.main.get_command(one)


def _run_verb(entry: Entry, ctx: typer.Context, after: GlobalFlags, options: Options) -> None:
    runner: Runner = ctx.obj
    runner.run(_flags(ctx, after), entry, options)


def _flags(ctx: typer.Context, after: GlobalFlags) -> GlobalFlags:
    """Global flags may stand before the verb or after it; the later one wins."""
    off: Any = dict.fromkeys(GLOBAL_NAMES.intersection(ctx.meta.get(SWITCHED_OFF, ())), False)
    before: GlobalFlags = ctx.meta[BEFORE]
    return replace(before, **off).followed_by(after)


@dataclass(frozen=True, kw_only=True)
class _Rest(Options):
    words: Annotated[tuple[str, ...], typer.Argument()] = ()


@cache
def _pointer(verb: str) -> ClickCommand:
    """A command in place of a verb that only kubectl has. It takes any words, and tells what to type instead."""
    one = _plain(add_completion=False)
    settings = {"ignore_unknown_options": True, "help_option_names": []}
    one.command(verb, cls=Verb, context_settings=settings)(_with_flags(partial(_point, verb), GlobalFlags, _Rest))
    return typer.main.get_command(one)


def _point(verb: str, ctx: typer.Context, after: GlobalFlags, rest: _Rest) -> None:
    """Exits with code 2, for wrong usage."""
    both = " ".join((verb, *rest.words[:1]))
    typed = both if both in INSTEAD else verb

    def refuse(_: Terminal) -> ExitCode:
        raise UsageError(f'no verb "{typed}" here', f"instead: {INSTEAD[typed]}")

    runner: Runner = ctx.obj
    runner.run_guarded(_flags(ctx, after), refuse, outputs=tuple(Output))


def _root(ctx: typer.Context, flags: GlobalFlags) -> None:
    ctx.meta[BEFORE] = flags
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app = _plain(
    name=COMMAND,
    cls=Root,
    add_completion=True,  # without it typer knows no shell
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
app.callback(help="Rolls out, watches, pauses and rolls back Advanced DaemonSets (apps.kruise.io).")(
    _with_flags(_root, GlobalFlags)
)


VARIABLE = "_KRUISE_DS_COMPLETE"
COMPLETE = "__complete"
NO_FILES, SHELL_DECIDES, NO_BLANK = ":4", ":0", ":6"
"""Cobra's directives: no file names; file names only; no file names and no blank, because `CONTAINER=` continues."""
DEADLINE = 5
"""Seconds until completion gives up, because lookups by the system's resolver cannot be cancelled."""


def main() -> None:
    """Runs the plugin, or completion for the first word `__complete`, as in scripts of `completion install`."""
    repair_streams()
    if sys.argv[1:2] == [COMPLETE]:
        del sys.argv[1]
        complete()
    else:
        app(prog_name=COMMAND, obj=Runner(Host()))


def complete() -> None:
    """Prints candidates as kubectl expects: lines `value<TAB>help`, then a directive. Exits with 0 within `DEADLINE`;
    on failure it offers nothing and keeps stderr empty."""
    repair_streams()
    out = sys.stdout

    def give_up(*_: object) -> None:
        print(NO_FILES, file=out, flush=True)
        os._exit(0)

    if hasattr(signal, "alarm"):  # on Windows there is none
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(DEADLINE)
    lines = candidates(sys.argv[1:], Host(err=io.StringIO()))  # no terminal: an exec plugin may neither print nor ask
    if hasattr(signal, "alarm"):
        signal.alarm(0)
    print(*lines, sep="\n")


def repair_streams() -> None:
    """Opens missing streams, and escapes what cannot be encoded: a failure to print looks like a failed change."""
    sys.stdin = sys.stdin or null_stream("r")  # in this order: each opens with the lowest free descriptor, its own
    sys.stdout, sys.stderr = sys.stdout or null_stream("w"), sys.stderr or null_stream("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def candidates(words: Sequence[str], host: Host) -> list[str]:
    """The completion lines for `words`, of which the last is being typed. Uses typer's protocol for fish, whose lines
    kubectl expects, too; typer splits its input like a shell. Verbs bypass typer, which is twice as fast."""
    if len(words) == 1 and not words[0].startswith("-"):
        return [*verbs(words[0]), NO_FILES]
    os.environ |= {
        VARIABLE: "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": shlex.join([COMMAND, *words]),
    }
    found = io.StringIO()

    def look_up(what: str) -> Callable[..., Any]:
        return partial(imported_function(f"completion.{what}"), host)

    with contextlib.redirect_stdout(found), contextlib.redirect_stderr(io.StringIO()):
        try:
            app(args=[], prog_name=COMMAND, complete_var=VARIABLE, obj=look_up)
        except SystemExit:
            pass
        except (Exception, KeyboardInterrupt):  # a half-typed line may be anything
            return [NO_FILES]
        finally:
            del os.environ[VARIABLE]
    lines = [line for line in found.getvalue().splitlines() if line.strip()]
    if any(line.endswith(FILES) for line in lines):
        return [SHELL_DECIDES]
    return [*lines, NO_BLANK if lines and lines[0].partition("\t")[0].endswith("=") else NO_FILES]
