"""The page that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable

from controller.serve.server import Asked, Page, Route


def scrape(exposition: Callable[[str], tuple[bytes, str]]) -> Route:
    """`exposition` turns the `Accept` header into the text and its content type. It runs on the event loop,
    because queue and caches may only be read there."""

    def page(asked: Asked) -> Page:
        body, content_type = exposition(asked.accept)
        return Page(body=body, content_type=content_type)

    return page
