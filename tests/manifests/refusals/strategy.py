"""Numbers, and what contradicts itself in the update strategy."""

from __future__ import annotations

from typing import Final

from tests.manifests.objects import ROLLING
from tests.manifests.refusals.case import Refusal

_TYPE = f"{ROLLING}.rollingUpdateType"
_SURGE = f"{ROLLING}.maxSurge"
_UNAVAILABLE = f"{ROLLING}.maxUnavailable"
_BOTH = "may not be set when maxUnavailable is non-zero"
_NEITHER = "cannot be 0 when maxSurge is 0"

NUMBERS: Final = tuple(
    Refusal(f"{field.rpartition('.')[2]} {value!r}", {field: value}, field, says)
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

STRATEGY: Final = (
    Refusal(
        "an unknown strategy",
        {"spec.updateStrategy.type": "InvalidType"},
        "spec.updateStrategy.type",
        'Unsupported value: "InvalidType"',
    ),
    Refusal("an unknown rolling update", {_TYPE: "Recreate"}, _TYPE, 'Unsupported value: "Recreate"'),
    Refusal(
        "type for rollingUpdateType",
        {f"{ROLLING}.type": "Surging"},
        f"{ROLLING}.type",
        "is called rollingUpdateType here",
    ),
    Refusal("surge and unavailable", {_UNAVAILABLE: 1, _SURGE: 1}, _SURGE, _BOTH),
    Refusal("surge and unavailable in percent", {_UNAVAILABLE: "10%", _SURGE: "5%"}, _SURGE, _BOTH),
    *(
        Refusal(f"zeros: {sorted(changes)}", changes, _UNAVAILABLE, _NEITHER)
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
        "in-place with surge",
        {_TYPE: "InPlaceIfPossible", _SURGE: 1},
        _SURGE,
        "must be 0 for InPlaceIfPossible type",
    ),
    Refusal(
        "Surging with unavailable", {_TYPE: "Surging", _UNAVAILABLE: 1}, _UNAVAILABLE, "must be 0 for Surging type"
    ),
)
