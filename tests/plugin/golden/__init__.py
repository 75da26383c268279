"""Golden files: what verbs print, kept so that a change of their looks is seen before it is made.

`KRUISE_DS_GOLDEN=write` in the environment writes them anew instead of comparing; read the difference then.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Compare `text` with `NAME.txt` of this folder; `name` may have folders: `status/canary`."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("KRUISE_DS_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == kept, (
        f"{path.relative_to(FOLDER.parents[2])} reads otherwise; KRUISE_DS_GOLDEN=write accepts it:\n{text}"
    )
