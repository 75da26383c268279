"""Which nodes do not have the image of a job, and why not: what rollouts wait for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from controller.api.image_pull_job import ImagePullJob
from controller.imagepull.state import JobState


def lacking(
    job: ImagePullJob, state: JobState | None, nodes: Collection[str], keeps_images: Callable[[str], bool]
) -> Mapping[str, str]:
    """Of these nodes those without the image: "" while it is to come, else why it will not. It is to come too where
    no pass has looked yet, or not since the node is one of them. `keeps_images` is asked of such nodes only."""
    if state is not None and state.uid != job.uid:
        state = None
    status = state.latest_status(job) if state is not None else job.status
    if status is not None and status.completion_time:
        heard = state.failed if state is not None else {}
        return {node: heard.get(node, f"see ImagePullJob {job.name}") for node in status.failed_nodes or ()}
    if state is None or not state.chosen_at:
        return dict.fromkeys(nodes, "")
    pulled, left, failed = state.pulled, state.left, state.failed
    lacking = (node for node in nodes if node not in pulled)
    return {
        node: failed.get(node, state.stuck)
        for node in lacking
        if node in left or node in failed or keeps_images(node)
    }
