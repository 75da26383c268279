"""A client whose clock is wrong: ages, soaks and deadlines go by the server's."""

from __future__ import annotations

import json

import pytest

from tests.plugin.scene import MINUTE, NAME, NAMESPACE, canary, held
from tests.plugin.verbs.few_nodes import KIND, stored

WRONG = pytest.mark.parametrize("ahead", [12 * MINUTE, -12 * MINUTE, 86_400.0], ids=["ahead", "behind", "a day"])
HOME = ("-n", NAMESPACE)


@WRONG
def test_a_soak_is_as_long_as_it_should_be(ahead: float) -> None:
    with held() as scene:  # for 18 minutes
        ran = scene.run("promote", NAME, "--soak", "20m", *HOME, clock_ahead=ahead)
        assert (ran.code, "quiet for 18m of 20m" in ran.err) == (6, True), ran.err
        assert scene.run("promote", NAME, "--soak", "17m", *HOME, clock_ahead=ahead).code == 0


@WRONG
def test_a_wait_for_a_soak_lasts_what_is_left_of_it(ahead: float) -> None:
    written: list[float] = []
    for wrong in (0.0, ahead):
        with held() as scene:
            assert scene.run("promote", NAME, "--soak", "20m", "--wait", *HOME, clock_ahead=wrong).code == 0
            written += [write.at for write in scene.door.link.writes(KIND)]
    assert written[1] == pytest.approx(written[0], abs=3.0)


@WRONG
def test_a_rollout_that_moves_is_not_stalled(ahead: float) -> None:
    with canary() as scene:
        ran = scene.run("status", NAME, "-w", "--timeout", "30s", *HOME, clock_ahead=ahead)
        assert (ran.code, "Stalled" in ran.out) == (3, False), ran.out


@WRONG
@pytest.mark.parametrize("words", [("status", "-w"), ("promote", "--wait", "--to", "8")], ids=lambda words: words[0])
def test_a_clock_that_is_set_while_it_waits_ends_nothing(ahead: float, words: tuple[str, ...]) -> None:
    with canary() as scene:
        moment = scene.now() + 10.0
        ran = scene.run(
            *words, NAME, "--timeout", "50s", *HOME, clock_ahead=lambda: ahead if scene.now() > moment else 0.0
        )
        assert (ran.code, "tall" in ran.out + ran.err) == (3, False), ran


@WRONG
def test_a_log_gets_its_lines_though_the_clock_is_set(ahead: float) -> None:
    with held() as scene:
        moment = scene.now() + 10.0
        ran = scene.run(
            *("status", NAME, "-w", "--image", "agent:2.0.0", "--timeout", "100s", *HOME),
            clock_ahead=lambda: ahead if scene.now() > moment else 0.0,
        )
        quiet = [line.partition("(no change for ")[2] for line in ran.out.splitlines()[1:4]]
        assert quiet == ["30s)", "60s)", "90s)"], ran.out


@WRONG
def test_what_is_told_and_noted_is_the_same_as_with_the_right_clock(ahead: float) -> None:
    told: list[tuple[str, str]] = []
    for wrong in (0.0, ahead):
        with canary() as scene:
            out = scene.run("status", NAME, *HOME, clock_ahead=wrong).out
            scene.run("pause", NAME, *HOME, clock_ahead=wrong)
            noted = json.loads(stored(scene)["metadata"]["annotations"]["kruise-ds/last-action"])["at"]
            told.append((out, noted))
    assert told[0][1][:18] == told[1][1][:18]
    assert told[0][0].splitlines()[1:] == told[1][0].splitlines()[1:]
