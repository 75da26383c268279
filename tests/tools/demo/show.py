"""The story on a bed, shown in a terminal."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from tests.beds.api import Api
from tests.beds.nodes import Nodes
from tests.tools.demo import fleet
from tests.tools.demo.bed import DemoCluster
from tests.tools.demo.controller_process import running_controller
from tests.tools.demo.journal import Journal
from tests.tools.demo.picture import Picture
from tests.tools.demo.screen import is_live, print_outcome, shown
from tests.tools.demo.story import NAME, Story
from tests.tools.demo.witness import Witness

SHOWN_LINES = 60


async def show(where: AbstractAsyncContextManager[DemoCluster], pace: float, patience: float) -> None:
    """Set everything up, tell the story, take everything down. Raises what went wrong."""
    print("Starting the cluster", flush=True)
    async with where as bed, Nodes(bed.transport, schedule=not bed.has_scheduler) as nodes:
        await fleet.join(nodes, pace)
        journal = Journal()
        witness = Witness(Api(bed.transport), journal, NAME)
        story = Story(bed, witness, journal, pace=pace, patience=patience)
        try:
            async with witness.watching(), running_controller(bed), shown(lambda: _picture(story), journal):
                await story.run()
        except Exception:
            _leave_behind(journal)
            raise
        _leave_behind(journal)


def _leave_behind(journal: Journal) -> None:
    if is_live():
        print_outcome(journal)


def _picture(story: Story) -> Picture:
    witness, journal = story.witness, story.journal
    return Picture(
        title=f"24 nodes in three zones, {story.bed.title}",
        seconds=journal.now,
        act=story.act,
        zones=witness.zones,
        counts=witness.counts,
        images=witness.images,
        worst=witness.worst,
        lines=tuple(journal.lines[-SHOWN_LINES:]),
    )
