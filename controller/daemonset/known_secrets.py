"""The secrets of each DaemonSet's templates, read once per template and without holding up anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from controller.api.base import JSONObject
from controller.daemonset.redaction import Secrets, secret_values

TURN = 64
"""Values after which the other tasks get their turn: a template may have ten thousands."""


class _KnownSecret(msgspec.Struct):
    secrets: Secrets
    identities: set[str]


class KnownSecrets:
    """By uid of a DaemonSet."""

    def __init__(self) -> None:
        self._known: dict[str, _KnownSecret] = {}

    async def of(self, uid: str, templates: Mapping[str, JSONObject]) -> Secrets:
        """Those of `templates`, which are given by their identity (`canonical.identity`)."""
        known = self._known.get(uid)
        if known is None or not known.identities <= templates.keys():
            known = self._known[uid] = _KnownSecret(Secrets(), set())
        for identity in templates.keys() - known.identities:
            for number, value in enumerate(secret_values(templates[identity]), 1):
                known.secrets.add(value)
                if number % TURN == 0:
                    await asyncio.sleep(0)  # the others' turn
            known.identities.add(identity)
        return known.secrets

    def forget(self, uid: str) -> None:
        """The DaemonSet is gone."""
        self._known.pop(uid, None)
