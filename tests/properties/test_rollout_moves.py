"""Whatever users, nodes, pods and the network do: every write of the controller keeps the laws, and in the end
everything is in place and it falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.beds.api import Object
from tests.beds.objects import V2, V3
from tests.properties.rollout_bed import Stage
from tests.properties.rollout_chronicle import PROMPT
from tests.properties.rollout_laws import missing
from tests.properties.rollout_moves import (
    CLOCK_SET_BACK,
    IDLE_CUTS,
    IMAGES,
    KUBELETS,
    LIMITS,
    NAMES,
    PLACEMENT,
    QUOTA,
    REFUSALS,
    RELEASE,
    REVERT,
    WATCH_TROUBLES,
    WRITE_TROUBLES,
    Moves,
    Wish,
    changed,
    happened,
)
from tests.properties.rollout_scene import Number
from tests.properties.size import DEEP, every_day

HOURS = 3
"""Within which everything has come to rest; failed pods and refused templates wait up to a quarter of an hour."""
WAITS = st.sampled_from([0.6, 0.0, 0.1, 3.0])
"""Seconds that are left to the controller after a move; with 0 the next move comes on top of this one."""
NODE = st.sampled_from(NAMES)
PARTITION = st.sampled_from([None, 0, 1, 2, 3, "30%", "50%", 100])
LIMIT = st.integers(0, len(LIMITS) - 1)
SURGES = [number for number, limits in enumerate(LIMITS) if "maxSurge" in limits]
WISHES = st.builds(
    Wish,
    kind=st.sampled_from(["Standard", "Standard", "InPlaceIfPossible"]),
    limits=LIMIT,
    partition=PARTITION,
    min_ready=st.sampled_from([0, 0, 3, 30]),
    partitioned_scaling=st.sampled_from([None, None, True]),
    hook=st.sampled_from(["", "", "plain", "marks"]),
)


class Rollouts(RuleBasedStateMachine):
    """Each rule is one move and the time until the controller has answered it."""

    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage | None = Stage()
        self.moves = Moves(self.stage)

    @initialize(
        count=st.integers(2, 5),
        wish=WISHES,
        how=st.sampled_from(["well", "slow", "pulling slowly"]),
        troubles=st.sampled_from([(), (), ("very late pods", "creates without answers"), ("late watches",)]),
        ahead=st.sampled_from([0.0, 0.0, 600.0]),
        wait=st.sampled_from([40.0, 0.0]),
    )
    def begin(self, count: int, wish: Wish, how: str, troubles: tuple[str, ...], ahead: float, wait: float) -> None:
        self.clocks_of_nodes(ahead)
        for what in troubles:
            self.act(f"trouble: {what}", self.moves.hinder(what), 0.0)
        line = f"{count} nodes, kubelets are {how}: {changed(Wish(), wish)}"
        self.act(line, self.moves.begin(count, how, wish), wait)

    def act(self, line: str, move: Coroutine[Any, Any, None], wait: float) -> None:
        """Make a move, and give the controller time."""
        assert self.stage is not None
        self.stage.tell(line)
        try:
            self.stage.run(move)
            if wait:
                self.stage.run(self.moves.wait(wait))
        except BaseException:
            self.over()
            raise

    def over(self) -> None:
        stage, self.stage = self.stage, None
        if stage is not None:
            stage.close()

    # users

    @rule(image=st.sampled_from(IMAGES), wait=WAITS)
    def template(self, image: str, wait: float) -> None:
        self.edit(wait, image=image)

    @precondition(lambda self: self.moves.former)
    @rule(wait=WAITS)
    def revert(self, wait: float) -> None:
        """The template goes back, and everything else stays: partition, pause, selector."""
        self.edit(wait, image=self.moves.former)

    @rule(partition=PARTITION, wait=WAITS)
    def partition(self, partition: Number, wait: float) -> None:
        self.edit(wait, partition=partition)

    @rule(on=st.booleans(), wait=WAITS)
    def canaries_only(self, on: bool, wait: float) -> None:
        self.edit(wait, canaries_only=on)

    @rule(on=st.booleans(), wait=WAITS)
    def paused(self, on: bool, wait: float) -> None:
        self.edit(wait, paused=on)

    @rule(limits=LIMIT, wait=WAITS)
    def limits(self, limits: int, wait: float) -> None:
        self.edit(wait, limits=limits)

    @rule(rolling=st.booleans(), wait=WAITS)
    def type(self, rolling: bool, wait: float) -> None:
        self.edit(wait, rolling=rolling)

    @rule(kind=st.sampled_from(["Standard", "InPlaceIfPossible", "Surging"]), wait=WAITS)
    def rolling_update_type(self, kind: str, wait: float) -> None:
        self.edit(wait, kind=kind)

    @rule(seconds=st.sampled_from([0, 3, 30]), burst=st.sampled_from([250, 1, "40%"]), wait=WAITS)
    def pace(self, seconds: int, burst: Number, wait: float) -> None:
        self.edit(wait, min_ready=seconds, burst=burst)

    @rule(on=st.sampled_from([True, False, None]), wait=WAITS)
    def partitioned_scaling(self, on: bool | None, wait: float) -> None:
        self.edit(wait, partitioned_scaling=on)

    @rule(image=st.sampled_from(IMAGES), partition=st.sampled_from([None, 1, 2]), paused=st.booleans(), wait=WAITS)
    def many_fields(self, image: str, partition: Number, paused: bool, wait: float) -> None:
        self.edit(wait, image=image, partition=partition, paused=paused)

    @rule(image=st.sampled_from(IMAGES), name=NODE, limits=st.sampled_from(SURGES))
    def bad_version(self, image: str, name: str, limits: int) -> None:
        """While surging: on one node its pods never get ready, and fail."""
        self.act(f"kubelet of {name}: never ready", self.moves.kubelet(name, "never ready"), 0.0)
        free: dict[str, Any] = {"partition": None, "canaries_only": False, "paused": False}
        self.edit(0.6, image=image, limits=limits, rolling=True, kind="Standard", **free)
        for _ in range(3):
            self.act("the new pods beside old ones fail", self.moves.fail_successors(), 0.6)

    def edit(self, wait: float, **changes: Any) -> None:
        after = replace(self.moves.wish, **changes)
        self.act(f"edit: {changed(self.moves.wish, after)}", self.moves.edit(**changes), wait)

    @rule(hook=st.sampled_from(["", "plain", "marks"]), wait=WAITS)
    def hook(self, hook: str, wait: float) -> None:
        self.edit(wait, hook=hook)

    @precondition(lambda self: self.moves.wish.hook)
    @rule(name=st.sampled_from(["", *NAMES]), wait=WAITS)
    def released(self, name: str, wait: float) -> None:
        self.act(f"prepared pods are let go: {name or 'all'}", self.moves.release(name), wait)

    # nodes and their kubelets

    @rule(name=NODE, canary=st.booleans(), wait=WAITS)
    def node_joins(self, name: str, canary: bool, wait: float) -> None:
        self.act(f"{name} joins, canary={canary}", self.moves.add(name, canary), wait)

    @rule(name=NODE, collect=st.booleans(), wait=WAITS)
    def node_goes(self, name: str, collect: bool, wait: float) -> None:
        self.act(f"{name} goes, collect={collect}", self.moves.remove(name, collect), wait)

    @rule(wait=WAITS)
    def garbage(self, wait: float) -> None:
        self.act("the garbage of pods is collected", self.moves.collect(), wait)

    @rule(name=NODE, canary=st.booleans(), wait=WAITS)
    def node_label(self, name: str, canary: bool, wait: float) -> None:
        self.act(f"label {name}: canary={canary}", self.moves.label(name, canary), wait)

    @rule(name=NODE, effect=st.sampled_from(["NoSchedule", "NoExecute", ""]), wait=WAITS)
    def node_taint(self, name: str, effect: str, wait: float) -> None:
        self.act(f"taint {name}: {effect or 'none'}", self.moves.taint(name, effect), wait)

    @rule(name=NODE, evict_only=st.booleans(), wait=WAITS)
    def node_silent(self, name: str, evict_only: bool, wait: float) -> None:
        self.act(f"{name} is silent, evict_only={evict_only}", self.moves.lose(name, evict_only), wait)

    @precondition(lambda self: self.moves.lost)
    @rule(wait=WAITS)
    def node_heard_again(self, wait: float) -> None:
        name = min(self.moves.lost)
        self.act(f"{name} is heard again", self.moves.regain(name), wait)

    @rule(name=NODE, how=st.sampled_from(list(KUBELETS)), wait=WAITS)
    def kubelet(self, name: str, how: str, wait: float) -> None:
        self.act(f"kubelet of {name}: {how}", self.moves.kubelet(name, how), wait)

    @rule(seconds=st.sampled_from([0.0, 20.0, 600.0]))
    def clocks_of_nodes(self, seconds: float) -> None:
        assert self.stage is not None
        self.stage.tell(f"the nodes' clocks are {seconds:g} s ahead")
        self.stage.clock_ahead = seconds

    # pods

    @rule(name=NODE, wait=WAITS)
    def pod_sick(self, name: str, wait: float) -> None:
        self.act(f"the pod on {name} gets unready", self.moves.sicken(name), wait)

    @rule(name=NODE, wait=WAITS)
    def pod_fails(self, name: str, wait: float) -> None:
        self.act(f"the pod on {name} fails", self.moves.fail(name), wait)

    @rule(name=NODE, wait=WAITS)
    def pod_lost(self, name: str, wait: float) -> None:
        self.act(f"the pod on {name} is deleted by hand", self.moves.delete(name), wait)

    # the controller and its way to the server

    @rule(what=st.sampled_from(WATCH_TROUBLES), wait=WAITS)
    def trouble_with_watches(self, what: str, wait: float) -> None:
        self.act(f"trouble: {what}", self.moves.hinder(what), wait)

    @rule(what=st.sampled_from(WRITE_TROUBLES), wait=WAITS)
    def trouble_with_writes(self, what: str, wait: float) -> None:
        self.act(f"trouble: {what}", self.moves.hinder(what), wait)

    @rule(what=st.sampled_from(REFUSALS), image=st.sampled_from(IMAGES), wait=WAITS)
    def refusals(self, what: str, image: str, wait: float) -> None:
        self.act(f"refused from now on: {what}", self.moves.hinder(what), 0.0)
        self.edit(wait, image=image)

    @precondition(lambda self: self.moves.troubles)
    @rule(wait=WAITS)
    def trouble_ends(self, wait: float) -> None:
        place = min(self.moves.troubles)
        self.act(f"the trouble with {place} is over", self.moves.help(place), wait)

    @rule(fewer=st.sampled_from([0, 1, None]), wait=WAITS)
    def quota(self, fewer: int | None, wait: float) -> None:
        words = "no quota of pods" if fewer is None else f"a quota of the pods that there are, less {fewer}"
        self.act(words, self.moves.limit_pods(fewer), wait)

    @rule(ahead=st.sampled_from([-3600.0, -20.0, 0.0]), wait=WAITS)
    def clock_of_controller(self, ahead: float, wait: float) -> None:
        self.act(f"the controller's clock is {ahead:g} s ahead", self.moves.set_clock(ahead), wait)

    @rule(seconds=st.sampled_from([0.0, 5.0]), wait=WAITS)
    def restart(self, seconds: float, wait: float) -> None:
        self.act(f"the controller is killed, and back after {seconds:g} s", self.moves.restart(seconds), wait)

    @rule(seconds=st.sampled_from([1.0, 10.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.act(f"{seconds:g} s pass", asyncio.sleep(seconds), 0.0)

    @rule()
    def all_is_well(self) -> None:
        """A rest in between: what the spec says must come about."""
        assert self.stage is not None
        try:
            self.settle(self.stage)
        except BaseException:
            self.over()
            raise

    def teardown(self) -> None:
        """The moves stop: what the spec says comes about, and then nothing is written any more."""
        if self.stage is None:
            return
        try:
            if self.stage.chronicle.spec is not None:
                self.settle(self.stage)
                self.fall_silent(self.stage)
        finally:
            self.over()

    def settle(self, stage: Stage) -> None:
        """All faults are over and all machines well, until the oracle misses nothing."""
        stage.tell("all is well")
        stage.run(self.moves.heal())
        if stage.look().slack > PROMPT:
            stage.run(stage.bed.idle(30.0))  # the last edits may still be news
        begun, wrong = stage.look(), ["nothing was looked at"]
        for _ in range(HOURS * 12):
            stage.run(self.moves.release())
            stage.run(stage.bed.idle(30.0))
            if not (wrong := missing(begun, stage.look(), stage.run(status(stage)))):
                return
            stage.run(asyncio.sleep(270.0))
        stage.judge(*(f"in the end: {one}" for one in wrong), stage.look().table())

    def fall_silent(self, stage: Stage) -> None:
        stage.bed.journal.clear()
        stage.run(asyncio.sleep(3600.0))
        if stage.bed.journal.writes:
            stage.judge("in the end it goes on writing:", *map(str, stage.bed.journal.writes))


async def status(stage: Stage) -> Object:
    found: Object = (await stage.bed.daemonset()).get("status") or {}
    return found


def test_the_laws_hold_whatever_happens_and_every_fault_happens() -> None:
    """`make test-deep` looks for new stories; `make test` tells the same thirty-five each time."""
    happened.clear()
    size = settings(
        every_day(35), derandomize=not DEEP, deadline=None, phases=[Phase.generate, Phase.shrink], print_blob=False
    )
    run_state_machine_as_test(Rollouts, settings=size)
    wanted = (*REFUSALS, QUOTA, CLOCK_SET_BACK, REVERT, PLACEMENT, RELEASE)
    assert [what for what in wanted if not happened[what]] == []


def test_a_surge_whose_new_pods_fail_again_and_again() -> None:
    """Seldom told by chance: there is room for another surge, and the next in line waits out its back-off."""
    story = Rollouts()
    story.begin(count=4, wish=Wish(limits=5), how="well", troubles=(), ahead=0.0, wait=40.0)
    story.bad_version(image=V2, name="node-2", limits=5)
    story.teardown()


def test_watches_that_are_cut_when_they_are_idle() -> None:
    """Seldom told by chance: nothing must happen for some seconds."""
    happened.clear()
    told = story()
    told.trouble_with_watches(IDLE_CUTS, 0.0)
    told.act("nothing happens", asyncio.sleep(20.0), 0.0)
    told.template(V2, 40.0)
    told.pod_lost("node-0", 40.0)
    told.trouble_ends(40.0)
    told.teardown()
    assert happened[IDLE_CUTS]


def story(**wish: Any) -> Rollouts:
    """Five nodes with V1."""
    told = Rollouts()
    told.begin(5, Wish(**wish), "well", (), 0.0, 40.0)
    return told


def images(told: Rollouts) -> list[str]:
    """By node, v1 … v3; "" is no pod."""
    assert told.stage is not None
    scene = told.stage.look()
    return [" ".join(pod.image.rpartition(":")[2] for pod in scene.live(node)) for node in sorted(scene.nodes)]


def test_the_moves_include_a_revert_under_a_partition_and_a_lost_pod() -> None:
    told = story(partition=4)
    told.template(V2, 40.0)
    assert images(told) == ["v1", "v1", "v1", "v1", "v2"]
    told.revert(3.0)
    told.pod_lost("node-0", 3.0)
    told.node_joins("node-5", False, 40.0)
    assert images(told) == ["v1", "v1", "v1", "v1", "v2", "v1"]
    told.teardown()


def test_the_moves_include_a_placement_that_leaves_nodes_empty() -> None:
    told = story()
    told.template(V3, 40.0)
    assert images(told) == ["", "v3", "", "v3", ""]
    told.restart(0.0, 3.0)
    told.many_fields(V2, 5, False, 40.0)
    assert told.stage is not None
    scene = told.stage.look()
    assert [node for node in scene.eligible if scene.may_stay_empty(node)] == ["node-0", "node-2", "node-4"]
    assert images(told) == ["", "v3", "", "v3", ""]
    told.teardown()
