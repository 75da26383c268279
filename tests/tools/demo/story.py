"""What is done to the cluster, step by step, and what has to come of it."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import yaml
from msgspec.structs import replace

from controller.api.formats import counted
from tests.beds.api import DAEMONSETS, NODES, PODS, Api, Object
from tests.beds.control_plane.access import run_to_end
from tests.beds.installed.plugin import Ran
from tests.beds.nodes.fleet import ZONE_LABEL, ZONES
from tests.beds.objects import condition
from tests.tools.demo.bed import DemoCluster, Writes
from tests.tools.demo.controller_process import CHECKOUT
from tests.tools.demo.fleet import BAD_IMAGE, LABEL, NAMES
from tests.tools.demo.journal import COMMAND, FACT, STEP, Journal
from tests.tools.demo.picture import Act, State
from tests.tools.demo.witness import Overdue, Witness

NAME = CONTAINER = "demo"
MANIFEST = CHECKOUT / "manifests" / "samples" / "ds.demo.yaml"
NEW_IMAGE = "busybox:1.37"
NEWER_IMAGE = "busybox:1.37.0"
AT_A_TIME = 4
ALL = len(NAMES)
OUT_AND_IN = "b-04"
UNLUCKY = "a-05"
ACTS = 13
LINE = 66
"""Columns of a fact: with its moment it fits into eighty."""
STATE = "lifecycle.apps.kruise.io/state"
BLOCK = "example.io/block-deleting"
BREATH = 1.5
READING = 8.0
"""Seconds between two steps, and for a plan, for the reader."""
SOAK = 5.0
AFTER = 6
"""Seconds that an updated node may take, also on a busy machine: not a matter of pace."""
SLACK = 0.5
"""Seconds by which we may see later than the controller that a pod is ready."""
STABLE = f"kubectl get ads {NAME} -o jsonpath={{.status.rollout.stableRevision}}"
PROMOTE = f"kubectl kruise-ds promote {NAME}"
ABORTED = 4
"""The exit code of the plugin's waits."""


@dataclass
class Story:
    """The steps in order. `pace` 1 is for people; `patience` seconds are for one step."""

    bed: DemoCluster
    witness: Witness
    journal: Journal
    pace: float
    patience: float

    def __post_init__(self) -> None:
        self.act = Act(number=0, of=ACTS, title=f"{ALL} nodes, no DaemonSet", command="")
        self._api = Api(self.bed.transport)
        self._worst = 0
        self._soak = SOAK * self.pace

    async def run(self) -> None:
        """Raises Overdue when a step does not come to its end, or when a promise was broken."""
        began = self.journal.now
        await self._pause()
        await self._apply()
        await self._update_one_node()
        await self._update_the_rest()
        await self._label_in_place()
        await self._hold_and_let_go()
        await self._prove()
        await self._fail_and_go_back()
        await self._label_in()
        await self._lose_a_pod()
        await self._update_in_place()
        await self._counted(ALL)
        seconds = self.journal.now - began
        writes = await self._written()
        self.journal.tell(STEP, f"Done: {ALL} nodes, {self.witness.pods_created} pods created, {seconds:.0f} s")
        self._tell(f"during an update never more than {self._worst} nodes without an available pod")
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
            await asyncio.sleep(0.05)  # a file sends no notice when it grows
        return found

    async def _apply(self) -> None:
        began = self._open(1, "Apply the book's demo", "kubectl apply -f manifests/samples/ds.demo.yaml")
        await self._api.create(DAEMONSETS, _manifest())
        await self._until(lambda: self.witness.on("A") == ALL, f"a ready pod on each of {ALL} nodes")
        self._tell(f"{ALL} nodes have their pod after {self.journal.now - began:.1f} s")
        await self._counted(ALL)
        await self._pause()

    async def _update_one_node(self) -> None:
        (key, value), words = LABEL, "order, topology, steps, onFailure"
        title = f"{NEW_IMAGE} and nodeSelector {key}: {value}, one node first"
        self._open(2, title, f"kubectl edit ads {NAME}   # {words}")
        template = _manifest()["spec"]["template"]
        template["spec"]["containers"][0]["image"] = NEW_IMAGE
        template["spec"]["nodeSelector"] = {key: value}
        self.witness.forget()
        await self._patch({"template": template, "updateStrategy": _zone_by_zone(soak=self._soak)})
        await self._until(lambda: self.witness.on("B") > 0, f"a node on {NEW_IMAGE}")
        began = self.journal.now
        await self._until(lambda: len(self.witness.taken["B"]) > 1, "a second node is taken")
        first, second, *_ = self.witness.taken["B"]
        soaked = self.witness.taken["B"][second] - began
        if soaked < self._soak - SLACK:
            raise Overdue(f"{second} was taken {soaked:.1f} s after {first} was ready, not {self._soak:g}")
        self._tell(f"{first} was alone for {soaked:.1f} s, until the soak of {self._soak:g} s was over")

    async def _update_the_rest(self) -> None:
        """Nothing is asked for any more: the controller goes on by itself."""
        began, witness = self._open(3, f"Then zone by zone, {AT_A_TIME} nodes at a time"), self.witness
        await self._until(lambda: witness.on("B") == ALL, f"the new image on all {ALL} nodes")
        self._judge_limits()
        zones = [zone for zone, _ in itertools.groupby(NAMES[node] for node in witness.taken["B"])]
        if zones != list(ZONES):
            raise Overdue(f"not zone by zone, but {', '.join(zones)}")
        self._tell(f"{', '.join(zones)}: all on {NEW_IMAGE} after {self.journal.now - began:.1f} s")
        await self._counted(ALL)
        await self._pause()

    async def _label_in_place(self) -> None:
        """It makes another revision, but no container starts, so the pods go on proving themselves."""
        words = "team: blue, approval: Required"
        self._open(4, "A label in the same pods: one node, then an approval", f"kubectl edit ads {NAME}   # {words}")
        before, strategy = self._pods(), _zone_by_zone(soak=self._soak, approval="Required")
        await self._patch({"template": {"metadata": {"labels": {"team": "blue"}}}, "updateStrategy": strategy})
        await self._until(lambda: self.witness.phase == "AwaitingApproval", "phase AwaitingApproval")
        self._type(f"kubectl kruise-ds plan {NAME}")
        for line in (await self._plugin(0, "plan", NAME, "--ascii")).out.splitlines():
            self._tell(line)
        await self._pause(READING)
        began = self._open(5, "Approved, and nothing restarts", PROMOTE)
        await self._plugin(0, "promote", NAME)
        await self._until(lambda: self.witness.on("C") == ALL, f"the label on all {ALL} pods")
        if self._pods() != before:
            raise Overdue("pods were replaced although only a label was added")
        self._tell(f"{ALL} pods have the label after {self.journal.now - began:.1f} s; all are the same as before")
        await self._counted(ALL)
        await self._pause()

    async def _hold_and_let_go(self) -> None:
        """What a label on the pod holds, another program lets go: here it is us."""
        key, node, pod = LABEL[0], OUT_AND_IN, self.witness.cells[OUT_AND_IN].pod
        self._open(6, f"A preDelete hook holds the pod of {node}", f"kubectl label node {node} {key}-")
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
        began = self._open(7, "Another program lets it go", f"kubectl label pod {pod} {BLOCK}-")
        await self._api.patch(PODS, pod, {"metadata": {"labels": {BLOCK: None}}})
        await self._until(lambda: self._is(node, State.OUT), f"{node} without a pod")
        self._tell(f"{node} is let go after {self.journal.now - began:.1f} s")
        await self._patch({"lifecycle": None})
        await self._pause()

    async def _prove(self) -> None:
        self._open(8, "Ready for 30 s, so that a bad version may go back to it", STABLE)
        await self._until(lambda: self.witness.stable == "C", "revision C in status.rollout.stableRevision")
        self._tell("revision C is recorded as the stable one")
        await self._pause()

    async def _fail_and_go_back(self) -> None:
        """Also what a pipeline sees of it: the exit code of a plugin that waits."""
        command = f"kubectl kruise-ds set-image {NAME} {CONTAINER}={BAD_IMAGE}"
        began, before = self._open(9, f"A bad version: no registry has {BAD_IMAGE}", command), self._pods()
        await self._set_image(BAD_IMAGE)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._plugin(ABORTED, "status", NAME, "-w"))
            await self._until(lambda: self.witness.phase == "Aborted", "phase Aborted")
            self._tell(f"aborted after {self.journal.now - began:.1f} s")
            said = (await waiting).err.splitlines() or [""]
        self._tell(f"kubectl kruise-ds status {NAME} -w ends with exit code {ABORTED}:")
        for line in textwrap.wrap(said[0], LINE):
            self._tell(line)
        self._open(10, "And back by itself")
        await self._until(lambda: self.witness.on("C") == ALL - 1, f"{NEW_IMAGE} everywhere again")
        if len(taken := self.witness.taken["D"]) != 1 or self._pods() != before:
            raise Overdue(f"{', '.join(taken)} had {BAD_IMAGE}, or pods were replaced")
        (node,) = taken
        self._tell(f"{node} runs {NEW_IMAGE} again after {self.journal.now - began:.1f} s; no other node had it")
        await self._pause()

    async def _label_in(self) -> None:
        (key, value), node = LABEL, OUT_AND_IN
        began = self._open(11, f"Label {node} in again", f"kubectl label node {node} {key}={value}")
        await self._label(node, {key: value})
        await self._until(lambda: self._is(node, State.READY, "C"), f"{node} with a ready pod of the good version")
        self._tell(f"{node} has a pod of the good version after {self.journal.now - began:.1f} s")
        await self._pause()

    async def _lose_a_pod(self) -> None:
        pod, node, witness = self.witness.cells[UNLUCKY].pod, UNLUCKY, self.witness
        began = self._open(12, f"The pod of {node} is lost", f"kubectl delete pod {pod} --force")
        await self._api.delete(PODS, pod, options={"gracePeriodSeconds": 0})
        await self._until(
            lambda: witness.born[node] > began and self._is(node, State.READY, "C"), f"a new pod on {node}"
        )
        between = 1000 * max(0.0, witness.born[node] - witness.gone[node])
        self._tell(f"{node} has a new pod after {between:.0f} ms, a ready one after {self.journal.now - began:.1f} s")
        await self._pause()

    async def _update_in_place(self) -> None:
        """Another template ends the abort."""
        command = f"kubectl kruise-ds set-image {NAME} {CONTAINER}={NEWER_IMAGE}"
        began = self._open(13, f"A good version, {NEWER_IMAGE}, in the same pods", command)
        before = self._pods()
        self.witness.forget()
        await self._set_image(NEWER_IMAGE)
        await self._until(lambda: self.witness.phase == "AwaitingApproval", "phase AwaitingApproval")
        self._type(PROMOTE)
        await self._plugin(0, "promote", NAME)
        await self._until(lambda: self.witness.on("E") == ALL, f"{NEWER_IMAGE} on all {ALL} nodes")
        if self._pods() != before:
            raise Overdue("pods were replaced although only their image was changed")
        self._judge_limits()
        self._tell(f"{ALL} pods run {NEWER_IMAGE} after {self.journal.now - began:.1f} s; all are the same as before")
        await self._pause()

    def _judge_limits(self) -> None:
        self._worst, zones = max(self._worst, self.witness.worst), self.witness.most_zones
        if self.witness.worst > AT_A_TIME or zones > 1:
            nodes = counted(self.witness.worst, "node")
            raise Overdue(f"{nodes} without an available pod at one time, in {counted(zones, 'zone')}")

    def _pods(self) -> dict[str, str]:
        return {node: cell.pod for node, cell in self.witness.cells.items()}

    async def _plugin(self, code: int, *words: str) -> Ran:
        """What `kubectl kruise-ds` says, which has to end with this code."""
        env = {
            **os.environ,
            "KUBECONFIG": str(self.bed.kubeconfig),
            "PYTHONPATH": str(CHECKOUT),
            "COLUMNS": str(LINE),
        }
        command = (sys.executable, "-m", "kubectl_plugin", *words)
        ran = Ran(words, *await run_to_end(command, env, seconds=self.patience))
        if ran.code != code:
            raise Overdue(f"{ran}, not {code}")
        return ran

    async def _set_image(self, image: str) -> None:
        await self._patch({"template": {"spec": {"containers": [{**_container(), "image": image}]}}})

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

    def _is(self, node: str, state: State, revision: str = "") -> bool:
        cell = self.witness.cells[node]
        return cell.state is state and cell.revision == revision

    def _open(self, number: int, title: str, command: str = "") -> float:
        """The next step begins, by this command or without any; returns when."""
        self.act = Act(number=number, of=ACTS, title=title, command="")
        self.journal.tell(STEP, f"{number}/{ACTS} {title}")
        if command:
            self._type(command)
        return self.journal.now

    def _type(self, command: str) -> None:
        self.act = replace(self.act, command=command)
        self.journal.tell(COMMAND, f"$ {command}")

    def _tell(self, text: str) -> None:
        self.journal.tell(FACT, text)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        await self.witness.until(holds, what, self.patience)

    async def _pause(self, seconds: float = BREATH) -> None:
        await asyncio.sleep(seconds * self.pace)

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


def _zone_by_zone(*, soak: float, **first: str) -> Object:
    """One node, a soak, then one zone after the other; a bad version goes back by itself."""
    rolling = {
        "rollingUpdateType": "InPlaceIfPossible",
        "maxUnavailable": AT_A_TIME,
        "order": [{"groupBy": ZONE_LABEL}],
        "topology": {"key": ZONE_LABEL, "maxDomains": 1},
        "steps": [{"nodes": 1, "soak": f"{soak:g}s", **first}, {"nodes": "100%"}],
        "onFailure": {"unavailableNodes": 1, "after": f"{AFTER}s", "action": "RollBack"},
    }
    return {"type": "RollingUpdate", "rollingUpdate": rolling}
