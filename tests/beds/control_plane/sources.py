"""Sources tried in order until one gives what is asked, with the reasons of those that did not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found", covariant=True)


class SourceError(Exception):
    """A source cannot give what is asked; the message is one short reason for people."""


@dataclass(frozen=True, slots=True)
class Source(Generic[Found]):
    """One place to get something from; `fetch` raises `SourceError` when it has nothing."""

    name: str
    fetch: Callable[[], Found]


def first_of(
    sources: Sequence[Source[Found]], progress: Callable[[str], None] | None = None
) -> tuple[Found | None, list[str]]:
    """Try `sources` in order: the first find or None, and one line of reason for each that failed before it."""
    failures: list[str] = []
    for source in sources:
        try:
            return source.fetch(), failures
        except SourceError as failure:
            failures.append(f"{source.name}: {failure}")
            if progress is not None:
                progress(failures[-1])
    return None, failures
