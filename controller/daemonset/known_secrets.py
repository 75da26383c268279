"""The secrets of a DaemonSet's templates, read once per template and without holding up anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from controller.api.base import JSONObject
from controller.daemonset.redaction import Secrets, secret_values

TURN = 64
"""Values after which the other tasks get their turn: a template may have ten thousands."""


class KnownSecrets:
    """Of one DaemonSet."""

    def __init__(self) -> None:
        self._secrets, self._identities = Secrets(), set[str]()

    async def of(self, templates: Mapping[str, JSONObject]) -> Secrets:
        """Those of `templates`, which are given by their identity (`canonical.identity`)."""
        if not self._identities <= templates.keys():
            self._secrets, self._identities = Secrets(), set()
        for identity in templates.keys() - self._identities:
            for number, value in enumerate(secret_values(templates[identity]), 1):
                self._secrets.add(value)
                if number % TURN == 0:
                    await asyncio.sleep(0)  # the others' turn
            self._identities.add(identity)
        return self._secrets
