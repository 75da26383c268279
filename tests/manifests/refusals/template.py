"""The pod template, alone and together with surge and hooks."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSON, JSONObject
from tests.manifests.objects import ABSENT, POD, ROLLING, container
from tests.manifests.refusals.case import Refusal

_LABELS = "spec.template.metadata.labels"
_CONTAINERS = f"{POD}.containers"
_PORT: Final[JSONObject] = {"ports": [{"containerPort": 53, "hostPort": 53}]}
_SIDECAR: Final[JSON] = [container(name="side", restartPolicy="Always", **_PORT)]

TEMPLATE: Final = (
    Refusal(
        "restartPolicy OnFailure",
        {f"{POD}.restartPolicy": "OnFailure"},
        f"{POD}.restartPolicy",
        "must be Always, or left out",
    ),
    Refusal(
        "activeDeadlineSeconds",
        {f"{POD}.activeDeadlineSeconds": 600},
        f"{POD}.activeDeadlineSeconds",
        "activeDeadlineSeconds in DaemonSet is not supported",
    ),
    Refusal("no template", {"spec.template": ABSENT}, "spec.template", "Required value"),
    Refusal("a template without spec", {POD: ABSENT}, POD, "Required value"),
    Refusal("no containers", {_CONTAINERS: []}, _CONTAINERS, "should have at least 1 item"),
    Refusal("a container without image", {_CONTAINERS: [{"name": "a"}]}, f"{_CONTAINERS}[0].image", "Required value"),
    Refusal("a container without name", {_CONTAINERS: [{"image": "a"}]}, f"{_CONTAINERS}[0].name", "Required value"),
    Refusal(
        "two containers of one name",
        {_CONTAINERS: [container(), container()]},
        f"{_CONTAINERS}[1]",
        "Duplicate value",
    ),
    Refusal("a label value that is none", {f"{_LABELS}.ver": "a b"}, f"{_LABELS}.ver", "should match"),
    Refusal(
        "a number as node label",
        {f"{POD}.nodeSelector": {"gpu": 1}},
        f"{POD}.nodeSelector.gpu",
        "must be of type string",
    ),
)

SURGE: Final = (
    *(
        Refusal(
            why, {**changes, _CONTAINERS: [container(**_PORT)]}, ROLLING, "maxSurge cannot be used with a hostPort"
        )
        for why, changes in (
            ("a host port with surge", {f"{ROLLING}.maxSurge": 1}),
            ("a host port with surge in percent", {f"{ROLLING}.maxSurge": "10%"}),
            ("a host port with Surging", {f"{ROLLING}.rollingUpdateType": "Surging"}),
        )
    ),
    Refusal(
        "a side-car's host port with surge",
        {f"{ROLLING}.maxSurge": 1, f"{POD}.initContainers": _SIDECAR},
        ROLLING,
        "maxSurge cannot be used with a hostPort",
    ),
    Refusal(
        "the host's network and a port with surge",
        {
            f"{ROLLING}.maxSurge": 1,
            f"{POD}.hostNetwork": True,
            _CONTAINERS: [container(ports=[{"containerPort": 53}])],
        },
        ROLLING,
        "maxSurge cannot be used with hostNetwork and declared ports",
    ),
)

LIFECYCLE: Final = (
    Refusal(
        "an in-place hook",
        {"spec.lifecycle.inPlaceUpdate": {"labelsHandler": {"a": "b"}}},
        "spec.lifecycle.inPlaceUpdate",
        "inPlaceUpdate hook is not supported",
    ),
    Refusal(
        "a preNormal hook",
        {"spec.lifecycle.preNormal": {}},
        "spec.lifecycle.preNormal",
        "preNormal hook is not supported",
    ),
)
