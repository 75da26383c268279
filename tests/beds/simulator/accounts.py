"""The admission of ServiceAccounts: which one a new pod has, and what it takes from it."""

from __future__ import annotations

from tests.beds.simulator.cluster import Admission, Attempt, Cluster
from tests.beds.simulator.kinds import PODS, SERVICE_ACCOUNTS
from tests.beds.simulator.refusal import forbidden


def service_accounts(cluster: Cluster) -> Admission:
    """For `Cluster.admission`. It mounts no tokens, which nobody here could use."""

    def admit(attempt: Attempt) -> None:
        if attempt.kind is not PODS or attempt.verb != "create":
            return
        spec = attempt.object["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = cluster.store.get(SERVICE_ACCOUNTS, (attempt.namespace, name))
        if account is None:
            where = f"error looking up service account {attempt.namespace}/{name}"
            raise forbidden(PODS, attempt.name, f'{where}: serviceaccount "{name}" not found')
        if not spec.get("imagePullSecrets") and (secrets := account.object.get("imagePullSecrets")):
            spec["imagePullSecrets"] = secrets

    return admit
