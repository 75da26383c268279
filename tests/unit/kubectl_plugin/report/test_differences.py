"""Differences of two pod templates."""

from __future__ import annotations

import pytest

from kubectl_plugin.report.revisions.phrases import summary
from tests.unit.kubectl_plugin.report.templates import Edit, agent, found, told

CASES: list[tuple[str, Edit, list[tuple[str, str, object, object]], str]] = [
    (
        "an image",
        lambda spec: agent(spec).update(image="registry.example.com/agent:1.9.0"),
        [
            (
                "spec.containers[agent].image",
                "changed",
                "registry.example.com/agent:1.8.4",
                "registry.example.com/agent:1.9.0",
            )
        ],
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
        [("spec.containers[agent].env[LOG_LEVEL].value", "changed", "info", "debug")],
        "env agent LOG_LEVEL info → debug",
    ),
    (
        "a variable more",
        lambda spec: agent(spec)["env"].append({"name": "MODE", "value": "fast"}),
        [("spec.containers[agent].env[MODE]", "added", None, {"name": "MODE", "value": "fast"})],
        "+ env agent MODE",
    ),
    (
        "a secret variable less",
        lambda spec: agent(spec)["env"].pop(),
        [("spec.containers[agent].env[API_TOKEN]", "removed", {"name": "API_TOKEN", "value": "***"}, None)],
        "- env agent API_TOKEN",
    ),
    (
        "a secret variable",
        lambda spec: agent(spec)["env"][1].update(value="other"),
        [("spec.containers[agent].env[API_TOKEN].value", "changed", "***", "*** (changed)")],
        "env agent API_TOKEN changed",
    ),
    (
        "a reference instead of a secret variable",
        lambda spec: agent(spec)["env"].__setitem__(
            1, {"name": "API_TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "api"}}}
        ),
        [
            ("spec.containers[agent].env[API_TOKEN].value", "removed", "***", None),
            (
                "spec.containers[agent].env[API_TOKEN].valueFrom",
                "added",
                None,
                {"secretKeyRef": {"name": "tokens", "key": "api"}},
            ),
        ],
        "env agent API_TOKEN changed",
    ),
    (
        "variables from a Secret",
        lambda spec: agent(spec).update(envFrom=[{"secretRef": {"name": "tokens"}}]),
        [("spec.containers[agent].envFrom[secret/tokens]", "added", None, {"secretRef": {"name": "tokens"}})],
        "+ env from agent secret/tokens",
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
        [
            (
                "spec.volumes[certs]",
                "removed",
                {"name": "certs", "secret": {"secretName": "agent-certs"}},
                None,
            )
        ],
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
        [("spec.volumes[certs].secret.secretName", "changed", "agent-certs", "other")],
        "volume certs secret.secretName agent-certs → other",
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
        [("spec.containers[agent].args[0]", "changed", "--level=info", "--level=debug")],
        "args agent changed",
    ),
    (
        "an argument before the others",
        lambda spec: agent(spec)["args"].insert(0, "--fast"),
        [("spec.containers[agent].args[0]", "added", None, "--fast")],
        "args agent changed",
    ),
    (
        "a secret argument",
        lambda spec: agent(spec)["args"].extend(["--password=x", "--token", "y", "--key-file=/etc/key"]),
        [
            ("spec.containers[agent].args[2]", "added", None, "--password=***"),
            ("spec.containers[agent].args[3]", "added", None, "--token"),
            ("spec.containers[agent].args[4]", "added", None, "***"),
            ("spec.containers[agent].args[5]", "added", None, "--key-file=/etc/key"),
        ],
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
        lambda spec: agent(spec).update(
            livenessProbe={"httpGet": {"path": "/", "port": 1, "scheme": "HTTP"}, "timeoutSeconds": 1}
        ),
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
        lambda spec: spec.update(topologySpreadConstraints=[{"topologyKey": "zone", "labelSelector": {}}]),
        [
            (
                "spec.topologySpreadConstraints[zone]",
                "added",
                None,
                {"topologyKey": "zone", "labelSelector": {}},
            )
        ],
        "+ topologySpreadConstraints zone",
    ),
]


@pytest.mark.parametrize(("edit", "expected"), [case[1:3] for case in CASES], ids=[case[0] for case in CASES])
def test_difference(edit: Edit, expected: list[tuple[str, str, object, object]]) -> None:
    assert told(edit) == expected


@pytest.mark.parametrize(("edit", "words"), [(case[1], case[3]) for case in CASES], ids=[case[0] for case in CASES])
def test_in_a_few_words(edit: Edit, words: str) -> None:
    assert summary(found(edit)) == words
