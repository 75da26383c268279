"""Pod templates without the secrets that people write into them as plain text."""

from __future__ import annotations

import re
from typing import Final

from controller.api.base import JSON, JSONObject

MASK: Final = "***"

_SECRET: Final = re.compile(
    r"passw|passphrase|pwd|secret|token|key|credential|auth(?!ors?(?![a-z]))|private|dsn|cookie|(?:^|[_.-])pass(?:$|[_.-])",
    re.IGNORECASE,
)
_WHERE: Final = re.compile(r"(?:file|path|dir)$", re.IGNORECASE)
"""Names of places: a path is no secret, and it is what people look for."""
_FLAG: Final = re.compile(r"(--?[\w.-]+)(?:=(.*))?", re.DOTALL)
_PASSWORD_IN_URL: Final = re.compile(r"(://[^/\s:@]*:)[^/\s]+@")
"""Up to the last @: a password may have some of its own."""
_PAIR: Final = re.compile(r"""(?P<name>[\w.-]+)=[^\s;&,"']+|"(?P<key>[\w.-]+)"(?P<colon>\s*:\s*)"(?:[^"\\]|\\.)+\"""")
"""In connection strings, queries and scripts; in JSON."""


def looks_secret(name: str) -> bool:
    """Whether what goes by this name is probably not for everybody's eyes. Rather once too often than too seldom."""
    return bool(_SECRET.search(name)) and not _WHERE.search(name)


def masked(template: JSONObject) -> JSONObject:
    """A copy that has *** for literal values with a secret-looking name (of `env`, HTTP headers and the like), for
    such flags in `args` and `command`, such annotations, and within texts for passwords in URLs and for what goes by
    such a name in connection strings, queries, scripts and JSON. References to Secrets stay: they are names.

    Trap: two templates with different secrets may look the same afterwards. Compare before, show after.
    """
    return {field: _value(value, field) for field, value in template.items()}


def _value(value: JSON, field: str) -> JSON:
    if isinstance(value, dict):
        named = value.get("name")
        hidden = isinstance(named, str) and looks_secret(named) and "value" in value
        whole = {key: _value(one, key) for key, one in value.items()}
        if field == "annotations":
            return {key: _hidden(one) if looks_secret(key.rpartition("/")[2]) else one for key, one in whole.items()}
        return {**whole, "value": _hidden(whole["value"])} if hidden else whole
    if isinstance(value, list):
        items = [_value(one, field) for one in value]
        return _arguments(items) if field in ("args", "command") else items
    return _PAIR.sub(_pair, _PASSWORD_IN_URL.sub(rf"\1{MASK}@", value)) if isinstance(value, str) else value


def _hidden(value: JSON) -> JSON:
    """Of the same shape: a list stays one, since a file may hold what the server would not take."""
    if isinstance(value, dict):
        return {key: _hidden(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_hidden(one) for one in value]
    return value if value in (None, "") else MASK


def _pair(found: re.Match[str]) -> str:
    name, key = found["name"], found["key"]
    if not looks_secret(name or key):
        return found[0]
    return f"{name}={MASK}" if name else f'"{key}"{found["colon"]}"{MASK}"'


def _arguments(words: list[JSON]) -> list[JSON]:
    """`--token=x` and `--token x`."""
    result: list[JSON] = []
    follows = False
    for word in words:
        flag = _FLAG.fullmatch(word) if isinstance(word, str) else None
        if flag is None:
            result.append(MASK if follows and isinstance(word, str) else word)
            follows = False
            continue
        secret = looks_secret(flag[1])
        follows = secret and flag[2] is None
        result.append(f"{flag[1]}={MASK}" if secret and flag[2] else word)
    return result
