"""Host ports that a pod claims: two pods with the same one never run on the same node at once."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.objects import JSONObject, fields_of, items_of
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.forecast.simulation import NeverReady


def port_waiters(rollout: RolloutState) -> NeverReady:
    """When surging: the nodes, each with the new revision's hash, whose new pod never gets ready because it waits for
    a host port that the old pod holds while it is ready.

    An old pod that is not ready is deleted as soon as the new one exists, which frees its ports.
    """
    if not rollout.surging:
        return frozenset()
    wanted = _port_numbers(rollout.revision.template)
    held = {one.hash for one in rollout.older if wanted & _port_numbers(one.template)}
    staying = [one.old for one in rollout.eligible if one.old is not None]
    return frozenset((pod.node, rollout.revision.hash) for pod in staying if pod.ready and pod.hash in held)


def host_ports(template: JSONObject) -> Iterator[tuple[int, str]]:
    """The host ports of a template, each with its container's name. With hostNetwork every declared port is a host
    port."""
    spec = fields_of(template.get("spec"))
    on_node = spec.get("hostNetwork") is True
    for container in items_of(spec.get("containers")):
        for port in items_of(container.get("ports")):
            claimed = port.get("hostPort") or (on_node and port.get("containerPort"))
            if isinstance(claimed, int) and claimed:
                yield claimed, str(container.get("name"))


def _port_numbers(template: JSONObject) -> set[int]:
    return {number for number, _ in host_ports(template)}
