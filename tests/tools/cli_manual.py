"""`python -m tests.tools.cli_manual`: writes docs/cli.md from the plugin's verbs and flags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from kubectl_plugin.flags import GLOBAL_NAMES
from kubectl_plugin.main import app
from kubectl_plugin.options import ActingOptions, SelectedOptions, WaitingOptions
from kubectl_plugin.runner import SHOWN, Entry
from kubectl_plugin.wording import COMMAND


def _names(group: Any) -> frozenset[str]:
    return frozenset(one.name for one in fields(group))


PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

HEAD = f"""\
# Verbs and flags

<!-- Made by `make docs` from the program: the texts are in kubectl_plugin/flags.py and options.py. -->

All verbs of `{COMMAND}`, as `--help` tells them. What they write and when they ask: [plugin](plugin.md).
What each ends with: [exit codes](exit-codes.md).
"""

EVERY_VERB = "Flags of every verb"
SHARED: dict[str, tuple[frozenset[str], str]] = {
    EVERY_VERB: (GLOBAL_NAMES, "Before the verb or after it; of two, the later one wins."),
    "Flags of a change": (_names(ActingOptions), ""),
    "Flags for waiting": (_names(WaitingOptions) - _names(ActingOptions), ""),
    "Flags that choose": (_names(SelectedOptions), "Instead of names."),
}
"""Each told once: the names of the flags, and words about them. A verb that has all of them refers to it."""


def page() -> str:
    """The manual, from the program."""
    root: Any = typer.main.get_command(app)
    above = typer.Context(root, info_name=COMMAND)
    verbs = [(entry, root.get_command(above, entry.name)) for entry in SHOWN]
    sections = dict.fromkeys(entry.section for entry in SHOWN)
    parts = [HEAD]
    for section in sections:
        parts.append(f"## {section}\n")
        parts += [_verb(entry, one, above) for entry, one in verbs if entry.section == section]
    for title, (names, words) in SHARED.items():
        told = next(verb.params for _, verb in verbs if names <= {one.name for one in verb.params})
        rows = _table([one for one in told if one.name in names], above)
        parts.append(_block(f"## {title}", words, *rows))
    return "\n".join(parts)


def _block(*lines: str) -> str:
    """A blank line between the parts, none within a table."""
    return "\n\n".join(line for line in lines if line) + "\n"


def _verb(entry: Entry, verb: Any, above: typer.Context) -> str:
    context = typer.Context(verb, parent=above, info_name=entry.name)
    own, shared = _apart(verb.params)
    usage = " ".join([COMMAND, entry.name, *verb.collect_usage_pieces(context)])
    told = " ".join(verb.help.split())
    refers = " and ".join(f"[{title.lower()}](#{title.lower().replace(' ', '-')})" for title in shared)
    also = f" Also: {refers}." if refers else ""
    return _block(f"### {entry.name}", f"    {usage}", told + also, *_table(own, context))


def _apart(parameters: Iterable[Any]) -> tuple[list[Any], list[str]]:
    """The parameters of this verb alone, and the titles of the flags that it shares, without those of every verb."""
    left = {one.name: one for one in parameters}
    titles = []
    for title, (names, _) in SHARED.items():
        if names <= left.keys():
            left = {name: one for name, one in left.items() if name not in names}
            titles += [title] if title != EVERY_VERB else []
    return list(left.values()), titles


def _table(parameters: Collection[Any], context: typer.Context) -> list[str]:
    """No line, or one text. Arguments first."""
    ordered = sorted(parameters, key=lambda one: one.param_type_name != "argument")
    rows = [f"| `{flags}` | {meaning} |" for flags, meaning in _records(ordered, context)]
    return ["\n".join(("| | |", "|---|---|", *rows))] if rows else []


def _records(parameters: Iterable[Any], context: typer.Context) -> Iterator[tuple[str, str]]:
    """What its help says. A value that may be repeated is named like one that may not: the text says so."""
    for one in parameters:
        one.hidden = False  # as the help of a verb makes those of every verb
        if one.name == "help":
            continue
        flags, meaning = one.get_help_record(context)
        flags = re.sub(r"<list\[(\w+)\]>", lambda found: f"<{found[1].lower()}>", flags)
        if one.param_type_name == "argument":
            flags = re.sub(r" <\w+>$", "", flags)
        yield flags.replace("|", "\\|"), re.sub(r"\s*\[(default: .*|required)\]$", r" (\1)", meaning)


if __name__ == "__main__":
    PAGE.write_text(page())
