"""Who may read a page: whoever the API server knows by a bearer token and lets `get` that path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from controller.kube.errors import ApiError
from controller.kube.reviews import Reviewed
from controller.serve.server import Page, text

REMEMBERED_SECONDS = 60.0
REMEMBERED = 100
"""Answers; beyond that the oldest is forgotten."""


class Reviews(Protocol):
    """`controller.kube.reviews.Reviews`."""

    async def user_of(self, token: str) -> Reviewed | None: ...

    async def may_get(self, user: Reviewed, path: str) -> bool: ...


class BearerGuard:
    """A `Guard`. An answer is kept for `REMEMBERED_SECONDS`: so long a right that was taken away still counts.

    Of tokens only digests are kept. `on_failure` is told, synchronously, why the API server could not be asked;
    who asks for the page is not.
    """

    def __init__(self, reviews: Reviews, on_failure: Callable[[ApiError], None]) -> None:
        self._reviews, self._on_failure = reviews, on_failure
        self._known: dict[tuple[bytes, str], tuple[float, Page | None]] = {}

    async def __call__(self, authorization: str, path: str) -> Page | None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return text("a bearer token is needed\n", 401)
        key, now = (sha256(token.encode()).digest(), path), asyncio.get_running_loop().time()
        answered, answer = self._known.get(key, (-REMEMBERED_SECONDS, None))
        if now - answered < REMEMBERED_SECONDS:
            return answer
        try:
            answer = await self._review(token, path)
        except ApiError as error:
            self._on_failure(error)
            return text("the API server could not be asked who you are; the log of this pod says why\n", 503)
        self._known.pop(key, None)
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = now, answer
        return answer

    async def _review(self, token: str, path: str) -> Page | None:
        user = await self._reviews.user_of(token)
        if user is None:
            return text("the API server does not take this token\n", 401)
        if not await self._reviews.may_get(user, path):
            return text(f'{user.username} may not get nonResourceURL "{path}"\n', 403)
        return None
