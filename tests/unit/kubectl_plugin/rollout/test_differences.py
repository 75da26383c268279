"""Differences of two pod templates, and how they are drawn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from controller.api.objects import JSON, JSONObject
from controller.api.template_identity import identity
from kubectl_plugin.render.listings import comparison_text
from kubectl_plugin.rollout.diff import Difference, differences, image_only, verdict
from kubectl_plugin.rollout.history import ComparedSide, Comparison, summary
from kubectl_plugin.rollout.secrets import without_secrets

Edit = Callable[[Any], object]
"""Of the pod spec, in place."""


def template(edit: Edit = lambda _: None) -> JSONObject:
    agent: Any = {
        "name": "agent",
        "image": "r.io/agent:1.8.4",
        "args": ["--level=info", "--once"],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "API_TOKEN", "value": "s3cret"}],
        "ports": [{"name": "metrics", "containerPort": 9100}, {"containerPort": 8080}],
        "volumeMounts": [{"name": "certs", "mountPath": "/etc/certs"}],
        "resources": {"limits": {"cpu": "100m"}},
    }
    spec: Any = {
        "initContainers": [{"name": "setup", "image": "setup:1"}],
        "containers": [agent, {"name": "scout", "image": "scout:1"}],
        "volumes": [{"name": "certs", "secret": {"secretName": "c"}}],
        "tolerations": [{"key": "dedicated", "effect": "NoSchedule"}, {"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    result: JSONObject = {"metadata": {"labels": {"app": "agent"}}, "spec": copy.deepcopy(spec)}
    edit(result["spec"])
    return result


def found(edit: Edit, **options: bool) -> tuple[Difference, ...]:
    return differences(template(), template(edit), **options)


def told(edit: Edit, **options: bool) -> list[tuple[str, str, object, object]]:
    """Path without its common beginning, kind, old, new."""
    documents = [one.document for one in found(edit, **options)]
    return [
        (str(one["path"]).removeprefix("spec.template."), str(one["change"]), one.get("old"), one.get("new"))
        for one in documents
    ]


def hid(value: JSON) -> JSON:
    """What stands for a value that may be a secret."""
    return without_secrets({"args": value})[0]["args"]


def agent(spec: Any) -> Any:
    return spec["containers"][0]


FROM: JSONObject = {"secretKeyRef": {"name": "tokens", "key": "api"}}
SPREAD: JSONObject = {"topologyKey": "zone", "labelSelector": {}}
CASES: list[tuple[str, Edit, list[tuple[str, str, object, object]], str]] = [
    (
        "an image",
        lambda spec: agent(spec).update(image="r.io/agent:1.9.0"),
        [("spec.containers[agent].image", "changed", "r.io/agent:1.8.4", "r.io/agent:1.9.0")],
        "image agent 1.8.4 → 1.9.0",
    ),
    (
        "an image of an init container",
        lambda spec: spec["initContainers"][0].update(image="setup:2"),
        [("spec.initContainers[setup].image", "changed", "setup:1", "setup:2")],
        "image setup 1 → 2",
    ),
    (
        "a container more",
        lambda spec: spec["containers"].insert(0, {"name": "new", "image": "new:1"}),
        [("spec.containers[new]", "added", None, {"name": "new", "image": "new:1"})],
        "+ container new",
    ),
    (
        "a container less",
        lambda spec: spec["containers"].pop(),
        [("spec.containers[scout]", "removed", {"name": "scout", "image": "scout:1"}, None)],
        "- container scout",
    ),
    (
        "a container with another name",
        lambda spec: spec["containers"][1].update(name="ranger"),
        [
            ("spec.containers[scout]", "removed", {"name": "scout", "image": "scout:1"}, None),
            ("spec.containers[ranger]", "added", None, {"name": "ranger", "image": "scout:1"}),
        ],
        "- container scout, + container ranger",
    ),
    (
        "another order of containers",
        lambda spec: spec["containers"].reverse(),
        [("spec.containers", "order", ["agent", "scout"], ["scout", "agent"])],
        "containers reordered",
    ),
    (
        "another order of variables",
        lambda spec: agent(spec)["env"].reverse(),
        [("spec.containers[agent].env", "order", ["LOG_LEVEL", "API_TOKEN"], ["API_TOKEN", "LOG_LEVEL"])],
        "env agent reordered",
    ),
    (
        "a variable",
        lambda spec: agent(spec)["env"][0].update(value="debug"),
        [("spec.containers[agent].env[LOG_LEVEL].value", "changed", hid("info"), hid("debug"))],
        "env agent LOG_LEVEL changed",
    ),
    (
        "a variable more",
        lambda spec: agent(spec)["env"].append({"name": "MODE", "value": "fast"}),
        [("spec.containers[agent].env[MODE]", "added", None, {"name": "MODE", "value": hid("fast")})],
        "+ env agent MODE",
    ),
    (
        "a secret variable less",
        lambda spec: agent(spec)["env"].pop(),
        [("spec.containers[agent].env[API_TOKEN]", "removed", {"name": "API_TOKEN", "value": hid("s3cret")}, None)],
        "- env agent API_TOKEN",
    ),
    (
        "a reference instead of a secret variable",
        lambda spec: agent(spec)["env"].__setitem__(1, {"name": "API_TOKEN", "valueFrom": FROM}),
        [
            ("spec.containers[agent].env[API_TOKEN].value", "removed", hid("s3cret"), None),
            ("spec.containers[agent].env[API_TOKEN].valueFrom", "added", None, FROM),
        ],
        "env agent API_TOKEN changed",
    ),
    (
        "variables from elsewhere",
        lambda spec: agent(spec).update(envFrom=[{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]),
        [
            ("spec.containers[agent].envFrom[secret/a]", "added", None, {"secretRef": {"name": "a"}}),
            ("spec.containers[agent].envFrom[configmap/b]", "added", None, {"configMapRef": {"name": "b"}}),
        ],
        "+ env from agent secret/a, + env from agent configmap/b",
    ),
    (
        "a volume more",
        lambda spec: spec["volumes"].append({"name": "tmp", "emptyDir": {"medium": "Memory"}}),
        [("spec.volumes[tmp]", "added", None, {"name": "tmp", "emptyDir": {"medium": "Memory"}})],
        "+ volume tmp",
    ),
    (
        "the first volumes of all go",
        lambda spec: spec.pop("volumes"),
        [("spec.volumes[certs]", "removed", {"name": "certs", "secret": {"secretName": "c"}}, None)],
        "- volume certs",
    ),
    (
        "a volume with its mount",
        lambda spec: (
            spec["volumes"].append({"name": "tmp", "emptyDir": {}}),
            agent(spec)["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"}),
        ),
        [
            ("spec.containers[agent].volumeMounts[/tmp]", "added", None, {"name": "tmp", "mountPath": "/tmp"}),
            ("spec.volumes[tmp]", "added", None, {"name": "tmp", "emptyDir": {}}),
        ],
        "+ volume tmp",
    ),
    (
        "inside a volume",
        lambda spec: spec["volumes"][0]["secret"].update(secretName="other"),
        [("spec.volumes[certs].secret.secretName", "changed", "c", "other")],
        "volume certs secret.secretName c → other",
    ),
    (
        "a mount",
        lambda spec: agent(spec)["volumeMounts"][0].update(readOnly=True),
        [("spec.containers[agent].volumeMounts[/etc/certs].readOnly", "added", None, True)],
        "+ volume mount agent /etc/certs readOnly true",
    ),
    (
        "a port by name",
        lambda spec: agent(spec)["ports"][0].update(containerPort=9101),
        [("spec.containers[agent].ports[metrics].containerPort", "changed", 9100, 9101)],
        "port agent metrics containerPort 9100 → 9101",
    ),
    (
        "a port by number",
        lambda spec: agent(spec)["ports"][1].update(hostPort=8080),
        [("spec.containers[agent].ports[8080].hostPort", "added", None, 8080)],
        "+ port agent 8080 hostPort 8080",
    ),
    (
        "an argument",
        lambda spec: agent(spec)["args"].__setitem__(0, "--level=debug"),
        [("spec.containers[agent].args[0]", "changed", hid("--level=info"), hid("--level=debug"))],
        "args agent changed",
    ),
    (
        "an argument before the others",
        lambda spec: agent(spec)["args"].insert(0, "--fast"),
        [("spec.containers[agent].args[0]", "added", None, hid("--fast"))],
        "args agent changed",
    ),
    (
        "a toleration",
        lambda spec: spec["tolerations"][0].update(effect="NoExecute"),
        [
            ("spec.tolerations[dedicated:NoSchedule]", "removed", {"key": "dedicated", "effect": "NoSchedule"}, None),
            ("spec.tolerations[dedicated:NoExecute]", "added", None, {"key": "dedicated", "effect": "NoExecute"}),
        ],
        "- toleration dedicated:NoSchedule, + toleration dedicated:NoExecute",
    ),
    (
        "an entry of a map",
        lambda spec: spec["nodeSelector"].update({"kubernetes.io/os": "windows"}),
        [("spec.nodeSelector[kubernetes.io/os]", "changed", "linux", "windows")],
        "node selector kubernetes.io/os linux → windows",
    ),
    (
        "a whole map goes",
        lambda spec: spec.pop("nodeSelector"),
        [("spec.nodeSelector[kubernetes.io/os]", "removed", "linux", None)],
        "- node selector kubernetes.io/os linux",
    ),
    (
        "an amount",
        lambda spec: agent(spec)["resources"]["limits"].update(cpu="200m", memory="64Mi"),
        [
            ("spec.containers[agent].resources.limits.cpu", "changed", "100m", "200m"),
            ("spec.containers[agent].resources.limits.memory", "added", None, "64Mi"),
        ],
        "resources agent limits.cpu 100m → 200m, + resources agent limits.memory 64Mi",
    ),
    (
        "a probe, without its defaults",
        lambda spec: agent(spec).update(livenessProbe={"httpGet": {"path": "/", "port": 1}, "timeoutSeconds": 1}),
        [("spec.containers[agent].livenessProbe", "added", None, {"httpGet": {"port": 1}})],
        "+ livenessProbe agent",
    ),
    (
        "a field of the pod",
        lambda spec: spec.update(hostNetwork=True),
        [("spec.hostNetwork", "added", None, True)],
        "+ hostNetwork true",
    ),
    (
        "an empty selector, which means something",
        lambda spec: spec.update(topologySpreadConstraints=[SPREAD]),
        [("spec.topologySpreadConstraints[zone]", "added", None, SPREAD)],
        "+ topologySpreadConstraints zone",
    ),
]


@pytest.mark.parametrize(("edit", "expected", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_difference_and_what_it_is_in_a_few_words(
    edit: Edit, expected: list[tuple[str, str, object, object]], words: str
) -> None:
    assert told(edit) == expected
    assert summary(found(edit)) == words


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: None,
        lambda spec: spec.update(dnsPolicy="ClusterFirst", volumes=[*spec["volumes"]], affinity=None),
        lambda spec: spec.update(hostNetwork=False, imagePullSecrets=[], securityContext={}),
        lambda spec: agent(spec).update(imagePullPolicy="IfNotPresent", terminationMessagePolicy="File"),
        lambda spec: agent(spec)["resources"]["limits"].update(cpu="0.1"),
        lambda spec: agent(spec)["ports"][0].update(protocol="TCP", hostPort=0),
        lambda spec: spec["volumes"][0]["secret"].update(defaultMode=420),
    ],
)
def test_what_means_the_same_is_no_difference(edit: Edit) -> None:
    assert told(edit) == []


def test_null_is_absent_on_either_side() -> None:
    cleared = template()
    cleared["metadata"] = {"creationTimestamp": None, "labels": {"app": "agent"}}
    assert differences(template(), cleared) == differences(cleared, template()) == ()


def test_a_default_that_goes_with_the_image_is_no_change_of_its_own() -> None:
    old = template(lambda spec: agent(spec).update(image="agent:latest", imagePullPolicy="Always"))
    new = template(lambda spec: agent(spec).update(image="agent:1", imagePullPolicy="Always"))
    assert [one.path[-1].field for one in differences(old, new)] == ["image"]


def test_values_are_shown_to_who_asks_for_them() -> None:
    assert told(lambda spec: agent(spec)["env"][1].update(value="other"), show_values=True) == [
        ("spec.containers[agent].env[API_TOKEN].value", "changed", "s3cret", "other")
    ]


def test_one_is_not_true() -> None:
    (one,) = differences({"spec": {"hostPID": True, "odd": [1]}}, {"spec": {"hostPID": 1, "odd": [1]}})
    assert (one.old, one.new) == (True, 1)
    assert one.new is not True


def test_names_twice_are_compared_by_place() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    old = template(lambda spec: agent(spec).update(env=twice))
    new = template(lambda spec: agent(spec).update(env=[twice[0], {"name": "A", "value": "3"}]))
    (one,) = differences(old, new)
    assert one.document == {
        "path": "spec.template.spec.containers[agent].env[1].value",
        "change": "changed",
        "old": hid("2"),
        "new": hid("3"),
    }


def test_metadata() -> None:
    new = template()
    new["metadata"] = {"annotations": {"kubectl.kubernetes.io/restartedAt": "2025-11-20T12:00:00Z", "a.b/c": "d"}}
    found = differences(template(), new)
    assert [one.document["path"] for one in found] == [
        "spec.template.metadata.labels[app]",
        "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]",
        "spec.template.metadata.annotations[a.b/c]",
    ]
    assert summary(found) == "- label app agent, restart, + annotation a.b/c"


def test_a_template_without_anything() -> None:
    assert [one.document["path"] for one in differences({}, template())] == [
        "spec.template.metadata.labels[app]",
        "spec.template.spec.initContainers[setup]",
        "spec.template.spec.containers[agent]",
        "spec.template.spec.containers[scout]",
        "spec.template.spec.volumes[certs]",
        "spec.template.spec.tolerations[dedicated:NoSchedule]",
        "spec.template.spec.tolerations[*]",
        "spec.template.spec.nodeSelector[kubernetes.io/os]",
    ]


def test_ascii_words() -> None:
    words = summary(found(lambda spec: agent(spec).update(image="r.io/agent:2")), only_ascii=True)
    assert words == "image agent 1.8.4 -> 2"


def test_images_come_first_and_long_values_not_at_all() -> None:
    def edit(spec: Any) -> None:
        spec["initContainers"][0]["env"] = [{"name": "B", "value": "x" * 25}]
        agent(spec)["env"][0]["value"] = "y" * 25
        agent(spec)["image"] = "r.io/agent:2"

    assert summary(found(edit)) == "image agent 1.8.4 → 2, + env setup B, env agent LOG_LEVEL changed"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda spec: None, "no difference"),
        (lambda spec: agent(spec).update(image="a:2"), "1 change, image only: pods are re-created"),
        (lambda spec: spec["initContainers"][0].update(image="a:2"), "1 change: pods are re-created"),
        (lambda spec: agent(spec).pop("image"), "1 change: pods are re-created"),
        (lambda spec: spec.update(hostNetwork=True, hostPID=True), "2 changes: pods are re-created"),
    ],
)
def test_verdict(edit: Edit, words: str) -> None:
    assert verdict(found(edit), how="pods are re-created", on_delete=False) == words


def test_verdict_where_in_place_was_wished_for() -> None:
    def both(spec: Any) -> None:
        agent(spec).update(image="a:2")

    new = template(both)
    new["metadata"] = {"labels": {"app": "agent", "more": "yes"}}
    seen = differences(template(), new)
    assert image_only(seen)
    assert verdict(seen, how="in place, restarts agent", on_delete=False) == (
        "2 changes, image and labels and annotations only: in place, restarts agent"
    )


def test_a_null_on_one_side_is_a_difference_where_the_controller_sees_one() -> None:
    """Such a label comes from a file that the server would refuse."""
    old: JSONObject = {"metadata": {"labels": {"a": {"b": None}}}}
    new: JSONObject = {"metadata": {"labels": {"a": {}}}}
    assert identity(old) != identity(new)
    assert differences(old, new)


def drawn(old: JSONObject, new: JSONObject, *, only_ascii: bool = False, show_values: bool = False) -> list[str]:
    """Without the two lines above and the one below."""
    before: JSONObject = {"spec": old}
    after: JSONObject = {"spec": new}
    sides = ComparedSide(template=before, live=True), ComparedSide(template=after, file="new.yaml")
    found = differences(before, after, show_values=show_values)
    comparison = Comparison(name="agent", old=sides[0], new=sides[1], changes=found, verdict="")
    return comparison_text(comparison, now=0.0, only_ascii=only_ascii).plain.split("\n")[2:-1]


def of_agent(**fields: JSON) -> JSONObject:
    return {"containers": [{"name": "agent", **fields}]}


PLACE = " spec.template.spec.containers[agent]"
EMPTY: JSONObject = {}
TWO: list[JSON] = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            of_agent(image="a:1", imagePullPolicy="Never"),
            of_agent(image="a:2", imagePullPolicy="Always"),
            [PLACE, "-  image: a:1", "+  image: a:2", "-  imagePullPolicy: Never", "+  imagePullPolicy: Always"],
        ),
        (
            of_agent(args=["--a", "--b"]),
            of_agent(args=["--a", "--c: d"]),
            [f"{PLACE}.args", "-  - <hidden, 3 characters, digest dff3>", "+  - <hidden, 6 characters, digest 47bb>"],
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
            of_agent(env=[{"name": "TOKEN", "value": "a"}]),
            of_agent(env=[{"name": "TOKEN", "value": "b"}]),
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


def test_neither_a_value_nor_a_place_commands_anything() -> None:
    lines = drawn(
        of_agent(env=[{"name": "A", "value": "\x1b[31mred\u202e"}]),
        of_agent(env=[{"name": "A", "value": "b"}]),
        show_values=True,
    )
    lines += drawn(EMPTY, {"nodeSelector": {"\x1b[2J": "x"}, "containers": [{"name": "\x1b[2J", "image": "a"}]})
    assert all(character.isprintable() for line in lines for character in line)


def test_ascii() -> None:
    old: JSONObject = {"containers": [{"name": "ü", "image": "grün:1"}]}
    new: JSONObject = {"containers": [{"name": "ü", "image": "grün:2"}]}
    lines = drawn(old, new, only_ascii=True)
    assert lines == [" spec.template.spec.containers[?]", '-  image: "gr\\xFCn:1"', '+  image: "gr\\xFCn:2"']


def test_a_script_keeps_its_lines() -> None:
    assert drawn(of_agent(args=["-c"]), of_agent(args=["-c", "set -e\nexec agent\n"]), show_values=True)[1:] == [
        "+  - |",
        "+    set -e",
        "+    exec agent",
    ]


def test_a_long_value_stays_on_its_line() -> None:
    assert len(drawn(of_agent(workingDir="x y " * 100), of_agent(workingDir="z"), show_values=True)) == 3
