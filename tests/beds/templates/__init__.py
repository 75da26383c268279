"""Pod templates as people write them, and as an API server stores them in a native DaemonSet.

`written` has every kind of volume, probe, handler, port, variable and toleration; `zeros` says of each field that it
asks for nothing. What is stored is recorded from the pinned Kubernetes, by tests/contract/test_native_templates.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tests.beds.api import Object

FOLDER: Final = Path(__file__).parent
NAMES: Final = ("written", "zeros")


def given(name: str) -> Object:
    found: Object = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def stored(name: str) -> Object:
    return given(f"{name}-stored")


def record(name: str, answer: Object) -> None:
    """Keep what an API server has stored."""
    text = yaml.safe_dump(answer, sort_keys=False, default_flow_style=None, width=118)
    (FOLDER / f"{name}-stored.yaml").write_text(text)


def known_part(sent: Object, answer: Object) -> Object:
    """`sent` without the fields that the answer does not have at all: the server does not know them, or has their
    feature switched off."""

    def common(one: Any, other: Any) -> Any:
        if isinstance(one, dict) and isinstance(other, dict):
            return {key: common(value, other[key]) for key, value in one.items() if key in other}
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            return [common(*pair) for pair in zip(one, other, strict=True)]
        return one

    found: Object = common(sent, answer)
    return found
