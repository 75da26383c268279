"""The API server, asked over plain HTTP: tests see status codes and causes, not kubectl's rendering of them."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from controller.api.objects import JSON, JSONObject
from tests.beds.control_plane import ControlPlane

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
NOT_CHECKED = "some validation rules were not checked"


@dataclass(frozen=True, slots=True)
class Answer:
    """`flow` is the uid of the FlowSchema that the request came under, `warnings` what kubectl would print."""

    status: int
    body: JSONObject
    flow: str
    warnings: tuple[str, ...] = ()

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(field, message) of each thing that is wrong, as `details.causes` of a Status lists them.

        Without the server's remark that it looked no further: it comes with every wrong type, enum or missing field.
        """
        details = self.body.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        found = []
        for cause in causes if isinstance(causes, list) else []:
            assert isinstance(cause, dict)
            found.append((str(cause.get("field")), str(cause.get("message"))))
        return [(field, message) for field, message in found if NOT_CHECKED not in message]

    def accepted(self) -> Self:
        assert self.status in (200, 201), f"{self.status}: {self.body.get('message', self.body)}"
        return self


class Server:
    """The API server of `plane`, asked by its administrator.

    Each request has a connection of its own: the server closes one that was idle for a minute and a half.
    """

    def __init__(self, plane: ControlPlane) -> None:
        where = urlsplit(plane.url)
        context = ssl.create_default_context(cafile=str(plane.ca_path))
        self._connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=30)
        self._headers = {"Authorization": f"Bearer {plane.token}", "Connection": "close"}

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, method: str, path: str, body: JSON = None, content_type: str = "application/json", user: str = ""
    ) -> Answer:
        """`user`: ask in the name of that user."""
        headers = {**self._headers, "Content-Type": content_type, **({"Impersonate-User": user} if user else {})}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        text = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        flow = response.headers.get("X-Kubernetes-PF-FlowSchema-UID", "")
        warnings = tuple(response.headers.get_all("Warning", []))
        return Answer(response.status, json.loads(text) if is_json else {"message": text.decode()}, flow, warnings)

    def try_out(self, document: JSONObject) -> Answer:
        """Create it as a dry run: every rule is applied, nothing is stored."""
        return self.ask("POST", f"{daemonsets(version_of(document))}?dryRun=All", document)


def version_of(document: JSONObject) -> str:
    return str(document["apiVersion"]).rpartition("/")[2]


def daemonsets(version: str = "v1beta1") -> str:
    return f"/apis/apps.kruise.io/{version}/namespaces/default/daemonsets"
