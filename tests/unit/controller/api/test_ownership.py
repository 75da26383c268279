"""Whose an object is: group and kind of its controlling owner, whatever the version."""

from __future__ import annotations

import pytest

from controller.api.meta import ObjectMeta, OwnerReference
from controller.api.ownership import Ownership, ownership_of


def owner(api_version: str, kind: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="agent", uid="uid-1", controller=controller)


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v9"])
def test_d4_the_version_does_not_matter(version: str) -> None:
    meta = ObjectMeta(owner_references=(owner(f"apps.kruise.io/{version}", "DaemonSet"),))
    assert ownership_of(meta) == Ownership(uid="uid-1", index=0)


@pytest.mark.parametrize(("version", "kind"), [("apps/v1", "DaemonSet"), ("apps.kruise.io/v1beta1", "CloneSet")])
def test_another_kind_of_controller_is_none_of_our_business(version: str, kind: str) -> None:
    assert ownership_of(ObjectMeta(owner_references=(owner(version, kind),))) is None


def test_the_controller_is_the_owner_that_says_so_and_its_place_is_kept() -> None:
    plain, ours = owner("v1", "Node", controller=False), owner("apps.kruise.io/v1beta1", "DaemonSet")
    assert ownership_of(ObjectMeta(owner_references=(plain, ours))) == Ownership(uid="uid-1", index=1)
    assert ownership_of(ObjectMeta(owner_references=(plain,))) == Ownership(uid="", index=1)
    assert ownership_of(ObjectMeta()) == Ownership(uid="", index=0)
