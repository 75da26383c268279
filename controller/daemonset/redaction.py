"""Masks secrets in error messages, so that these may be repeated in logs, events and conditions.

The server, its webhooks and its policies quote what they refuse. Values of environment variables, arguments, commands
and HTTP headers of a template may all be secrets, so each is masked wherever it appears.
"""

from __future__ import annotations

import asyncio
import json
import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping

from controller.api.base import JSON, JSONObject
from controller.kube.errors import LONGEST_MESSAGE, ApiError

MASK = "(hidden)"
"""Replaces masked text in messages and logs. The screens of the plugin use three asterisks instead."""
SHORTEST = 4
"""Characters. A shorter value is not masked outside its field, because it is part of too many words."""

TURN = 64
"""Values that are added before other tasks may run; a template may have tens of thousands."""

_SECRETIVE = frozenset({"env", "args", "command", "httpHeaders"})
_FIELD = re.compile(
    r"(\.(?:env|args|command|httpHeaders)\b[\w.\[\]]*: [A-Z][a-z]+ (?:value|found): )"
    r'("(?:[^"\\]|\\.)*"?|\{.*?\}(?=[:,;]|$)|[^\s,;:]+)'
)
_INSIDE = re.compile(r"[\w-]")
"""A value next to one of these characters is not masked: it is part of another word, such as the name of a pod."""


class Secrets:
    """The values of templates that may be secrets, prepared for searching: the time of a search depends on the length
    of the message and not on the number of values."""

    def __init__(self) -> None:
        self._whole: set[str] = set()
        self._sorted: list[str] = []
        self._lengths: dict[str, list[int]] = {}
        """For the first `SHORTEST` characters of each value: the lengths of all values that begin with them, negated,
        so that the longest comes first."""

    def add(self, value: str) -> None:
        """Add a value to be masked. If it is longer than any error message, only its beginning is searched."""
        for form in _forms(value):
            if form in self._whole:
                continue
            self._whole.add(form)
            insort(self._sorted, form)
            lengths = self._lengths.setdefault(form[:SHORTEST], [])
            if -len(form) not in lengths:
                insort(lengths, -len(form))

    def longest_at(self, words: str, start: int) -> int:
        """The length of the value that begins at `start` in `words`; 0: none does."""
        for negative in self._lengths.get(words[start : start + SHORTEST], ()):
            end = start - negative
            if words[start:end] in self._whole and not _INSIDE.match(words, end):
                return -negative
        return 0

    def begins_with(self, text: str) -> bool:
        """Whether a value begins with `text` and is longer than it."""
        place = bisect_left(self._sorted, text)
        after = self._sorted[place : place + 2]
        return any(one.startswith(text) and one != text for one in after)


class KnownSecrets:
    """The secrets in all templates of one DaemonSet. Each template is read once, while other tasks run in between."""

    def __init__(self) -> None:
        self._secrets, self._identities = Secrets(), set[str]()

    async def of(self, templates: Mapping[str, JSONObject]) -> Secrets:
        """The secrets in `templates`, whose keys are their identities (`canonical.identity`)."""
        if not self._identities <= templates.keys():
            self._secrets, self._identities = Secrets(), set()
        for identity in templates.keys() - self._identities:
            for number, value in enumerate(secret_values(templates[identity]), 1):
                self._secrets.add(value)
                if number % TURN == 0:
                    await asyncio.sleep(0)  # other tasks may run
            self._identities.add(identity)
        return self._secrets


def secret_values(value: JSON, *, secret: bool = False) -> Iterator[str]:
    """All texts in a template below a field that may hold secrets, except names. The caller may pause between two of
    them. `secret`: `value` is below such a field already."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (secret and key in ("name", "fieldPath", "apiVersion", "resource")):
                yield from secret_values(inner, secret=secret or key in _SECRETIVE)
    elif isinstance(value, list):
        for inner in value:
            yield from secret_values(inner, secret=secret)
    elif secret and isinstance(value, str) and len(value) >= SHORTEST:
        yield value


def redacted(words: str, *secrets: Secrets) -> str:
    """`words` with all these secrets masked, and every value quoted for a field that may hold one."""
    words = _FIELD.sub(rf"\1{MASK}", words)
    told, end = [], 0
    for start, length in sorted(_found(words, secrets)):
        if start >= end:
            told += [words[end:start], MASK]
        end = max(end, start + length)
    return "".join([*told, words[end:]])


def redacted_error(error: ApiError, *secrets: Secrets) -> ApiError:
    """`error` with its secrets masked, so that logs, events and conditions may repeat it."""
    message = redacted(error.message, *secrets)
    if message == error.message:
        return error
    return type(error)(
        error.verb,
        error.what,
        message,
        status=error.status,
        reason=error.reason,
        name=error.name,
        causes=error.causes,
        retry_after=error.retry_after,
    )


def _found(words: str, secrets: tuple[Secrets, ...]) -> Iterator[tuple[int, int]]:
    """The start and length of each secret in `words`; they may overlap."""
    if not secrets:
        return
    for start in range(len(words) - SHORTEST + 1):
        if start and _INSIDE.match(words, start - 1):
            continue
        length = max(one.longest_at(words, start) for one in secrets)
        if length:
            yield start, length
    if words.endswith("…"):  # cut off, perhaps in the middle of a secret
        cut = len(words) - 1
        for start in range(cut - SHORTEST + 1):
            if any(one.begins_with(words[start:cut]) for one in secrets):
                yield start, cut - start
                return


def _forms(value: str) -> set[str]:
    """All forms in which a message may quote `value`: as it is, as JSON or Go quote it, with its white space made
    single spaces. Each is cut to the length of the longest error message."""
    plain = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms = plain | {" ".join(one.split()) for one in plain}
    return {form[: LONGEST_MESSAGE + 1] for form in forms if len(form) >= SHORTEST}
