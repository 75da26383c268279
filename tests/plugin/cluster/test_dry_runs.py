"""What a dry run of the next pod tells: yes, no, or nothing."""

from __future__ import annotations

import msgspec
import pytest

from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ApiError
from controller.kube.requests import Response
from controller.planner.actions import ProbeTemplate
from kubectl_plugin.cluster import previews
from kubectl_plugin.cluster.session import session_over
from kubectl_plugin.forecast.report import DryRunAnswer
from kubectl_plugin.forecast.warnings import CheckResult
from tests.beds.scripted import Script, ok
from tests.beds.worlds import ds, revision

POD = 'pods "demo-x" is forbidden: '
PROBE = ProbeTemplate(node="node-1", name="demo-x", revision=revision("v2"))


def says(status: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return Response(status=status, body=msgspec.json.encode(body))


YES = DryRunAnswer(result=CheckResult.OK)
NO_RIGHT = DryRunAnswer(result=CheckResult.SKIPPED, text="no right to create pods")


def no(words: str) -> DryRunAnswer:
    return DryRunAnswer(result=CheckResult.FAILED, text=words)


@pytest.mark.parametrize(
    ("status", "reason", "words", "answer"),
    [
        (403, "Forbidden", f"{POD}exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3", YES),
        (403, "Forbidden", f'{POD}violates PodSecurity "restricted"', no(f'{POD}violates PodSecurity "restricted"')),
        (403, "Forbidden", f'{POD}User "bob" cannot create resource "pods" in API group ""', NO_RIGHT),
        (403, "Forbidden", f"{POD}cannot set blockOwnerDeletion if an ownerReference refers to a resource", NO_RIGHT),
        (422, "Invalid", 'Pod "demo-x" is invalid: spec.containers[0].image: Required value', None),
    ],
)
async def test_of_those_that_say_no_only_a_quota_means_yes(
    status: int, reason: str, words: str, answer: DryRunAnswer | None
) -> None:
    """The pod that goes makes room in it."""
    script = Script(says(status, reason, words))
    session = session_over(script, Connection(server="http://x", credentials=Credentials()))
    assert await previews.dry_run_of_pod(session, ds("v2"), PROBE) == (answer or no(words))
    (request,) = script.requests
    assert (request.method, dict(request.query)["dryRun"]) == ("POST", "All")


async def test_what_is_accepted_is_a_yes_and_trouble_is_neither() -> None:
    connection = Connection(server="http://x", credentials=Credentials())
    assert await previews.dry_run_of_pod(session_over(Script(ok(status=201)), connection), ds("v2"), PROBE) == YES
    broken = session_over(Script(*[says(500, "InternalError", "broken")] * 9), connection)
    with pytest.raises(ApiError):
        await previews.dry_run_of_pod(broken, ds("v2"), PROBE)
