"""Why a node must not run the pod, asked of the planner's own rules one field at a time."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.base import JSONObject, fields_of
from controller.api.node import Node
from controller.planner.eligibility import Fit, Rules

_FIELDS = {"nodeName": "spec.nodeName", "nodeSelector": "node selector", "affinity": "node affinity"}


class Exclusions:
    """Made once per DaemonSet. Raises what `Rules` raises."""

    def __init__(self, template: JSONObject) -> None:
        fields = fields_of(template.get("spec"))
        self._whole = Rules(template)
        self._alone = {
            words: Rules({"spec": {field: fields[field]}}) for field, words in _FIELDS.items() if field in fields
        }

    def why(self, node: Node) -> str:
        """The first thing that keeps the pod away; empty for a node that should run it."""
        untainted = replace(node, taints=())
        for words, rules in self._alone.items():
            if rules.fit(untainted) is Fit.LEAVE:
                return words
        for taint in node.taints:
            if self._whole.fit(replace(node, taints=(taint,))) is not Fit.RUN:
                value = f"={taint.value}" if taint.value else ""
                return f"taint {taint.key}{value}:{taint.effect}"
        return ""
