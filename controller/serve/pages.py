"""The pages of the servers: health and readiness, which name the check that fails, and metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from controller.serve.server import Asked, Route, ServedPage, text

MOST_WAITING = 50
"""Scrapes that may wait at once. They share one page per second, but it has to be sent to each."""
Check: TypeAlias = Callable[[], str]
"""Returns "" if all is well; otherwise what is wrong, on one line."""


def probe(name: str, checks: Mapping[str, Check]) -> Route:
    """The page `name` (healthz, readyz): 200 if all checks are well, else 503.

    It lists the checks if asked (`?verbose`) and if one fails, in the format of the API server.
    """

    def page(asked: Asked) -> ServedPage:
        results = {check: is_well() for check, is_well in checks.items()}
        failed = any(results.values())
        if not failed and not asked.verbose:
            return text("ok")
        lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in results.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return text("\n".join(lines) + "\n", 503 if failed else 200)

    return page


def scrape(exposition: Callable[[str], Awaitable[tuple[bytes, str]]]) -> Route:
    """The page /metrics. `exposition` makes the text and its content type for an `Accept` header."""
    waiting = 0

    async def page(asked: Asked) -> ServedPage:
        nonlocal waiting
        if waiting >= MOST_WAITING:
            return text(f"{waiting} scrapes wait already; try again in a second\n", 503)
        waiting += 1
        try:
            body, content_type = await exposition(asked.accept)
        finally:
            waiting -= 1
        return ServedPage(body=body, content_type=content_type)

    return page
