"""Commands that hints, advice and messages tell a person to type: each can be typed as it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.api.objects import Key  # it imports msgspec, and --help must not wait for that

PROGRAM: Final = "kubectl kruise-ds"
_COMMAND: Final = re.compile(r"\bkubectl(?: kruise-ds)?(?= [a-z])")


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
