"""Caches everything that is computed only once per generation or per revision of a DaemonSet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.api.daemonset import DaemonSet
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible, changes_to
from controller.planner.node_fit import Rules
from controller.planner.pod_template import PodRenderer
from controller.planner.revisions import placements_of
from controller.planner.validation import compiled
from controller.settings import FeatureGates


class Compiled:
    """The computed parts of one generation of one DaemonSet."""

    def __init__(self, daemonset: DaemonSet, placements: Mapping[str, Rules | None], gates: FeatureGates) -> None:
        """`placements` are those of the previous generation, by uid of the revision."""
        self.gates = gates
        self.generation = daemonset.generation
        self.rules = compiled(daemonset)
        self._placements = placements
        self._renderers: dict[str, PodRenderer] = {}
        self._changes: Mapping[str, InPlaceChange | NotPossible] = {}
        self._resizable = False

    def placements(self, revisions: Iterable[Revision]) -> Mapping[str, Rules | None]:
        """The placement rules of each stored revision, by its uid; None if they cannot be compiled."""
        self._placements = placements_of(revisions, self._placements)
        return self._placements

    @property
    def known_placements(self) -> Mapping[str, Rules | None]:
        """The `placements` of the revisions that the last pass knew."""
        return self._placements

    def changes(
        self, daemonset: DaemonSet, revisions: Iterable[Revision], *, resizable: bool
    ) -> Mapping[str, InPlaceChange | NotPossible]:
        """The changes of an update in place to pods of each older stored revision, by its hash. Empty if updates in
        place are not asked for."""
        if self._resizable != resizable:
            self._resizable, self._changes = resizable, {}
        self._changes = changes_to(daemonset, revisions, resizable=resizable, known=self._changes)
        return self._changes

    def renderer(self, daemonset: DaemonSet, revision: Revision) -> PodRenderer:
        """The renderer of the pods of `revision`, made at the first call."""
        renderer = self._renderers.get(revision.hash)
        if renderer is None:
            renderer = self._renderers[revision.hash] = PodRenderer(daemonset, revision)
        return renderer

    def of(self, daemonset: DaemonSet) -> Compiled:
        """This object if it is for the generation of `daemonset`, else a new one. That keeps the placements, which
        belong to stored revisions and not to a generation."""
        if self.generation == daemonset.generation:
            return self
        return Compiled(daemonset, self._placements, self.gates)
