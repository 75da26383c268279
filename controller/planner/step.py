"""The result of one stage of the planner: what is to be done, and what users are to be told."""

from __future__ import annotations

from controller.api.base import Value
from controller.api.wellknown import TEMPLATE_REFUSED
from controller.planner.actions import Action
from controller.planner.world import TemplateRefused


class Note(Value):
    """A message that a user should read. It becomes an Event on the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Whether it is not repeated for some minutes, although it is no warning."""
    of_rollout: bool = False
    """Whether it is about the rollout as a whole, and must not be lost among notes about single pods."""


def refusal_note(verdict: TemplateRefused) -> Note:
    done = "no pod is created" if verdict.unknown_fields else "no old pod is replaced"
    text = f"The server refuses pods of the new template; {done}: {verdict.words}"
    return Note(warning=True, reason=TEMPLATE_REFUSED, message=text)


class Step(Value):
    """The actions that one stage wants, and when to look again."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """When to look again even if nothing happens (seconds since 1970); None: no such time."""
    more: bool = False
    """Whether something is left for later: for when the caches show these actions, or more pods are available."""
    again: bool = False
    """Whether the server sends no event for these actions (a dry run), so that the next pass follows at once if they
    succeed."""
