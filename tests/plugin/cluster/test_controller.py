"""By its lease, whether a controller is there."""

from __future__ import annotations

import msgspec
import pytest

from controller.api.objects import rfc3339
from controller.kube.connection import Connection, Credentials
from controller.kube.requests import Response
from kubectl_plugin.cluster.installation import why_no_controller
from kubectl_plugin.cluster.session import Session, session_over
from tests.beds.scripted import Script, ok

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
async def test_nobody_leads_whose_last_word_is_older_than_a_minute(session: Session, words: str | None) -> None:
    assert await why_no_controller(session, NOW) == words
