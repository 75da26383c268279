"""Acting as somebody else: the headers for which the server looks, if access control lets us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from controller.kube.access import Access
from controller.kube.errors import ConfigError

KEYS: Final = ("as", "as-uid", "as-groups", "as-user-extra")
"""Fields of a kubeconfig's user."""
HEADER_TOKEN: Final = "!#$&'*+^`|"
"""Characters that a header's name may hold besides those that `quote` leaves alone."""


def impersonation(user: Mapping[str, Any], access: Access) -> tuple[tuple[str, str], ...]:
    """The headers, `Impersonate-Group` once for each group. A flag replaces its own field of `user`, as in kubectl.

    Raises ConfigError for a group or uid without a user: the server would refuse it in unclear words.
    """
    name = access.as_user or str(user.get("as") or "")
    uid = access.as_uid or str(user.get("as-uid") or "")
    groups = access.as_groups or tuple(map(str, user.get("as-groups") or ()))
    extra: Mapping[str, list[str]] = user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise ConfigError("a group or uid to act as (--as-group, --as-uid) needs a user to act as (--as)")
        return ()
    headers = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        headers.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe=HEADER_TOKEN)}", value) for value in values]
    return tuple(headers)
