"""What holds for every pass that updates pods in place: which pods, when, and with what care."""

from __future__ import annotations

from controller.api.in_place import Resize
from controller.api.names import IN_PLACE_IF_POSSIBLE
from controller.inplace.change import InPlaceChange
from controller.planner import actions
from controller.planner.plan import Plan
from controller.planner.revisions import current_revision
from controller.planner.world import World
from tests.properties.planner_facts import begun, deletes, live, released, rolling

CARE = (actions.OpenGates, actions.ResizePod, actions.ContinueInPlace)


def what_is_updated_in_place_lives_and_can_be(world: World, plan: Plan) -> None:
    pods = {one.uid: one for one in world.pods}
    for one in begun(plan):
        pod = pods[one.pod.uid]
        assert pod in live(world, one.node)
        change = world.changes[pod.hash]
        assert isinstance(change, InPlaceChange)
        assert pod.gates or not change.restarts, "its traffic could not leave"
        assert not isinstance(one, actions.DrainPod) or pod.ready, "nothing is there to be drained"


def what_can_be_updated_in_place_is_not_recreated(world: World, plan: Plan) -> None:
    pods = {one.uid: one for one in world.pods}
    for one in (
        deletes(plan, actions.DeleteReason.OUTDATED)
        if rolling(world).rolling_update_type == IN_PLACE_IF_POSSIBLE
        else ()
    ):
        pod = pods[one.pod.uid]
        change = world.changes.get(pod.hash)
        if isinstance(change, InPlaceChange) and pod.bound and not change.rereads:
            assert change.restarts, pod.name
            assert not pod.gates, pod.name


def care_is_taken_of_what_needs_it(world: World, plan: Plan) -> None:
    pods = {one.uid: one for one in world.pods}
    for one in plan.actions:
        if not isinstance(one, CARE):
            continue
        pod = pods[one.pod.uid]
        busy = pod.in_progress if pod.in_progress is not None and pod.in_progress.is_pending(world.now) else None
        assert not pod.terminating
        assert not pod.ended
        match one:
            case actions.OpenGates():
                runs = busy is None or busy.only_resizes
                assert runs or pod.uid in released(world), "its container does not run yet"
                assert not all(gate.open for gate in pod.gates)
            case actions.ResizePod():
                assert busy is not None
                assert busy.resize is Resize.PROPOSED
            case actions.ContinueInPlace():
                assert busy is not None
                assert busy.has_next_batch
                assert one.revision.hash in {pod.hash, current_revision(world)[0].hash}
