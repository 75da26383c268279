"""Differences as a patch is drawn."""

from __future__ import annotations

import pytest

from controller.api.objects import JSON, JSONObject
from kubectl_plugin.render.listings import comparison_text
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.history import ComparedSide, Comparison


def drawn(old: JSONObject, new: JSONObject, *, only_ascii: bool = False, show_values: bool = False) -> list[str]:
    """Without the two lines above and the one below."""
    before: JSONObject = {"spec": old}
    after: JSONObject = {"spec": new}
    sides = ComparedSide(template=before, live=True), ComparedSide(template=after, file="new.yaml")
    found = differences(before, after, show_values=show_values)
    comparison = Comparison(name="agent", old=sides[0], new=sides[1], changes=found, verdict="")
    return comparison_text(comparison, now=0.0, only_ascii=only_ascii).plain.split("\n")[2:-1]


def agent(**fields: JSON) -> JSONObject:
    return {"containers": [{"name": "agent", **fields}]}


PLACE = " spec.template.spec.containers[agent]"
EMPTY: JSONObject = {}
TWO: list[JSON] = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            agent(image="a:1", imagePullPolicy="Never"),
            agent(image="a:2", imagePullPolicy="Always"),
            [PLACE, "-  image: a:1", "+  image: a:2", "-  imagePullPolicy: Never", "+  imagePullPolicy: Always"],
        ),
        (
            agent(args=["--a", "--b"]),
            agent(args=["--a", "--c: d"]),
            [
                f"{PLACE}.args",
                "-  - <hidden, 3 characters, digest dff3>",
                "+  - <hidden, 6 characters, digest 47bb>",
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "hostAliases": [{"ip": "1", "hostnames": ["b"]}]},
            {"schedulingGates": [{"name": "a"}], "hostAliases": [{"ip": "1", "hostnames": ["c: d", "true"]}]},
            [" spec.template.spec.hostAliases[1].hostnames", "-  - b", "+  - 'c: d'", "+  - 'true'"],
        ),
        (
            {"containers": TWO},
            {"containers": TWO[::-1]},
            [" spec.template.spec.containers", "-  order: a, b", "+  order: b, a"],
        ),
        (
            {"nodeSelector": {"x.y/z": "1"}},
            {"nodeSelector": {"x.y/z": "yes"}},
            [" spec.template.spec.nodeSelector", "-  x.y/z: '1'", "+  x.y/z: 'yes'"],
        ),
        (
            EMPTY,
            {"volumes": [{"emptyDir": {}, "name": "tmp"}, {"name": "x", "configMap": {"name": "c"}}]},
            [
                " spec.template.spec.volumes",
                "+  - name: tmp",
                "+    emptyDir: {}",
                "+  - name: x",
                "+    configMap:",
                "+      name: c",
            ],
        ),
        (
            agent(env=[{"name": "TOKEN", "value": "a"}]),
            agent(env=[{"name": "TOKEN", "value": "b"}]),
            [
                f"{PLACE}.env[TOKEN]",
                "-  value: <hidden, 1 character, digest ac8d>",
                "+  value: <hidden, 1 character, digest c100>",
            ],
        ),
    ],
)
def test_drawn(old: JSONObject, new: JSONObject, lines: list[str]) -> None:
    assert drawn(old, new) == lines


def test_a_value_commands_nothing() -> None:
    lines = drawn(
        agent(env=[{"name": "A", "value": "\x1b[31mred\u202e"}]),
        agent(env=[{"name": "A", "value": "b"}]),
        show_values=True,
    )
    assert all(character.isprintable() for line in lines for character in line)


def test_a_place_commands_nothing() -> None:
    lines = drawn(EMPTY, {"nodeSelector": {"\x1b[2J": "x"}, "containers": [{"name": "\x1b[2J", "image": "a"}]})
    assert all(character.isprintable() for line in lines for character in line)


def test_ascii() -> None:
    old: JSONObject = {"containers": [{"name": "ü", "image": "grün:1"}]}
    new: JSONObject = {"containers": [{"name": "ü", "image": "grün:2"}]}
    lines = drawn(old, new, only_ascii=True)
    assert lines == [" spec.template.spec.containers[?]", '-  image: "gr\\xFCn:1"', '+  image: "gr\\xFCn:2"']


def test_a_script_keeps_its_lines() -> None:
    assert drawn(agent(args=["-c"]), agent(args=["-c", "set -e\nexec agent\n"]), show_values=True)[1:] == [
        "+  - |",
        "+    set -e",
        "+    exec agent",
    ]


def test_a_long_value_stays_on_its_line() -> None:
    assert len(drawn(agent(workingDir="x y " * 100), agent(workingDir="z"), show_values=True)) == 3
