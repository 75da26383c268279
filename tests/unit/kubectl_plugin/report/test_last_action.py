"""The note of the last action: read back as it was made, and forgiven where somebody else wrote it."""

from __future__ import annotations

import msgspec
import pytest

from kubectl_plugin.report.last_action import LAST_ACTION, action, last_action
from tests.beds.worlds import NOW


def test_what_was_noted_is_read_back() -> None:
    noted = action("pause", by="alice@example.com", now=NOW, reason="CVE triage", client="kubectl-kruise-ds")
    assert last_action({LAST_ACTION: msgspec.json.encode(noted).decode()}) == noted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "paused",
        '{"verb":"pause"}',
        '{"verb":"pause","at":"garbage","client":"x"}',
        '{"verb":"pause","at":"2025-13-20T09:04:10Z","client":"x"}',
        '{"verb":"pause","at":7,"client":"x"}',
        '{"verb":"restart","at":"2025-11-20T09:04:10Z","client":"x","pause":{"verb":"pause","at":"?","client":"x"}}',
        '{"pause":' * 5_000,
    ],
    ids=lambda text: text[-40:],
)
def test_a_garbled_note_is_none(text: str) -> None:
    assert last_action({LAST_ACTION: text}) is None
