"""Values on the command line, documents that are printed, and the clock, put right by what the server says."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest
import yaml

from controller.api import formats
from controller.api.formats import IntOrPercent
from controller.api.objects import JSON, JSONObject
from kubectl_plugin import flags
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.flags import Output, int_or_percent, seconds_of
from kubectl_plugin.host import ServerClock
from kubectl_plugin.terminal import as_text
from kubectl_plugin.wording import between, new_nodes, short_duration

M, H, D = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * M + 59, "9m59s"),
        (10 * M + 5, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 5 * M, "3h5m"),
        (8 * H - 1, "7h59m"),
        (8 * H + 5 * M, "8h"),
        (2 * D - 1, "47h"),
        (2 * D, "2d"),
        (2 * D + H, "2d1h"),
        (8 * D - 1, "7d23h"),
        (8 * D + H, "8d"),
    ],
)
def test_an_age_has_its_second_unit_only_where_the_first_is_small(seconds: float, words: str) -> None:
    assert short_duration(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("2d", 2 * D)],
)
def test_what_go_can_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--timeout") == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5y", "1h30", "s"])
def test_anything_else_is_wrong_usage_that_names_the_flag(text: str) -> None:
    with pytest.raises(CommandError, match="invalid --soak") as failed:
        seconds_of(text, "--soak")
    assert failed.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("16", 16),
        (" 8 ", 8),
        ("2147483647", 2**31 - 1),
        ("0%", "0%"),
        ("30%", "30%"),
        ("100%", "100%"),
        ("030%", "30%"),
    ],
)
def test_numbers_and_shares_become_what_the_field_holds(text: str, value: IntOrPercent) -> None:
    assert int_or_percent(text, "partition") == value
    assert formats.is_well_formed(value)


@pytest.mark.parametrize(
    "text",
    ["half", "", "-1", "+1", "1.5", "50 %", "101%", "-5%", "%", "1e2", "0x10", "2147483648", "٣", "٣%", "10%%"],
)
def test_anything_else_is_refused_with_the_field_and_what_would_be_right(text: str) -> None:
    with pytest.raises(CommandError) as refused:
        int_or_percent(text, "partition")
    assert refused.value.message == (
        f'invalid partition "{text}": use a number (0 or more) or a percentage from 0% to 100%'
    )
    assert refused.value.exit_code == 2


def test_the_field_is_called_as_the_caller_says() -> None:
    with pytest.raises(CommandError, match=r'^invalid maxUnavailable "half"'):
        int_or_percent("half", "maxUnavailable")


DOCUMENT: JSONObject = {
    "kind": "DaemonSet",
    "apiVersion": "apps.kruise.io/v1beta1",
    "metadata": {"name": "demo", "managedFields": [{"manager": "x"}]},
    "spec": {"list": ["a"], "words": "größer", "time": "2026-01-01T00:00:00Z", "none": None, "yes": "yes"},
}
SHOWN = {**DOCUMENT, "metadata": {"name": "demo"}}


def test_json_and_yaml_say_the_same_without_managed_fields() -> None:
    assert json.loads(as_text(DOCUMENT, Output.JSON)) == SHOWN
    assert yaml.safe_load(as_text(DOCUMENT, Output.YAML)) == SHOWN


def test_yaml_looks_like_kubectls() -> None:
    assert as_text(DOCUMENT, Output.YAML).splitlines()[:6] == [
        "apiVersion: apps.kruise.io/v1beta1",
        "kind: DaemonSet",
        "metadata:",
        "  name: demo",
        "spec:",
        "  list:",
    ]


def test_text_that_kubectl_would_read_as_something_else_stands_in_quotes() -> None:
    texts: dict[str, JSON] = {one: one for one in ("yes", "no", "off", "0x1F", "017", "1e3", "~", "plain")}
    values = {line.rpartition(": ")[2] for line in as_text(texts, Output.YAML).splitlines()}
    assert values == {"plain", *(f"'{one}'" for one in texts if one != "plain")}


def test_the_items_of_a_list_have_no_managed_fields() -> None:
    found = json.loads(as_text({"kind": "List", "items": [DOCUMENT]}, Output.JSON))
    assert found["items"] == [SHOWN]


@pytest.mark.parametrize(
    ("names", "words"),
    [(["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a … d")],
)
def test_more_than_three_nodes_are_named_by_the_first_and_the_last(names: list[str], words: str) -> None:
    assert between(names) == words


@pytest.mark.parametrize(("partition", "new"), [(0, 5), (5, 0), (9, 0), ("50%", 3), ("100%", 0)])
def test_a_partition_never_keeps_more_than_there_are(partition: IntOrPercent, new: int) -> None:
    assert new_nodes(partition, 5) == f"{new} of 5 new"


def test_states_are_completed_one_by_one_and_all_only_alone() -> None:
    assert flags.states("")[-1] == "all"
    assert "old,next" in (offered := flags.states("old,n"))
    assert "old,old" not in offered
    assert "all" not in offered


def test_the_document_is_left_as_it_was() -> None:
    as_text(DOCUMENT, Output.JSON)
    assert DOCUMENT["metadata"] == {"name": "demo", "managedFields": [{"manager": "x"}]}


NOW = 1_763_640_250.4


class Local:
    """A machine whose clock was `off` by so many seconds at first; it counts none while it is `asleep`."""

    def __init__(self, off: float) -> None:
        self.off, self.true, self.asleep = off, NOW, 0.0

    def ticks(self) -> float:
        return self.true - NOW - self.asleep

    def clock(self) -> ServerClock:
        return ServerClock(self.ticks, NOW + self.off)


def heard(clock: ServerClock, local: Local, took: float = 0.0) -> None:
    """One exchange that took so long; the server answers at its very end."""
    asked = clock.local()
    local.true += took
    clock.learn(formatdate(local.true, usegmt=True), asked)


@pytest.mark.parametrize("off", [0.0, 0.3, -0.3])
def test_whole_seconds_do_not_speak_against_a_clock_that_is_right(off: float) -> None:
    local = Local(off)
    clock = local.clock()
    heard(clock, local)
    assert clock.now() == NOW + off


@pytest.mark.parametrize("off", [720.0, -720.0, 86_400.0])
def test_a_wrong_one_is_put_right_to_a_second(off: float) -> None:
    local = Local(off)
    clock = local.clock()
    heard(clock, local)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


def test_an_answer_that_takes_long_says_little_and_does_no_harm() -> None:
    local = Local(720.0)
    clock = local.clock()
    heard(clock, local)
    heard(clock, local, took=30.0)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


def test_a_machine_that_slept_is_put_right_again() -> None:
    local = Local(0.0)
    clock = local.clock()
    heard(clock, local)
    local.true, local.asleep = NOW + 3600.0, 3600.0
    heard(clock, local)
    assert clock.now() == pytest.approx(local.true, abs=1.0)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026"])
def test_who_says_no_time_is_not_heard(date: str) -> None:
    clock = ServerClock(lambda: 0.0, NOW)
    clock.learn(date, NOW)
    assert clock.now() == NOW
