"""`pull`: a job for some nodes, how it goes there, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import msgspec
import pytest
import yaml

from controller.settings import FeatureGates
from tests.beds.api import IMAGE_PULL_JOBS, Object
from tests.beds.nodes.stages import Behaviour
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Hang, Rule
from tests.beds.simulator.refusal import Refused
from tests.plugin.kept import story
from tests.plugin.scene import NAMESPACE, Ran, Scene, join
from tests.plugin.verbs.few_nodes import ends_it, signalled

KIND = "imagepulljobs.apps.kruise.io"
NODES = ("a-01", "a-02", "b-01", "b-02")
IMAGE = "registry.example.com/agent:v2"
DENIED = "401 Unauthorized"


@story
def ready(scene: Scene) -> None:
    """A controller that pulls, and four nodes; a pull takes twenty seconds."""
    scene.do(scene.controller.stop())
    scene.controller.start(msgspec.structs.replace(scene.controller.settings, gates=FeatureGates(pre_download=True)))
    scene.do(join(scene, NODES))
    scene.nodes.behave("*", Behaviour(pull=20.0))


def refuses(scene: Scene, *nodes: str) -> None:
    """The registry does so there."""
    for node in nodes:
        scene.nodes.behave(node, Behaviour(missing_images=("*",), registry=DENIED))


def pull(scene: Scene, *words: str, **options: Any) -> Ran:
    return scene.run("pull", IMAGE, *words, "-n", NAMESPACE, **options)


def jobs(scene: Scene) -> list[Object]:
    return scene.do(scene.api.list(IMAGE_PULL_JOBS))


def test_it_ends_when_all_nodes_have_the_image() -> None:
    with ready() as scene:
        assert scene.check("pull/done", "pull", IMAGE, "-n", NAMESPACE).code == 0


def test_a_node_where_it_fails_is_reported_in_the_registrys_words() -> None:
    with ready() as scene:
        refuses(scene, "a-02", "b-01")
        ran = scene.check("pull/failed", "pull", IMAGE, "--parallelism", "4", "-n", NAMESPACE)
    assert ran.code == 4
    assert f'failed on a-02, b-01: ErrImagePull: Failed to pull image "{IMAGE}": {DENIED}' in ran.out


def test_on_a_terminal_the_block_ends_with_the_count() -> None:
    with ready() as scene:
        refuses(scene, "a-02")
        ran = pull(scene, terminal=True)
    shown = ran.out.rpartition("\x1b[?25h")
    assert "image there on 3 of 4 nodes, failed on 1" in shown[0]
    assert shown[2].startswith("  failed on a-02: ErrImagePull")


def test_where_no_node_matches_no_job_is_made() -> None:
    with ready() as scene:
        ran = pull(scene, "-l", "pool=gpu")
        assert (ran.code, jobs(scene)) == (1, [])
    assert ran.err == "error: there is no node with labels pool=gpu: nothing to pull for\n"


@pytest.mark.parametrize(
    "words",
    [("-l", "!pool=x"), ("-l", ""), ("-l", " "), ("--parallelism", "many"), ("--timeout", "soon"), ("-o", "wide")],
)
def test_wrong_usage(words: tuple[str, ...]) -> None:
    with ready() as scene:
        assert (pull(scene, *words).code, jobs(scene)) == (2, [])


def test_nodes_that_have_the_image_are_not_asked_again() -> None:
    with ready() as scene:
        scene.nodes.behave("*", Behaviour(pull=0.0))
        assert pull(scene, "--parallelism", "100%").code == 0
        ran = pull(scene, "--parallelism", "100%")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "image there on 4 of 4 nodes")


def test_the_time_is_over_and_the_job_goes_on() -> None:
    with ready() as scene:
        ran = pull(scene, "--timeout", "30s")
        assert ran.code == 3
        (job,) = jobs(scene)
        name = job["metadata"]["name"]
        assert (
            f"timed out after 30s: image there on 1 of 4 nodes, pulling on 1; imagepulljob.{KIND[14:]}/{name}"
            in ran.err
        )
        assert f"hint: end it: kubectl delete imagepulljob {name} -n {NAMESPACE}" in ran.err
        scene.pass_time(120.0)
        assert jobs(scene)[0]["status"]["succeeded"] == 4


@pytest.mark.parametrize("done", [True, False])
def test_the_time_is_over_while_it_is_made(done: bool) -> None:
    with ready() as scene:
        scene.door.link.faults.add(Rule(Hang(done=done), verb="create", resource=KIND))
        began = scene.now()
        ran = pull(scene, "--timeout", "3s")
        assert (ran.code, ran.out, scene.now() - began < 5.0) == (3, "", True)
        assert len(jobs(scene)) == done
    assert ran.err.startswith("warning: interrupted while ImagePullJob pull-agent-v2-")
    assert " was made: it may have been done\n" in ran.err


@pytest.mark.parametrize("terminal", [False, True], ids=["in a pipe", "on a terminal"])
def test_the_status_says_why_no_puller_is_created(terminal: bool) -> None:
    def admit(attempt: Attempt) -> None:
        if (attempt.kind.plural, attempt.verb) == ("pods", "create"):
            raise Refused(403, "Forbidden", f'pods "{attempt.name}" is forbidden: exceeded quota: pods')

    with ready() as scene:
        scene.cluster.admission.append(admit)
        ran = pull(scene, "--timeout", "5m", terminal=terminal)
    assert ran.code == 3
    assert "exceeded quota: pods; imagepulljob" in ran.err
    assert ("(create pods in" in ran.out) if terminal else ("exceeded quota: pods; retrying" in ran.err)


@ends_it
def test_ending_it_leaves_the_job_and_says_how_to_end_that(number: signal.Signals, code: int) -> None:
    with ready() as scene:
        ran = pull(scene, meanwhile=signalled(number, 10.0))
        assert ran.code == code
        (job,) = jobs(scene)
    name = job["metadata"]["name"]
    assert f"warning: interrupted: imagepulljob.apps.kruise.io/{name} goes on\n" in ran.err
    assert f"kubectl delete imagepulljob {name}" in ran.err


@pytest.mark.parametrize("done", [True, False])
@ends_it
def test_ending_it_while_it_is_made_says_that_it_may_be_there(done: bool, number: signal.Signals, code: int) -> None:
    with ready() as scene:
        scene.door.link.faults.add(Rule(Hang(done=done), verb="create", resource=KIND))
        ran = pull(scene, meanwhile=signalled(number, 10.0))
        assert (ran.code, len(jobs(scene))) == (code, int(done))
    assert "was made: it may have been done\n" in ran.err


def test_a_job_that_another_client_deletes() -> None:
    async def deletes(scene: Scene) -> None:
        await asyncio.sleep(10.0)
        (job,) = await scene.api.list(IMAGE_PULL_JOBS)
        await scene.api.delete(IMAGE_PULL_JOBS, job["metadata"]["name"])

    with ready() as scene:
        ran = pull(scene, meanwhile=deletes)
    assert (ran.code, ran.err.endswith(" was deleted\n")) == (1, True)


@pytest.mark.parametrize("gone", [False, True], ids=["gate is off", "no controller"])
def test_where_no_controller_carries_it_out(gone: bool) -> None:
    with ready() as scene:
        scene.do(scene.controller.stop())
        if not gone:
            scene.controller.start(msgspec.structs.replace(scene.controller.settings, gates=FeatureGates()))
        else:
            scene.pass_time(90.0)
        ran = pull(scene, "--timeout", "1h")
    assert ran.code == 4
    assert (
        "no controller is active" if gone else "is its feature gate PreDownloadImageForDaemonSetUpdate on?"
    ) in ran.err
    assert "nothing happens to imagepulljob.apps.kruise.io/pull-agent-v2-" in ran.err


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_a_dry_run_makes_nothing(dry_run: str) -> None:
    with ready() as scene:
        ran = pull(scene, f"--dry-run={dry_run}", "-l", "kubernetes.io/arch=amd64", "-o", "yaml")
        assert (ran.code, jobs(scene)) == (0, [])
        assert yaml.safe_load(ran.out)["spec"]["selector"] == {"matchLabels": {"kubernetes.io/arch": "amd64"}}
        line = pull(scene, f"--dry-run={dry_run}").out
    assert line.endswith(f" created ({'server ' if dry_run == 'server' else ''}dry run)\n")


@pytest.mark.parametrize("output", ["json", "name"])
def test_a_document_stays_alone_on_stdout_and_the_code_tells_the_end(output: str) -> None:
    with ready() as scene:
        refuses(scene, "a-02")
        ran = pull(scene, "-o", output)
    name = json.loads(ran.out)["metadata"]["name"] if output == "json" else ran.out.strip().partition("/")[2]
    assert (ran.code, name.startswith("pull-agent-v2-"), ran.out.count("\n") > 1) == (4, True, output == "json")
    assert ran.err == f"error: {IMAGE} could not be pulled on 1 of 4 nodes\n"


def test_the_job_may_be_left_alone() -> None:
    with ready() as scene:
        ran = pull(scene, "--no-wait", "--pull-secret", "key")
        (job,) = jobs(scene)
    assert (ran.code, job["spec"]["pullSecrets"]) == (0, ["key"])
    assert ran.out == f"imagepulljob.apps.kruise.io/{job['metadata']['name']} created\n"


def test_where_the_kind_is_missing_it_is_said_what_brings_it() -> None:
    with ready() as scene:
        scene.door.link.faults.add(Rule(Answer(404, message="404 page not found"), resource=KIND))
        ran = pull(scene)
    assert ran.code == 1
    assert ran.err.startswith(f"error: this cluster has no {KIND} (")
    assert "hint: manifests/components/image-pull brings them" in ran.err


def test_without_the_right_to_make_one() -> None:
    with ready() as scene:
        scene.door.forbid("create", KIND)
        ran = pull(scene)
    assert (ran.code, ran.out) == (1, "")
    assert f'cannot create resource "{KIND}"' in ran.err


@pytest.mark.parametrize(
    ("verb", "resource"), [("list", "nodes"), ("list", "pods"), ("watch", "pods"), ("watch", KIND)]
)
def test_with_fewer_rights_less_is_shown_and_it_ends_as_it_does(verb: str, resource: str) -> None:
    with ready() as scene:
        refuses(scene, "a-02")
        scene.door.forbid(verb, resource)
        ran = pull(scene)
    assert ran.code == 4
    assert "image there on 3 of 4 nodes, failed on 1\n  failed on a-02: ErrImagePull" in ran.out
    assert ("without the right to list nodes" in ran.err) is (resource == "nodes")
