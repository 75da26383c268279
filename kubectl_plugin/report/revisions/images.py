"""The images of a pod template, and names for them that fit into a column."""

from __future__ import annotations

from typing import Final

from controller.api.base import JSONObject, fields_of, items_of

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
    """The shortest words that distinguish `old` from `new`: tags (or digests), else short names, else the full names.

    Where one of them has no tag, the tag alone would be empty, so short names are used.
    """
    (home, before), (other_home, after) = _split(old), _split(new)
    if home == other_home and before and after and before != after:
        return before, after
    if short_image(old) != short_image(new):
        return short_image(old), short_image(new)
    return old, new


def _split(image: str) -> tuple[str, str]:
    """The repository, and the tag or digest within it."""
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    version = f"{tag}@{_digits(digest)}" if digest and tag else _digits(digest) or tag
    return f"{folder}{slash}{last}", version


def _digits(digest: str) -> str:
    return digest.rpartition(":")[2][:_DIGITS]
