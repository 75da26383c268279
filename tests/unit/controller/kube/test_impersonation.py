"""Headers that make us somebody else."""

from __future__ import annotations

import pytest

from controller.kube.access import Access
from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import impersonation

FILE = {"token": "t", "as": "alice", "as-uid": "7", "as-groups": ["dev", "ops"]}


def test_nobody_is_impersonated_unless_somebody_says_so() -> None:
    assert impersonation({"token": "t"}, Access()) == ()


def test_the_kubeconfig_may_say_it() -> None:
    assert impersonation({**FILE, "as-user-extra": {"Scopes/a b": ["x", "y"]}}, Access()) == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes%2Fa%20b", "x"),
        ("Impersonate-Extra-Scopes%2Fa%20b", "y"),
    )


def test_each_flag_replaces_its_own_field() -> None:
    assert impersonation(FILE, Access(as_user="bob")) == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Uid", "7"),
    )
    assert impersonation(FILE, Access(as_groups=("qa",), as_uid="8")) == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "qa"),
        ("Impersonate-Uid", "8"),
    )


@pytest.mark.parametrize("access", [Access(as_groups=("dev",)), Access(as_uid="7")], ids=["group", "uid"])
def test_a_group_or_uid_alone_is_nobody(access: Access) -> None:
    with pytest.raises(ConfigError, match="needs a user to act as"):
        impersonation({}, access)
