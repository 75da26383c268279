"""Whether a controller is there to act on what was written."""

from __future__ import annotations

from controller.api.base import View
from controller.api.meta import Key, ObjectMeta, epoch
from controller.api.wellknown import LEASE_NAME
from controller.kube.errors import ApiError, NotFound
from controller.kube.resource import Resource
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


async def leader(session: Session) -> Leader | None:
    """Who holds the controller's lease; None where there is none. Raises ApiError."""
    return await holder(session, Key(session.controller_namespace, LEASE_NAME))


async def holder(session: Session, lease: Key) -> Leader | None:
    """Who holds `lease`; None where there is no such lease. Raises ApiError."""
    try:
        return await session.client.get(LEASES, lease)
    except NotFound:
        return None


async def absence(session: Session, now: float) -> str | None:
    """Why no controller seems to be active, in words; None when one is, or when we may not or cannot look.

    `now`: seconds since 1970, by the API server's clock, which may differ from the leader's.
    """
    try:
        found = await leader(session)
    except ApiError:
        return None
    silence = silence_of(found, session.controller_namespace, now)
    unless = "" if found is not None else ", unless one runs with --no-leader-elect"
    return f"no controller is active{unless}: {silence}" if silence else None
