"""Checks of the steps of a rollout, judged by what is written to the API server while Prometheus answers, or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import both, layout, wave
from tests.beds.objects import V2, condition, image_of
from tests.beds.prometheus.played import Played
from tests.system.test_progressive_rollouts import SOAK, deployed, say

STEPS = [{"nodes": 1, "soak": "10m"}, {"nodes": "50%", "soak": "30m"}, {"nodes": "100%"}]
CHECK = {"name": "errors", "query": 'errors{namespace="$namespace", name="$name", rev="$revision", pod=~"$pods"} > 0'}


async def begun(bed: Bed, **rolling: Any) -> Played:
    """v1 is stable, and v2 is wanted."""
    bed.patience = 86_400.0
    played = Played()
    await bed.controller.stop()
    bed.controller.prometheus = played.prometheus
    bed.controller.start()
    await deployed(bed, **{"maxUnavailable": 6, "steps": STEPS, "checks": [CHECK], **rolling})
    await bed.idle(60)
    assert played.asked == [], "a check is evaluated while no step is open"
    await bed.set_image(V2)
    return played


async def soaking(bed: Bed, **rolling: Any) -> Played:
    played = await begun(bed, **rolling)
    await wave(bed, both(5))
    assert (await bed.phase("Soaking"))["step"] == 1
    return played


def now() -> float:
    return asyncio.get_running_loop().time()


async def recorded(bed: Bed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await bed.daemonset())["status"]["rollout"].get("checks", [])
    return found


async def first_deletion(bed: Bed) -> float:
    bed.journal.clear()
    while not bed.journal.deleted:
        await bed.journal.news(bed.patience)
    return now()


async def test_a_walk_with_a_check_that_passes(bed: Bed) -> None:
    began = now()
    played = await soaking(bed)
    found = await bed.daemonset()
    (pod,) = [one["metadata"]["name"] for one in await bed.api.list(PODS) if image_of(one) == V2]
    namespace, revision = found["metadata"]["namespace"], found["status"]["updateRevision"]
    await bed.idle(60)
    assert (
        played.asked[-1][1]
        == f'errors{{namespace="{namespace}", name="agent", rev="{revision}", pod=~"(?:{pod})"}} > 0'
    )
    assert 2 <= len(played.asked) <= 5
    reached = now()
    assert SOAK - 65 <= await first_deletion(bed) - reached < SOAK + 5
    await bed.phase("Healthy")
    asked, ended = len(played.asked), now()
    assert asked <= (ended - began) / 30 + 10
    await bed.idle(600)
    assert len(played.asked) == asked


async def test_a_step_begins_no_sooner_than_a_check_has_an_answer(bed: Bed) -> None:
    played = await begun(bed)
    played.is_dead = True
    await wave(bed, "")
    reason = await bed.condition("Progressing", "CheckUnanswered")
    assert "check errors has no answer: Prometheus cannot be asked: prometheus:9090: " in reason["message"]
    await bed.idle(1200)
    assert condition(await bed.daemonset(), "Stalled")["status"] == "False"
    writes = len(bed.journal.writes)
    await bed.idle(600)
    assert len(bed.journal.writes) == writes, "something is written again and again"
    played.is_dead = False
    await wave(bed, both(5))


async def test_a_check_that_fails_stops_the_walk_and_begins_the_soak_anew(bed: Bed) -> None:
    played = await soaking(bed)
    await bed.idle(300)
    played.fails()
    (reason, since) = (await bed.condition("Progressing", "CheckFailing"), now())
    assert 'check errors fails: {pod="agent-x"} 12' in reason["message"]
    await bed.event("CheckFailing", "check errors fails")
    record = (await bed.daemonset())["status"]["rollout"]
    assert "stepReachedTime" not in record
    assert [(one["name"], one["state"]) for one in record["checks"]] == [("errors", "Failing")]
    await bed.idle(1200)
    assert now() - since > 1200
    assert await layout(bed) == "v1 v1 v1 v1 v1 v2"
    played.passes()
    await bed.phase("Soaking")
    passed = now()
    assert SOAK - 2 <= await first_deletion(bed) - passed < SOAK + 5
    assert await recorded(bed) == []


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_check_that_fails_for_long_aborts(bed: Bed, action: str, restarts: bool) -> None:
    played = await soaking(bed, onFailure={"after": "5m", "action": action})
    await bed.idle(100)
    played.fails()
    await bed.condition("Progressing", "CheckFailing")
    since = now()
    if restarts:
        await bed.idle(150)
        await bed.controller.kill()
        bed.controller.start()
    await bed.phase("Aborted")
    assert 298 <= now() - since < 335
    found = condition(await bed.daemonset(), "Stalled")
    assert 'check errors fails for longer than 5m: {pod="agent-x"} 12' in found["message"]
    await bed.idle(60)
    assert await layout(bed) == ("v1 v1 v1 v1 v1 v1" if action == "RollBack" else "v1 v1 v1 v1 v1 v2")
    asked = len(played.asked)
    await bed.idle(600)
    assert len(played.asked) == asked
    assert await recorded(bed) == []


@pytest.mark.parametrize("how", ["dead", "silent"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_prometheus_that_dies_stops_the_walk_and_aborts_nothing(bed: Bed, how: str, restarts: bool) -> None:
    played = await soaking(bed, onFailure={"after": "1m"})
    await bed.idle(100)
    played.is_dead, played.is_silent = how == "dead", how == "silent"
    await bed.condition("Progressing", "CheckUnanswered")
    bed.journal.clear()
    await bed.idle(3600)
    if restarts:
        await bed.controller.kill()
        bed.controller.start()
        await bed.idle(600)
    assert await layout(bed) == "v1 v1 v1 v1 v1 v2"
    assert (await bed.phase("Soaking"))["step"] == 1
    assert len(bed.journal.writes) <= 2 + 4 * restarts
    played.is_dead = played.is_silent = False
    back = now()
    assert await first_deletion(bed) - back < 45


async def test_without_a_server_checks_have_no_answer(bed: Bed) -> None:
    played = await soaking(bed)
    await bed.controller.stop()
    bed.controller.prometheus = None
    bed.controller.start()
    await bed.condition("Progressing", "CheckUnanswered")
    assert "the controller has no --prometheus-url" in (await recorded(bed))[0]["message"]
    await bed.idle(3600)
    assert await layout(bed) == "v1 v1 v1 v1 v1 v2"
    await say(bed, skip_steps=(await bed.daemonset())["status"]["updateRevision"])
    await wave(bed, both(4, 3, 2, 1, 0))
    await bed.phase("Healthy")
    assert await recorded(bed) == []
    assert played.asked


async def test_an_approval_does_not_override_a_check_that_fails(bed: Bed) -> None:
    steps = [{"nodes": 1, "approval": "Required"}, {"nodes": "100%"}]
    played = await begun(bed, steps=steps)
    await wave(bed, both(5))
    await bed.phase("AwaitingApproval")
    revision = (await bed.daemonset())["status"]["updateRevision"]
    played.fails()
    await bed.condition("Progressing", "CheckFailing")
    await say(bed, approve=f"{revision}/1")
    await bed.idle(600)
    assert await layout(bed) == "v1 v1 v1 v1 v1 v2"
    played.passes()
    await wave(bed, both(4, 3, 2, 1, 0))


MOMENTS = (2, 4, 5, 6, 7, 9)
"""So many writes of a walk are done; tried once with each number up to 14."""


async def struck(bed: Bed, what: str, writes: int) -> None:
    """What happens to the controller, or to the status, once it has made so many writes."""
    while len(bed.journal.work) < writes:
        assert await bed.journal.news(bed.patience), str(bed.journal)
    if "kill" in what:
        await bed.controller.kill()
    if "status" in what:
        await bed.api.patch(DAEMONSETS, "agent", [{"op": "remove", "path": "/status"}], sub="status")
    if "kill" in what:
        await asyncio.sleep(40)
        bed.controller.start()


@pytest.mark.parametrize("writes", MOMENTS)
@pytest.mark.parametrize("what", ["kill", "status", "kill status"])
async def test_a_walk_that_is_cut_off_takes_no_node_without_an_answer(bed: Bed, what: str, writes: int) -> None:
    played = await begun(bed, steps=[{"nodes": 2, "soak": "10m"}, {"nodes": "100%"}], maxUnavailable=2)
    await struck(bed, what, writes)
    while len(bed.journal.deleted) < 6:
        assert await bed.journal.news(bed.patience), str(bed.journal)
    moments = [write.began for write in bed.journal.of("pods", "delete")]
    for moment in moments:
        assert any(moment - 70 <= asked <= moment for asked, _ in played.asked), "it was taken without an answer"
    assert moments[2] - moments[1] >= SOAK
    await bed.phase("Healthy")
    assert await layout(bed) == "v2 v2 v2 v2 v2 v2"
    assert await recorded(bed) == []


@pytest.mark.parametrize("writes", MOMENTS)
@pytest.mark.parametrize("what", ["kill", "status", "kill status"])
async def test_a_bad_version_goes_back_whenever_the_walk_is_cut_off(bed: Bed, what: str, writes: int) -> None:
    """The check fails as soon as one node has the new version."""
    played = await begun(bed, onFailure={"after": "5m", "action": "RollBack"})

    def bad(query: str) -> bool:
        return 'pod=~"-"' not in query

    played.fails_if = bad
    await struck(bed, what, writes)
    await bed.phase("Aborted")
    await bed.idle(60)
    lost = "status" in what  # with the revision to go back to
    assert await layout(bed) == ("v1 v1 v1 v1 v1 v2" if lost else "v1 v1 v1 v1 v1 v1")
    failing = next(at for at, query in played.asked if bad(query))
    aborted = next(one.began for one in bed.journal.statuses if "abortedRevision" in str(one.body))
    assert aborted - failing >= 300 - 1
    assert aborted - failing < 300 + (400 if lost else 130)
    assert bed.journal.deleted == ["node-5"] * (1 if lost else 2)


async def test_another_try_counts_failures_from_its_beginning(bed: Bed) -> None:
    played = await soaking(bed, onFailure={"after": "5m"})
    revision = (await bed.daemonset())["status"]["updateRevision"]
    played.fails()
    await bed.phase("Aborted")
    await bed.idle(3600)
    await say(bed, retry=revision)
    await bed.phase("Progressing")
    again = now()
    await bed.phase("Aborted")
    assert now() - again >= 300 - 1
    played.passes()
    await say(bed, retry=f"{revision}/2")
    await wave(bed, both(4, 3))
    await bed.phase("Healthy")
