"""The page that Prometheus reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from controller.serve.server import Asked, Route, ServedPage, text

MOST_WAITING = 50
"""Scrapes that are answered at once: a second has one page for all of them, but each has to be sent."""


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
