"""What a person's flags say about the server to ask and about who asks it."""

from __future__ import annotations

from controller.api.base import Value


class Access(Value):
    """kubectl's global flags, each with kubectl's meaning; None, False and "" mean that the flag was not given.

    `cluster` and `user` name other entries of the kubeconfig than the context does; everything below them
    replaces a field of the entry that was chosen. `Access()` is what kubectl without flags would use.
    """

    kubeconfig: str | None = None
    """One file, or several as in $KUBECONFIG."""
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    """Alone it will do, without any kubeconfig."""
    token: str | None = None
    """Replaces whatever the chosen user has, its client certificate too (which servers would prefer)."""
    client_certificate: str | None = None
    """A file, as is `client_key`; they replace those of the chosen user."""
    client_key: str | None = None
    certificate_authority: str | None = None
    """A file; the certificates of the kubeconfig are then not looked at."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    as_user: str | None = None
    """Act as somebody else, if access control lets us."""
    as_groups: tuple[str, ...] = ()
    as_uid: str | None = None

    @property
    def chooses(self) -> bool:
        """Something says where the server is found, so that a pod's service account is not meant."""
        return bool(self.kubeconfig or self.context or self.cluster or self.user or self.server)
