"""Every switch of every verb, on and off in every spelling that kubectl takes: the last one wins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kubectl_plugin.cli import NAME, app
from kubectl_plugin.flags import GLOBAL_NAMES
from kubectl_plugin.runner import ENTRIES
from tests.plugin import in_process

ROOT: Any = typer.main.get_command(app)
ABOVE = typer.Context(ROOT, info_name=NAME)
WORDS = {"shell": "bash", "value": "1"}
"""Of arguments that not every word is for."""


def switches() -> Iterator[Any]:
    """Those that every verb has once: their code is the same."""
    for entry in ENTRIES:
        verb = ROOT.get_command(ABOVE, entry.name)
        needed = tuple(WORDS.get(one.name, "x") for one in verb.params if one.required)
        for one in verb.params:
            if getattr(one, "is_flag", False) and (one.name not in GLOBAL_NAMES or entry.name == "version"):
                yield pytest.param((entry.name, *needed), one, id=f"{entry.name} {one.opts[-1]}")


def is_on(switch: Any, words: tuple[str, ...]) -> bool:
    typed = in_process.Typed()
    app([*words], prog_name=NAME, obj=typed, standalone_mode=False)
    ((flags, asked),) = typed.asked
    found = getattr(flags if switch.name in GLOBAL_NAMES else asked, switch.name)
    assert isinstance(found, bool)
    return found


def ons(switch: Any) -> Iterator[tuple[str, ...]]:
    for name in switch.opts:
        yield from ((name,), (f"{name}=true",), (f"{name}=false", name), (f"{name}=f", f"{name}=T"))
        if not name.startswith("--"):
            yield (f"-v{name[1:]}",)
            yield (f"-v{name[1:]}=1",)
    for name in switch.secondary_opts:
        yield (f"{name}=false",)
        yield (name, f"{name}=0")


def offs(switch: Any) -> Iterator[tuple[str, ...]]:
    for name in switch.opts:
        yield from ((f"{name}=false",), (f"{name}=0",), (name, f"{name}=False"), (f"{name}=true", f"{name}=F"))
        if not name.startswith("--"):
            yield (f"-v{name[1:]}=false",)
            yield (name, f"{switch.opts[-1]}=FALSE")
    for name in switch.secondary_opts:
        yield from ((name,), (f"{name}=true",), (f"{name}=false", name), (switch.opts[-1], name))


def places(words: tuple[str, ...], spelled: tuple[str, ...], switch: Any) -> Iterator[tuple[str, ...]]:
    verb, *rest = words
    yield (verb, *spelled, *rest)
    yield (*words, *spelled)
    if switch.name in GLOBAL_NAMES:
        for index in range(1, len(spelled) + 1):
            yield (*spelled[:index], *words, *spelled[index:])


@pytest.mark.parametrize(("words", "switch"), [*switches()])
def test_a_switch_can_be_turned_on_and_off(words: tuple[str, ...], switch: Any) -> None:
    assert is_on(switch, words) is switch.default
    for wanted, spellings in ((True, ons(switch)), (False, offs(switch))):
        for spelled in spellings:
            for typed in places(words, spelled, switch):
                assert is_on(switch, typed) is wanted, typed


@pytest.mark.parametrize(("words", "switch"), [*switches()])
def test_a_switch_takes_no_other_value(words: tuple[str, ...], switch: Any) -> None:
    for name in (*switch.opts, *switch.secondary_opts):
        if name.startswith("--"):
            for value in ("maybe", ""):
                assert in_process.call([*words, f"{name}={value}"]).code == 2, f"{name}={value}"


def test_the_value_of_another_flag_is_no_switch() -> None:
    typed = in_process.Typed()
    app(["restart", "-l", "--yes", "--yes=false"], prog_name=NAME, obj=typed, standalone_mode=False)
    assert (typed.asked[0][1].selector, typed.asked[0][1].yes) == ("--yes", False)


def test_help_that_is_turned_off_is_not_shown() -> None:
    assert in_process.call(["version", "--client", "--help=false"]).out.startswith("Client")
    assert in_process.call(["version", "--client", "--help=true"]).out.startswith("Usage")
