"""Nodes on which an image is being pulled, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from kubectl_plugin.paint.style import BAD
from kubectl_plugin.paint.table import Column, table
from kubectl_plugin.report.pulls import NodePull, Stage

_STYLES: Final = {Stage.FAILED: BAD, Stage.PULLING: "yellow", Stage.THERE: "green"}


def pull_table(rows: Sequence[tuple[str, NodePull]], *, width: int | None, only_ascii: bool) -> Text:
    columns = (Column("NODE"), Column("IMAGE", fixed=max(map(len, Stage))), Column("WHY", least=8))
    cells = [(node, stage_word(one.stage), one.why) for node, one in rows]
    return table(columns, cells, width=width, only_ascii=only_ascii)


def stage_word(stage: Stage) -> Text:
    return Text(stage, _STYLES.get(stage, ""))
