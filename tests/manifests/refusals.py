"""Objects that break exactly one rule each, with the field and the words that the API server must answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.api.objects import JSON, JSONObject
from tests.manifests.objects import ABSENT, POD, ROLLING, container


@dataclass(frozen=True, slots=True)
class Refusal:
    """`changes` break exactly one rule. `field` is where the server must point, `says` a part of its message."""

    why: str
    changes: Mapping[str, object]
    field: str
    says: str


def _alike(field: str, says: str, cases: Mapping[str, Mapping[str, object]]) -> Iterator[Refusal]:
    """Cases with one answer."""
    return (Refusal(why, changes, field, says) for why, changes in cases.items())


def _there(why: str, field: str, value: object, says: str) -> Refusal:
    """The server points at the field that is set."""
    return Refusal(why, {field: value}, field, says)


_LABELS: Final = "spec.template.metadata.labels"
_EXPRESSION: Final = "spec.selector.matchExpressions[0]"
_BY_NODE: Final = f"{ROLLING}.selector"
_RULE: Final = f"{ROLLING}.order[0]"
_TOPOLOGY: Final = f"{ROLLING}.topology"
_TYPE: Final = f"{ROLLING}.rollingUpdateType"
_SURGE: Final = f"{ROLLING}.maxSurge"
_UNAVAILABLE: Final = f"{ROLLING}.maxUnavailable"
_CONTAINERS: Final = f"{POD}.containers"
_KEY: Final = "must be a label key"
_NO_VALUES: Final = "must have at least one value with operator In or NotIn"
_PORT: Final[JSONObject] = {"ports": [{"containerPort": 53, "hostPort": 53}]}


def _requirement(key: str, operator: str, *values: str) -> JSONObject:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _pods(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"spec.selector.matchExpressions": [_requirement(key, operator, *values)]}


def _ours(key: str) -> dict[str, object]:
    """Beside the label that the template has, as the selector must match it."""
    labels = {"app": "agent", key: "x"}
    return {"spec.selector.matchLabels": labels, _LABELS: {**labels, "tier": "a"}}


def _nodes(key: str, operator: str, *values: str) -> dict[str, object]:
    return {f"{_BY_NODE}.matchExpressions": [_requirement(key, operator, *values)]}


def _order(**rule: JSON) -> dict[str, object]:
    return {f"{ROLLING}.order": [rule]}


def _topology(**fields: JSON) -> dict[str, object]:
    return {_TOPOLOGY: {"key": "zone", **fields}}


_OF_LABELS: Final = (
    *_alike(
        _LABELS,
        "`selector` does not match template `labels`: every label",
        {
            "a selector that the labels miss": {"spec.selector.matchLabels": {"app": "x"}},
            "a template without labels": {_LABELS: ABSENT},
            "a template without metadata": {"spec.template.metadata": ABSENT},
        },
    ),
    *_alike(
        _LABELS,
        "`selector` does not match template `labels`: spec.template",
        {
            "In with other values": _pods("tier", "In", "b", "c"),
            "In on a label that is not there": _pods("zone", "In", "b"),
            "NotIn with the template's value": _pods("tier", "NotIn", "a"),
            "Exists on a label that is not there": _pods("zone", "Exists"),
            "DoesNotExist on a label that is there": _pods("tier", "DoesNotExist"),
        },
    ),
    *(
        Refusal(why, changes, field, "the controller itself writes these labels")
        for why, changes, field in (
            ("a label of ours", _ours("controller-revision-hash"), "spec.selector.matchLabels"),
            ("the state of a hook", _ours("lifecycle.apps.kruise.io/state"), "spec.selector.matchLabels"),
            (
                "a label of ours in an expression",
                _pods("controller-revision-hash", "DoesNotExist"),
                "spec.selector.matchExpressions",
            ),
        )
    ),
    *_alike(
        "spec.selector",
        "empty selector is invalid for daemonset",
        {
            "an empty selector": {"spec.selector": {}},
            "an empty matchLabels": {"spec.selector.matchLabels": {}},
        },
    ),
    _there("no selector", "spec.selector", ABSENT, "Required value"),
    Refusal("an unknown operator", _pods("tier", "Gt", "1"), f"{_EXPRESSION}.operator", 'Unsupported value: "Gt"'),
    Refusal("NotIn without values", _pods("tier", "NotIn"), f"{_EXPRESSION}.values", _NO_VALUES),
    Refusal("Exists with values", _pods("tier", "Exists", "a"), f"{_EXPRESSION}.values", "must be left out"),
    Refusal("a key that is no label key", _pods("-tier", "DoesNotExist"), f"{_EXPRESSION}.key", _KEY),
    *(
        _there(f"node label {key!r}", f"{_BY_NODE}.matchLabels", {key: "x"}, _KEY)
        for key in ("a b", "Up/a", "a/b/c", "", "a/", "k" * 64)
    ),
    _there("a node label's bad value", f"{_BY_NODE}.matchLabels", {"a": "b c"}, "every value must be a label value"),
    Refusal("nodes: In without values", _nodes("a", "In"), f"{_BY_NODE}.matchExpressions[0].values", _NO_VALUES),
    Refusal(
        "nodes: a bad value", _nodes("a", "In", "b c"), f"{_BY_NODE}.matchExpressions[0].values[0]", "should match"
    ),
    Refusal(
        "nodes: a bad operator under OnDelete",
        {"spec.updateStrategy.type": "OnDelete", **_nodes("a", "Lt", "1")},
        f"{_BY_NODE}.matchExpressions[0].operator",
        'Unsupported value: "Lt"',
    ),
)

_OF_ORDER: Final = (
    Refusal("an empty rule of order", _order(), _RULE, "a rule of order must have either groupBy"),
    Refusal("an order by both", _order(groupBy="a", matchLabels={"a": "b"}), _RULE, "must have either groupBy"),
    Refusal("an order by a bad key", _order(groupBy="a b"), f"{_RULE}.groupBy", _KEY),
    Refusal(
        "an order by bad labels",
        _order(matchLabels={"a b": "c"}),
        f"{_RULE}.matchLabels",
        "every key must be a label",
    ),
    Refusal(
        "an order by a bad requirement",
        _order(matchExpressions=[{"key": "a", "operator": "In"}]),
        f"{_RULE}.matchExpressions[0].values",
        "must have at least one value",
    ),
)

_OF_TOPOLOGY: Final = (
    _there("a topology without limits", _TOPOLOGY, {"key": "a"}, "topology must have maxUnavailable, maxDomains"),
    Refusal("a topology without a key", {_TOPOLOGY: {"maxDomains": 1}}, f"{_TOPOLOGY}.key", "Required value"),
    Refusal("a topology by a bad key", _topology(key="a b", maxDomains=1), f"{_TOPOLOGY}.key", _KEY),
    *(
        Refusal(
            f"topology.maxUnavailable {value!r}",
            _topology(maxUnavailable=value),
            f"{_TOPOLOGY}.maxUnavailable",
            "must be a whole number of 1 or more",
        )
        for value in (0, -1, "0%", "5", "101%")
    ),
    Refusal("no domains", _topology(maxDomains=0), f"{_TOPOLOGY}.maxDomains", "greater than or equal to 1"),
)

_OF_LEFT_OUT: Final = tuple(
    Refusal(
        f"unreachableNodes.leaveOut {value!r}",
        {f"{ROLLING}.unreachableNodes": {"leaveOut": value}},
        f"{ROLLING}.unreachableNodes.leaveOut",
        "must be a whole number of 0 or more",
    )
    for value in (-1, "101%", "x")
)

_STEP: Final = f"{ROLLING}.steps[0]"


def _step(**fields: JSON) -> dict[str, object]:
    return {f"{ROLLING}.steps": [{"nodes": 1, **fields}]}


_OF_STEPS: Final = (
    *(
        Refusal(f"steps.nodes {value!r}", _step(nodes=value), f"{_STEP}.nodes", "must be a whole number of 1 or more")
        for value in (0, -1, "0%", "5", "101%")
    ),
    *(
        Refusal(f"steps.soak {value!r}", _step(soak=value), f"{_STEP}.soak", "must be a duration such as 90s")
        for value in ("", "0", "5", "10 m", "1d", "-5m", "720h1s", "721h", "1m.5s")
    ),
    Refusal("an unknown approval", _step(approval="Yes"), f"{_STEP}.approval", 'Unsupported value: "Yes"'),
    Refusal("a step without nodes", {f"{ROLLING}.steps": [{"soak": "1m"}]}, f"{_STEP}.nodes", "Required value"),
)

_CHECK: Final = f"{ROLLING}.checks[0]"


def _check(**fields: object) -> dict[str, object]:
    given = {"name": "errors", "query": "up == 0", **fields}
    check = {key: value for key, value in given.items() if value is not ABSENT}
    return {f"{ROLLING}.steps": [{"nodes": 1}], f"{ROLLING}.checks": [check]}


_FAILURE: Final = f"{ROLLING}.onFailure"


def _failure(**fields: JSON) -> dict[str, object]:
    return {_FAILURE: {"restarts": 3, **fields}}


_OF_FAILURE: Final = (
    _there("onFailure without a limit", _FAILURE, {"after": "5m"}, "onFailure must have unavailableNodes, restarts"),
    *_alike(
        f"{ROLLING}.checks",
        "checks need steps",
        {
            "checks without steps": {f"{ROLLING}.checks": [{"name": "errors", "query": "up == 0"}]},
            "checks with no step": {
                f"{ROLLING}.checks": [{"name": "errors", "query": "up == 0"}],
                f"{ROLLING}.steps": [],
            },
        },
    ),
    *(
        Refusal(f"check {name!r}", _check(name=name), f"{_CHECK}.name", "must be a DNS label")
        for name in ("Errors", "-a", "a-", "a.b", "a_b")
    ),
    Refusal("a check without a query", _check(query=ABSENT), f"{_CHECK}.query", "Required value"),
    Refusal("an empty query", _check(query=""), f"{_CHECK}.query", "should be at least 1 chars long"),
    Refusal("a long query", _check(query="x" * 4097), f"{_CHECK}.query", "Too long: may not be more than 4096"),
    *(
        Refusal(f"query {query!r}", _check(query=query), f"{_CHECK}.query", "a variable must be $namespace, $name")
        for query in ("up{pod=~'$pod'}", "$podss", "${pods}", "$$$x", "a\n$names")
    ),
    Refusal(
        "two checks of one name",
        {**_check(), f"{ROLLING}.checks": [{"name": "a", "query": "up"}, {"name": "a", "query": "down"}]},
        f"{ROLLING}.checks[1]",
        "Duplicate value",
    ),
    Refusal(
        "eleven checks",
        {**_check(), f"{ROLLING}.checks": [{"name": f"a{n}", "query": "up"} for n in range(11)]},
        f"{ROLLING}.checks",
        "must have at most 10 items",
    ),
    *(
        Refusal(
            f"onFailure.unavailableNodes {value!r}",
            _failure(unavailableNodes=value),
            f"{_FAILURE}.unavailableNodes",
            "must be a whole number of 1 or more",
        )
        for value in (0, "0%", "2")
    ),
    Refusal("onFailure.after a day", _failure(after="1d"), f"{_FAILURE}.after", "must be a duration such as 90s"),
    Refusal("no restarts", _failure(restarts=0), f"{_FAILURE}.restarts", "greater than or equal to 1"),
    Refusal("an unknown action", _failure(action="Stop"), f"{_FAILURE}.action", 'Unsupported value: "Stop"'),
)

_OF_NUMBERS: Final = tuple(
    _there(f"{field.rpartition('.')[2]} {value!r}", field, value, says)
    for fields, values, says in (
        (
            (_UNAVAILABLE, _SURGE, f"{ROLLING}.partition"),
            (-1, "-1", "5", "abc", "", "101%", "150%", "1.5%", "-5%", "50 %"),
            "must be a whole number of 0 or more, or a percentage",
        ),
        (
            ("spec.burstReplicas",),
            (0, -1, "0", "0%", "00%", "5", "abc", "101%"),
            "must be a whole number of 1 or more, or a percentage",
        ),
        (("spec.minReadySeconds", "spec.revisionHistoryLimit"), (-1,), "should be greater than or equal to 0"),
    )
    for field in fields
    for value in values
)

_OF_STRATEGY: Final = (
    _there("an unknown strategy", "spec.updateStrategy.type", "InvalidType", 'Unsupported value: "InvalidType"'),
    _there("an unknown rolling update", _TYPE, "Recreate", 'Unsupported value: "Recreate"'),
    _there("type for rollingUpdateType", f"{ROLLING}.type", "Surging", "is called rollingUpdateType here"),
    *_alike(
        _SURGE,
        "may not be set when maxUnavailable is non-zero",
        {
            "surge and unavailable": {_UNAVAILABLE: 1, _SURGE: 1},
            "surge and unavailable in percent": {_UNAVAILABLE: "10%", _SURGE: "5%"},
        },
    ),
    *(
        Refusal(f"zeros: {sorted(changes)}", changes, _UNAVAILABLE, "cannot be 0 when maxSurge is 0")
        for changes in (
            {_UNAVAILABLE: 0, _SURGE: 0},
            {_UNAVAILABLE: "0%", _SURGE: "00%"},
            {_UNAVAILABLE: 0},
            {_SURGE: 0},
            {_TYPE: "Surging", _SURGE: 0},
            {_SURGE: 0, "spec.updateStrategy.type": "OnDelete"},
        )
    ),
    Refusal(
        "in-place with surge", {_TYPE: "InPlaceIfPossible", _SURGE: 1}, _SURGE, "must be 0 for InPlaceIfPossible type"
    ),
    Refusal(
        "Surging with unavailable", {_TYPE: "Surging", _UNAVAILABLE: 1}, _UNAVAILABLE, "must be 0 for Surging type"
    ),
)

_OF_TEMPLATE: Final = (
    _there("restartPolicy OnFailure", f"{POD}.restartPolicy", "OnFailure", "must be Always, or left out"),
    _there(
        "activeDeadlineSeconds",
        f"{POD}.activeDeadlineSeconds",
        600,
        "activeDeadlineSeconds in DaemonSet is not supported",
    ),
    _there("no template", "spec.template", ABSENT, "Required value"),
    _there("a template without spec", POD, ABSENT, "Required value"),
    _there("no containers", _CONTAINERS, [], "should have at least 1 item"),
    Refusal("a container without image", {_CONTAINERS: [{"name": "a"}]}, f"{_CONTAINERS}[0].image", "Required value"),
    Refusal("a container without name", {_CONTAINERS: [{"image": "a"}]}, f"{_CONTAINERS}[0].name", "Required value"),
    Refusal(
        "two containers of one name",
        {_CONTAINERS: [container(), container()]},
        f"{_CONTAINERS}[1]",
        "Duplicate value",
    ),
    _there("a label value that is none", f"{_LABELS}.ver", "a b", "should match"),
    Refusal(
        "a number as node label",
        {f"{POD}.nodeSelector": {"gpu": 1}},
        f"{POD}.nodeSelector.gpu",
        "must be of type string",
    ),
    *_alike(
        ROLLING,
        "maxSurge cannot be used with a hostPort",
        {
            "a host port with surge": {_SURGE: 1, _CONTAINERS: [container(**_PORT)]},
            "a host port with surge in percent": {_SURGE: "10%", _CONTAINERS: [container(**_PORT)]},
            "a host port with Surging": {_TYPE: "Surging", _CONTAINERS: [container(**_PORT)]},
            "a side-car's host port with surge": {
                _SURGE: 1,
                f"{POD}.initContainers": [container(name="side", restartPolicy="Always", **_PORT)],
            },
        },
    ),
    Refusal(
        "the host's network and a port with surge",
        {_SURGE: 1, f"{POD}.hostNetwork": True, _CONTAINERS: [container(ports=[{"containerPort": 53}])]},
        ROLLING,
        "maxSurge cannot be used with hostNetwork and declared ports",
    ),
    _there(
        "an in-place hook",
        "spec.lifecycle.inPlaceUpdate",
        {"labelsHandler": {"a": "b"}},
        "inPlaceUpdate hook is not supported",
    ),
    _there("a preNormal hook", "spec.lifecycle.preNormal", {}, "preNormal hook is not supported"),
    Refusal("a name too long for revisions", {"metadata.name": "a" * 243}, "<nil>", "no more than 242 characters"),
    _there("a name that is no DNS name", "metadata.name", "Agent_1", "lowercase RFC 1123 subdomain"),
)

REFUSALS: Final = (
    *_OF_LABELS,
    *_OF_ORDER,
    *_OF_TOPOLOGY,
    *_OF_LEFT_OUT,
    *_OF_STEPS,
    *_OF_FAILURE,
    *_OF_NUMBERS,
    *_OF_STRATEGY,
    *_OF_TEMPLATE,
)
