"""Who else has a hand in the object: writes that come between ours, GitOps, and a controller that is not there."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, Object
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import abandoned
from tests.plugin.verbs.few_nodes import (
    KIND,
    LAST_ACTION,
    PAUSED,
    acted,
    ends_it,
    few_nodes,
    get_between,
    patches,
    paused_ones,
    rolling_of,
    signalled,
    stored,
)

# who else writes


def test_a_status_that_was_written_meanwhile_is_no_conflict(scene: Scene) -> None:
    status = {"status": {"numberReady": 3}}
    get_between(
        scene, lambda: scene.api.patch(DAEMONSETS, "node-agent", status, sub="status", content_type=MERGE_PATCH)
    )
    assert acted(scene, "pause", "-q") == Ran(0, PAUSED, "")
    assert len(patches(scene)) == 2
    assert paused_ones(scene) == ["node-agent"]


def test_an_annotation_that_was_made_meanwhile_stays(scene: Scene) -> None:
    """There was none when we looked: our own must not bring all of them anew."""
    change = {"metadata": {"annotations": {"team": "agents"}}}
    get_between(scene, lambda: scene.edit(change))
    acted(scene, "pause")
    annotations = stored(scene)["metadata"]["annotations"]
    assert annotations["team"] == "agents"
    assert LAST_ACTION in annotations


def test_thirty_attempts_are_enough_or_it_is_said_so(scene: Scene) -> None:
    turn = iter(range(40))
    get_between(scene, lambda: scene.edit({"metadata": {"labels": {"turn": str(next(turn))}}}), times=30)
    ran = acted(scene, "pause")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("Error from server (Conflict): ")
    assert "hint: run the command again" in ran.err
    assert len(patches(scene)) == 30
    assert paused_ones(scene) == []


IMAGE = {"containers": [{"name": "agent", "image": "registry.example.com/agent:1.9.1"}]}


@pytest.mark.parametrize(
    ("spec", "now"),
    [
        ({"template": {"spec": IMAGE}}, "revision 2, image agent:1.9.1"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 3}}}, "partition 3, 1 of 4 new"),
        ({"updateStrategy": {"rollingUpdate": {"paused": True}}}, "paused"),
        ({"minReadySeconds": 7}, "generation 2"),
    ],
    ids=["template", "partition", "paused", "else"],
)
def test_a_spec_that_was_changed_meanwhile_is_not_overwritten(scene: Scene, spec: Object, now: str) -> None:
    get_between(scene, lambda: scene.edit({"spec": spec}))
    ran = acted(scene, "set-partition", "1")
    assert ran == Ran(
        6,
        "",
        f"error: node-agent changed while you were looking (now {now})\n"
        "  hint: run the command again to see the new plan\n",
    )
    assert len(patches(scene)) == 1
    assert "annotations" not in stored(scene)["metadata"]


def test_for_another_object_of_the_same_name(scene: Scene) -> None:
    async def replace() -> None:
        body = await scene.api.get(DAEMONSETS, "node-agent")
        await scene.api.delete(DAEMONSETS, "node-agent")
        await scene.api.create(DAEMONSETS, {"metadata": {"name": "node-agent"}, "spec": body["spec"]})

    get_between(scene, replace)
    ran = acted(scene, "pause")
    assert ran.err.startswith("error: node-agent changed while you were looking (now another object of that name)\n")
    assert ran.code == 6
    assert paused_ones(scene) == []


@pytest.mark.parametrize(
    ("verb", "resource", "effect"),
    [
        ("list", "controllerrevisions*", Answer(500)),
        ("list", "controllerrevisions*", Hang()),
        ("get", KIND, Answer(404, "NotFound")),
    ],
    ids=["revisions fail", "revisions hang", "it is gone by now"],
)
def test_comes_though_the_words_for_it_cannot_be_read(scene: Scene, verb: str, resource: str, effect: Effect) -> None:
    async def changes() -> None:
        await scene.edit({"spec": {"template": {"spec": IMAGE}}})
        number = {"get": (2,)}.get(verb, ())  # the first one tells that it is another one
        scene.door.link.faults.add(Rule(effect, verb=verb, resource=resource, nth=number))

    get_between(scene, changes)
    began = scene.now()
    ran = acted(scene, "set-partition", "1")
    assert ran == Ran(
        6,
        "",
        "error: node-agent changed while you were looking (now generation 2)\n"
        "  hint: run the command again to see the new plan\n",
    )
    assert scene.now() - began < 2.0


# what is worth a warning


def test_another_controller_owns_it(scene: Scene) -> None:
    tracked = {"argocd.argoproj.io/tracking-id": "agents:apps.kruise.io/DaemonSet:observability/x"}
    scene.do(scene.edit({"metadata": {"annotations": tracked}}))
    words = 'Argo CD app "agents" (self-heal may revert this); change it in Git as well'
    assert acted(scene, "pause", "-q") == Ran(0, PAUSED, f"warning: node-agent is managed by {words}\n")
    assert acted(scene, "pause").err == "", "nothing is written, so nothing can be reverted"


def test_no_controller_is_active() -> None:
    with abandoned() as scene:
        ran = acted(scene, "pause", "-q")
    assert ran == Ran(
        0,
        PAUSED,
        "warning: patched, but no controller is active: "
        "lease kruise-ds-system/kruise-ds-controller was last renewed 14m ago\n",
    )


@pytest.mark.parametrize("done", [True, False])
@ends_it
def test_ending_a_write_says_that_it_may_have_been_done(done: bool, number: signal.Signals, code: int) -> None:
    with few_nodes() as scene:
        scene.door.link.faults.add(Rule(Hang(done=done), verb="patch"))
        ran = acted(scene, "pause", meanwhile=signalled(number, 1.0))
        assert rolling_of(stored(scene)).get("paused", False) is done
    assert (ran.code, ran.out) == (code, "")
    assert "warning: interrupted while node-agent was written: it may have been done\n" in ran.err


def test_ending_a_dry_run_says_nothing(scene: Scene) -> None:
    async def interrupts(_: Scene) -> None:
        await asyncio.sleep(1.0)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "it ends the process at once"
        signal.raise_signal(signal.SIGINT)

    scene.door.link.faults.add(Rule(Hang(), verb="patch"))
    assert acted(scene, "pause", "--dry-run=server", meanwhile=interrupts) == Ran(130, "", "")
