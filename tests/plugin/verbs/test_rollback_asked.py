"""Before a rollback: who is asked, who need not be, and whose pause is lifted."""

from __future__ import annotations

import copy
import subprocess

import msgspec
import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.manifests import MANIFESTS
from tests.plugin.scene import NAME, NAMESPACE, canary, daemonset, held, paused, rolling, template
from tests.plugin.verbs.rolling_back import live, rollback, written


@pytest.mark.parametrize("way", ["client", "server"])
def test_a_dry_run_tells_all_and_changes_nothing(way: str) -> None:
    with canary() as scene:
        before = live(scene)
        ran = rollback(scene, f"--dry-run={way}", "-o", "json")
        shown = msgspec.json.decode(ran.out)
        assert (ran.code, ran.err) == (0, "")
        assert shown["spec"]["template"] == template("1.8.4")
        assert shown["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0
        assert live(scene) == before
        assert not written(scene)


def test_at_a_terminal_no_is_the_default_answer() -> None:
    with canary() as scene:
        ran = rollback(scene, terminal=True, typed="\n")
        assert ran.code == 6
        assert ran.out == ""
        assert ran.err.endswith("Continue? [y/N] nothing was changed\n")
        assert not written(scene)


def test_at_a_terminal_yes_does_it_and_tells_it_in_one_line() -> None:
    with canary() as scene:
        ran = rollback(scene, terminal=True, typed="y\n")
        assert ran.code == 0
        assert ran.out == "daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 8)\n"
        assert len(written(scene)) == 1


def test_several_go_ahead_only_with_yes() -> None:
    with canary() as scene:
        other = copy.deepcopy(daemonset())
        other["metadata"] = {"name": "other"}
        other["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        other["spec"]["template"]["metadata"] = {"labels": {"app": "other"}}
        scene.do(scene.api.create(DAEMONSETS, other))
        ran = scene.run("rollback", "--all", "-n", NAMESPACE)
        assert ran.code == 6
        assert not written(scene)
        ran = scene.run("rollback", "--all", "-n", NAMESPACE, "--yes", "-q")
        assert ran.code == 1
        assert ran.out == "daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 8)\n"
        assert ran.err == "error: other has only revision 1; there is no earlier revision\n"


def test_the_question_and_what_is_printed_without_one() -> None:
    with canary() as scene:
        scene.check("rollback/question", "rollback", NAME, "-n", NAMESPACE, terminal=True, typed="y\n")
    with canary() as scene:
        scene.check("rollback/told", "undo", NAME, "-n", NAMESPACE, "-y")


def test_the_pause_of_another_person_is_not_lifted_where_nobody_is_asked() -> None:
    with paused() as scene:
        scene.door.user = "pipeline"
        refused = rollback(scene)
        assert (refused.code, written(scene)) == (6, [])
        assert 'node-agent is paused by alice@example.com: "CVE triage"; a rollback would lift that' in refused.err
        assert rollback(scene, "--dry-run=server") == refused
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
        assert rollback(scene, "--lift-pause").code == 0
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is False


def test_neither_is_one_that_nobody_noted_nor_any_by_somebody_unknown() -> None:
    with held() as scene:
        scene.do(scene.edit({"spec": rolling(paused=True)}))
        assert rollback(scene).code == 6
    with paused() as scene:
        scene.door.user = ""
        assert rollback(scene).code == 6
        assert written(scene) == []


def test_two_without_a_user_name_are_not_the_same_person() -> None:
    """A server before 1.28 gives no user name, neither for the pause nor for the rollback."""
    with canary() as scene:
        scene.door.user = ""
        assert scene.run("pause", NAME, "-n", NAMESPACE).code == 0
        refused = rollback(scene)
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
    assert refused.code == 6
    assert "node-agent is paused by somebody; a rollback would lift that" in refused.err


def test_who_sees_the_question_or_keeps_the_pause_is_not_refused() -> None:
    with paused() as scene:
        scene.door.user = "bob@example.com"
        ran = rollback(scene, terminal=True, typed="y\n")
        assert ran.code == 0
        assert "paused true -> false" in ran.err
    with paused() as scene:
        scene.door.user = "pipeline"
        assert rollback(scene, "--keep-paused").code == 0
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True


def recipe(code: int) -> tuple[int, list[str]]:
    """The README's recipe, where the change ends so: its exit code, and the verbs that it called."""
    readme = (MANIFESTS.parent / "README.md").read_text()
    (script,) = (one for one in readme.split("```")[1::2] if "kubectl kruise-ds set-image" in one)
    fake = f'kubectl() {{ echo "$2"; [ "$2" != set-image ] || return {code}; }}'
    ended = subprocess.run(
        ["sh", "-ec", f"{fake}\n{script}"], capture_output=True, text=True, check=False, timeout=60
    )
    return ended.returncode, ended.stdout.split()


def test_the_pipeline_recipe_rolls_back_only_what_will_not_finish() -> None:
    for code in (1, 2, 3, 5, 6, 130):
        assert recipe(code) == (code, ["set-image"])
    assert recipe(4) == (4, ["set-image", "rollback"])
    assert recipe(0) == (0, ["set-image"])
