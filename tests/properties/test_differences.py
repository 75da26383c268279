"""The plugin tells a difference of two templates exactly where the controller sees one."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.api.objects import JSONObject
from controller.api.template_identity import identity
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.history import summary

WORDS = st.sampled_from(["", "a", "b", "Always", "100m", "0.1", "TCP", "***"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), WORDS)
NAMED = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("name", "value", "image", "imagePullPolicy", "key", "effect", "containerPort"), VALUES),
)
FIELDS = st.sampled_from(
    ["containers", "env", "args", "ports", "tolerations", "labels", "annotations", "limits", "selector", "odd/key"]
)
TREES = st.recursive(
    VALUES | NAMED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=12,
)
TEMPLATES: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional={"metadata": TREES, "spec": TREES})


@st.composite
def pairs(draw: st.DrawFn) -> tuple[JSONObject, JSONObject]:
    """A template, and the same with something changed in a few places."""
    old: JSONObject = draw(TEMPLATES)
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(0, 3))):
        _change_somewhere(draw, new)
    return old, new


def _change_somewhere(draw: st.DrawFn, tree: Any) -> None:
    while isinstance(tree, dict | list) and tree:
        key = draw(st.sampled_from(list(tree) if isinstance(tree, dict) else range(len(tree))))
        match draw(st.sampled_from(["down", "down", "replace", "remove", "reverse"])):
            case "replace":
                tree[key] = draw(TREES)
            case "remove":
                del tree[key]
            case "reverse" if isinstance(tree, list):
                tree.reverse()
            case _:
                tree = tree[key]
                continue
        return


@given(pairs())
def test_there_is_a_difference_exactly_when_the_controller_sees_one(pair: tuple[JSONObject, JSONObject]) -> None:
    old, new = pair
    assert (differences(old, new) == ()) == (identity(old) == identity(new))
    assert differences(old, old) == ()
    assert bool(summary(differences(old, new))) == (identity(old) != identity(new))
