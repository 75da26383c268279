"""What is worked out once: of each generation of a DaemonSet, and of each of its revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.api.daemonset import DaemonSet
from controller.api.revision import Revision
from controller.planner.eligibility import Rules
from controller.planner.fallback import placements_of
from controller.planner.in_place.change import InPlaceChange, NotPossible, changes_to
from controller.planner.manifest import PodRenderer
from controller.planner.validation import compiled
from controller.settings import Gates


class Compiled:
    """One generation of one DaemonSet."""

    def __init__(self, daemonset: DaemonSet, placements: Mapping[str, Rules | None], gates: Gates) -> None:
        """`placements`: of revisions that are known from the generation before."""
        self.gates = gates
        self.generation = daemonset.generation
        self.rules = compiled(daemonset)
        self._placements = placements
        self._renderers: dict[str, PodRenderer] = {}
        self._changes: Mapping[str, InPlaceChange | NotPossible] = {}
        self._resizable = False

    def placements(self, revisions: Iterable[Revision]) -> Mapping[str, Rules | None]:
        """Uid to the placement of each stored revision, None where it cannot be compiled; forgotten with it."""
        self._placements = placements_of(revisions, self._placements)
        return self._placements

    def changes(
        self, daemonset: DaemonSet, revisions: Iterable[Revision], *, resizable: bool
    ) -> Mapping[str, InPlaceChange | NotPossible]:
        """Hash of each other stored revision to what an update in place of its pods changes; empty where nobody asked
        for that."""
        if self._resizable != resizable:
            self._resizable, self._changes = resizable, {}
        self._changes = changes_to(daemonset, revisions, resizable=resizable, known=self._changes)
        return self._changes

    def renderer(self, daemonset: DaemonSet, revision: Revision) -> PodRenderer:
        """Of the pods of this revision."""
        renderer = self._renderers.get(revision.hash)
        if renderer is None:
            renderer = self._renderers[revision.hash] = PodRenderer(daemonset, revision)
        return renderer

    def of(self, daemonset: DaemonSet) -> Compiled:
        """What serves its generation: the stored revisions of another one are the same."""
        if self.generation == daemonset.generation:
            return self
        return Compiled(daemonset, self._placements, self.gates)
