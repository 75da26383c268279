"""Whether a controller is running that will act on what the plugin writes."""

from __future__ import annotations

from controller.api.names import LEASE_NAME
from controller.api.objects import Key
from controller.kube.errors import ApiError, NotFound
from controller.kube.sender import Call
from controller.kube.typed import typed
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.report.installation.facts import Leader, silence_of


async def controller_leader(session: Session) -> Leader | None:
    """The holder of the controller's Lease; None if there is no such Lease. Raises ApiError."""
    return await lease_holder(session, Key(session.controller_namespace, LEASE_NAME))


async def lease_holder(session: Session, lease: Key) -> Leader | None:
    """The holder of `lease`; None if there is no such Lease. Raises ApiError."""
    call = Call(verb="get", what=f"leases.coordination.k8s.io {lease}")
    try:
        found = await typed(
            session.sender,
            call,
            lambda k8s, api: k8s.CoordinationV1Api(api).read_namespaced_lease(lease.name, lease.namespace),
        )
    except NotFound:
        return None
    spec = found.spec
    renewed = spec.renew_time.timestamp() if spec and spec.renew_time else 0.0
    return Leader(holder=(spec.holder_identity or "") if spec else "", renewed=renewed)


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
