"""A user's way to the simulated cluster: what the simulator does not serve is answered here, and rights are taken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate

import msgspec

from controller.kube.requests import Request, Response, Stream
from tests.beds.api import Object
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import Answer, FaultPlan, Rule
from tests.beds.simulator.route import Route, route
from tests.beds.simulator.transport import InProcess

USER = "alice@example.com"


class UserTransport:
    """A `Transport`. `user` is who the server says we are; `logs` has the last words of pods, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self.user, self._clock = USER, cluster.clock
        self.logs: dict[str, str] = {}
        self.link = InProcess(cluster, faults=FaultPlan())

    def forbid(self, verb: str, resource: str) -> None:
        """From now on this right is missing: `forbid("list", "nodes")`; resources as in `faults.Rule`."""
        words = f'{resource} is forbidden: User "{self.user}" cannot {verb} resource "{resource}"'
        self.link.faults.add(Rule(Answer(403, "Forbidden", words), verb=verb, resource=resource))

    async def exchange(self, request: Request) -> Response:
        response = await self._answer(request)
        return msgspec.structs.replace(response, date=formatdate(self._clock(), usegmt=True))

    async def _answer(self, request: Request) -> Response:
        where = route(request)
        if where.plural == "selfsubjectreviews" and self.link.faults.effect_on(where) is None:
            return _said(201, {"kind": "SelfSubjectReview", "status": {"userInfo": {"username": self.user}}})
        if (where.plural, where.subresource) == ("pods", "log") and self.link.faults.effect_on(where) is None:
            return self._log(where)
        return await self.link.exchange(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self.link.stream(request) as stream:
            yield stream

    def _log(self, where: Route) -> Response:
        if where.name in self.logs:
            return Response(status=200, body=self.logs[where.name].encode())
        words = f'previous terminated container in pod "{where.name}" not found'
        return _said(400, {"kind": "Status", "status": "Failure", "reason": "BadRequest", "message": words})


def _said(status: int, body: Object) -> Response:
    return Response(status=status, body=msgspec.json.encode(body))
