"""Decisions are functions of values: no await, no clock, no output, no state between calls.

What they may import says the import contract of pyproject.toml; this test reads the code of the same modules. So
`datetime`, which reads and writes the API's times in `api.objects`, is allowed there; reading the clock is not.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import controller

ROOT = Path(controller.__file__).parent.parent
CONTRACT = "The core is pure"
CLOCKS = frozenset({"now", "today", "utcnow"})
CHANGING = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault"}
)
CHANGING |= {"sort", "update"}
EFFECTS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})


def pure_modules() -> Iterator[Path]:
    """The files of the import contract."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (names,) = [one["source_modules"] for one in contracts if one["name"].startswith(CONTRACT)]
    for name in names:
        path = ROOT.joinpath(*name.split("."))
        yield from sorted(path.glob("**/*.py")) if path.is_dir() else [path.with_suffix(".py")]


PURE = list(pure_modules())


def impurities(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                found.append(f"line {node.lineno}: async or await")
            case ast.Call(func=ast.Name(id=name)) if name in EFFECTS:
                found.append(f"line {node.lineno}: calls {name}")
            case ast.Attribute(attr=name, value=ast.Name(id=of) | ast.Attribute(attr=of)) if name in CLOCKS:
                if of in ("datetime", "date"):
                    found.append(f"line {node.lineno}: reads the clock")
            case ast.Global():
                found.append(f"line {node.lineno}: global state")
    return found + changed_globals(ast.parse(source))


def changed_globals(module: ast.Module) -> list[str]:
    """Where something is changed that the module keeps: a container, or what is in it."""
    kept = set[str]()
    for statement in module.body:
        match statement:
            case ast.Assign(targets=targets):
                kept |= {one.id for one in targets if isinstance(one, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                kept.add(name)
    found = []
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in CHANGING:
                found += [f"line {node.lineno}: changes {name}"] if name in kept else []
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if name in kept:
                found.append(f"line {node.lineno}: changes {name}")
    return found


@pytest.mark.parametrize("path", PURE, ids=[f"{path.parent.name}/{path.name}" for path in PURE])
def test_the_core_is_pure(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


def test_the_core_is_there() -> None:
    assert {"plan.py", "template_identity.py", "patches.py"} <= {path.name for path in PURE}


@pytest.mark.parametrize(
    "bad",
    [
        "async def f(): pass",
        "print(1)",
        "from datetime import datetime\nx = datetime.now()",
        "import datetime\nx = datetime.datetime.now()",
        "def f():\n    global x\n    x = 1",
        "pool = {}\ndef f(x):\n    return pool.setdefault(x, x)",
        "seen: list[int] = []\ndef f(x):\n    seen.append(x)",
        "pool = {}\ndef f(x):\n    pool[x] = x",
    ],
)
def test_an_impurity_is_found(bad: str) -> None:
    assert impurities(bad)
