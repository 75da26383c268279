"""Tables of nodes and revisions, and the checks of doctor, row by row."""

from __future__ import annotations

import pytest

from controller.api.daemonset import Phase
from controller.planner.explanation import NodeState
from kubectl_plugin.render.listings import checks_text, comparison_text, history_table, node_table, overview
from kubectl_plugin.rollout.diff import differences
from kubectl_plugin.rollout.doctor_checks import DoctorCheck, Level
from kubectl_plugin.rollout.document import OverviewLine
from kubectl_plugin.rollout.history import ComparedSide, Comparison, RevisionRow
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.snapshot import NodePull, PullStage
from tests.beds.snapshots import detail
from tests.beds.worlds import NOW, pod, revision, template


def node(name: str, *, known: int | None = 2, image: NodePull | None = None) -> NodeRow:
    seen = detail(pod(name, "v2"))
    return NodeRow(
        node=name,
        group="a",
        state=NodeState.UPDATED,
        revision=known,
        pod=seen,
        how="",
        why="",
        failure=None,
        image=image,
    )


def table_of(*rows: NodeRow, width: int | None = 120) -> list[list[str]]:
    return [line.split() for line in node_table(rows, now=NOW, width=width, only_ascii=True).plain.splitlines()]


def test_columns_of_nodes_are_there_where_a_row_needs_them() -> None:
    plain = ["NODE", "GROUP", "STATE", "REV", "POD", "READY", "RESTARTS", "AGE", "HOW", "WHY"]
    assert table_of(node("n-1"))[0] == plain
    pulling = NodePull(stage=PullStage.PULLING)
    assert table_of(node("n-1"), node("n-2", image=pulling))[0] == [*plain[:-1], "IMAGE", "WHY"]
    assert table_of(node("n-1"), width=None)[0] == [*plain[:-1], "HASH", "MESSAGE", "WHY"]
    assert [row[3] for row in table_of(node("n-1"), node("n-2", known=None))[1:]] == ["2", "?"]


def row(nodes: int | None) -> RevisionRow:
    return RevisionRow(
        revision=revision("v1"),
        created=NOW - 60,
        live=False,
        nodes=nodes,
        images={"main": "demo:v1"},
        differing=("main",),
        changes=(),
        way=None,
        mark="",
        oldest=False,
        limit=10,
        cause="",
    )


def test_the_nodes_of_a_revision_are_unknown_where_pods_are() -> None:
    lines = history_table([row(None), row(0)], now=NOW, width=120, only_ascii=True, wide=False).plain.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["1", "60s", "<unknown>"], ["1", "60s", "0"]]


@pytest.mark.parametrize(("unstored", "words"), [(True, ", not stored as a revision yet"), (False, "")])
def test_a_live_template_that_is_no_revision_yet_says_so(unstored: bool, words: str) -> None:
    live = ComparedSide(template=template("v2"), live=True, unstored=unstored)
    file = ComparedSide(template=template("v3"), file="ds.yaml")
    changes = differences(live.template, file.template)
    lines = comparison_text(
        Comparison(name="demo", old=live, new=file, changes=changes, verdict="1 change"), now=NOW, only_ascii=True
    ).plain.splitlines()
    assert lines[:2] == [f"--- demo live{words}", "+++ demo ds.yaml"]


def test_checks_that_are_well_share_a_line_and_no_hint_is_lost() -> None:
    fine = [DoctorCheck(Level.OK, "a", "all is well"), DoctorCheck(Level.OK, "b", "so is this")]
    hinted = DoctorCheck(Level.OK, "c", "this too", ("look here",))
    bad = DoctorCheck(Level.WARN, "d", "this is not", ("look there",))
    lines = checks_text([*fine, hinted, fine[0], bad], width=60, only_ascii=True).plain.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "ok all is well ok so is this",
        *("ok this too", "hint: look here", "ok all is well", "warn this is not", "hint: look there"),
    ]


@pytest.mark.parametrize(("width", "cells"), [(None, 10), (120, 10), (100, 10), (99, 5)])
def test_bars_are_short_in_narrow_windows(width: int | None, cells: int) -> None:
    line = OverviewLine(
        namespace="a",
        name="demo",
        phase=Phase.HEALTHY,
        done=4,
        target=4,
        desired=4,
        partition=0,
        revision=1,
        images=(),
        since=None,
        why="",
    )
    text = overview([line], now=NOW, width=width, only_ascii=True, namespaces=False).plain
    assert text.count("#") == cells + 1, "and the icon of the phase"
