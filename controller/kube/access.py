"""The flags by which a person says which API server to ask, and as whom."""

from __future__ import annotations

from controller.api.base import Value


class Access(Value):
    """kubectl's global flags, each with kubectl's meaning; None, False and "" mean that the flag was not given.

    `cluster` and `user` choose other entries of the kubeconfig than those of the context; each field below them
    replaces a field of the chosen entry. `Access()` is what kubectl uses without flags.
    """

    kubeconfig: str | None = None
    """The path of one file; a list is allowed in $KUBECONFIG only."""
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    """The URL of the API server. With it, no kubeconfig is needed."""
    token: str | None = None
    """A bearer token. It replaces all credentials of the chosen user, also the client certificate."""
    client_certificate: str | None = None
    """A file, like `client_key`; they replace those of the chosen user."""
    client_key: str | None = None
    certificate_authority: str | None = None
    """A file. The authority in the kubeconfig is then ignored."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    as_user: str | None = None
    """The user to impersonate, if access control allows it."""
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether any flag says where the server is; then the service account of a pod is not used."""
        return bool(self.kubeconfig or self.context or self.cluster or self.user or self.server)
