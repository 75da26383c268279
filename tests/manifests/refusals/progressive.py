"""The fields of progressive rollouts."""

from __future__ import annotations

from typing import Final

from controller.api.objects import JSON
from tests.manifests.objects import ROLLING
from tests.manifests.refusals.case import Refusal

_RULE: Final = f"{ROLLING}.order[0]"


def _order(**rule: JSON) -> dict[str, object]:
    return {f"{ROLLING}.order": [rule]}


_ORDER: Final = (
    Refusal("an empty rule of order", _order(), _RULE, "a rule of order must have either groupBy"),
    Refusal("an order by both", _order(groupBy="a", matchLabels={"a": "b"}), _RULE, "must have either groupBy"),
    Refusal("an order by a bad key", _order(groupBy="a b"), f"{_RULE}.groupBy", "must be a label key"),
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

PROGRESSIVE: Final = (*_ORDER,)
