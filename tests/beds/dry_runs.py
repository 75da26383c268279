"""What a server says of pod templates."""

from __future__ import annotations

from controller.planner.world import Accepted, TemplateRefused


def refusing(rev: str, words: str = "no", *, unknown_fields: bool = False) -> dict[str, Accepted | TemplateRefused]:
    """What the server's dry run said of the one revision that it was asked about."""
    return {rev: TemplateRefused(words=words, unknown_fields=unknown_fields)}
