"""Commands for the user to type, and names, numbers and lengths of time, as all verbs print them."""

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
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""A blank at which no line breaks, such as within a wave."""
COMMAND: Final = "kubectl kruise-ds"
CLIENT: Final = "kubectl-kruise-ds"
"""The plugin towards the API server: its user agent, field manager and source of Events."""
_COMMAND: Final = re.compile(r"\bkubectl(?: kruise-ds)?(?= [a-z])")


def visible(text: str) -> str:
    """`text` with each invisible character replaced by a blank; line breaks and tabs stay."""
    return INVISIBLE.sub(" ", text)


def printed_name(name: str, kind: str = "daemonset") -> str:
    """The name with its kind, as kubectl prints it."""
    return f"{kind}.apps.kruise.io/{name}"


def command(verb: str, key: Key | None = None, *more: str, to: str = "", program: str = COMMAND) -> str:
    """`TO: kubectl kruise-ds VERB NAME WORDS… -n NAMESPACE FLAGS…`. `more`: the words and flags."""
    flags = next((index for index, word in enumerate(more) if word.startswith("-")), len(more))
    words = more if key is None else (key.name, *more[:flags], "-n", key.namespace, *more[flags:])
    typed = f"{program} {verb} {shlex.join(words)}".rstrip()
    return f"{to}: {typed}" if to else typed


def for_cluster(text: str, flags: Sequence[str]) -> str:
    """`text` with `flags` in each kubectl command, so that a copied command reaches the same cluster even after the
    kubeconfig's context has changed."""
    words = shlex.join(flags)
    return _COMMAND.sub(lambda found: f"{found[0]} {words}", text) if words else text


def new_nodes(partition: IntOrPercent, desired: int) -> str:
    """`8 of 24 new`, shown beside a partition, which counts old pods."""
    new = max(desired - formats.scaled(partition, desired, round_up=False), 0)
    return f"{new} of {desired} new"


def between(names: Sequence[str], dots: str = "…") -> str:
    """Up to three names, or the first and the last of more."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} {dots} {names[-1]}"


def short_duration(seconds: float) -> str:
    """The duration as kubectl prints ages, such as `6m12s`, `18m` or `12d`; only a small first unit has a second
    one."""
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if days < 2:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
