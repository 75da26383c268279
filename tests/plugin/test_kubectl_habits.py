"""What people type because kubectl has it: `help`, its verbs and formats, and switches in every spelling."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kubectl_plugin.flags import GLOBAL_NAMES
from kubectl_plugin.main import INSTEAD, app, verbs
from kubectl_plugin.runner import ENTRIES
from kubectl_plugin.wording import COMMAND
from tests.plugin import in_process
from tests.plugin.in_process import Ran


def call(*words: str) -> Ran:
    return in_process.call([*words])


@pytest.mark.parametrize("words", [(), *((entry.name,) for entry in ENTRIES)], ids=" ".join)
def test_help_of_a_verb_is_what_its_flag_tells(words: tuple[str, ...]) -> None:
    ran = call("help", *words)
    assert ran == call(*words, "--help")
    assert (ran.code, ran.err) == (0, "")


def test_help_of_what_is_no_verb() -> None:
    ran = call("help", "stats")
    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean 'status'" in ran.err


def test_help_is_offered_like_a_verb() -> None:
    assert verbs("he") == ["help\tHelp about a verb"]


@pytest.mark.parametrize(
    ("typed", "verb", "instead"),
    [
        ("rollout status node-agent", "rollout status", "{} status -w NAME"),
        ("-n obs rollout status ds node-agent", "rollout status", "{} status -w NAME"),
        ("rollout status x --watch=false", "rollout status", "{} status -w NAME"),
        ("rollout undo x -n=obs --to-revision=3", "rollout undo", "{} rollback NAME"),
        ("rollout undo x --context prod", "rollout undo", "{} --context=prod rollback NAME"),
        ("--context=prod rollout history x", "rollout history", "{} --context=prod history NAME"),
        ("rollout restart -l app=x -n obs", "rollout restart", "{} restart NAME"),
        ("rollout pause DaemonSet x", "rollout pause", "{} pause NAME"),
        ("rollout resume x --token secret", "rollout resume", "{} resume NAME"),
        ("rollout nonsense x -n obs", "rollout", "{} help"),
        ("rollout --context=prod", "rollout", "{} --context=prod help"),
        ("help rollout status", "rollout status", "{} status -w NAME"),
        ("set image ds/x 'agent=a b' -n obs", "set image", "{} set-image NAME CONTAINER=IMAGE"),
        ("set env ds/x A=b", "set", "{} help set-image"),
        ("scale ds/x --replicas 3", "scale", "{} help set-partition"),
        ("get ads x -o yaml -A", "get", "{} status"),
        ("describe daemonset.apps.kruise.io x", "describe", "{} status NAME"),
        ("edit ads/x -n obs --context prod", "edit", "kubectl --context=prod edit ads NAME"),
    ],
)
def test_a_verb_of_kubectl_names_what_to_type(typed: str, verb: str, instead: str) -> None:
    ran = call(*shlex.split(typed))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f'error: no verb "{verb}" here\n  hint: instead: {instead.format(COMMAND)}\n'


@pytest.mark.parametrize("typed", sorted(INSTEAD.keys() - {"edit"}))
def test_what_is_named_can_be_typed(typed: str) -> None:
    words = call(*typed.split()).err.splitlines()[1].partition(" kruise-ds ")[2]
    seen = in_process.Typed()
    app(shlex.split(words), prog_name=COMMAND, obj=seen, standalone_mode=False)
    assert len(seen.asked) == (0 if words.startswith("help") else 1)


@pytest.mark.parametrize("form", ["jsonpath={.name}", "custom-columns=NAME:.name", "go-template={{.name}}"])
def test_a_format_of_kubectl_names_another_way(form: str) -> None:
    ran = call("status", "x", "-o", form)
    assert (ran.code, ran.out) == (2, "")
    assert f'no format "{form}": for {form.partition("=")[0]} use -o json and jq\n' in ran.err
    assert call("-o", form, "status", "x").err.splitlines()[-1] == ran.err.splitlines()[-1]


def test_an_unknown_format_names_those_there_are() -> None:
    assert 'no format "table": use json, yaml, name, wide\n' in call("version", "-o", "table").err


ROOT: Any = typer.main.get_command(app)
ABOVE = typer.Context(ROOT, info_name=COMMAND)
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
    app([*words], prog_name=COMMAND, obj=typed, standalone_mode=False)
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
    app(["restart", "-l", "--yes", "--yes=false"], prog_name=COMMAND, obj=typed, standalone_mode=False)
    assert (typed.asked[0][1].selector, typed.asked[0][1].yes) == ("--yes", False)


def test_help_that_is_turned_off_is_not_shown() -> None:
    assert in_process.call(["version", "--client", "--help=false"]).out.startswith("Client")
    assert in_process.call(["version", "--client", "--help=true"]).out.startswith("Usage")
