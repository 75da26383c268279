"""What runs on a node of one pod, as its container runtime has it: the status may say something older."""

from __future__ import annotations

from typing import Any, TypeAlias

from tests.beds.nodes.containers import entries, is_running, lasting, terminated

Object: TypeAlias = dict[str, Any]


class Runtime:
    """Containers by name. Times are seconds of the loop, those in `told` RFC 3339."""

    def __init__(self) -> None:
        self.told: dict[str, Object] = {}
        """What the kubelet says of each, or is about to say."""
        self.ended: dict[str, float] = {}
        """When the last one that has ended did so."""
        self._dead: set[str] = set()
        self._known: set[str] = set()
        self._codes: dict[str, int] = {}

    def see(self, pod: Object, now: float) -> None:
        """Take over what others have done by way of the API: a test that moves a pod by hand, an earlier stand-in."""
        said = entries(pod)
        for name in (container["name"] for container in lasting(pod)):
            theirs, ours = said.get(name), self.told.get(name)
            if theirs is None:
                continue
            identity = theirs.get("containerID", "")
            if ours is None or (identity and identity not in self._known):
                self._adopt(name, theirs, now)
            elif identity == ours.get("containerID", "") and self.runs(name) and is_running(ours):
                if is_running(theirs):
                    self.told[name] = {**ours, "ready": theirs["ready"]}
                else:
                    self._adopt(name, theirs, now)

    def runs(self, name: str) -> bool:
        return name in self.told and name not in self._dead

    def end(self, name: str, code: int, now: float) -> None:
        """It has ended, and nobody has been told."""
        self._dead.add(name)
        self.ended[name], self._codes[name] = now, code

    def last(self, name: str, moment: str) -> Object:
        """What is to be told of one that does not run."""
        told = self.told.get(name, {})
        return terminated(told, self._codes.get(name, 0), moment) if is_running(told) else told

    def start(self, name: str, told: Object) -> None:
        self._dead.discard(name)
        self._remember(name, told)

    def _adopt(self, name: str, told: Object, now: float) -> None:
        self._dead.discard(name)
        if not is_running(told):
            self._dead.add(name)
            if told.get("containerID"):
                self.ended[name] = now
        self._remember(name, told)

    def _remember(self, name: str, told: Object) -> None:
        self.told[name] = told
        if told.get("containerID"):
            self._known.add(told["containerID"])
