"""The kinds that controller and plugin read: where each is served, and which fields of it are kept."""

from __future__ import annotations

from controller.api import daemonset, image_pull_job, node, pod, puller, revision
from controller.api.wellknown import GROUP, VERSION
from controller.kube.resource import Resource

DAEMONSETS = Resource(
    group=GROUP,
    version=VERSION,
    plural="daemonsets",
    custom=True,
    wire=daemonset.DaemonSetView,
    project=daemonset.project,
)
PODS = Resource(plural="pods", wire=pod.PodView, project=pod.project)
POD_VIEWS: Resource[pod.ManagedPodView, pod.ManagedPodView] = Resource(
    plural="pods", wire=pod.ManagedPodView, project=lambda view: view
)
"""Pods as they were sent. They are read one by one and never cached."""
NODES = Resource(plural="nodes", namespaced=False, wire=node.NodeView, project=node.project)
NODES_WITH_IMAGES = Resource(
    plural="nodes", namespaced=False, wire=node.NodeWithImagesView, project=node.project_with_images
)
REVISIONS = Resource(group="apps", plural="controllerrevisions", wire=revision.RevisionView, project=revision.project)
IMAGE_PULL_JOBS = Resource(
    group=GROUP,
    version=VERSION,
    plural="imagepulljobs",
    custom=True,
    wire=image_pull_job.ImagePullJobView,
    project=image_pull_job.project,
)
PULLERS = Resource(plural="pods", only=puller.PULLER_LABEL, wire=pod.PodView, project=puller.project)
