"""What holds for every pass in every world: its invariants, each worked out from the world alone.

The laws ask the pods, never the rollout, so that they do not repeat the planner's own reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from controller.api.daemonset import rollout_of
from controller.api.formats import scaled
from controller.api.in_place import Resize
from controller.api.names import IN_PLACE_IF_POSSIBLE
from controller.inplace.change import InPlaceChange
from controller.planner import actions
from controller.planner.blockers import handlers, is_prepared
from controller.planner.node_fit import Fit
from controller.planner.plan import Plan
from controller.planner.revisions import current_revision
from controller.planner.world import TemplateRefused, World, hashes_of_pods
from tests.beds.worlds import status_in
from tests.properties.planner_facts import (
    begun,
    creates,
    deletes,
    eligible,
    empty,
    have_run,
    in_update_order,
    is_available,
    is_progressive,
    last_hash,
    left_behind,
    left_out,
    limit,
    live,
    of_current,
    ours,
    outgoing,
    partition_quota,
    promised,
    quota,
    released,
    rolling,
    runs_on,
    served,
    serving,
    step_limit,
    too_many_unreachable,
    unfit,
    unreachable,
    updated,
)

CARE = (actions.OpenGates, actions.ResizePod, actions.ContinueInPlace)
Law: TypeAlias = Callable[[World, Plan], None]
TOUCHING = (actions.UpdateInPlace, actions.DrainPod, actions.DeletePod, actions.ReleasePod, actions.RelabelPod, *CARE)


def nothing_is_touched_while_the_caches_are_behind(world: World, plan: Plan) -> None:
    assert world.fresh or not plan.actions


def no_more_than_the_burst(world: World, plan: Plan) -> None:
    burst = world.daemonset.spec.burst_replicas
    most = max(limit(world, 250 if burst is None else burst, round_up=False), 1)
    assert len(creates(plan)) <= most
    assert len([one for one in deletes(plan) if one.why is not actions.DeleteReason.NOT_RESIZED]) <= most
    assert len(deletes(plan, actions.DeleteReason.NOT_RESIZED)) <= most
    assert len(begun(plan)) <= most
    cared = [one.pod.uid in released(world) for one in plan.actions if isinstance(one, CARE)]
    assert cared.count(True) <= most
    assert cared.count(False) <= most


def a_pod_is_deleted_once_and_only_if_it_is_ours_and_lives(world: World, plan: Plan) -> None:
    uids = [one.pod.uid for one in deletes(plan)]
    assert len(uids) == len(set(uids))
    assert set(uids) <= {one.uid for one in ours(world) if not one.terminating}


def a_hooked_pod_is_never_deleted(world: World, plan: Plan) -> None:
    """But prepared for it, once."""
    hook = world.daemonset.pre_delete
    uids = {one.pod.uid for one in plan.actions if isinstance(one, actions.DeletePod)}
    assert not [one.name for one in world.pods if one.uid in uids and handlers(one, hook)]
    uids = {one.pod.uid for one in plan.actions if isinstance(one, actions.PrepareDelete)}
    assert all(handlers(one, hook) and not (hook and is_prepared(one, hook)) for one in world.pods if one.uid in uids)


def what_is_prepared_goes_or_stays_and_never_both(world: World, plan: Plan) -> None:
    cancelled = {one.pod.uid for one in plan.actions if isinstance(one, actions.CancelDelete)}
    assert not cancelled & {one.pod.uid for one in deletes(plan)}
    assert all(one.held_by_hook or one.marked_not_ready for one in world.pods if one.uid in cancelled)


def a_node_gets_a_pod_only_where_one_should_run_and_one_at_a_time(world: World, plan: Plan) -> None:
    nodes = [one.node for one in creates(plan)]
    assert len(nodes) == len(set(nodes))
    assert set(nodes) <= eligible(world)
    assert not set(nodes) & {one.node for one in world.orphans if one.adoptable and world.rules.owns(one.labels)}
    for node in nodes:
        there = live(world, node)
        if rolling(world).max_surge:
            assert len(there) <= 1, f"a third pod on {node}"
            assert not any(of_current(world, one) for one in there)
        else:
            assert not there, f"a second pod on {node} without surge"
            assert not [one for one in ours(world) if one.node == node and not one.ended], f"{node} is not free yet"


def a_node_whose_pods_do_not_last_waits_out_its_back_off(world: World, plan: Plan) -> None:
    """No pod is made there, and none goes to be replaced: it runs, or can be looked at, so long."""
    waiting = {node for node, moment in world.not_before.items() if world.now < moment} & eligible(world)
    assert not waiting & {one.node for one in creates(plan)}
    replaced = {actions.DeleteReason.FAILED, actions.DeleteReason.SUCCEEDED, actions.DeleteReason.OUTDATED}
    assert not waiting & {one.node for one in deletes(plan) if one.why in replaced}


def a_template_that_no_pod_has_had_is_checked_strictly(world: World, plan: Plan) -> None:
    """And after the server has named unknown fields, none is tried until it is time to ask again."""
    ran = {one.hash for one in world.revisions if not one.never_ran} | hashes_of_pods(world)
    allowed = world.daemonset.allows_unknown_fields
    for one in plan.actions:
        if isinstance(one, actions.CreatePod | actions.ProbeTemplate):
            assert one.strict is not (one.revision.hash in ran or allowed)
            verdict = world.verdicts.get(one.revision.hash)
            refused = isinstance(verdict, TemplateRefused) and verdict.unknown_fields
            assert not (one.strict and refused and world.now < world.retry_dry_run_at)


def the_name_of_a_new_pod_is_free(world: World, plan: Plan) -> None:
    names = [one.name for one in creates(plan)]
    assert len(names) == len(set(names))
    assert not {one.name for one in (*world.pods, *world.orphans)} & set(names)


def the_update_takes_down_no_more_than_max_unavailable(world: World, plan: Plan) -> None:
    most = limit(world, rolling(world).max_unavailable, round_up=True) or 1
    for up in (served(world), serving(world)):
        gone_already = len(eligible(world) - up - unfit(world) - left_out(world))
        assert len({*outgoing(plan)} & up) <= max(most - gone_already, 0)


def the_limits_of_failure_domains_are_kept(world: World, plan: Plan) -> None:
    """Of nodes that serve. A domain with a node that the update made short is open already."""
    topology = rolling(world).topology
    if topology is None or world.daemonset.rolling_update is None:
        return
    surging = limit(world, rolling(world).max_surge, round_up=True) > 0
    both = {node for node in eligible(world) if node in updated(world) and len(live(world, node)) > 1}
    up = served(world)
    taken = ({one.node for one in creates(plan) if live(world, one.node)} if surging else {*outgoing(plan)}) & up
    by_domain: dict[str | None, set[str]] = {}
    for node in world.nodes:
        if node.name in eligible(world):
            by_domain.setdefault(node.labels.get(topology.key), set()).add(node.name)
    touched = {domain for domain, there in by_domain.items() if there & taken}
    for domain in touched if topology.max_unavailable is not None else ():
        there = by_domain[domain]
        short = there & both if surging else there - up - unfit(world) - left_out(world)
        assert len(short | there & taken) <= scaled(topology.max_unavailable, len(there), round_up=True)
    mine = both if surging else {node for node in updated(world) - up if not unreachable(world, node)}
    known = {*(rollout_of(world.daemonset.status).unavailable_before or ())}
    if touched and topology.max_domains is not None:
        short_by_us = {domain for domain, there in by_domain.items() if there & mine - known}
        assert len(touched | short_by_us) <= topology.max_domains


def surging_keeps_its_limit(world: World, plan: Plan) -> None:
    both = {node for node in eligible(world) if node in updated(world) and len(live(world, node)) > 1}
    beside = {one.node for one in creates(plan) if live(world, one.node)}
    most = limit(world, rolling(world).max_surge, round_up=True)
    assert len(beside & served(world)) <= max(most - len(both), 0)


def update_moves(world: World, plan: Plan) -> set[str]:
    """Nodes that the update step moves to the current revision."""
    beside = {one.node for one in creates(plan) if live(world, one.node)}
    return beside | {*outgoing(plan)}


def paused_or_on_delete_nothing_is_updated(world: World, plan: Plan) -> None:
    if rolling(world).paused or world.daemonset.rolling_update is None:
        assert not update_moves(world, plan)
        assert not deletes(plan, actions.DeleteReason.SURPLUS)


def no_node_newly_gets_an_aborted_revision(world: World, plan: Plan) -> None:
    """Not even in the pass that aborts it, nor in the one before a person's wish to retry is recorded."""
    current, _ = current_revision(world)
    records = (rollout_of(world.daemonset.status), status_in(plan).rollout)
    if (
        any(one.aborted_revision == current.hash for one in records)
        and world.daemonset.annotations.get("kruise-ds/skip-steps") != current.hash
    ):
        assert not update_moves(world, plan)
        again = {one.node for one in creates(plan) if one.revision.hash == current.hash}
        assert all(last_hash(world, node) == current.hash for node in again)


def with_too_many_unreachable_nodes_nothing_is_updated(world: World, plan: Plan) -> None:
    assert not too_many_unreachable(world) or not update_moves(world, plan)


def what_may_only_stay_goes_when_others_serve(world: World, plan: Plan) -> None:
    """Old pods on nodes that may only keep one, while surging: as many as are available beyond the desired number."""
    by_name = {one.name: one for one in world.nodes}
    uids = {one.pod.uid for one in deletes(plan, actions.DeleteReason.SURPLUS)}
    going = [one for one in world.pods if one.uid in uids]
    if not going:
        return
    assert rolling(world).max_surge
    for pod in going:
        node = by_name[pod.node]
        assert world.rules.fit(node) is Fit.STAY, f"{node.name} is no such node"
        assert world.rules.selects(node)
        assert not node.unreachable
        assert not of_current(world, pod)
    keeping = [one for one in world.nodes if world.rules.fit(one) is not Fit.LEAVE]
    serving = [one for one in keeping if any(is_available(world, pod) for pod in live(world, one.name))]
    spare = max(len(serving) - len(eligible(world)), 0)
    assert sum(is_available(world, one) for one in going) <= spare


def with_partitioned_scaling_a_new_node_waits_for_room(world: World, plan: Plan) -> None:
    if not is_progressive(world):
        return
    current, _ = current_revision(world)
    new = {one.node: one for one in creates(plan) if one.node in empty(world) - world.predecessors.keys()}
    room = len(eligible(world)) - limit(world, rolling(world).partition, round_up=False) - len(updated(world))
    made = [one for one in creates(plan) if one.revision.hash == current.hash]
    begun = [one for one in made if one.node in new]
    assert not begun or len(made) <= room
    assert not new or room > 0


def only_selected_and_reachable_nodes_are_updated(world: World, plan: Plan) -> None:
    by_name = {one.name: one for one in world.nodes}
    for node in update_moves(world, plan):
        assert world.rules.selects(by_name[node]), f"{node} is not selected"
        assert not by_name[node].unreachable, f"nobody hears of {node}"
        assert node in eligible(world)


def the_partition_is_kept(world: World, plan: Plan) -> None:
    if world.daemonset.rolling_update is None:
        return
    current, stored = current_revision(world)
    older = have_run(world, stored)
    new = {one.node for one in creates(plan) if one.revision.hash == current.hash} if older else set()
    back = {node for node in new - update_moves(world, plan) if last_hash(world, node) == current.hash}
    moved = update_moves(world, plan) | (new - back)
    if len(updated(world)) > partition_quota(world):  # the current one is the stable one then
        moved -= {node for node in new if promised(world, node).hash == current.hash}
    assert not moved or len(moved | back | updated(world)) <= quota(world)


def a_pod_of_an_older_revision_is_the_one_that_was_promised_and_runs_there(world: World, plan: Plan) -> None:
    current, _ = current_revision(world)
    for one in creates(plan):
        if one.revision.hash != current.hash:
            assert one.revision.hash == promised(world, one.node).hash, f"{one.node} was {last_hash(world, one.node)}"
            assert runs_on(world, one.revision, one.node), f"{one.revision.hash} does not run on {one.node}"


def an_unavailable_pod_is_not_waited_for(world: World, plan: Plan) -> None:
    """What the update replaces comes in update order: first what does not serve, then what is not yet available.
    Where a step has too few nodes for all, those that an earlier update has left unready come before all others."""
    serves, available = serving(world), served(world)
    nodes = outgoing(plan)
    in_order = sorted(in_update_order(world, nodes), key=lambda node: (node in serves, node in available))
    limited, behind = step_limit(world) < partition_quota(world), left_behind(world)
    assert nodes == in_order or (limited and nodes == sorted(in_order, key=lambda node: node not in behind))


def one_pod_one_write(world: World, plan: Plan) -> None:
    touched = [one.pod.uid for one in plan.actions if isinstance(one, TOUCHING)]
    assert len(touched) == len(set(touched))


def creation_goes_up_the_nodes(world: World, plan: Plan) -> None:
    missing = [one.node for one in creates(plan) if not live(world, one.node)]
    assert missing == sorted(missing)


def the_alarm_is_not_set_for_the_past(world: World, plan: Plan) -> None:
    """For now only after a dry run: it stores nothing, so no event brings the next pass."""
    if plan.wake_at is not None:
        assert plan.wake_at >= world.now
        assert plan.wake_at > world.now or any(isinstance(one, actions.ProbeTemplate) for one in plan.actions)


def the_status_adds_up(world: World, plan: Plan) -> None:
    counts = status_in(plan).counts
    assert counts is not None
    desired = counts.desired_number_scheduled
    assert desired == len(eligible(world)) == counts.number_available + counts.number_unavailable
    assert 0 <= counts.updated_number_scheduled <= counts.current_number_scheduled <= desired
    assert 0 <= counts.number_available <= counts.number_ready <= counts.current_number_scheduled
    assert counts.number_available <= len(served(world))


def the_generation_is_seen_only_when_nothing_is_outstanding(world: World, plan: Plan) -> None:
    seen = status_in(plan).observed_generation
    assert seen in (None, world.daemonset.generation)
    if seen is not None:
        update = (
            actions.CreatePod,
            actions.DeletePod,
            actions.PrepareDelete,
            actions.CancelDelete,
            actions.UpdateInPlace,
            actions.DrainPod,
            actions.RecordRun,
            *CARE,
        )
        before_update = [one for one in plan.actions if not isinstance(one, update)]
        placing = [one for one in creates(plan) if not live(world, one.node)]
        placing_deletes = [
            one
            for one in deletes(plan)
            if one.why
            not in (actions.DeleteReason.OUTDATED, actions.DeleteReason.SURPLUS, actions.DeleteReason.NOT_RESIZED)
        ]
        names = {type(one).__name__ for one in before_update}
        assert world.fresh
        assert names <= {"ProbeTemplate", "DeleteRevision"}
        assert not placing
        assert not placing_deletes


# updates in place: which pods, when, and with what care


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


LAWS: tuple[Law, ...] = (
    one_pod_one_write,
    what_is_updated_in_place_lives_and_can_be,
    what_can_be_updated_in_place_is_not_recreated,
    care_is_taken_of_what_needs_it,
    nothing_is_touched_while_the_caches_are_behind,
    no_more_than_the_burst,
    a_pod_is_deleted_once_and_only_if_it_is_ours_and_lives,
    a_hooked_pod_is_never_deleted,
    what_is_prepared_goes_or_stays_and_never_both,
    a_node_gets_a_pod_only_where_one_should_run_and_one_at_a_time,
    a_node_whose_pods_do_not_last_waits_out_its_back_off,
    a_template_that_no_pod_has_had_is_checked_strictly,
    the_name_of_a_new_pod_is_free,
    the_update_takes_down_no_more_than_max_unavailable,
    the_limits_of_failure_domains_are_kept,
    surging_keeps_its_limit,
    paused_or_on_delete_nothing_is_updated,
    no_node_newly_gets_an_aborted_revision,
    with_too_many_unreachable_nodes_nothing_is_updated,
    what_may_only_stay_goes_when_others_serve,
    with_partitioned_scaling_a_new_node_waits_for_room,
    only_selected_and_reachable_nodes_are_updated,
    the_partition_is_kept,
    a_pod_of_an_older_revision_is_the_one_that_was_promised_and_runs_there,
    an_unavailable_pod_is_not_waited_for,
    creation_goes_up_the_nodes,
    the_alarm_is_not_set_for_the_past,
    the_status_adds_up,
    the_generation_is_seen_only_when_nothing_is_outstanding,
)
