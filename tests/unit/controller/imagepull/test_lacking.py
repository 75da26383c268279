"""Which nodes do not have the image of a job, and why not."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJobStatus
from controller.imagepull.state import JobState, begin, lacking
from controller.planner.world import Unpullable, Unpulled
from tests.unit.controller.imagepull.worlds import job

COMPLETED = ImagePullJobStatus(failed=2, failed_nodes=("a", "b"), completion_time="2027-01-15T08:00:00Z")
OVER = replace(job(), status=COMPLETED)
SEE = Unpullable(why=f"see ImagePullJob {OVER.name}")


def found(memory: JobState | None) -> dict[str, Unpulled]:
    return dict(lacking(OVER, memory, ("a", "b", "c"), lambda node: True))


def test_of_a_finished_job_the_registrys_words_are_told_as_heard() -> None:
    memory = begin(job())
    memory.failed = {"a": "ErrImagePull: not found"}
    memory.clear()
    assert found(memory) == {"a": Unpullable(why="ErrImagePull: not found"), "b": SEE}


def test_who_has_not_heard_them_points_to_the_job() -> None:
    memory = begin(OVER)
    memory.clear()
    assert found(memory) == found(None) == {"a": SEE, "b": SEE}
