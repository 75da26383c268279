"""The images of a pod template, and names for them that fit into a column."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSONObject, fields_of, items_of

_DIGITS: Final = 7
"""How many digits of a digest are shown, as git does with its hashes."""


def images_of(template: JSONObject) -> dict[str, str]:
    """Image by name of the container: containers first, then init containers, each in the order of the template.

    Kubernetes lets no two of them share a name. What has no name or no image is left out.
    """
    spec = fields_of(template.get("spec"))
    containers = (one for field in ("containers", "initContainers") for one in items_of(spec.get(field)))
    named = ((one.get("name"), one.get("image")) for one in containers)
    return {name: image for name, image in named if isinstance(name, str) and isinstance(image, str)}


def short_image(image: str) -> str:
    """`registry.example.com:5000/team/agent:1.9.0` as `agent:1.9.0`; of a digest seven digits: `agent@4f5c1a2`."""
    name, _, digest = " ".join(image.split()).partition("@")  # the server takes line breaks, too
    last = name.rpartition("/")[2]
    return f"{last}@{_digits(digest)}" if digest else last


def change(old: str, new: str) -> tuple[str, str]:
    """The shortest words that distinguish `old` from `new`: tags (or digests), or where one has none the short
    names. Full names unless registry and repository are the same on both sides."""
    (home, before), (other_home, after) = _split(old), _split(new)
    if home == other_home and before and after and before != after:
        return before, after
    return short_beside(old, new), short_beside(new, old)


def short_beside(image: str, other: str) -> str:
    """The short name, if `other` is in the same repository of the same registry and has another one; else the full
    name."""
    short = short_image(image)
    return short if _split(image)[0] == _split(other)[0] and short != short_image(other) else image


def _split(image: str) -> tuple[str, str]:
    """The repository, and the tag or digest within it."""
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    version = f"{tag}@{_digits(digest)}" if digest and tag else _digits(digest) or tag
    return f"{folder}{slash}{last}", version


def _digits(digest: str) -> str:
    return digest.rpartition(":")[2][:_DIGITS]
