"""The kinds that controller and plugin read, and what is kept of each."""

from __future__ import annotations

from controller.api import daemonset, image_pull_job, in_place_state, node, pod, puller, revision
from controller.api.wellknown import GROUP, KIND, VERSION
from controller.kube.resource import Resource

DAEMONSETS: Resource[daemonset.DaemonSetView, daemonset.DaemonSet] = Resource(
    group=GROUP,
    version=VERSION,
    plural="daemonsets",
    kind=KIND,
    custom=True,
    wire=daemonset.DaemonSetView,
    project=daemonset.project,
)
PODS: Resource[pod.PodView, pod.Pod] = Resource(
    group="", version="v1", plural="pods", kind="Pod", wire=pod.PodView, project=pod.project
)
POD_DOCUMENTS: Resource[in_place_state.PodDocument, in_place_state.PodDocument] = Resource(
    group="",
    version="v1",
    plural="pods",
    kind="Pod",
    wire=in_place_state.PodDocument,
    project=lambda document: document,
)
"""Pods, read one by one and not cached."""
NODES: Resource[node.NodeView, node.Node] = Resource(
    group="", version="v1", plural="nodes", kind="Node", namespaced=False, wire=node.NodeView, project=node.project
)
REVISIONS: Resource[revision.RevisionView, revision.Revision] = Resource(
    group="apps",
    version="v1",
    plural="controllerrevisions",
    kind="ControllerRevision",
    wire=revision.RevisionView,
    project=revision.project,
)
IMAGE_PULL_JOBS: Resource[image_pull_job.ImagePullJobView, image_pull_job.ImagePullJob] = Resource(
    group=GROUP,
    version=VERSION,
    plural="imagepulljobs",
    kind=image_pull_job.JOB_KIND,
    custom=True,
    wire=image_pull_job.ImagePullJobView,
    project=image_pull_job.project,
)
PULLERS: Resource[puller.PullerView, puller.Puller] = Resource(
    group="",
    version="v1",
    plural="pods",
    kind="Pod",
    only=puller.PULLER_LABEL,
    wire=puller.PullerView,
    project=puller.project,
)
NODES_WITH_IMAGES: Resource[node.NodeWithImagesView, node.Node] = Resource(
    group="",
    version="v1",
    plural="nodes",
    kind="Node",
    namespaced=False,
    wire=node.NodeWithImagesView,
    project=node.project_with_images,
)
