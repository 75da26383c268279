"""A pod read afresh for an update in place: with all that is needed to write to the right place in it."""

from __future__ import annotations

from controller.api.base import View
from controller.api.container import ContainerStatusView, ContainerView
from controller.api.gates import PodCondition, ReadinessGateView
from controller.api.meta import ObjectMeta


class PodDocumentSpec(View):
    containers: tuple[ContainerView, ...] = ()
    readiness_gates: tuple[ReadinessGateView, ...] | None = None


class PodDocumentStatus(View):
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatusView, ...] | None = None


class PodDocument(View):
    metadata: ObjectMeta
    spec: PodDocumentSpec = PodDocumentSpec()
    status: PodDocumentStatus = PodDocumentStatus()
