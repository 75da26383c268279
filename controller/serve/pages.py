"""The pages: health and readiness, which say which of their named checks fails, and what Prometheus reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from controller.serve.server import Asked, Route, ServedPage, text

MOST_WAITING = 50
"""Scrapes that are answered at once: a second has one page for all of them, but each has to be sent."""
Check: TypeAlias = Callable[[], str]
"""Empty when all is well; otherwise why not, in words that fit on one line."""


def probe(name: str, checks: Mapping[str, Check]) -> Route:
    """The page `name` (healthz, readyz): 200 when every check is well, else 503.

    Lists the checks when asked (`?verbose`) and whenever one fails, in the format of the API server's own.
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
    """`exposition` turns the `Accept` header into the text and its content type."""
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
