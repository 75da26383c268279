"""Whether a controller is running that will act on what the plugin writes."""

from __future__ import annotations

from controller.api.names import LEASE_NAME
from controller.api.objects import Key, ObjectMeta, View, epoch
from controller.kube.errors import ApiError, NotFound
from controller.kube.requests import Resource
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.report.installation.facts import Leader, silence_of


class _Spec(View):
    holder_identity: str | None = None
    renew_time: str | None = None


class LeaseDocument(View):
    metadata: ObjectMeta
    spec: _Spec = _Spec()


def _leader(view: LeaseDocument) -> Leader:
    return Leader(holder=view.spec.holder_identity or "", renewed=epoch(view.spec.renew_time) or 0.0)


LEASES = Resource(group="coordination.k8s.io", plural="leases", wire=LeaseDocument, project=_leader)


async def controller_leader(session: Session) -> Leader | None:
    """The holder of the controller's Lease; None if there is no such Lease. Raises ApiError."""
    return await lease_holder(session, Key(session.controller_namespace, LEASE_NAME))


async def lease_holder(session: Session, lease: Key) -> Leader | None:
    """The holder of `lease`; None if there is no such Lease. Raises ApiError."""
    try:
        return await session.client.get(LEASES, lease)
    except NotFound:
        return None


async def why_no_controller(session: Session, now: float) -> str | None:
    """Why no controller seems to be active, in words; None when one is, and when the Lease cannot or may not be read.

    `now`: seconds since 1970, by the API server's clock, which may differ from that of the Lease's holder.
    """
    try:
        found = await controller_leader(session)
    except ApiError:
        return None
    silence = silence_of(found, session.controller_namespace, now)
    unless = "" if found is not None else ", unless one runs with --no-leader-elect"
    return f"no controller is active{unless}: {silence}" if silence else None
