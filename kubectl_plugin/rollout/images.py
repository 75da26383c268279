"""The images of a pod template, and short names for them."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSONObject, fields_of, items_of

_DIGITS: Final = 7
"""Number of digits shown of a digest, as in git."""


def images_of(template: JSONObject) -> dict[str, str]:
    """Image by container name, in template order, init containers last. Incomplete entries are omitted."""
    spec = fields_of(template.get("spec"))
    containers = (one for field in ("containers", "initContainers") for one in items_of(spec.get(field)))
    named = ((one.get("name"), one.get("image")) for one in containers)
    return {name: image for name, image in named if isinstance(name, str) and isinstance(image, str)}


def short_image(image: str) -> str:
    """`agent:1.9.0` for `registry.example.com:5000/team/agent:1.9.0`; `agent@4f5c1a2` for a digest."""
    name, _, digest = " ".join(image.split()).partition("@")  # the server accepts line breaks
    last = name.rpartition("/")[2]
    return f"{last}@{_digits(digest)}" if digest else last


def change(old: str, new: str) -> tuple[str, str]:
    """Tags or digests that distinguish the images, else short names; full names if repositories differ."""
    (home, before), (other_home, after) = _split(old), _split(new)
    if home == other_home and before and after and before != after:
        return before, after
    return short_beside(old, new), short_beside(new, old)


def short_beside(image: str, other: str) -> str:
    """The short name if `other` has the same repository but another short name; else the full name."""
    short = short_image(image)
    return short if _split(image)[0] == _split(other)[0] and short != short_image(other) else image


def _split(image: str) -> tuple[str, str]:
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    version = f"{tag}@{_digits(digest)}" if digest and tag else _digits(digest) or tag
    return f"{folder}{slash}{last}", version


def _digits(digest: str) -> str:
    return digest.rpartition(":")[2][:_DIGITS]
