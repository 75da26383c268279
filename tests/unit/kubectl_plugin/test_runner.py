"""The functions that the table of verbs and <TAB> name as text are there: they are imported when they are called."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import typer

from kubectl_plugin import flags, runner
from kubectl_plugin.options import ActingOptions

FUNCTIONS = sorted({name for one in runner.ENTRIES for name in (one.function, one.offline) if name})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_function_of_each_verb_is_there(function: str) -> None:
    assert callable(runner.imported_function(function))


def test_a_verb_that_changes_an_object_has_the_reason_of_its_event() -> None:
    """ImagePullJobs and native DaemonSets get no Event of ours."""
    changes = {one.name for one in runner.ENTRIES if issubclass(one.options, ActingOptions)}
    assert changes >= {"pause", "set-partition", "apply"}
    assert {one.name for one in runner.ENTRIES if re.fullmatch("([A-Z][a-z]+)+", one.event)} == changes


@pytest.mark.parametrize("what", ["names", "natives", "namespaces", "contexts", "revisions", "containers"])
def test_the_function_that_looks_up_each_sort_of_candidates_is_there(what: str) -> None:
    class Context:
        @staticmethod
        def obj(function: str) -> Callable[[Any, str], list[str]]:
            assert callable(runner.imported_function(f"completion.{function}"))
            return lambda context, incomplete: [function]

    assert getattr(flags, what)(cast("typer.Context", Context), "")
