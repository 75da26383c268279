"""What people type because kubectl has it, and what to type here instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from kubectl_plugin.commands import PROGRAM, command

INSTEAD: Final = {
    "rollout status": "status -w",
    "rollout history": "history",
    "rollout undo": "rollback",
    "rollout pause": "pause",
    "rollout resume": "resume",
    "rollout restart": "restart",
    "rollout": "help",
    "set image": "set-image",
    "set": "help set-image",
    "scale": "help set-partition",
    "get": "status",
    "describe": "status",
    "edit": "edit ads",
}
"""The verb here, and flags that do the same, for verbs of kubectl; the last one is kubectl's own."""
VERBS: Final = frozenset(words.partition(" ")[0] for words in INSTEAD)
KINDS: Final = frozenset(
    {"ads", "ds", "daemon", "daemonset", "daemonsets", "daemonset.apps.kruise.io", "daemonsets.apps.kruise.io"}
)
"""Words for our kind, in small letters: before `/NAME`, and for kubectl also as a word of their own."""
_PATH: Final = r"\.\w+(?:\.\w+|\[(?:\d+|\*)\])*"
_JSONPATH: Final = re.compile(rf"jsonpath=\{{?\$?({_PATH})\}}?")
_COLUMNS: Final = re.compile(rf"custom-columns=([^:,]+:{_PATH}(?:,[^:,]+:{_PATH})*)")


def instead_of(verb: str, words: Sequence[str], *flags: str) -> tuple[str, str]:
    """The verb of kubectl that was typed, and the command to type instead. `words` follow `verb`, without those flags
    that every verb has; `flags` are those of them to type again."""
    both = " ".join((verb, *words[:1]))
    typed, names = (both, [*words[1:]]) if both in INSTEAD else (verb, [*words])
    here, *more = INSTEAD[typed].split()
    if here == "help":
        return typed, command(here, None, *more, to="instead")
    if names and names[0].lower() in KINDS:
        del names[0]
    program = PROGRAM
    if here == "edit":  # which takes the kind once
        program, names = PROGRAM.partition(" ")[0], [name.rpartition("/")[2] for name in names]
    return typed, command(here, None, *more, *names, *flags, to="instead", program=program)


def in_jq(output: str) -> str:
    """`-o json | jq …` for a value of `-o` that only kubectl has; without a program for jq where it is not plain."""
    program = ""
    if found := _JSONPATH.fullmatch(output):
        program = found[1]
    elif found := _COLUMNS.fullmatch(output):
        fields = ", ".join(column.partition(":")[2] for column in found[1].split(","))
        program = f".items // [.] | .[] | [{fields}] | @tsv"
    said = shlex.quote(program.replace("[*]", "[]"))
    return f"-o json | jq -r {said}" if program else "-o json | jq"
