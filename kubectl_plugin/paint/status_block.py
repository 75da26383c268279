"""`status` for people: one line on how the rollout stands, then why, what comes next, and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from rich.text import Text

from kubectl_plugin.paint import style
from kubectl_plugin.paint.grid import grid
from kubectl_plugin.paint.status_advice import hold_lines, trouble_lines
from kubectl_plugin.paint.status_facts import fact_lines
from kubectl_plugin.paint.status_view import StatusView, line
from kubectl_plugin.paint.table import clean, cut
from kubectl_plugin.report.status.document import RolloutStatus
from kubectl_plugin.report.status.headline import headline_of


class Detail(IntEnum):
    """How much of the block is drawn, for terminals with few lines."""

    HEADLINE = 0
    NO_GRID = 1
    ALL = 2


def status_block(view: StatusView, detail: Detail = Detail.ALL) -> list[Text]:
    """The lines, none wider than the terminal, and without control characters."""
    lines = [*_headline(view)]
    if detail is not Detail.HEADLINE:
        lines += [*hold_lines(view), *fact_lines(view)]
        known = view.survey.snapshot.nodes is not None  # else the grid would lack nodes, and nobody would see it
        rows = view.survey.rows if detail is Detail.ALL and known else ()
        lines += [*_apart(grid(rows, view.width, view.only_ascii)), *_apart(trouble_lines(view))]
    return [_fitted(one, view) for one in lines]


def outline(status: RolloutStatus, *, width: int, only_ascii: bool) -> Text:
    """One line, from the controller's own counts."""
    text = Text.assemble((status.name, "bold"), f" ({status.namespace})   ")
    text.append_text(style.phase(status.phase, only_ascii))
    nodes = status.nodes
    text.append(f"   {nodes.updated} of {nodes.target} updated, {nodes.available} of {nodes.desired} available")
    return cut(clean(text, only_ascii), width, only_ascii)


def _headline(view: StatusView) -> Iterator[Text]:
    """The words behind the phase get a line of their own where they do not fit."""
    status, survey = view.status, view.survey
    head = Text.assemble((status.name, "bold"), f" ({status.namespace})   ")
    head.append_text(style.phase(survey.phase, view.only_ascii))
    headline = headline_of(survey, status)
    if headline and head.cell_len + 3 + len(headline) > view.width:
        yield head
        yield line("So far", headline)
    else:
        yield head.append(f"   {headline}" if headline else "")


def _apart(lines: list[Text]) -> list[Text]:
    return [Text(""), *lines] if lines else []


def _fitted(text: Text, view: StatusView) -> Text:
    text = clean(text, only_ascii=False)
    if view.only_ascii:
        text = _in_ascii(text)
    return text if view.wide else cut(text, view.width, view.only_ascii)


def _in_ascii(text: Text) -> Text:
    """Our own signs as ASCII ones, other characters as question marks."""
    for sign, plain in (("→", "->"), ("…", "...")):
        while sign in text.plain:
            at = text.plain.index(sign)
            text = Text.assemble(text[:at], plain, text[at + 1 :])
    return clean(text, only_ascii=True)
