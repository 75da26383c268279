"""What is done to the cluster, step by step, and what has to come of it."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.beds.api import DAEMONSETS, NODES, PODS, Api, Object
from tests.beds.objects import condition
from tests.tools.demo.bed import DemoCluster, Writes
from tests.tools.demo.fleet import LABEL, NAMES
from tests.tools.demo.journal import COMMAND, FACT, STEP, Journal
from tests.tools.demo.picture import Act, State
from tests.tools.demo.witness import Overdue, Witness

NAME = CONTAINER = "demo"
MANIFEST = Path(__file__).resolve().parents[3] / "manifests" / "samples" / "ds.demo.yaml"
NEW_IMAGE = "busybox:1.37"
NEWER_IMAGE = "busybox:1.37.0"
AT_A_TIME = 3
FIRST = 6
ALL = len(NAMES)
OUT_AND_IN = "b-04"
UNLUCKY = "a-05"
ACTS = 9
LINE = 66
"""Columns of a fact: with its moment it fits into eighty."""
STATE = "lifecycle.apps.kruise.io/state"
BLOCK = "example.io/block-deleting"


@dataclass
class Story:
    """The steps in order. `breath` seconds are left after each for the reader; `patience` is for one step."""

    bed: DemoCluster
    witness: Witness
    journal: Journal
    breath: float
    patience: float

    def __post_init__(self) -> None:
        self.act = Act(number=0, of=ACTS, title=f"{ALL} nodes, no DaemonSet", command="")
        self._api = Api(self.bed.transport)
        self._worst = 0

    async def run(self) -> None:
        """Raises Overdue when a step does not come to its end, or when a promise was broken."""
        began = self.journal.now
        await self._pause()
        await self._apply()
        await self._update_some()
        await self._update_the_rest()
        await self._label_out_and_in()
        await self._lose_a_pod()
        await self._update_in_place()
        await self._hold_and_let_go()
        await self._counted(ALL)
        seconds = self.journal.now - began
        writes = await self._written()
        self.journal.tell(STEP, f"Done: {ALL} nodes, {self.witness.pods_created} pods created, {seconds:.0f} s")
        self._tell(f"during the update never more than {self._worst} nodes without an available pod")
        refused = ", ".join(f"{number} {what}" for what, number in writes.refused.items()) or 0
        self._tell(f"the API server counts {writes.done.total()} writes by the controller, {refused} refused:")
        for line in textwrap.wrap(str(writes), LINE):
            self._tell(line)
        if writes.overtaken:
            self._tell(f"{writes.overtaken} more to an object that another one had just changed, tried again")

    async def _written(self) -> Writes:
        """What the server has counted, once that is all pods that we have seen: its log comes after its answers."""
        until = self.journal.now + self.patience
        while (found := self.bed.controller_writes()).done["create pods"] < self.witness.pods_created:
            if self.journal.now > until:
                raise Overdue(f"the API server has counted no more than {found}")
            await asyncio.sleep(0.05)  # a file tells nobody that it has grown
        return found

    async def _apply(self) -> None:
        began = self._open(1, "Apply the book's demo", "kubectl apply -f manifests/samples/ds.demo.yaml")
        await self._api.create(DAEMONSETS, _manifest())
        await self._until(lambda: self.witness.on("A") == ALL, f"a ready pod on each of {ALL} nodes")
        self._tell(f"{ALL} nodes have their pod after {self.journal.now - began:.1f} s")
        await self._counted(ALL)
        await self._pause()

    async def _update_some(self) -> None:
        (key, value), words = LABEL, f"partition {ALL - FIRST}, InPlaceIfPossible"
        title = f"{NEW_IMAGE} and nodeSelector {key}: {value}, {FIRST} nodes first"
        self._open(2, title, f"kubectl edit ads {NAME}   # {words}")
        template = _manifest()["spec"]["template"]
        template["spec"]["containers"][0]["image"] = NEW_IMAGE
        template["spec"]["nodeSelector"] = {key: value}
        self.witness.worst = 0
        await self._patch({"template": template, "updateStrategy": _rolling(partition=ALL - FIRST)})
        await self._until(
            lambda: self.witness.on("B") >= FIRST and self.witness.counts.up_to_date >= FIRST,
            f"{FIRST} nodes on the new image",
        )
        await self._counted(FIRST)
        await self._pause()
        if (found := self.witness.on("B")) > FIRST:
            raise Overdue(f"{found} nodes have the new image, but partition allows only {FIRST}")
        self._tell(f"{FIRST} nodes run {NEW_IMAGE}; partition holds the other {ALL - FIRST}")

    async def _update_the_rest(self) -> None:
        began = self._open(3, f"Then everywhere, {AT_A_TIME} at a time", f"kubectl edit ads {NAME}   # partition 0")
        await self._patch({"updateStrategy": _rolling(partition=0)})
        await self._until(lambda: self.witness.on("B") == ALL, f"the new image on all {ALL} nodes")
        self._worst = self.witness.worst
        if self._worst > AT_A_TIME:
            raise Overdue(f"{self._worst} nodes were without an available pod at one time, not {AT_A_TIME}")
        self._tell(f"{ALL} nodes run {NEW_IMAGE} after {self.journal.now - began:.1f} s")
        await self._pause()

    async def _label_out_and_in(self) -> None:
        (key, value), node = LABEL, OUT_AND_IN
        began = self._open(4, f"Label {node} out", f"kubectl label node {node} {key}-")
        await self._label(node, {key: None})
        await self._until(lambda: self._is(node, State.OUT), f"{node} without a pod")
        self._tell(f"{node} has no pod any more after {self.journal.now - began:.1f} s")
        await self._pause()
        began = self._open(5, f"Label {node} in again", f"kubectl label node {node} {key}={value}")
        await self._label(node, {key: value})
        await self._until(lambda: self._is(node, State.READY), f"{node} with a ready pod again")
        self._tell(f"{node} has a ready pod again after {self.journal.now - began:.1f} s")
        await self._pause()

    async def _lose_a_pod(self) -> None:
        pod, node, witness = self.witness.cells[UNLUCKY].pod, UNLUCKY, self.witness
        began = self._open(6, f"The pod of {node} is lost", f"kubectl delete pod {pod} --force")
        await self._api.delete(PODS, pod, options={"gracePeriodSeconds": 0})
        await self._until(lambda: witness.born[node] > began and self._is(node, State.READY), f"a new pod on {node}")
        between = 1000 * max(0.0, witness.born[node] - witness.gone[node])
        self._tell(f"{node} has a new pod after {between:.0f} ms, a ready one after {self.journal.now - began:.1f} s")
        await self._pause()

    async def _update_in_place(self) -> None:
        """Step 2 has asked for it, but a nodeSelector is nothing that a running pod takes."""
        command = f"kubectl kruise-ds set-image {NAME} {CONTAINER}={NEWER_IMAGE}"
        began = self._open(7, f"{NEWER_IMAGE} in the same pods, {AT_A_TIME} at a time", command)
        before, self.witness.worst = self._pods(), 0
        template = {"spec": {"containers": [{**_container(), "image": NEWER_IMAGE}]}}
        await self._patch({"template": template})
        await self._until(lambda: self.witness.on("C") == ALL, f"{NEWER_IMAGE} on all {ALL} nodes")
        if self._pods() != before:
            raise Overdue("pods were replaced although only their image was changed")
        if self.witness.worst > AT_A_TIME:
            raise Overdue(f"{self.witness.worst} nodes were without an available pod at one time, not {AT_A_TIME}")
        self._tell(f"{ALL} pods run {NEWER_IMAGE} after {self.journal.now - began:.1f} s; all are the same as before")
        await self._pause()

    def _pods(self) -> dict[str, str]:
        return {node: cell.pod for node, cell in self.witness.cells.items()}

    async def _hold_and_let_go(self) -> None:
        """What a label on the pod holds, another program lets go: here it is us."""
        (key, value), node, pod = LABEL, OUT_AND_IN, self.witness.cells[OUT_AND_IN].pod
        self._open(8, f"A preDelete hook holds the pod of {node}", f"kubectl label node {node} {key}-")
        await self._patch({"lifecycle": {"preDelete": {"labelsHandler": {BLOCK: "true"}}}})
        await self._warned(of_hook=True)
        await self._api.patch(PODS, pod, {"metadata": {"labels": {BLOCK: "true"}}})
        await self._warned(of_hook=False)
        await self._label(node, {key: None})
        await self._api.wait_for(
            PODS, lambda pods: any(map(_is_held, pods)), f"{pod} in PreparingDelete", seconds=self.patience
        )
        self._tell(f"{pod} is prepared for its deletion, and waits")
        await self._pause()
        began = self._open(9, "Another program lets it go", f"kubectl label pod {pod} {BLOCK}-")
        await self._api.patch(PODS, pod, {"metadata": {"labels": {BLOCK: None}}})
        await self._until(lambda: self._is(node, State.OUT), f"{node} without a pod")
        self._tell(f"{node} is let go after {self.journal.now - began:.1f} s")
        await self._label(node, {key: value})
        await self._until(lambda: self._is(node, State.READY), f"{node} with a ready pod again")
        await self._pause()

    async def _warned(self, *, of_hook: bool) -> None:
        """Wait until the controller warns that no pod has the hook's label, or does so no more."""
        what = f"condition HookUnmatched {'is there' if of_hook else 'is gone'}"
        await self._api.wait_for(
            DAEMONSETS,
            lambda found: bool(condition(found[0], "HookUnmatched")) is of_hook,
            what,
            seconds=self.patience,
        )

    async def _counted(self, up_to_date: int) -> None:
        """The status too says so: the controller's last write is counted, and no edit comes in its way."""
        wanted = (ALL, up_to_date)
        await self._until(
            lambda: (self.witness.counts.available, self.witness.counts.up_to_date) == wanted,
            f"AVAILABLE {ALL} and UP-TO-DATE {up_to_date} in the status",
        )

    def _is(self, node: str, state: State) -> bool:
        return self.witness.cells[node].state is state

    def _open(self, number: int, title: str, command: str) -> float:
        """The next step begins; returns when."""
        self.act = Act(number=number, of=ACTS, title=title, command=command)
        self.journal.tell(STEP, f"{number}/{ACTS} {title}")
        self.journal.tell(COMMAND, f"$ {command}")
        return self.journal.now

    def _tell(self, text: str) -> None:
        self.journal.tell(FACT, text)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        await self.witness.until(holds, what, self.patience)

    async def _pause(self) -> None:
        await asyncio.sleep(self.breath)

    async def _patch(self, spec: Object) -> None:
        await self._api.patch(DAEMONSETS, NAME, {"spec": spec})

    async def _label(self, node: str, labels: dict[str, str | None]) -> None:
        await self._api.patch(NODES, node, {"metadata": {"labels": labels}})


def _is_held(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get(STATE) == "PreparingDelete"


def _manifest() -> Object:
    found: Object = yaml.safe_load(MANIFEST.read_text())
    return found


def _container() -> Object:
    found: Object = _manifest()["spec"]["template"]["spec"]["containers"][0]
    return found


def _rolling(*, partition: int) -> Object:
    limits: Object = {"maxUnavailable": AT_A_TIME, "partition": partition}
    return {"type": "RollingUpdate", "rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible", **limits}}
