"""Pod templates without the secrets that people write into them as plain text."""

from __future__ import annotations

import re
from typing import Final

from controller.api.base import JSON, JSONObject

MASK: Final = "***"
"""Stands on screens for what is masked; messages and logs of the controller have another one, `(hidden)`."""

_SECRET: Final = (
    r"passw|passphrase|pwd|secret|token|key|credential|auth(?!ors?(?![a-z]))|private|dsn|cookie|signature"
    r"|(?<![a-z])(?:pass|sig)(?![a-z])"
)
_NO_PLACE: Final = r"(?<!file)(?<!path)(?<!dir)"
"""Endings of names whose values are not masked: a path is no secret, and people look for it."""
_LOOKS_SECRET: Final = re.compile(rf"(?=.*?(?:{_SECRET})).*{_NO_PLACE}", re.IGNORECASE | re.DOTALL)
_NAME: Final = rf"(?<![\w.-])(?=[\w.-]*?(?:{_SECRET}))[\w.-]++{_NO_PLACE}"
_FLAG: Final = re.compile(r"--?[\w.-]+")


def _rule(name: str, separator: str, plain: str) -> re.Pattern[str]:
    """A pattern for the secret that follows `name` and `separator`. A quoted secret ends at its quote; one that opens
    more (a bracket, a block or list of YAML, a PEM) goes to the end of the text, so that rather too much is masked.
    Any other secret matches `plain`.
    """
    closes = r"(?<!\\)(?P=quote)(?=[\s,;&)}\]]|\Z)"
    return re.compile(
        rf"""(?P<before>{name}(?:{separator})(?P<quote>\\*["'])?+)"""
        rf"(?(quote)(?!{closes}).*?(?:{closes}|\Z)|(?:(?:[\[{{|>\n]|-----).*|{plain}))",
        re.IGNORECASE | re.DOTALL,
    )


_OF_FLAG: Final = _rule(rf"(?=-){_NAME}", r"\s+(?!--)", r"\S+")
_OF_USER: Final = _rule(r"(?<![\w-])(?:-u|--user)", r"""[\s=]+(?=["']?(?!\d+:\d+\b)[^\s:"']+:)""", r"\S+")
_SCHEME: Final = r"(?:Basic|Bearer|Digest|Token)"
_RULES: Final = (
    # Texts that are recognisably secret, whatever their name is.
    re.compile(
        rf"(?P<before>(?<![\w-])(?:{_SCHEME}[ \t]+(?=\S*[\d=])|gh[opsur]_|github_pat_|glpat-|xox[a-z]-"
        r"|eyJ(?=[\w-]+\.[\w-]+\.)|hooks\.slack\.com/services/))(?P<quote>)[\w.~+/=-]{6,}"
    ),
    re.compile(r"(?P<before>-----BEGIN [A-Z ]*PRIVATE KEY-----)(?P<quote>).*?(?:(?=-----END)|\Z)", re.DOTALL),
    # In URLs and connection strings up to the last @, since a password may contain some. The length is bounded:
    # otherwise the search would begin anew at each of many colons.
    re.compile(
        r"""(?P<before>(?:://|(?<![^\s"'=,;(]))[^\s/:@"'=]*+:(?!//))(?P<quote>)"""
        r"""(?:(?!://)[^\s"']){1,400}(?=@(?!sha256:))"""
    ),
    re.compile(r"""(?P<before>://)(?P<quote>)[^\s/:@?#"']++(?=@)"""),
    # Connection strings, queries, scripts.
    _rule(_NAME, rf"\s*(?:[:+?]?=|:-)[ \t]*(?:{_SCHEME}[ \t]+)?", r"[^\s;&]+"),
    # JSON, also within JSON.
    _rule(_NAME, r"""\\*["']\s*:\s*""", r"[^\s,}\]]+"),
    # YAML and headers, but not a port or the tag of an image.
    _rule(_NAME, r"""\s*:[ \t]+|:(?=\\*["'\[{\n])""", r"[^\n]+"),
    _rule(rf"""(?<![^\s"'=]){_NAME}""", r":(?!//|\d{1,5}(?!\w)|\s)", r"[^\n]+"),
    _OF_FLAG,
    _OF_USER,
)


def looks_secret(name: str) -> bool:
    """Whether a value with this name is probably a secret; in doubt it is."""
    return _LOOKS_SECRET.fullmatch(name) is not None


def masked(template: JSONObject) -> JSONObject:
    """A copy that has *** for literal values with a secret-looking name (of `env`, HTTP headers and the like), for
    such flags in `args` and `command`, such annotations, and within texts for private keys, passwords in URLs and
    what goes by such a name. References to Secrets stay: they are names.

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
        return _arguments(value) if field in ("args", "command") else [_value(one, field) for one in value]
    return _text(value) if isinstance(value, str) else value


def _hidden(value: JSON) -> JSON:
    """`value` with every text masked. Lists and objects keep their form, because a file may have them where the
    server would only accept a text."""
    if isinstance(value, dict):
        return {key: _hidden(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_hidden(one) for one in value]
    return value if value in (None, "") else MASK


def _text(text: str) -> str:
    for rule in _RULES:
        text = rule.sub(rf"\g<before>{MASK}\g<quote>", text)
    return text


def _arguments(words: list[JSON]) -> list[JSON]:
    """The word after such a flag is masked as a whole, even with spaces in it."""
    result: list[JSON] = []
    flag = ""
    for word in words:
        if not isinstance(word, str):
            result.append(_value(word, ""))
            flag = ""
            continue
        name, _, value = word.partition("=")
        if flag and (_OF_FLAG.match(f"{flag} {word}") or _OF_USER.match(f"{flag} {word}")):
            result.append(MASK)
            flag = ""
        elif value and _FLAG.fullmatch(name) and looks_secret(name):
            result.append(f"{name}={MASK}")
            flag = ""
        else:
            result.append(_text(word))
            flag = word if _FLAG.fullmatch(word) else ""
    return result
