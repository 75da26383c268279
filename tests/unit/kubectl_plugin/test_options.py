"""Options that contradict each other, what they are by default, and flags typed before and after the verb."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubectl_plugin.errors import ExitCode, UsageError
from kubectl_plugin.flags import GlobalFlags, Options, Output
from kubectl_plugin.options import (
    KEPT_MANAGER,
    KUBECTL,
    ApplyOptions,
    DryRun,
    ListOptions,
    NodesOptions,
    PauseOptions,
    PlanOptions,
    PromoteOptions,
    PullOptions,
    RestartOptions,
    RetryOptions,
    RollbackOptions,
    SetImageOptions,
    StatusOptions,
)
from kubectl_plugin.wording import CLIENT

NODES, PULL = NodesOptions(name="a", by_domain=True), PullOptions(image="agent:v2")
RESTART = RestartOptions(names=("a",), wait=True)
CONTRADICTIONS: tuple[Options, ...] = (
    StatusOptions(names=("a",), files=("f",)),
    StatusOptions(selector="a=b", files=("f",)),
    StatusOptions(all_namespaces=True, kustomize="."),
    StatusOptions(names=("a",), selector="a=b"),
    StatusOptions(names=("a",), all_namespaces=True),
    StatusOptions(timeout="5m"),
    StatusOptions(plain=True),
    StatusOptions(revision=2),
    StatusOptions(generation=2),
    StatusOptions(image="agent:v2"),
    StatusOptions(require_full=True),
    StatusOptions(fail_fast=True),
    replace(NODES, only="old"),
    replace(NODES, excluded=True),
    replace(NODES, zone="a"),
    replace(NODES, by="arch"),
    replace(NODES, sort="age"),
    PlanOptions(),
    PlanOptions(name="a", waves=-1),
    replace(RESTART, wait=False, timeout="5m"),
    replace(RESTART, dry_run=DryRun.CLIENT),
    replace(RESTART, dry_run=DryRun.SERVER),
    replace(RESTART, print_patch=True),
    PauseOptions(),
    PauseOptions(selector="  "),
    PauseOptions(names=("a",), everything=True),
    PauseOptions(selector="a=b", everything=True),
    PauseOptions(names=("a",), all_namespaces=True),
    ApplyOptions(),
    replace(PULL, selector="  "),
)


@pytest.mark.parametrize("options", CONTRADICTIONS)
def test_what_does_not_go_together_is_wrong_usage(options: Options) -> None:
    with pytest.raises(UsageError) as failed:
        options.check()
    assert failed.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    "options",
    [
        StatusOptions(watch=True, timeout="5m", plain=True, revision=2),
        StatusOptions(exit_code=True, image="agent:v2", fail_fast=True),
        ListOptions(selector="a=b", all_namespaces=True),
        NODES,
        PlanOptions(files=("f",), waves=0),
        replace(RESTART, timeout="5m"),
        PauseOptions(everything=True, all_namespaces=True),
        ApplyOptions(kustomize="."),
        replace(PULL, selector="a=b"),
    ],
)
def test_anything_else_is_let_through(options: Options) -> None:
    options.check()


def test_who_writes_by_default() -> None:
    """Annotations of promote and retry have to outlast the next sync; apply shares its fields with kubectl."""
    managers = {kind: kind.field_manager for kind in (PauseOptions, RollbackOptions, RestartOptions, SetImageOptions)}
    assert set(managers.values()) == {PullOptions.field_manager} == {CLIENT}
    assert {PromoteOptions.field_manager, RetryOptions.field_manager} == {KEPT_MANAGER}
    assert ApplyOptions.field_manager == KUBECTL


def test_a_flag_after_the_verb_goes_before_one_ahead_of_it() -> None:
    before = GlobalFlags(namespace="a", context="dev", as_groups=("one",), verbose=1, quiet=True)
    both = before.followed_by(GlobalFlags(namespace="b", output=Output.JSON, verbose=2))
    assert both == replace(before, namespace="b", output=Output.JSON, verbose=2)


def test_the_flags_of_the_cluster_go_into_hints() -> None:
    flags = GlobalFlags(kubeconfig="k", context="c", cluster="l", user="u", server="s", as_user="a", namespace="n")
    named = ("kubeconfig=k", "context=c", "cluster=l", "user=u", "server=s", "as=a")
    assert flags.of_cluster == tuple(f"--{one}" for one in named)
