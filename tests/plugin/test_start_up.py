"""Help and <TAB> must feel immediate: what they import, and what they cost beside Python with typer alone."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("aiohttp", "asyncio", "msgspec", "rich", "yaml")
ALL_LOADED = """
import json, sys
sys.argv = ["kubectl-kruise_ds", *sys.argv[1:]]
from kubectl_plugin import main
try:
    {call}
except SystemExit:
    pass
print("LOADED", json.dumps(sorted(sys.modules)))
"""
TYPER = ("-c", "import typer")
RUNS = 7


def loaded(call: str, *words: str) -> set[str]:
    """All modules that are there when the program has ended."""
    command = [sys.executable, "-c", ALL_LOADED.format(call=call), *words]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    return set(json.loads(out.rpartition("LOADED ")[2]))


def took(words: Sequence[str]) -> float:
    """Seconds of processor time, of which a busy machine takes no more than an idle one."""
    began = _of_children()
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True, timeout=60)
    return _of_children() - began


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("main.main()", ["--help"]),
        ("main.main()", []),
        ("main.main()", ["status", "--help"]),
        ("main.main()", ["promote"]),
        ("main.complete()", ["st"]),
        ("main.complete()", ["status", "--w"]),
        ("main.complete()", ["status", "-o", ""]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else given,
)
def test_nothing_heavy_is_imported_for(call: str, words: list[str]) -> None:
    assert sorted(loaded(call, *words) & set(HEAVY)) == []


def test_the_version_of_the_client_is_known_without_a_way_to_the_server() -> None:
    assert sorted(loaded("main.main()", "version", "--client") & {"aiohttp", "msgspec"}) == []


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["-m", "kubectl_plugin", "--help"], 2.5),
        (["-c", "from kubectl_plugin.main import complete; complete()", "st"], 2.5),
        (["-c", "from kubectl_plugin.main import complete; complete()", "status", "--w"], 6.0),
    ],
    ids=["help", "a verb", "a flag"],
)
def test_start_up_beside_typer_alone(words: list[str], most: float) -> None:
    """Ratios of interleaved runs, because seconds do not travel. A flag costs more: typer then imports pydantic."""
    ratios = [took(words) / took(TYPER) for _ in range(RUNS)]
    assert median(ratios) < most, f"times as long as `import typer`: {[round(ratio, 2) for ratio in ratios]}"
