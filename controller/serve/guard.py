"""Decides who may read a page: those whose bearer token the API server accepts and who may `get` that path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol, TypeAlias, TypeVar

from controller.kube.errors import ApiError, Busy
from controller.kube.reviews import Reviewed
from controller.serve.server import ServedPage, text

T = TypeVar("T")

REMEMBERED_SECONDS = 60.0
"""Seconds that an answer is kept: a scraper costs two reviews a minute."""
REMEMBERED = 100
"""Answers that are kept of each kind, acceptances and refusals; when there are more, the oldest is forgotten."""


class Reviewer(Protocol):
    """The part of `controller.kube.reviews.Reviews` that is needed."""

    async def user_of(self, token: str) -> Reviewed | None: ...

    async def may_get(self, user: Reviewed, path: str) -> bool: ...


_CacheKey: TypeAlias = tuple[bytes, str]
"""The digest of a token, and a path."""


class BearerGuard:
    """A `Guard` that keeps answers for `REMEMBERED_SECONDS`: a revoked right still counts for that long.

    For a caller that was accepted last time, `known` is asked, for any other `unknown`, which may refuse to ask
    (`Busy`). So a flood of made-up tokens gets 429, and never delays a known scraper. A scraper with a new token
    counts as unknown, and succeeds when it tries again.

    Only digests of tokens are kept. `on_failure` is called, synchronously, with the error if the API server could not
    be asked; the caller does not see it.
    """

    def __init__(self, known: Reviewer, unknown: Reviewer, on_failure: Callable[[ApiError], None]) -> None:
        self._known, self._unknown, self._on_failure = known, unknown, on_failure
        self._let_in: dict[_CacheKey, float] = {}
        self._refused: dict[_CacheKey, tuple[float, ServedPage]] = {}

    async def __call__(self, authorization: str, path: str) -> ServedPage | None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return text("a bearer token is needed\n", 401)
        key, now = (sha256(token.encode()).digest(), path), asyncio.get_running_loop().time()
        answered, refusal = self._refused.get(key, (-REMEMBERED_SECONDS, None))
        answered = self._let_in.get(key, answered)
        if now - answered < REMEMBERED_SECONDS:
            return refusal
        reviews = self._known if key in self._let_in else self._unknown
        try:
            refusal = await _review(reviews, token, path)
        except Busy as error:
            if reviews is self._known:
                self._on_failure(error)
            return text("too many tokens that are not known yet; try again in a second\n", 429)
        except ApiError as error:
            self._on_failure(error)
            return text("the API server could not be asked who you are; the log of this pod says why\n", 503)
        self._let_in.pop(key, None)
        self._refused.pop(key, None)
        if refusal is None:
            _keep(self._let_in, key, now)
        else:
            _keep(self._refused, key, (now, refusal))
        return refusal


def _keep(answers: dict[_CacheKey, T], key: _CacheKey, answer: T) -> None:
    if len(answers) >= REMEMBERED:
        del answers[next(iter(answers))]
    answers[key] = answer


async def _review(reviews: Reviewer, token: str, path: str) -> ServedPage | None:
    user = await reviews.user_of(token)
    if user is None:
        return text("the API server does not take this token\n", 401)
    if not await reviews.may_get(user, path):
        return text(f'{user.username} may not get nonResourceURL "{path}"\n', 403)
    return None
