"""YAML as kubectl reads it, which is neither 1.1 nor 1.2: `y` is true, `1e3` and `0o17` are numbers, `22:30` is text.

Imports PyYAML: import this module only to read or write YAML.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import yaml

_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_WORDS: Final = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_INTEGER: Final = re.compile(r"[-+]?(0[bB][01]+|0[oO][0-7]+|0[0-7]*|0[xX][0-9a-fA-F]+|[1-9][0-9]*)")
_OCTAL: Final = re.compile(r"^([-+]?)0([0-7]+)$")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_EXACT: Final = 1 << 53
_NEXT_LINE: Final = "\x85"
"""kubectl reads this character as a blank, except between double quotes."""
_PLAIN: Final = "!kubectl"
_MERGE: Final = "tag:yaml.org,2002:merge"


def value_of(text: str) -> str | bool | int | float | None:
    """The value that kubectl reads from an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "") if text[0] in "+-.0123456789" and text[:2] != "._" else ""
    if _INTEGER.fullmatch(digits):
        whole = int(_OCTAL.sub(r"\g<1>0o\2", digits), 0)
        if -(1 << 63) <= whole < 1 << 63:
            return whole
    if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
        return int(number) if number.is_integer() and abs(number) < _EXACT else number
    return text


class KubectlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """Reads YAML as kubectl does; dates stay text."""


def _without_tag(loader: Any, node: yaml.Node) -> Any:
    """Ignores unknown tags. No error quotes them, because the text after `!` may be an unquoted secret."""
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    is_list = isinstance(node, yaml.SequenceNode)
    return loader.construct_sequence(node, deep=True) if is_list else loader.construct_mapping(node, deep=True)


KubectlLoader.yaml_implicit_resolvers = {}
KubectlLoader.add_implicit_resolver(_MERGE, re.compile(r"^<<$"), ["<"])
KubectlLoader.add_implicit_resolver(_PLAIN, re.compile(r"^[-+.0-9~a-zA-Z]|^$"), None)
KubectlLoader.add_constructor(_MERGE, lambda loader, node: loader.construct_scalar(node))  # as a value it is text
for _tag in (_PLAIN, *(f"tag:yaml.org,2002:{one}" for one in ("int", "float", "bool", "null", "timestamp"))):
    KubectlLoader.add_constructor(_tag, lambda loader, node: value_of(loader.construct_scalar(node)))
KubectlLoader.add_constructor(None, _without_tag)


def json_documents(text: str) -> list[Any]:
    """The concatenated JSON documents in `text`. Raises ValueError for anything else, including YAML flow style."""
    found, decoder = list[Any](), json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_number)
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        json.dumps(document, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        found.append(document)
        text = text[end:]
    return found


def _number(text: str) -> int | float:
    number = value_of(text)
    if not isinstance(number, int | float):
        raise ValueError(f"no number: {text}")
    return number


class Dumper(yaml.SafeDumper):
    """Quotes each text that kubectl or another parser would read as another type."""

    def text(self, value: str, style: str | None = None) -> yaml.ScalarNode:
        quoted = '"' if _NEXT_LINE in value else "'" if value_of(value) is not value else style
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)


Dumper.add_representer(str, Dumper.text)


def yaml_text(document: Any, *, only_ascii: bool) -> str:
    return yaml.dump(document, Dumper=Dumper, allow_unicode=not only_ascii, default_flow_style=False).rstrip("\n")
