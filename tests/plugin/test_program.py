"""The program around the verbs: flags on either side, help, wrong usage, and how it ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.errors import CommandError, Refused
from kubectl_plugin.flags import GlobalFlags, Output
from kubectl_plugin.host import Host
from kubectl_plugin.main import app
from kubectl_plugin.runner import ENTRIES, SHOWN, Entry, Runner, imported_function
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.wording import COMMAND
from tests.plugin import in_process

ROOT = Path(__file__).parents[2]
NOWHERE = "--kubeconfig=/nonexistent/config"


def call(*words: str, host: Callable[..., Host] = Host) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    ran = in_process.call([*words], host=host)
    return ran.code, ran.out, ran.err


class Seen(Runner):
    """The flags with which verbs were called; no verb runs."""

    def __init__(self) -> None:
        super().__init__(Host())
        self.flags: list[GlobalFlags] = []

    def run(self, flags: GlobalFlags, *_: object, **__: object) -> None:
        self.flags.append(flags)


def flags_of(*words: str) -> list[GlobalFlags]:
    seen = Seen()
    app([*words], prog_name=COMMAND, obj=seen, standalone_mode=False)
    return seen.flags


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "obs", "version"),
        ("version", "-n", "obs"),
        ("--namespace=obs", "version"),
        ("-n", "early", "version", "-n", "obs"),
        ("-n", "early", "version", "-n", "middle", "--namespace", "obs"),
        ("-n=obs", "version"),
        ("version", "-n=obs"),
        ("version", "-qn=obs"),
        ("version", "-nobs"),
        ("version", "-vqnobs"),
        ("version", "--token", "-n=early", "-n=obs"),
    ],
    ids=" ".join,
)
def test_flags_may_stand_before_or_after_the_verb_and_the_later_wins(words: tuple[str, ...]) -> None:
    assert [flags.namespace for flags in flags_of(*words)] == ["obs"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("status", "-l=a=b"), {"selector": "a=b"}),
        (("status", "-l==b"), {"selector": "=b"}),
        (("status", "-o=json", "-A"), {"output": Output.JSON, "all_namespaces": True}),
        (("status", "-Aojson"), {"output": Output.JSON, "all_namespaces": True}),
        (("status", "-f=x"), {"files": ("x",)}),
        (("status", "-f=x", "-Rf", "-n=y"), {"files": ("x", "-n=y"), "recursive": True}),
        (("status", "-k=x", "-w=true"), {"kustomize": "x", "watch": True}),
        (("status", "-s=https://h:1?a=b"), {"server": "https://h:1?a=b"}),
        (("status", "-n=x", "--", "-n=y"), {"namespace": "x", "names": ("-n=y",)}),
        (("-n=x", "status", "-f", "--quiet=true"), {"files": ("--quiet=true",), "quiet": False}),
        (("status", "-v=6"), {"verbose": 2}),
        (("status", "-v=1", "--verbose=0"), {"verbose": 1}),
    ],
    ids=str,
)
def test_short_flags_take_values_as_kubectls_do(words: tuple[str, ...], found: dict[str, Any]) -> None:
    typed = in_process.Typed()
    app([*words], prog_name=COMMAND, obj=typed, standalone_mode=False)
    ((flags, asked),) = typed.asked
    assert {name: getattr(asked, name, getattr(flags, name, None)) for name in found} == found


@pytest.mark.parametrize("columns", ["²", "eighty", "-1", "1" * 5000, "٣"])
def test_columns_that_are_no_number_are_refused_in_plain_words(columns: str) -> None:
    ran = in_process.call(["version", "--client"], environ={"COLUMNS": columns})
    assert (ran.code, ran.err) == (2, f'error: invalid COLUMNS "{columns}": use a number such as 120\n')


def test_lines_that_are_no_number_disturb_nothing() -> None:
    assert in_process.call(["version", "--client"], environ={"LINES": "²", "COLUMNS": "0"}).code == 0


@pytest.mark.parametrize("word", ["--ascii=maybe", "--context=", "--yes=true"])
def test_switches_have_no_other_values_and_other_flags_keep_theirs(word: str) -> None:
    code, _, _ = call("version", "--client", word)
    assert code == (0 if word == "--context=" else 2)


def test_flags_of_both_sides_come_together() -> None:
    (flags,) = flags_of("--context", "prod", "-v", "version", "-o", "yaml", "--as-group", "a", "--as-group", "b")
    assert (flags.context, flags.verbose, flags.output) == ("prod", 1, Output.YAML)
    assert flags.as_groups == ("a", "b")


def test_without_arguments_it_helps() -> None:
    code, out, err = call()
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {COMMAND} ")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_every_verb_once_under_its_heading(flag: str) -> None:
    code, out, _ = call(flag)
    assert code == 0
    lines = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line.strip()]
    assert [word for word in lines if word in {entry.name for entry in ENTRIES}] == [entry.name for entry in SHOWN]
    assert "--install-completion" not in out, "typer's own would install completion for a program that nobody calls"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.name))
def test_each_verb_helps_under_the_name_that_people_type(entry: object) -> None:
    name = getattr(entry, "name", "")
    code, out, _ = call(name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: {COMMAND} {name} ")
    assert not re.search(r"\[\[|{", out.splitlines()[0]), "brackets within brackets, or around what is needed"
    assert "--kubeconfig" not in out, "the flags of every verb are told once"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.name))
def test_each_verb_is_carried_out_by_what_takes_its_options(entry: Entry) -> None:
    functions = [imported_function(name) for name in (entry.function, entry.offline) if name]
    assert functions
    for function in functions:
        *_, wanted, _ = function.__annotations__.values()
        assert issubclass(entry.options, eval(wanted, function.__globals__))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stats"], "Did you mean 'status'"),
        (["version", "--nonsense"], "--nonsense"),
        (["history"], "NAME"),
        (["version", "-o", "table"], "table"),
        (["completion", "tcsh"], "tcsh"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_wrong_usage_is_2_and_says_what(words: list[str], says: str) -> None:
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert f"{COMMAND} " in err


def test_a_format_that_the_verb_does_not_have_is_wrong_usage() -> None:
    code, out, err = call("version", "--client", "-o", "wide")
    assert (code, out) == (2, "")
    assert err == 'error: this verb has no output format "wide": use json, yaml\n'


@pytest.mark.parametrize("labels", [(), ("-l", ""), ("-l", " ")], ids=str)
@pytest.mark.parametrize("verb", ["pause", "resume", "restart", "rollback", "migrate"])
def test_wrong_usage_is_reported_without_a_kubeconfig(verb: str, labels: tuple[str, ...]) -> None:
    code, out, err = call(verb, *labels, NOWHERE)
    assert (code, out, err) == (2, "", "error: which one? give a name, -l LABELS or --all\n")


def test_an_error_is_one_line_and_hints() -> None:
    code, out, err = call("version", NOWHERE)
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "error: no kubeconfig: /nonexistent/config does not exist"
    assert all(line.startswith("  hint: ") for line in err.splitlines()[1:])


def test_vv_shows_where_an_error_comes_from() -> None:
    _, _, err = call("version", NOWHERE, "-vv")
    assert "Traceback" in err


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (Refused("not now"), 6, "error: not now\n"),
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("some\nwords"), 1, "error: RuntimeError: some words\n"),
    ],
    ids=["refused", "Ctrl-C", "a mistake of ours"],
)
def test_whatever_a_verb_raises_becomes_an_exit_code(raised: BaseException, code: int, says: str) -> None:
    class Failing(Host):
        def version(self) -> str:
            raise raised

    found, out, err = call("version", "--client", host=Failing)
    assert (found, out) == (code, "")
    assert err.startswith(says)
    assert "Traceback" not in err


def test_vv_shows_where_a_mistake_of_ours_is() -> None:
    class Stumbling(Host):
        def version(self) -> str:
            raise RuntimeError("some words")

    _, _, err = call("version", "--client", "-vv", host=Stumbling)
    assert "Traceback" in err
    assert "in client_version" in err


def test_a_reader_that_goes_away_is_no_error_but_no_success_either() -> None:
    """As with `| head -0`: the pipe is closed before anything is written. Other programs end so too."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kubectl_plugin", "version", "--client"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_clock_that_cannot_be_read_is_wrong_usage() -> None:
    terminal = Terminal(GlobalFlags(), Host({"KRUISE_DS_NOW": "noon"}))
    with pytest.raises(CommandError) as refused:
        terminal.now()
    assert refused.value.message == 'invalid KRUISE_DS_NOW "noon": use a time such as 2025-11-20T12:04:10Z'
    assert refused.value.exit_code == 2
