"""Decisions are functions of values: no await, no clock, no chance, no logging, no I/O.

The import contract says so too; this test says it without the tool, and about the code rather than its imports alone.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import controller

ROOT = Path(controller.__file__).parent
PURE = sorted([*(ROOT / "planner").glob("**/*.py"), *(ROOT / "api").glob("**/*.py")])
FORBIDDEN = frozenset(
    {"asyncio", "aiohttp", "logging", "os", "pathlib", "random", "secrets", "socket", "structlog", "subprocess"}
    | {"threading", "time", "uuid", "prometheus_client"}
)
CLOCKS = frozenset({"now", "today", "utcnow"})
EFFECTS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})


def impurities(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append(f"line {node.lineno}: async or await")
            case ast.Import():
                found += [f"imports {one.name}" for one in node.names if one.name.partition(".")[0] in FORBIDDEN]
            case ast.ImportFrom() if (node.module or "").partition(".")[0] in FORBIDDEN:
                found.append(f"imports {node.module}")
            case ast.Call(func=ast.Name(id=name)) if name in EFFECTS:
                found.append(f"line {node.lineno}: calls {name}")
            case ast.Attribute(attr=name) if name in CLOCKS and isinstance(node.value, ast.Name):
                if node.value.id in ("datetime", "date"):
                    found.append(f"line {node.lineno}: reads the clock")
            case ast.Global():
                found.append(f"line {node.lineno}: global state")
    return found


@pytest.mark.parametrize("path", PURE, ids=[f"{path.parent.name}/{path.name}" for path in PURE])
def test_the_core_is_pure(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


def test_the_core_is_there() -> None:
    assert {"plan.py", "canonical.py"} <= {path.name for path in PURE}


@pytest.mark.parametrize(
    "bad",
    [
        "import time",
        "import os.path",
        "from random import choice",
        "async def f(): pass",
        "print(1)",
        "from datetime import datetime\nx = datetime.now()",
        "def f():\n    global x\n    x = 1",
    ],
)
def test_an_impurity_is_found(bad: str) -> None:
    assert impurities(bad)
