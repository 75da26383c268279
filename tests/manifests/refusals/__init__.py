"""Objects that break exactly one rule each, with the field and the words that the API server must answer."""

from __future__ import annotations

from typing import Final

from tests.manifests.refusals.case import Refusal
from tests.manifests.refusals.progressive import PROGRESSIVE
from tests.manifests.refusals.selectors import BY_NODE, SELECTOR
from tests.manifests.refusals.strategy import NUMBERS, STRATEGY
from tests.manifests.refusals.template import LIFECYCLE, SURGE, TEMPLATE

__all__ = ["REFUSALS", "Refusal"]

_NAME: Final = (
    Refusal("a name too long for revisions", {"metadata.name": "a" * 243}, "<nil>", "no more than 242 characters"),
    Refusal(
        "a name that is no DNS name", {"metadata.name": "Agent_1"}, "metadata.name", "lowercase RFC 1123 subdomain"
    ),
)

REFUSALS: Final = (*SELECTOR, *BY_NODE, *TEMPLATE, *NUMBERS, *STRATEGY, *SURGE, *LIFECYCLE, *PROGRESSIVE, *_NAME)
