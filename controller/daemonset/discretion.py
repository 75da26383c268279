"""Words of the server that may be repeated in logs, events and conditions. Pure.

The server, and what is plugged into it, quotes what it refuses. Values of environment variables, arguments, commands
and HTTP headers of a template are secrets for all we know: they are masked wherever they turn up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from controller.api.base import JSON, JSONObject
from controller.kube.errors import ApiError

MASK = "(hidden)"
SHORTEST = 4
"""Characters from which a value is looked for anywhere; a shorter one is part of too many words."""

_SECRETIVE = frozenset({"env", "args", "command", "httpHeaders"})
_FIELD = re.compile(
    r"(\.(?:env|args|command|httpHeaders)\b[\w.\[\]]*: [A-Z][a-z]+ (?:value|found): )"
    r'("(?:[^"\\]|\\.)*"?|\{.*?\}(?=[:,;]|$)|[^\s,;:]+)'
)


def discreet(words: str, *templates: JSONObject) -> str:
    """`words` without the values that these templates hold, and without any value that is quoted for such a field."""
    words = _FIELD.sub(rf"\1{MASK}", words)
    known = {form for template in templates for value in _values(template, secret=False) for form in _forms(value)}
    for value in sorted(known, key=len, reverse=True):
        words = _without(words, value)
    return words


def discreet_error(error: ApiError, *templates: JSONObject) -> ApiError:
    """The same error, in words that may be repeated."""
    message = discreet(error.message, *templates)
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


def _values(value: JSON, *, secret: bool) -> Iterator[str]:
    """Every text below a field that may hold secrets, but for names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (secret and key in ("name", "fieldPath", "apiVersion", "resource")):
                yield from _values(inner, secret=secret or key in _SECRETIVE)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner, secret=secret)
    elif secret and isinstance(value, str) and len(value) >= SHORTEST:
        yield value


def _forms(value: str) -> set[str]:
    """As it is, as JSON or Go quote it, and with its white space as one line."""
    plain = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    return {form for form in plain | {" ".join(one.split()) for one in plain} if len(form) >= SHORTEST}


def _without(words: str, value: str) -> str:
    words = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", MASK, words)  # not in the midst of a pod's name
    if words.endswith("…"):  # cut off, perhaps in the middle of it
        for length in range(min(len(value), len(words)) - 1, SHORTEST - 1, -1):
            if words.endswith(value[:length] + "…"):
                return f"{words[: -length - 1]}{MASK}…"
    return words
