"""The program as typer sees it: the root with the flags before the verb, the verbs in sections, plain help.

A verb's twenty options are built when that verb is called and not before: building all verbs takes as long as
starting Python, and every <TAB> would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from kubectl_plugin.flags import BEFORE, GLOBAL_NAMES, Global, with_flags, without_values
from kubectl_plugin.tree import act, look, setup

NAME = "kubectl kruise-ds"
TYPERS_OWN = frozenset({"install_completion", "show_completion"})
"""Flags that typer adds where completion is on; they would set up completion for a program that nobody calls."""


@dataclass(frozen=True)
class Entry:
    """One line of the help."""

    name: str
    section: str
    function: Callable[..., None]
    hidden: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of its docstring."""
        line = (self.function.__doc__ or "").strip().partition("\n")[0]
        return line.partition(". ")[0].removesuffix(".")


ENTRIES = (
    Entry("status", "Look", look.status),
    Entry("list", "Look", look.list_),
    Entry("nodes", "Look", look.nodes),
    Entry("plan", "Look", look.plan),
    Entry("history", "Look", look.history),
    Entry("diff", "Look", look.diff),
    Entry("pause", "Act", act.pause),
    Entry("resume", "Act", act.resume),
    Entry("set-partition", "Act", act.set_partition),
    Entry("promote", "Act", act.promote),
    Entry("rollback", "Act", act.rollback),
    Entry("undo", "Act", act.rollback, hidden=True),
    Entry("restart", "Act", act.restart),
    Entry("set-image", "Act", act.set_image),
    Entry("apply", "Act", act.apply),
    Entry("pull", "Act", act.pull),
    Entry("migrate", "Act", act.migrate),
    Entry("doctor", "Set up", setup.doctor),
    Entry("completion", "Set up", setup.completion),
    Entry("version", "Set up", setup.version),
)
SHOWN = tuple(entry for entry in ENTRIES if not entry.hidden)


@dataclass
class Candidate:
    """What <TAB> offers, with the attributes that typer reads.

    The help stands in the value, behind a tab: help of its own would make typer import rich to print it.
    """

    value: str
    help: str | None = None
    type: str = "plain"


def _candidates(found: list[Any]) -> list[Any]:
    return [Candidate(f"{one.value}\t{one.help}" if one.help else one.value) for one in found]


def _spelled(command: Any, args: list[str]) -> list[str]:
    """The words in the one spelling that click knows."""
    switches = {name for one in command.params if getattr(one, "is_flag", False) for name in one.opts}
    return without_values(args, {name for name in switches if name.startswith("--")})


class Verb(TyperCommand):
    """A verb whose help leaves out the flags of every verb: they are told once, by `kubectl kruise-ds --help`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _spelled(self, args))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and parameter.name in GLOBAL_NAMES:
                parameter.hidden = True
        super().format_help(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """A metavar with brackets of its own gets no second pair, and what has to be given stands as it is."""
        own = [str(one.metavar) for one in self.params if str(one.metavar).startswith("[")]
        pieces = super().collect_usage_pieces(ctx)
        return [next((text for text in own if text in piece), piece.strip("{}")) for piece in pieces]

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return _candidates(super().shell_complete(ctx, incomplete))


def verbs(incomplete: str) -> list[str]:
    """The verbs that begin so, with their help behind a tab."""
    return [f"{entry.name}\t{entry.summary}" for entry in SHOWN if entry.name.startswith(incomplete)]


class Verbs(Mapping[str, Any]):
    """The verbs by name, each built when it is asked for."""

    def __init__(self) -> None:
        self._entries = {entry.name: entry for entry in ENTRIES}

    def __getitem__(self, name: str) -> Any:
        return _built(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Root(TyperGroup):
    """Lists the verbs under headings, and builds the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Verbs()  # type: ignore[assignment]  # read, never added to

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _spelled(self, args))

    def get_params(self, ctx: Any) -> list[Any]:
        return [parameter for parameter in super().get_params(ctx) if parameter.name not in TYPERS_OWN]

    def list_commands(self, ctx: Any) -> list[str]:
        return [entry.name for entry in SHOWN]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(len(entry.name) for entry in SHOWN)
        for heading in dict.fromkeys(entry.section for entry in SHOWN):
            rows = [(entry.name.ljust(width), f"{entry.summary}.") for entry in SHOWN if entry.section == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            return _candidates(super().shell_complete(ctx, incomplete))
        return [Candidate(line) for line in verbs(incomplete)]


def _plain(**more: Any) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode=None,  # help and errors stay plain lines, in a log too
        pretty_exceptions_enable=False,  # its tracebacks print local variables, tokens among them
        **more,
    )


@cache
def _built(entry: Entry) -> Any:
    one = _plain(add_completion=False)
    epilog = f"Flags of every verb (-n, --context, -o, …): {NAME} --help"
    one.command(entry.name, cls=Verb, hidden=entry.hidden, epilog=epilog)(with_flags(entry.function))
    return typer.main.get_command(one)


def _root(ctx: typer.Context, flags: Global) -> None:
    """Rolls out, stops, looks at and takes back Advanced DaemonSets (apps.kruise.io)."""
    ctx.meta[BEFORE] = flags
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


app = _plain(
    name=NAME,
    cls=Root,
    add_completion=True,  # without it typer knows no shell
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
app.callback()(with_flags(_root))
