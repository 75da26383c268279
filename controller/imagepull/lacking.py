"""Which nodes do not have the image of a job, and why not: what rollouts wait for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from controller.api.image_pull_job import ImagePullJob
from controller.imagepull.memory import Memory


def lacking(
    job: ImagePullJob, memory: Memory | None, nodes: Collection[str], keeps_images: Callable[[str], bool]
) -> Mapping[str, str]:
    """Of these nodes those without the image: "" while it is to come, else why it will not. It is to come too where
    no pass has looked yet, or not since the node is one of them. `keeps_images` is asked of such nodes only."""
    if memory is not None and memory.uid != job.uid:
        memory = None
    status = memory.latest_status(job) if memory is not None else job.status
    if status is not None and status.completion_time:
        return dict.fromkeys(status.failed_nodes or (), f"see ImagePullJob {job.name}")
    if memory is None or not memory.chosen_at:
        return dict.fromkeys(nodes, "")
    pulled, left, failed = memory.pulled, memory.left, memory.failed
    lacking = (node for node in nodes if node not in pulled)
    return {
        node: failed.get(node, memory.stuck)
        for node in lacking
        if node in left or node in failed or keeps_images(node)
    }
