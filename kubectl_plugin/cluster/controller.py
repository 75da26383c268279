"""Whether a controller is there to act on what was written."""

from __future__ import annotations

from typing import Final

from controller.api.base import Value, View
from controller.api.meta import Key, ObjectMeta, epoch
from controller.api.wellknown import LEASE_NAME
from controller.kube.errors import ApiError, NotFound
from controller.kube.resource import Resource
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.durations import short

NAMESPACE: Final = "kruise-ds-system"
SILENCE: Final = 60.0
"""Seconds without a renewal after which nobody can be leading: a lease runs for 15."""


class _Spec(View):
    holder_identity: str | None = None
    renew_time: str | None = None


class LeaseView(View):
    metadata: ObjectMeta
    spec: _Spec = _Spec()


class Lease(Value):
    """Who leads."""

    holder: str
    """Empty when it was given back."""
    renewed: float
    """Seconds since 1970."""


def _lease(view: LeaseView) -> Lease:
    return Lease(holder=view.spec.holder_identity or "", renewed=epoch(view.spec.renew_time) or 0.0)


LEASES: Resource[LeaseView, Lease] = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", wire=LeaseView, project=_lease
)


async def absence(session: Session, now: float) -> str | None:
    """Why no controller seems to be active, in words; None when one is, or when we may not or cannot look.

    `now`: seconds since 1970, by this machine's clock, which may differ from the leader's.
    """
    what = f"lease {NAMESPACE}/{LEASE_NAME}"
    try:
        lease = await session.client.get(LEASES, Key(NAMESPACE, LEASE_NAME))
    except NotFound:
        return f"no controller is active, unless one runs with --no-leader-elect: there is no {what}"
    except ApiError:
        return None
    if lease is None:
        return None
    silent = now - lease.renewed
    if not lease.holder:
        return f"no controller is active: {what} was given back {short(silent)} ago"
    if silent > SILENCE:
        return f"no controller is active: {what} was last renewed {short(silent)} ago"
    return None
