"""`--wait` on verbs that change something: ends as `status -w` does, and with 6 when another change takes over; and
how it says which nodes cannot be reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.beds.simulator.faults import Hang, Rule
from tests.beds.virtual_time import VirtualLoop
from tests.plugin.kept import story
from tests.plugin.playing import Ran
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, rolling, template
from tests.plugin.verbs.few_nodes import KIND, acted, at_half, few_nodes, get_between, patches, stop_serving, stored

NEW = "agent=registry.example.com/agent:2.0.0"
LINE = f"daemonset.apps.kruise.io/{NAME}"


def phase(scene: Scene) -> tuple[str, bool]:
    """Of the record, and whether it is of the newest spec."""
    found = stored(scene)
    status, generation = found["status"], found["metadata"]["generation"]
    return status["rollout"]["phase"], status["observedGeneration"] == generation


@pytest.mark.parametrize(
    ("words", "code", "ends"),
    [
        (("set-image", NEW, "--hold-at", "3"), 0, "Held"),
        (("set-partition", "1"), 0, "Held"),
        (("restart", "-y"), 0, "Held"),
        (("rollback", "-y"), 0, "Healthy"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else str(words),
)
def test_it_ends_when_the_controller_says_that_it_is_done(words: tuple[str, ...], code: int, ends: str) -> None:
    with at_half() as scene:
        scene.nodes.behave("*", PACE)
        ran = acted(scene, *words, "--wait", "--timeout", "1h")
        assert (ran.code, phase(scene)) == (code, (ends, True)), ran.err
    assert ran.out.startswith(LINE)
    assert f"{NAME} {ends} " in ran.out.splitlines()[-1]


ASKING = [("restart",), ("rollback",), ("promote", "--full")]


@pytest.mark.parametrize("words", ASKING, ids=lambda words: words[0])
def test_the_timeout_counts_from_the_answer_to_the_last_question(words: tuple[str, ...]) -> None:
    def typed_after_an_hour() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.freeze(3600.0)
        answered.append(loop.time())
        return "y\n"

    answered: list[float] = []
    with at_half() as scene:
        scene.nodes.behave("*", replace(PACE, ready=None))
        ran = acted(scene, *words, "--wait", "--timeout", "90s", terminal=True, typed=typed_after_an_hour)
        assert (ran.code, len(patches(scene)), len(answered)) == (3, 1, 1), ran.err
        assert scene.ticks() - answered[0] == pytest.approx(90.0, abs=1.0)


def test_another_change_takes_over() -> None:
    async def overtakes(scene: Scene) -> None:
        await scene.until(lambda one: one["spec"]["template"] != template("1.8.0", "debug", certs=False))
        await asyncio.sleep(30.0)
        await scene.edit({"spec": rolling(maxUnavailable=3)})

    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        ran = acted(scene, "set-image", NEW, "--wait", meanwhile=overtakes)
    assert ran.code == 6
    assert f"error: {NAME} was changed by another client meanwhile" in ran.err


def test_what_is_so_already_is_waited_for_as_well() -> None:
    with at_half() as scene:
        ran = acted(scene, "set-partition", "2", "--wait")
        assert (ran.code, patches(scene)) == (0, [])
        assert "Held 2/2 updated" in ran.out


def test_a_document_stays_alone_on_stdout() -> None:
    with at_half() as scene:
        scene.nodes.behave("*", PACE)
        ran = acted(scene, "set-partition", "1", "--wait", "-o", "json")
        assert (ran.code, phase(scene)) == (0, ("Held", True))
    assert json.loads(ran.out)["kind"] == "DaemonSet"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--timeout", "5m"), "--timeout goes with --wait"),
        (("--wait", "--dry-run=server"), "--wait waits for what --dry-run and --print-patch do not do"),
        (("--wait", "--print-patch"), "--wait waits for what --dry-run and --print-patch do not do"),
    ],
)
def test_wrong_usage(scene: Scene, more: tuple[str, ...], words: str) -> None:
    ran = acted(scene, "set-partition", "1", *more)
    assert (ran.code, words in ran.err, patches(scene)) == (2, True, [])


def test_status_waits_for_the_generation_that_another_tool_has_applied() -> None:
    async def applies(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.edit({"spec": {"template": template("2.0.0"), **rolling(partition=3)}})

    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        now = stored(scene)["metadata"]["generation"]
        status = ("status", NAME, "-n", NAMESPACE, "-w", "--generation")
        ran = scene.run(*status, str(now + 1), "--timeout", "10m", meanwhile=applies)
        assert (ran.code, phase(scene)) == (0, ("Held", True))
        assert scene.run(*status, str(now)).code == 6


@pytest.mark.parametrize("image", ["registry.example.com/agent:2.0.0", "agent:2.0.0"])
def test_status_waits_for_the_image_that_another_tool_has_applied(image: str) -> None:
    async def applies(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.edit({"spec": {"template": template("2.0.0"), **rolling(partition=3)}})

    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        status = ("status", NAME, "-n", NAMESPACE, "--image")
        assert scene.run(*status, image, "-w", "--timeout", "3s").code == 3, "Healthy, but on another one"
        assert scene.run(*status, image, "--exit-code").code == 3
        ran = scene.run(*status, image, "-w", "--timeout", "10m", meanwhile=applies)
        assert (ran.code, phase(scene)) == (0, ("Held", True))
        assert scene.run(*status, "agent:1.8.0", "-w", "--timeout", "3s").code == 3, "no longer"


def test_an_image_that_is_taken_back_meanwhile_ends_it_with_6() -> None:
    async def takes_back(scene: Scene) -> None:
        await asyncio.sleep(20.0)
        await scene.edit({"spec": {"template": template("1.8.0", "debug", certs=False)}})

    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        scene.do(scene.edit({"spec": {"template": template("2.0.0")}}))
        words = ("status", NAME, "-n", NAMESPACE, "--image", "agent:2.0.0", "-w", "--timeout", "20m")
        ran = scene.run(*words, meanwhile=takes_back)
    assert ran.code == 6, ran
    assert f"error: {NAME} was changed by another client meanwhile" in ran.err


@pytest.mark.parametrize("done", [True, False])
def test_a_hanging_write_is_given_up_at_the_deadline_and_in_doubt(done: bool) -> None:
    with few_nodes() as scene:
        scene.door.link.faults.add(Rule(Hang(done=done), verb="patch"))
        ran, seconds = timed(scene, "set-image", NEW, "--wait", "--timeout", "3s")
    assert (ran.code, round(seconds, 1)) == (3, 3.5)
    assert ran.err.splitlines() == [
        f"warning: interrupted while {NAME} was written: it may have been done",
        f"  hint: kubectl kruise-ds status {NAME} -n {NAMESPACE}",
        "error: timed out after 3s: the server does not answer",
    ]


def test_after_the_deadline_no_other_one_is_written() -> None:
    with few_nodes("log-agent") as scene:
        scene.door.link.faults.add(Rule(Hang(), verb="patch", name="log-agent"))
        scene.door.link.seen.clear()
        ran = scene.run("restart", "--all", "-y", "--wait", "--timeout", "3s", "-n", NAMESPACE)
        assert [seen.route.name for seen in scene.door.link.writes(KIND)] == ["log-agent"]
    assert (ran.code, ran.err.count("timed out after 3s")) == (3, 2), ran.err


def test_reads_before_a_repeated_write_end_at_the_deadline_too() -> None:
    async def changes(scene: Scene) -> None:
        await scene.edit({"metadata": {"labels": {"x": "y"}}})
        scene.door.link.faults.add(Rule(Hang(), verb="get", resource=KIND))

    with at_half() as scene:
        get_between(scene, lambda: changes(scene))
        ran, seconds = timed(scene, "set-partition", "1", "--wait", "--timeout", "3s")
    assert (ran.code, round(seconds, 1)) == (3, 3.5), ran.err
    assert ran.err == "error: timed out after 3s: the server does not answer\n", "nothing was done"


@pytest.mark.parametrize("seconds", [2.9, 3.4])
def test_after_a_slow_write_it_says_how_far_it_is(seconds: float) -> None:
    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        scene.door.link.faults.add(Rule(Hang(seconds), verb="patch"))
        scene.door.link.faults.add(Rule(Hang(1.0), verb="list", resource="nodes", nth=(2,)))
        ran = acted(scene, "set-image", NEW, "--wait", "--timeout", "3s")
    assert ran.code == 3
    assert ran.err == f"error: timed out after 3s: {LINE} is at 0 of 4 nodes (Pending)\n"


def timed(scene: Scene, *words: str) -> tuple[Ran, float]:
    """And the seconds that it took."""
    began = scene.now()
    return acted(scene, *words), scene.now() - began


WHY = "waits for 1 unreachable node: a-04"


@story
def tolerant(scene: Scene, /, partition: int) -> None:
    """Revision 2, which tolerates everything, and a-04 cannot be reached since 10 minutes."""
    few_nodes.play(scene)
    made = template("1.9.0")
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    scene.do(scene.edit({"spec": {"template": made, **rolling(partition=partition)}}))
    scene.pass_time(600.0)
    scene.do(scene.nodes.lose("a-04"))
    scene.pass_time(600.0)


@pytest.mark.parametrize(
    "words",
    [("set-image", "agent=registry.example.com/agent:2.0.0", "--hold-at", "3", "-y"), ("set-partition", "3")],
    ids=lambda words: str(words[0]),
)
def test_a_change_waits_and_says_for_which_nodes(words: Sequence[str]) -> None:
    with tolerant(4) as scene:
        ran = acted(scene, *words, "--wait", "--timeout", "20m")
    assert (ran.code, ran.err.rstrip().endswith(WHY)) == (3, True), ran.err
    *before, _ = (ran.out + ran.err).splitlines()
    assert WHY in before[-1], "the last line before the end says it too"


def test_after_the_rollout_it_says_so_too() -> None:
    with tolerant(0) as scene:
        scene.do(stop_serving(scene, "a-04"))
        ran = acted(scene, "status", "-w", "--timeout", "20m")
    assert (ran.code, ran.err.endswith("is at 3 of 4 nodes (Degraded), waiting for a-04\n")) == (3, True), ran.err
    assert "Degraded 3/4 updated: waiting for a-04 (no change for " in ran.out.splitlines()[-1]


def test_a_pod_has_time_to_get_ready_when_its_node_is_back() -> None:
    """The node was away for longer than the deadline, and so the rollout was Degraded for longer."""

    async def comes_back(scene: Scene) -> None:
        await asyncio.sleep(1200.0)
        await scene.nodes.regain("a-04", replace(PACE, ready=None))
        await asyncio.sleep(60.0)
        await scene.nodes.ready(await scene.pod_on("a-04"))

    with tolerant(0) as scene:
        scene.do(stop_serving(scene, "a-04"))
        ran = acted(scene, "status", "-w", "--timeout", "1h", meanwhile=comes_back)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("timeout", ["1h", "0"])
def test_it_ends_well_when_the_node_is_back(timeout: str) -> None:
    async def comes_back(scene: Scene) -> None:
        await asyncio.sleep(1800.0)
        await scene.nodes.regain("a-04")

    with tolerant(4) as scene:
        ran = acted(scene, "set-partition", "3", "--wait", "--timeout", timeout, meanwhile=comes_back)
    assert ran.code == 0, ran.err
