"""What is asked of the API server about somebody else, and how its answers are read."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from controller.kube.errors import ApiError
from controller.kube.request import Request, Response, Stream
from controller.kube.reviews import Reviewed, Reviews
from controller.kube.sender import Sender
from tests.beds.api import Object

PROMETHEUS = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}


class Server:
    """Gives one answer after the other, and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, Object]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Object]] = []

    async def exchange(self, request: Request) -> Response:
        self.asked.append((request.method, request.path, msgspec.json.decode(request.body)))
        status, body = self._answers.pop(0)
        return Response(status=status, body=msgspec.json.encode(body))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is watched")


async def test_an_accepted_token_has_a_user_with_all_the_server_knows() -> None:
    server = Server(
        (201, {"kind": "TokenReview", "status": {"authenticated": True, "user": PROMETHEUS, "audiences": ["api"]}}),
        (201, {"kind": "SubjectAccessReview", "status": {"allowed": True, "reason": "RBAC: …"}}),
    )
    reviews = Reviews(Sender(server))
    user = await reviews.user_of("the-token")
    assert user is not None
    assert user.username == PROMETHEUS["username"]
    assert await reviews.may_get(user, "/metrics")
    assert server.asked == [
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "the-token"}},
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": PROMETHEUS["username"],
                    "uid": PROMETHEUS["uid"],
                    "groups": PROMETHEUS["groups"],
                    "extra": PROMETHEUS["extra"],
                    "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
                },
            },
        ),
    ]


@pytest.mark.parametrize(
    "status", [{"user": {}, "error": "invalid bearer token"}, {"authenticated": False, "user": PROMETHEUS}, {}]
)
async def test_a_token_that_the_server_does_not_take_has_no_user(status: Object) -> None:
    assert await Reviews(Sender(Server((201, {"status": status})))).user_of("wrong") is None


@pytest.mark.parametrize("status", [{"allowed": False}, {"allowed": False, "denied": True}, {}])
async def test_what_is_not_allowed_is_not_allowed(status: Object) -> None:
    assert not await Reviews(Sender(Server((201, {"status": status})))).may_get(Reviewed(), "/metrics")


@pytest.mark.parametrize(("code", "body"), [(403, {"message": "no"}), (500, {}), (201, [])])
async def test_a_server_that_gives_no_answer_is_an_error_and_no_no(code: int, body: Object) -> None:
    with pytest.raises(ApiError, match="TokenReview"):
        await Reviews(Sender(Server((code, body)))).user_of("token")
