"""The fields of the kinds that have a schema here: what no object of the kind has is dropped, or refused if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tests.beds.manifests import schema
from tests.beds.simulator.objects import Object


@dataclass(frozen=True)
class Shape:
    """The fields of an object, or of each object in a list."""

    fields: Mapping[str, Shape | None]
    """None: a plain value, or anything at all."""
    is_open: bool = False
    """Whether fields that are not declared are kept."""


@cache
def pod_shape() -> Shape:
    """The pod of the pinned Kubernetes; `make manifests` writes the file."""
    kinds = json.loads(Path(__file__).with_name("pod_fields.json").read_text())

    @cache
    def of(kind: str) -> Shape:
        return Shape({field: of(inner) if inner else None for field, inner in kinds[kind].items()})

    return of("Pod")


@cache
def daemonset_shape() -> Shape:
    """As our CRD declares it."""

    def of(declared: Any) -> Shape | None:
        inner = declared.get("items", declared)
        is_open = bool(inner.get("x-kubernetes-preserve-unknown-fields"))
        fields = {field: of(one) for field, one in inner.get("properties", {}).items()}
        return Shape(fields, is_open) if fields else None

    found = of(schema())
    assert found is not None
    return Shape({**found.fields, "metadata": pod_shape().fields["metadata"]})


def drop_unknown(found: Object, shape: Shape, path: str = "") -> Iterator[str]:
    """Drop them in place; yields their paths as the API server writes them, in the order of the document."""
    for field in list(found):
        where = f"{path}.{field}" if path else field
        if field not in shape.fields:
            if not shape.is_open:
                del found[field]
                yield where
        elif (inner := shape.fields[field]) is not None:
            value = found[field]
            if isinstance(value, dict):
                yield from drop_unknown(value, inner, where)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from drop_unknown(item, inner, f"{where}[{index}]")


ESCAPED_BY_GO = (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode())


class _Sent(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"")


def is_as_written_by_go(body: bytes) -> bool:
    """Whether `data` in the body of a POST is what Go's encoding/json would write for it (key order is kept)."""
    data = bytes(msgspec.json.decode(body, type=_Sent).data)
    return data == msgspec.json.format(data, indent=-1) and not any(letter in data for letter in ESCAPED_BY_GO)
