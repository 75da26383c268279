"""What each verb sends, and what it makes of the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api import patch
from controller.api.objects import Key, Ref
from controller.kube import errors
from controller.kube.client import Client, Written
from controller.kube.decode import Bookmark, Page, Seen
from controller.kube.errors import ApiError
from controller.kube.requests import JSON_PATCH, Request, Resource, Response
from controller.kube.sender import Sender
from controller.kube.typed import Reviewed, Reviews
from tests.beds.api import Object
from tests.beds.sample_kind import THINGS, Thing, bookmark, error_line, line, page, status, thing
from tests.beds.scripted import Script, Watch, ok
from tests.beds.virtual_time import virtual_time_from, virtually

KEY = Key("default", "a")
REF = Ref(namespace="default", name="a", uid="u", version="6")
ONE = "/apis/example.com/v1/namespaces/default/things/a"
ALL = "/apis/example.com/v1/namespaces/default/things"


def asked(verb: Callable[[Client], Awaitable[object]], answer: Response | None = None) -> tuple[object, Request]:
    """What a verb returns, and what it sent."""

    async def main() -> tuple[object, Request]:
        script = Script(answer or ok())
        return await verb(Client(Sender(script))), script.requests[0]

    return virtually(main())


def test_create_posts_the_body_as_it_is_and_keeps_two_words_of_the_answer() -> None:
    written, request = asked(lambda client: client.create(THINGS, "default", b'{"as":"is"}'), ok(status=201))
    assert written == Written(uid="u", version="7")
    assert (request.method, request.path, request.query, request.body) == ("POST", ALL, (), b'{"as":"is"}')
    assert request.timeout == 30.0
    _, request = asked(lambda client: client.create(THINGS, "default", {"a": 1}, dry_run=True))
    assert (request.query, json.loads(request.body)) == ((("dryRun", "All"),), {"a": 1})


def test_a_patch_of_a_subresource_is_a_json_patch() -> None:
    change = patch.guarded_by_version("6", patch.add({"ready": 1}, "status"))
    _, request = asked(lambda client: client.patch(THINGS, REF, change, sub="status"))
    assert (request.method, request.path, request.content_type) == ("PATCH", f"{ONE}/status", JSON_PATCH)
    assert json.loads(request.body)[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "6"}


def test_delete_is_guarded_by_uid_and_by_version_only_when_asked() -> None:
    deleted, request = asked(lambda client: client.delete(THINGS, REF))
    assert deleted == "7", "the version of the terminating object"
    assert json.loads(request.body) == {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}}
    gone = ok(b'{"kind":"Status","status":"Success"}')
    deleted, request = asked(lambda client: client.delete(THINGS, REF, version="6", propagation="Orphan"), gone)
    assert deleted is None
    options = json.loads(request.body)
    assert options["preconditions"] == {"uid": "u", "resourceVersion": "6"}
    assert options["propagationPolicy"] == "Orphan"


@pytest.mark.parametrize(
    "write",
    [
        lambda client: client.create(THINGS, "default", {}),
        lambda client: client.patch(THINGS, REF, ()),
        lambda client: client.delete(THINGS, REF),
    ],
    ids=["create", "patch", "delete"],
)
def test_the_answer_to_a_write_need_not_be_the_whole_object(write: Callable[[Client], Awaitable[object]]) -> None:
    _, request = asked(write)
    assert request.accept == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"


def test_get_returns_the_record_or_none_for_a_foreign_object() -> None:
    got, request = asked(lambda client: client.get(THINGS, KEY), ok(json.dumps(thing("a", 7)).encode()))
    assert got == Thing(name="a", uid="uid-a", version="7")
    assert (request.method, request.path) == ("GET", ONE)
    got, _ = asked(lambda client: client.get(THINGS, KEY), ok(json.dumps(thing("a", size=0)).encode()))
    assert got is None


def test_a_preview_changes_nothing_and_returns_the_record() -> None:
    got, request = asked(lambda client: client.preview(THINGS, REF, ()), ok(json.dumps(thing("a", 7)).encode()))
    assert got == Thing(name="a", uid="uid-a", version="7")
    assert (request.method, request.path, request.query) == ("PATCH", ONE, (("dryRun", "All"),))


def test_pages_are_asked_for_with_the_token_of_the_one_before() -> None:
    async def main() -> tuple[list[Page[Thing]], list[Request]]:
        script = Script(ok(page(thing("a", 3), version=9, token="t")), ok(page(thing("b", 4), version=9)))
        client = Client(Sender(script))
        return [one async for one in client.pages(THINGS, query=(("labelSelector", "a=b"),))], script.requests

    pages, requests = virtually(main())
    assert [item.key.name for one in pages for item in one.items if isinstance(item, Seen)] == ["a", "b"]
    first = (("labelSelector", "a=b"), ("limit", "500"))
    assert [one.query for one in requests] == [first, (*first, ("continue", "t"))]
    assert [one.version for one in pages] == ["9", "9"]


def test_an_answer_that_cannot_be_read_is_an_error_of_the_server() -> None:
    with pytest.raises(errors.Unreadable, match=r"get things\.example\.com default/a"):
        asked(lambda client: client.get(THINGS, KEY), ok(json.dumps(thing("a", size="big")).encode()))
    with pytest.raises(errors.Unreadable, match=r"list things\.example\.com"):
        asked(lambda client: client.page(THINGS), ok(b"<html>"))
    with pytest.raises(errors.UnknownOutcome):  # it may have been done
        asked(lambda client: client.create(THINGS, "default", b"{}"), ok(b"<html>"))


async def watched(script: Script, things: Resource[Any, Thing] = THINGS) -> list[object]:
    events: list[object] = []
    async with Client(Sender(script)).watch(things, query=(("resourceVersion", "5"),)) as bunches:
        async for bunch in bunches:
            events.extend(bunch)
    return events


def test_a_watch_gives_records_and_bookmarks_until_the_server_closes() -> None:
    added, moved = line("ADDED", thing("a", 6)), line("MODIFIED", thing("a", 7, size=2))
    script = Script(Watch([added[:20], added[20:] + moved, bookmark(9)]))
    first, second, third = virtually(watched(script))
    assert isinstance(first, Seen)
    assert isinstance(second, Seen)
    assert second.version == "7"
    assert third == Bookmark(version="9")
    request = script.requests[0]
    assert request.query == (("watch", "1"), ("resourceVersion", "5"))
    assert request.path == "/apis/example.com/v1/things"
    virtually(watched(script := Script(Watch()), replace(THINGS, only="of=us")))
    assert script.requests[0].query == (("watch", "1"), ("labelSelector", "of=us"), ("resourceVersion", "5"))


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        (Watch([status(410, "Expired")], status=410), errors.Gone),
        (Watch([b"404 page not found"], status=404), errors.NotFound),
        (Watch([status(429)], status=429, retry_after=4.0), errors.TooManyRequests),
        (Watch([ConnectionResetError()], status=500), errors.ServerError),
        (Watch([error_line(410, "Expired")]), errors.Gone),
        (Watch([error_line(500, "InternalError")]), errors.ServerError),
        (Watch([b'{"type":"ADDED","obj\n']), errors.Unreadable),
        (Watch([ConnectionResetError("reset")]), errors.Unreachable),
        (Watch([1000.0]), errors.Unreachable),
    ],
    ids=["410", "404", "429", "500", "ERROR 410", "ERROR 500", "garbage", "reset", "silence"],
)
def test_every_end_of_a_watch_but_the_servers_close_is_an_error(
    watch: Watch, expected: type[errors.ApiError]
) -> None:
    with pytest.raises(expected):
        virtually(watched(Script(watch)))


@virtual_time_from(1000.0)
async def test_a_watch_that_is_left_early_leaves_nothing_to_close_behind() -> None:
    closed: list[bool] = []

    class Careful(Watch):
        async def chunks(self) -> AsyncIterator[bytes]:
            try:
                yield bookmark(1)
                yield bookmark(2)
            finally:
                closed.append(True)

    async with Client(Sender(Script(Careful()))).watch(THINGS) as bunches:
        async for _ in bunches:
            break
    assert closed == [True]


def test_a_fault_in_the_body_of_a_watch_is_not_taken_for_the_connections() -> None:
    async def main() -> None:
        async with Client(Sender(Script(Watch([bookmark(1)])))).watch(THINGS):
            raise FileNotFoundError("a bug of the caller")

    with pytest.raises(FileNotFoundError):
        virtually(main())


PROMETHEUS = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}


def review(status: Object, code: int = 201) -> Response:
    return ok(json.dumps({"spec": {"token": "the-token"}, "status": status}).encode(), code)


async def test_a_token_review_names_the_user_whose_access_is_reviewed() -> None:
    server = Script(review({"authenticated": True, "user": PROMETHEUS}), review({"allowed": True, "reason": "RBAC"}))
    reviews = Reviews(Sender(server))
    user = await reviews.user_of("the-token")
    assert user is not None
    assert user.username == PROMETHEUS["username"]
    assert await reviews.may_get(user, "/page")
    token, access = server.requests
    assert (token.method, token.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert json.loads(token.body) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "the-token"},
    }
    assert (access.method, access.path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    asked_for = {"nonResourceAttributes": {"verb": "get", "path": "/page"}}
    assert json.loads(access.body) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user" if key == "username" else key: one for key, one in PROMETHEUS.items()} | asked_for,
    }


@pytest.mark.parametrize(
    "status", [{"user": {}, "error": "invalid bearer token"}, {"authenticated": False, "user": PROMETHEUS}, {}]
)
async def test_a_token_that_the_server_does_not_take_has_no_user(status: Object) -> None:
    assert await Reviews(Sender(Script(review(status)))).user_of("wrong") is None


async def test_what_is_not_allowed_is_not_allowed() -> None:
    denied = Script(review({"allowed": False, "denied": True}))
    assert not await Reviews(Sender(denied)).may_get(Reviewed(), "/metrics")


@pytest.mark.parametrize(("code", "body"), [(403, b'{"message": "no"}'), (500, b"{}"), (201, b"[]"), (201, b"{}")])
async def test_a_server_that_gives_no_answer_is_an_error_and_no_no(code: int, body: bytes) -> None:
    with pytest.raises(ApiError, match="TokenReview"):
        await Reviews(Sender(Script(ok(body, code)))).user_of("token")
