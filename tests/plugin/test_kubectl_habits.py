"""What people type because kubectl has it: `help`, its verbs and its formats."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest

from kubectl_plugin.cli import NAME, app, verbs
from kubectl_plugin.runner import ENTRIES
from kubectl_plugin.wording import INSTEAD, in_jq
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
        ("rollout status node-agent", "rollout status", "{} status -w node-agent"),
        ("rollout status ds/node-agent -n obs", "rollout status", "{} status -w ds/node-agent -n obs"),
        ("-n obs rollout status ds node-agent", "rollout status", "{} status -w node-agent -n obs"),
        (
            "rollout status x --watch=false",
            "rollout status",
            "{} status -w x --watch=false",
        ),
        ("rollout undo x -n=obs --to-revision=3", "rollout undo", "{} rollback x --to-revision=3 -n obs"),
        ("rollout undo x --context prod", "rollout undo", "{} --context=prod rollback x"),
        ("--context=prod rollout history x", "rollout history", "{} --context=prod history x"),
        ("rollout restart -l app=x -n obs", "rollout restart", "{} restart -l app=x -n obs"),
        ("rollout pause DaemonSet x", "rollout pause", "{} pause x"),
        ("rollout resume x --token=secret", "rollout resume", "{} resume x"),
        ("rollout resume x --token secret", "rollout resume", "{} resume x"),
        ("rollout nonsense x -n obs", "rollout", "{} help"),
        ("rollout --context=prod", "rollout", "{} --context=prod help"),
        ("help rollout status", "rollout status", "{} status -w --help"),
        ("set image ds/x 'agent=a b' -n obs", "set image", "{} set-image ds/x 'agent=a b' -n obs"),
        ("set env ds/x A=b", "set", "{} help set-image"),
        ("scale ds/x --replicas 3", "scale", "{} help set-partition"),
        ("get ads", "get", "{} status"),
        ("get ads x -o yaml -A", "get", "{} status x -A -o yaml"),
        ("describe daemonset.apps.kruise.io x", "describe", "{} status x"),
        ("edit ads/x -n obs --context prod", "edit", "kubectl --context=prod edit ads x -n obs"),
    ],
)
def test_a_verb_of_kubectl_names_what_to_type(typed: str, verb: str, instead: str) -> None:
    ran = call(*shlex.split(typed))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f'error: no verb "{verb}" here\n  hint: instead: {instead.format(NAME)}\n'


@pytest.mark.parametrize("typed", sorted(INSTEAD))
def test_what_is_named_can_be_typed(typed: str) -> None:
    hint = call(*typed.split(), "x", *(["a=b"] if typed == "set image" else []), "-n", "obs").err.splitlines()[1]
    program, words = hint.split(" kruise-ds ") if "kruise-ds" in hint else (hint, "")
    assert program.endswith("kubectl") or "kubectl edit ads x" in program
    seen = in_process.Typed()
    app(shlex.split(words), prog_name=NAME, obj=seen, standalone_mode=False)
    assert len(seen.asked) == (0 if not words or words.startswith("help") else 1)


DOCUMENT = {"name": "a", "pods": [{"node": "n1"}, {"node": "n2"}], "status": {"done": 3}}


@pytest.mark.parametrize(
    ("form", "hint", "printed"),
    [
        ("jsonpath={.name}", "-o json | jq -r .name", "a\n"),
        ("jsonpath='{.status.done}'", "-o json | jq", None),
        ("jsonpath={.status.done}", "-o json | jq -r .status.done", "3\n"),
        ("jsonpath={$.pods[*].node}", "-o json | jq -r '.pods[].node'", "n1\nn2\n"),
        ("jsonpath=.pods[1].node", "-o json | jq -r '.pods[1].node'", "n2\n"),
        ('jsonpath={range .pods[*]}{.node}{"\\n"}{end}', "-o json | jq", None),
        ("jsonpath={.pods[?(@.node=='n1')]}", "-o json | jq", None),
        (
            "custom-columns=NAME:.name,DONE:.status.done",
            "-o json | jq -r '.items // [.] | .[] | [.name, .status.done] | @tsv'",
            "a\t3\n",
        ),
        ("custom-columns-file=columns.txt", "-o json | jq", None),
        ("go-template={{.name}}", "-o json | jq", None),
    ],
)
def test_a_format_of_kubectl_names_the_same_in_jq(form: str, hint: str, printed: str | None) -> None:
    ran = call("status", "x", "-o", form)
    assert (ran.code, ran.out) == (2, "")
    assert f'no format "{form}": for {form.partition("=")[0]} use {hint}\n' in ran.err
    assert call("-o", form, "status", "x").err.splitlines()[-1] == ran.err.splitlines()[-1]
    jq = shutil.which("jq")
    if jq and printed is not None:
        command = [jq, *shlex.split(in_jq(form).partition("jq ")[2])]
        for document in (DOCUMENT, {"items": [DOCUMENT]}) if "items" in hint else (DOCUMENT,):
            done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, timeout=60)
            assert done.stdout == printed, done.stderr


def test_an_unknown_format_names_those_there_are() -> None:
    assert 'no format "table": use json, yaml, name, wide\n' in call("version", "-o", "table").err
