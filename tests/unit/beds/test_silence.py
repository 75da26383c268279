"""For how long clients on real nodes had no answer."""

from __future__ import annotations

from tests.beds.real_node.silence import Silence


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_silence_lasts_from_the_first_vain_question_to_an_answer() -> None:
    clock = Clock()
    silence = Silence(clock)
    clock.now = 3.0
    silence.kept("node-1", 2.0)
    silence.kept("node-1", 2.5)
    silence.broken("node-1")
    clock.now = 9.0
    silence.broken("node-1")
    assert silence.waited == {"node-1": 1.0}


def test_a_node_is_not_silent_while_another_pod_of_it_answers() -> None:
    clock = Clock()
    silence = Silence(clock)
    silence.broken("node-1", "old")
    silence.broken("node-1", "new")
    clock.now = 5.0
    silence.kept("node-1", 4.0, "old")
    silence.broken("node-1", "new")
    assert silence.waited == {}
    silence.kept("node-1", 6.0, "new")
    clock.now = 7.0
    silence.broken("node-1", "new")
    assert silence.waited == {"node-1": 1.0}


def test_a_silence_that_lasts_to_the_end_counts() -> None:
    clock = Clock()
    silence = Silence(clock)
    silence.kept("node-1", 1.0)
    clock.now = 4.0
    silence.end()
    silence.end()
    assert silence.waited == {"node-1": 3.0}
