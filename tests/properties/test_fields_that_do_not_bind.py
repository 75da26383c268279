"""Progressive fields that cannot bind anything change no decision: the order of all nodes is the same, the only step
allows all, no domain and no share of failing nodes can be too large, and a check passes at every moment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import Check, OnFailure, OrderRule, RolloutStep, Topology, UnreachableNodes
from controller.planner.actions import Action, DeleteRevision
from controller.planner.checks import CheckResult
from controller.planner.plan import Plan, plan
from controller.planner.validation import compiled
from controller.planner.world import World
from tests.beds.forecasts import forecast
from tests.beds.random_worlds import worlds
from tests.beds.worlds import NOW, picture, status_in
from tests.properties.planner_facts import rolling
from tests.properties.size import every_day

NONE: dict[str, Any] = {
    "order": (),
    "steps": (),
    "topology": None,
    "unreachable_nodes": None,
    "on_failure": None,
    "checks": (),
}
FIELDS: dict[str, Any] = {
    "order": (OrderRule(group_by="no-such-label"), OrderRule(match_labels={"no-such-label": "x"})),
    "steps": (RolloutStep(),),
    "topology": Topology(key="pool", max_unavailable="100%", max_domains=99),
    "unreachable_nodes": UnreachableNodes(leave_out=0),
    "on_failure": OnFailure(unavailable_nodes="100%", after="720h", restarts=99),
    "checks": (Check(name="errors", query="errors > 0"),),
}


def with_fields(world: World, fields: dict[str, Any]) -> World:
    daemonset = world.daemonset
    if daemonset.rolling_update is None:
        return world
    rolling = replace(daemonset.rolling_update, **{**NONE, **fields})
    strategy = replace(daemonset.spec.update_strategy, rolling_update=rolling)
    daemonset = replace(daemonset, spec=replace(daemonset.spec, update_strategy=strategy))
    return replace(world, daemonset=daemonset, rules=compiled(daemonset))


def _without_trims(decided: Plan) -> tuple[Action, ...]:
    return tuple(one for one in decided.actions if not isinstance(one, DeleteRevision))


@every_day(200)
@given(world=st.one_of(worlds(), worlds(in_place=True)), names=st.sets(st.sampled_from([*FIELDS]), min_size=1))
def test_every_decision_is_the_one_without_them(world: World, names: set[str]) -> None:
    world = replace(world, check_results={"errors": CheckResult(sent_at=world.now + 2)})
    without = plan(with_fields(world, {}))
    decided = plan(with_fields(world, {name: FIELDS[name] for name in names}))
    note(f"{names}\n{picture(world, without)}")
    if "steps" in names:  # they may keep nodes old, so older revisions are kept
        without = replace(without, actions=_without_trims(without))
        decided = replace(decided, actions=_without_trims(decided))
    assert (decided.actions, decided.notes) == (without.actions, without.notes)
    assert (decided.more, decided.again, decided.withheld) == (without.more, without.again, without.withheld)
    assert status_in(decided).counts == status_in(without).counts
    if not rolling(world).paused:  # a pause also holds the steps
        assert status_in(decided).rollout.phase == status_in(without).rollout.phase


@every_day(100)
@given(start=worlds(healthy=True), names=st.sets(st.sampled_from([*FIELDS]), min_size=1))
def test_so_is_the_whole_forecast(start: World, names: set[str]) -> None:
    without = forecast(with_fields(start, {}))
    found = forecast(with_fields(start, {name: FIELDS[name] for name in names}))
    note(f"{names}\n{picture(start, plan(with_fields(start, {})))}")
    assert [wave.moves for wave in found.waves] == [wave.moves for wave in without.waves]
    assert found.phase == without.phase


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
@every_day(100)
@given(start=worlds(healthy=True))
def test_on_failure_foretells_what_happens_without_it_while_nothing_fails(action: str, start: World) -> None:
    """Pods that are not ready have just become so."""
    start = replace(start, pods=tuple(replace(one, unready_since=None if one.ready else NOW) for one in start.pods))
    strict = OnFailure(unavailable_nodes=1, restarts=1, action=action)
    without, found = forecast(with_fields(start, {})), forecast(with_fields(start, {"on_failure": strict}))
    note(f"{found.end.abort}\n{picture(start, plan(with_fields(start, {})))}")
    assert [wave.moves for wave in found.waves] == [wave.moves for wave in without.waves]
