"""`version`: the versions of the plugin, the controller, the CRD and the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.flags import Output
from kubectl_plugin.host import Host
from kubectl_plugin.options import VersionOptions
from kubectl_plugin.terminal import Terminal

if TYPE_CHECKING:
    from controller.api.objects import JSON, JSONObject
    from kubectl_plugin.cluster.session import Invocation


def client_version(host: Host, terminal: Terminal, output: Output | None, _: VersionOptions) -> int:
    """Prints the plugin's version without asking a cluster. Returns 0."""
    if output is None:
        terminal.say(f"Client:      {host.version()}")
    else:
        _show(terminal, output, {"client": host.version()})
    return 0


async def version(invocation: Invocation, options: VersionOptions) -> int:
    """Prints the plugin's version before asking the cluster. A version that cannot be read is `unknown`, with the
    reason. Warns if plugin and controller are too far apart. Returns 0. Raises Unreachable."""
    from kubectl_plugin.cluster import installation
    from kubectl_plugin.cluster.documents import side_by_side
    from kubectl_plugin.cluster.installation import answer_or_reason
    from kubectl_plugin.rollout.doctor_checks import too_far_apart

    session, terminal, client = invocation.session, invocation.terminal, invocation.host.version()
    if invocation.output is None:
        client_version(invocation.host, terminal, None, options)
    server, served, stored, found, pods = await side_by_side(
        answer_or_reason(installation.server_version(session)),
        answer_or_reason(installation.served_versions(session)),
        answer_or_reason(installation.stored_version(session)),
        answer_or_reason(installation.controller_leader(session)),
        answer_or_reason(installation.controller_pods(session)),
    )
    controller = installation.version_of_leader(session, found, pods)
    leader = "" if found is None or isinstance(found, NoAnswer) else found.holder
    if invocation.output is not None:
        document: JSONObject = {
            "client": client,
            "controller": {**_field(controller, "version"), "leader": leader},
            "crd": {"served": [] if isinstance(served, NoAnswer) else list(served), **_field(stored, "stored")},
            "server": server if isinstance(server, str) else "",
        }
        _show(terminal, invocation.output, document)
    else:
        terminal.say(
            f"Controller:  {_words(controller)}{f', leader {leader}' if leader else ''}",
            f"CRD:         {_crd(served, stored)}",
            f"Server:      {_words(server)}",
        )
    if isinstance(controller, str) and too_far_apart(client, controller):
        terminal.warn(
            f"plugin {client} and controller {controller} are more than one minor version apart",
            "use the plugin of the controller's version",
        )
    return 0


def _show(terminal: Terminal, output: Output, fields: JSONObject) -> None:
    from kubectl_plugin.rollout.document import document

    terminal.say_document(document("Version", **fields), output)


def _words(found: str | NoAnswer) -> str:
    return found if isinstance(found, str) else f"unknown ({found.why})"


def _field(found: str | NoAnswer, key: str) -> dict[str, JSON]:
    """An unknown version is an empty text with a `reason`."""
    return {key: found} if isinstance(found, str) else {key: "", "reason": found.why}


def _crd(served: tuple[str, ...] | NoAnswer, stored: str | NoAnswer) -> str:
    if isinstance(served, NoAnswer):
        return _words(served)
    if not served:
        return "not installed"
    return f"{', '.join(served)}{f' (stored as {stored})' if stored and isinstance(stored, str) else ''}"
