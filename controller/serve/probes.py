"""Health and readiness: named checks, and a page that says which one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from controller.serve.server import Asked, Route, ServedPage, text

Check: TypeAlias = Callable[[], str]
"""Empty when all is well; otherwise why not, in words that fit on one line."""


def probe(name: str, checks: Mapping[str, Check]) -> Route:
    """The page `name` (healthz, readyz): 200 when every check is well, else 503.

    Lists the checks when asked (`?verbose`) and whenever one fails, in the format of the API server's own.
    """

    def page(asked: Asked) -> ServedPage:
        results = {check: is_well() for check, is_well in checks.items()}
        failed = any(results.values())
        if not failed and not asked.verbose:
            return text("ok")
        lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in results.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return text("\n".join(lines) + "\n", 503 if failed else 200)

    return page
