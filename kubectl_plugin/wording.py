"""Words that several verbs print: commands to type as they stand, kubectl's own verbs, names and numbers of nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from controller.api import formats
from controller.api.formats import IntOrPercent

if TYPE_CHECKING:
    from controller.api.objects import Key

_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""Without line breaks and tabs, which lay out documents."""
_WITHOUT_WIDTH: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, line separators and interlinear annotations."""

INVISIBLE: Final = re.compile(f"[{_CONTROLS}{_WITHOUT_WIDTH}]")
PROGRAM: Final = "kubectl kruise-ds"
_COMMAND: Final = re.compile(r"\bkubectl(?: kruise-ds)?(?= [a-z])")
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


def visible(text: str) -> str:
    """`text` with a blank for each invisible character; line breaks and tabs stay."""
    return INVISIBLE.sub(" ", text)


def command(verb: str, key: Key | None = None, *more: str, to: str = "", program: str = PROGRAM) -> str:
    """`kubectl kruise-ds VERB NAME WORDS… -n NAMESPACE FLAGS…`; after `to`, what it is for, and a colon. `more`: the
    words and flags. When it is printed, `for_cluster` adds the flags that choose the cluster."""
    flags = next((index for index, word in enumerate(more) if word.startswith("-")), len(more))
    words = more if key is None else (key.name, *more[:flags], "-n", key.namespace, *more[flags:])
    typed = f"{program} {verb} {shlex.join(words)}".rstrip()
    return f"{to}: {typed}" if to else typed


def for_cluster(text: str, flags: Sequence[str]) -> str:
    """`text` with `flags` added to each kubectl command in it: a command that a person copies must reach the cluster
    of this call, even when the kubeconfig's context changes in between.
    """
    words = shlex.join(flags)
    return _COMMAND.sub(lambda found: f"{found[0]} {words}", text) if words else text


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


def new_nodes(partition: IntOrPercent, desired: int) -> str:
    """`8 of 24 new`: said beside a partition, which counts the old pods although people think of the new ones."""
    new = max(desired - formats.scaled(partition, desired, round_up=False), 0)
    return f"{new} of {desired} new"


def between(names: Sequence[str], dots: str = "…") -> str:
    """Up to three names; of more, the first and the last."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} {dots} {names[-1]}"
