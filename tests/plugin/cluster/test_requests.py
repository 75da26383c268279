"""What is asked of the API server, and what its answers mean: whole objects, dry runs, our name, the Lease."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.objects import Key, rfc3339
from controller.kube.connection import Connection, Credentials
from controller.kube.errors import ApiError, Gone, UnknownOutcome, Unreadable
from controller.kube.requests import DAEMONSETS, Response
from controller.planner.actions import ProbeTemplate
from kubectl_plugin.cluster import documents, installation, previews
from kubectl_plugin.cluster.follow import WatchedDaemonSet
from kubectl_plugin.cluster.installation import why_no_controller
from kubectl_plugin.cluster.session import Invocation, Session, open_session, session_over
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.forecast.report import DryRunAnswer
from kubectl_plugin.forecast.warnings import PreflightResult
from kubectl_plugin.terminal import Terminal
from tests.beds.scripted import Script, Slow, Watch, ok
from tests.beds.snapshots import snapshot
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import ds, revision
from tests.plugin.cluster.conftest import ALONE, Simulated

AGENT = Key("default", "agent")
ME = "kubectl-kruise-ds"


async def test_a_server_that_does_not_say_who_we_are_is_no_failure(simulated: Simulated) -> None:
    async with open_session(ALONE, simulated.access) as session:
        assert await installation.who_am_i(session) == ""


def scripted(*answers: Response | Watch | Slow) -> Session:
    return session_over(Script(*answers), Connection(server="http://x", credentials=Credentials()))


@pytest.mark.parametrize("status", [403, 404, 405])
async def test_who_we_are_is_unknown_where_that_is_refused(status: int) -> None:
    assert await installation.who_am_i(scripted(Response(status=status))) == ""


async def test_who_we_are_as_the_server_says_it() -> None:
    body = b'{"status":{"userInfo":{"username":"alice@example.com","groups":["dev"]}}}'
    assert await installation.who_am_i(scripted(ok(body, 201))) == "alice@example.com"
    assert await installation.who_am_i(scripted(ok(b"{}", 201))) == ""


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"a":"\xff"}'], ids=["html", "list", "no utf-8"])
async def test_an_answer_that_is_no_object_is_unreadable_or_in_doubt(body: bytes) -> None:
    with pytest.raises(Unreadable):
        await documents.get(scripted(ok(body)), DAEMONSETS, AGENT)
    with pytest.raises(UnknownOutcome):
        await documents.patch(scripted(ok(body)), DAEMONSETS, AGENT, (), dry_run=False, field_manager=ME)


@pytest.mark.parametrize(
    "line", [b'{"type":"MODIFIED"}', b"<html>", b'{"object":{"spec":' + b"[" * 5000], ids=["cut", "html", "deep"]
)
async def test_a_watched_line_that_cannot_be_read_is_unreadable(line: bytes) -> None:
    """A command that waits reads it anew, and does not end with a traceback."""
    with pytest.raises(Unreadable):
        await followed(Watch((line + b"\n",))).watch()


async def test_a_followed_object_that_nests_too_deeply_is_unreadable() -> None:
    """It is not left out as one of many would be: what is shown of it would be old without a word."""
    nest = b"[" * 5000 + b"]" * 5000
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"agent","namespace":"default"},"spec":{"a":%b}}}\n'
    words = r"^watch daemonsets\.apps\.kruise\.io default/agent: .*recursion"
    with pytest.raises(Unreadable, match=words):
        await followed(Watch((line % nest,))).watch()


async def test_a_watch_of_one_object_that_the_server_ends_says_why() -> None:
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    with pytest.raises(Gone, match=r"^watch daemonsets\.apps\.kruise\.io in default: too old$"):
        await followed(Watch((gone,))).watch()


def followed(answer: Watch) -> WatchedDaemonSet:
    """`AGENT` as it was read before."""
    asked = Invocation(scripted(answer), Terminal(GlobalFlags(), ALONE), None, ALONE)
    return WatchedDaemonSet(asked, snapshot(replace(ds(), name=AGENT.name)), lambda: None)


async def test_all_pages_of_a_list_are_read() -> None:
    pages = [
        b'{"metadata":{"continue":"t"},"items":[{"metadata":{"namespace":"b","name":"x"}}]}',
        b'{"metadata":{},"items":[{"metadata":{"namespace":"a","name":"y"}}]}',
    ]
    found = await documents.read_items(scripted(*map(ok, pages)), DAEMONSETS)
    assert list(found) == [Key("b", "x"), Key("a", "y")]


async def test_the_last_line_of_a_log_is_that_of_the_run_before() -> None:
    script = Script(ok(b"one\ntwo \n"), ok(b""), Response(status=500))
    session = session_over(script, Connection(server="http://x", credentials=Credentials()))
    lines = [await documents.last_log_line(session, AGENT, "main") for _ in range(3)]
    assert lines == ["two", "", ""]
    query = {"previous": "true", "tailLines": "1", "limitBytes": "2000", "container": "main"}
    assert dict(script.requests[0].query) == query


@virtual_time
async def test_a_kubelet_that_is_down_delays_no_report() -> None:
    assert await documents.last_log_line(scripted(Slow(3.0, ok(b"late"))), AGENT, "main") == ""
    assert now() == documents.LOG_SECONDS


POD = 'pods "demo-x" is forbidden: '
PROBE = ProbeTemplate(node="node-1", name="demo-x", revision=revision("v2"))


def says(status: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return Response(status=status, body=msgspec.json.encode(body))


YES = DryRunAnswer(result=PreflightResult.OK)
NO_RIGHT = DryRunAnswer(result=PreflightResult.SKIPPED, text="no right to create pods")


def no(words: str) -> DryRunAnswer:
    return DryRunAnswer(result=PreflightResult.FAILED, text=words)


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


NOW = 1_800_000_000.0
LEASE = "lease kruise-ds-system/kruise-ds-controller"


def answering(response: Response) -> Session:
    return session_over(Script(*[response] * 9), Connection(server="http://x", credentials=Credentials()))


def renewed(ago: float, holder: str = "kruise-ds-controller-0_1") -> Session:
    spec = {"holderIdentity": holder, "renewTime": rfc3339(NOW - ago).replace("Z", ".000000Z")}
    metadata = {"name": "kruise-ds-controller", "namespace": "kruise-ds-system", "uid": "u", "resourceVersion": "7"}
    return answering(ok(msgspec.json.encode({"metadata": metadata, "spec": spec})))


@pytest.mark.parametrize(
    ("session", "words"),
    [
        (renewed(0.0), None),
        (renewed(60.0), None),
        (renewed(61.0), f"no controller is active: {LEASE} was last renewed 61s ago"),
        (renewed(9.0, holder=""), f"no controller is active: {LEASE} was given back 9s ago"),
        (
            answering(Response(status=404, body=b'{"kind":"Status","reason":"NotFound"}')),
            f"no controller is active, unless one runs with --no-leader-elect: there is no {LEASE}",
        ),
        (answering(Response(status=403, body=b'{"kind":"Status","reason":"Forbidden"}')), None),
    ],
    ids=["just now", "a minute ago", "longer ago", "given back", "none", "not to be seen"],
)
async def test_a_leader_that_last_renewed_a_minute_ago_does_not_count(session: Session, words: str | None) -> None:
    assert await why_no_controller(session, NOW) == words
